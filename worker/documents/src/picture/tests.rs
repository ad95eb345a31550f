use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;

fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = state.to_be_bytes();
        Rgb([a, b, c])
    })
}

fn file(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn read_it(bytes: &[u8], kind: FileType) -> Result<(String, Image), Failure> {
    let (mut text, mut image) = (String::new(), None);
    let mut emit = |piece| match piece {
        Piece::Text(more) => text.push_str(&more),
        Piece::Image(found) => image = Some(found),
        Piece::Head { .. } | Piece::Section(_) | Piece::SectionCut | Piece::Note(_) => {}
    };
    let mut out = Output::new(&mut emit, 1_000);
    match read(bytes, kind, &Limits::default(), &mut out) {
        Ok(()) => Ok((text, image.unwrap())),
        Err(Stop::Failed(failure)) => Err(failure),
        Err(stop) => panic!("{stop:?}"),
    }
}

fn decoded(image: &Image) -> DynamicImage {
    image::load_from_memory(&STANDARD.decode(&image.base64).unwrap()).unwrap()
}

#[test]
fn a_small_png_keeps_its_pixels_and_loses_the_rest() {
    let original = DynamicImage::ImageRgb8(noise(40, 30));
    let mut bytes = file(&original, ImageFormat::Png);
    // A text chunk right behind the header.
    let chunk = b"tEXtComment\0made at 55.75, 37.61";
    let mut insert = u32::try_from(chunk.len() - 4).unwrap().to_be_bytes().to_vec();
    insert.extend_from_slice(chunk);
    insert.extend_from_slice(&crc(chunk).to_be_bytes());
    bytes.splice(33..33, insert);
    let (text, image) = read_it(&bytes, FileType::Png).unwrap();
    assert_eq!(text, format!("PNG image, 40 x 30 pixels, {} bytes", bytes.len()));
    assert_eq!((image.mime.as_str(), image.width, image.height), ("image/png", 40, 30));
    assert_eq!(decoded(&image).into_rgb8(), original.into_rgb8());
    let anew = STANDARD.decode(&image.base64).unwrap();
    assert!(!anew.windows(4).any(|window| window == b"tEXt"));
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn a_large_photo_is_scaled_and_fits() {
    let bytes = file(&DynamicImage::ImageRgb8(noise(3_000, 1_000)), ImageFormat::Jpeg);
    let (_, image) = read_it(&bytes, FileType::Jpeg).unwrap();
    assert!(image.width <= 2_048 && image.base64.len() <= 1_000_000, "{}", image.base64.len());
    assert_eq!(image.mime, "image/jpeg");
    assert_eq!((decoded(&image).width(), decoded(&image).height()), (image.width, image.height));
}

#[test]
fn a_png_that_stays_too_large_becomes_jpeg() {
    let bytes = file(&DynamicImage::ImageRgb8(noise(1_200, 900)), ImageFormat::Png);
    let (_, image) = read_it(&bytes, FileType::Png).unwrap();
    assert_eq!(image.mime, "image/jpeg");
    assert!(image.base64.len() <= 1_000_000);
}

#[test]
fn a_sideways_photo_is_turned() {
    let mut bytes = file(&DynamicImage::ImageRgb8(noise(40, 20)), ImageFormat::Jpeg);
    // Exif with nothing but orientation 6: turn right.
    let exif =
        b"\xff\xe1\x00\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    bytes.splice(2..2, exif.iter().copied());
    let (text, image) = read_it(&bytes, FileType::Jpeg).unwrap();
    assert!(text.contains("40 x 20"));
    assert_eq!((image.width, image.height), (20, 40));
}

#[test]
fn transparent_is_white_on_jpeg() {
    let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(4, 4, Rgba([0, 0, 0, 0])));
    assert_eq!(over_white(&clear).into_rgb8().get_pixel(0, 0), &Rgb([255, 255, 255]));
}

#[test]
fn sixteen_bits_and_grey_are_read() {
    let grey =
        DynamicImage::ImageLuma16(image::ImageBuffer::from_pixel(5, 5, image::Luma([30_000])));
    let (_, image) = read_it(&file(&grey, ImageFormat::Png), FileType::Png).unwrap();
    assert_eq!(decoded(&image).color(), image::ColorType::L8);
}

#[test]
fn dimensions_are_judged_before_pixels() {
    let mut bytes = file(&DynamicImage::ImageRgb8(noise(4, 4)), ImageFormat::Png);
    for (width, height) in [(60_000_u32, 60_000_u32), (8_193, 1), (8_000, 8_000)] {
        bytes.splice(16..20, width.to_be_bytes());
        bytes.splice(20..24, height.to_be_bytes());
        let crc = crc(&bytes[12..29]).to_be_bytes();
        bytes.splice(29..33, crc);
        assert_eq!(read_it(&bytes, FileType::Png).unwrap_err(), Failure::TooLarge);
    }
}

#[test]
fn half_a_file_is_corrupt() {
    let bytes = file(&DynamicImage::ImageRgb8(noise(100, 100)), ImageFormat::Png);
    for cut in [9, 20, 40, bytes.len() / 2] {
        assert_eq!(read_it(&bytes[..cut], FileType::Png).unwrap_err(), Failure::Corrupt);
    }
}
