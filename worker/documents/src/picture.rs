//! PNG and JPEG: judged by their header, then decoded, turned upright, scaled and encoded anew, so that neither
//! metadata (a place, a name) nor a trick of the original's encoding goes on.
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::file_type::FileType;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader};

use crate::extracted::{Image, Mark, Piece};
use crate::failure::Failure;
use crate::limits::Limits;
use crate::output::{Output, Stop};

const JPEG_QUALITIES: [u8; 2] = [85, 70];
/// Halved so often at most, until it fits.
const HALVINGS: u32 = 4;

pub(crate) fn read(
    bytes: &[u8],
    kind: FileType,
    limits: &Limits,
    out: &mut Output<'_>,
) -> Result<(), Stop> {
    let format = if kind == FileType::Png { ImageFormat::Png } else { ImageFormat::Jpeg };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut allowed = image::Limits::default();
    allowed.max_image_width = Some(limits.image_side);
    allowed.max_image_height = Some(limits.image_side);
    allowed.max_alloc = Some(limits.image_bytes);
    reader.limits(allowed);
    let mut decoder = reader.into_decoder().map_err(|error| failure(&error))?;
    let (width, height) = decoder.dimensions();
    if width.max(height) > limits.image_side || decoder.total_bytes() > limits.image_bytes {
        return Err(Failure::TooLarge.into());
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).map_err(|error| failure(&error))?;
    let mut picture = scaled(without_depth(picture), limits.image_out_side);
    picture.apply_orientation(orientation);
    out.begin(Mark::Whole);
    out.text(&format!("{} image, {width} x {height} pixels, {} bytes", kind.label(), bytes.len()))?;
    let image = encoded(picture, kind, limits)?;
    out.piece(Piece::Image(image));
    Ok(())
}

fn failure(error: &ImageError) -> Failure {
    match error {
        ImageError::Limits(_) => Failure::TooLarge,
        ImageError::Decoding(_)
        | ImageError::Encoding(_)
        | ImageError::Parameter(_)
        | ImageError::Unsupported(_)
        | ImageError::IoError(_) => Failure::Corrupt,
    }
}

/// In two steps, for the finer one takes sixteen bytes of memory a pixel.
fn scaled(mut picture: DynamicImage, side: u32) -> DynamicImage {
    let longer = |picture: &DynamicImage| picture.width().max(picture.height());
    if longer(&picture) > 2 * side {
        picture = picture.thumbnail(2 * side, 2 * side);
    }
    if longer(&picture) > side {
        picture = picture.resize(side, side, FilterType::Triangle);
    }
    picture
}

/// Eight bits a channel, and no alpha where none is used.
fn without_depth(picture: DynamicImage) -> DynamicImage {
    if picture.color().has_alpha() {
        let rgba = picture.into_rgba8();
        if rgba.pixels().all(|pixel| pixel.0[3] == u8::MAX) {
            return DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(rgba).into_rgb8());
        }
        DynamicImage::ImageRgba8(rgba)
    } else if picture.color().has_color() {
        DynamicImage::ImageRgb8(picture.into_rgb8())
    } else {
        DynamicImage::ImageLuma8(picture.into_luma8())
    }
}

/// PNG stays PNG while it is small enough: text in screenshots stays sharp.
fn encoded(mut picture: DynamicImage, kind: FileType, limits: &Limits) -> Result<Image, Failure> {
    let fits = |bytes: &[u8]| bytes.len().div_ceil(3) * 4 <= limits.image_out_base64;
    for _ in 0..=HALVINGS {
        if kind == FileType::Png {
            let mut png = Cursor::new(Vec::new());
            picture.write_to(&mut png, ImageFormat::Png).map_err(|error| failure(&error))?;
            if fits(png.get_ref()) {
                return Ok(image(&picture, FileType::Png, png.get_ref()));
            }
        }
        let opaque = over_white(&picture);
        for quality in JPEG_QUALITIES {
            let mut jpeg = Vec::new();
            let encoder = JpegEncoder::new_with_quality(&mut jpeg, quality);
            opaque.write_with_encoder(encoder).map_err(|error| failure(&error))?;
            if fits(&jpeg) {
                return Ok(image(&picture, FileType::Jpeg, &jpeg));
            }
        }
        let side = picture.width().max(picture.height()) / 2;
        picture = scaled(picture, side.max(1));
    }
    Err(Failure::TooLarge)
}

fn image(picture: &DynamicImage, kind: FileType, bytes: &[u8]) -> Image {
    Image {
        mime: kind.mime().to_owned(),
        base64: STANDARD.encode(bytes),
        width: picture.width(),
        height: picture.height(),
    }
}

/// JPEG knows no transparency, and what is transparent is black as often as not.
fn over_white(picture: &DynamicImage) -> DynamicImage {
    let DynamicImage::ImageRgba8(rgba) = picture else { return picture.clone() };
    let mut flat = image::RgbImage::new(rgba.width(), rgba.height());
    for (from, to) in rgba.pixels().zip(flat.pixels_mut()) {
        let alpha = u16::from(from.0[3]);
        for (channel, value) in to.0.iter_mut().zip(from.0) {
            let mixed = (u16::from(value) * alpha + 255 * (255 - alpha)) / 255;
            *channel = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
    DynamicImage::ImageRgb8(flat)
}

#[cfg(test)]
mod tests;
