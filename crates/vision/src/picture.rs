//! Decoding, within limits that are checked before memory is taken.

use crate::{Error, Result};
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, metadata::Orientation};
use std::io::Cursor;

/// How large an image may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes: usize,
    /// Pixels, width times height.
    pub pixels: usize,
}

impl Default for Limits {
    /// 20 MiB, and 64 million pixels.
    fn default() -> Self {
        Self { bytes: 20 << 20, pixels: 64_000_000 }
    }
}

/// A picture: eight bits for each of red, green and blue, row after row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `[height, width, 3]`.
    pub pixels: Vec<u8>,
}

/// The formats that are read.
const FORMATS: [ImageFormat; 5] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp];

impl Picture {
    /// The picture in a file's bytes: PNG, JPEG, WebP, GIF (its first frame) or BMP, whatever its name says. It is turned as its EXIF data
    /// asks, and what is transparent lies on white, as transformers' `load_image` and `convert_to_rgb` have it.
    ///
    /// # Errors
    /// When it is none of these, is broken, or exceeds the limits. What a file says of its size is checked before that much is decoded.
    pub fn decode(bytes: &[u8], limits: Limits) -> Result<Self> {
        if bytes.len() > limits.bytes {
            return Err(Error::TooLarge(format!("the image has {} bytes; at most {} are allowed", bytes.len(), limits.bytes)));
        }
        let format = image::guess_format(bytes).ok().filter(|format| FORMATS.contains(format));
        let format = format.ok_or_else(|| Error::Invalid("the image is no PNG, JPEG, WebP, GIF or BMP file".into()))?;
        let broken = |error: image::ImageError| Error::Invalid(format!("the image cannot be decoded: {error}"));
        let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
        // Decoders hold the picture once or twice in up to eight bytes for a pixel, and a few rows.
        let mut memory = image::Limits::default();
        memory.max_alloc = Some((limits.pixels as u64).saturating_mul(16).saturating_add(1 << 20));
        reader.limits(memory);
        let mut decoder = reader.into_decoder().map_err(broken)?;
        let (width, height) = decoder.dimensions();
        let pixels = u64::from(width) * u64::from(height);
        if pixels > limits.pixels as u64 {
            return Err(Error::TooLarge(format!("the image has {width} x {height} pixels; at most {} are allowed", limits.pixels)));
        }
        if pixels == 0 {
            return Err(Error::Invalid("the image has no pixels".into()));
        }
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
        picture.apply_orientation(orientation);
        Ok(Self::on_white(&picture))
    }

    fn on_white(picture: &DynamicImage) -> Self {
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        let pixels = match picture.color().has_alpha() {
            false => picture.to_rgb8().into_raw(),
            true => picture.to_rgba8().pixels().flat_map(|image::Rgba([r, g, b, a])| [r, g, b].map(|c| over_white(*c, *a))).collect(),
        };
        Self { width, height, pixels }
    }

    /// The picture in the middle of a square of this colour, as large as its longer side.
    pub fn on_square(&self, colour: [u8; 3]) -> Self {
        let side = self.width.max(self.height);
        let [top, left] = [self.height, self.width].map(|n| (side - n) / 2);
        let mut pixels = colour.repeat(side * side);
        for (row, from) in self.pixels.chunks_exact((self.width * 3).max(1)).enumerate() {
            let at = ((top + row) * side + left) * 3;
            pixels[at..at + from.len()].copy_from_slice(from);
        }
        Self { width: side, height: side, pixels }
    }

    /// The part of `height` rows and `width` columns that begins at row `top` and column `left`; black where that is outside.
    pub fn crop(&self, top: isize, left: isize, height: usize, width: usize) -> Self {
        let mut pixels = vec![0; height * width * 3];
        let first = left.max(0) as usize;
        let last = left.saturating_add_unsigned(width).clamp(0, self.width as isize) as usize;
        for (row, out) in (top..).zip(pixels.chunks_exact_mut((width * 3).max(1))) {
            if let Some(row) = usize::try_from(row).ok().filter(|row| *row < self.height && first < last) {
                let at = (first as isize - left) as usize * 3;
                let from = (row * self.width + first) * 3..(row * self.width + last) * 3;
                out[at..at + from.len()].copy_from_slice(&self.pixels[from]);
            }
        }
        Self { width, height, pixels }
    }
}

/// A colour of a pixel over white, rounded as Pillow's `alpha_composite` rounds.
fn over_white(colour: u8, alpha: u8) -> u8 {
    let (colour, alpha) = (u32::from(colour), u32::from(alpha));
    ((colour * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}
