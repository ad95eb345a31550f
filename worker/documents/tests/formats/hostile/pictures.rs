//! Pictures that are small until they are decoded.
use flate2::Crc;

use super::{deflated, suffer};

/// Of one colour, `bits` a channel.
fn png(width: u32, height: u32, (bits, colour, channels): (u8, u8, u64)) -> Vec<u8> {
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend_from_slice(&[bits, colour, 0, 0, 0]);
    let line = (u64::from(width) * channels * u64::from(bits)).div_ceil(8) + 1;
    let size = usize::try_from(line * u64::from(height)).unwrap();
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, content) in
        [(b"IHDR", header), (b"IDAT", deflated((b"", b""), b"\0", size)), (b"IEND", Vec::new())]
    {
        bytes.extend_from_slice(&u32::try_from(content.len()).unwrap().to_be_bytes());
        let mut crc = Crc::new();
        for part in [name.as_slice(), &content] {
            crc.update(part);
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(&crc.sum().to_be_bytes());
    }
    bytes
}

const GREY_1: (u8, u8, u64) = (1, 0, 1);
const GREY_8: (u8, u8, u64) = (8, 0, 1);
const RGB_8: (u8, u8, u64) = (8, 2, 3);
const RGBA_16: (u8, u8, u64) = (16, 6, 4);

#[tokio::test]
async fn pngs_of_many_pixels() {
    suffer("60000.png", &png(60_000, 60_000, GREY_1), &["TooLarge"]).await;
    suffer("8000.png", &png(8_000, 8_000, RGBA_16), &["TooLarge"]).await;
    // The largest that are taken; how large their copies are is this program's affair.
    let largest = ["whole", "TimedOut"];
    suffer("grey.png", &png(8_192, 8_192, GREY_8), &largest).await;
    suffer("rgb.png", &png(8_192, 5_300, RGB_8), &largest).await;
    suffer("rgba.png", &png(4_000, 4_000, RGBA_16), &largest).await;
    suffer("narrow.png", &png(8_192, 1, GREY_1), &["whole"]).await;
    suffer("nothing.png", &png(0, 10, GREY_8), &["Corrupt"]).await;
    // More behind the pixels than the pixels are.
    let mut more = png(10, 10, GREY_8);
    let fat = png(60_000, 30_000, GREY_1);
    let at = fat.windows(4).position(|window| window == b"IDAT").unwrap() - 4;
    more.splice(33.., fat[at..].iter().copied());
    suffer("more.png", &more, &["whole", "Corrupt", "TooLarge"]).await;
}

#[tokio::test]
async fn a_jpeg_that_claims_everything() {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::DynamicImage::ImageRgb8(image::RgbImage::new(16, 16))
        .write_to(&mut bytes, image::ImageFormat::Jpeg)
        .unwrap();
    let mut bytes = bytes.into_inner();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    for (side, outcomes) in [
        (65_535_u16, ["TooLarge"].as_slice()),
        (8_192, &["whole", "Corrupt", "TooLarge", "TimedOut", "OutOfMemory"]),
    ] {
        bytes[frame + 5..frame + 7].copy_from_slice(&side.to_be_bytes());
        bytes[frame + 7..frame + 9].copy_from_slice(&side.to_be_bytes());
        suffer(&format!("{side}.jpg"), &bytes, outcomes).await;
    }
}
