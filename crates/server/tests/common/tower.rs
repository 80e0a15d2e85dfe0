//! A toy that sees: a token for each pixel, whose row is the pixel's colour.

use onebit_plan::{ActivationKind, Batch, BatchForm, DeviceError, Executable, KvType, Limits};
use onebit_vision::{From, Picture, Piece, Prepared, Processor, Result, Tower};

/// Numbers of a row: red, green and blue.
pub(crate) const GIVEN: usize = 3;

#[derive(Debug)]
struct Pixels;

impl Processor for Pixels {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        let count = picture.width * picture.height;
        let rows = picture.pixels.iter().map(|x| f32::from(*x)).collect();
        let places = (0..count).map(|i| [(i / picture.width) as u32, (i % picture.width) as u32]).collect();
        Ok(Prepared {
            pieces: vec![Piece { rows, places, windows: vec![] }],
            merged: (0..count as u32).collect(),
            of_each: 1,
            order: (0..count as u32).map(From::Projector).collect(),
            text: "<image>".repeat(count),
            ..Prepared::default()
        })
    }
    fn most_patches(&self) -> usize {
        1024
    }
    fn most_rows(&self) -> usize {
        1024
    }
    fn mark(&self) -> &str {
        "<image>"
    }
    fn token(&self) -> &str {
        "<image>"
    }
}

/// Gives what it is given.
struct Same {
    limits: Limits,
    rows: Vec<f32>,
}

impl Executable for Same {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn vocabulary(&self) -> usize {
        GIVEN
    }
    fn given(&self) -> usize {
        GIVEN
    }
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        batch.check(&self.limits, &BatchForm { given: GIVEN, needs_given: true, whole: true, ..BatchForm::text(GIVEN) })?;
        self.rows = batch.inputs.rows.to_vec();
        Ok(&self.rows)
    }
    fn copy_slots(&mut self, _: &[(u32, u32)]) {}
    fn copy_pages(&mut self, _: &[(u32, u32)]) {}
}

/// The toy's tower.
pub(crate) fn tower() -> Tower {
    let part = || -> Box<dyn Executable> {
        let limits =
            Limits { batch: 1024, outputs: 1024, page: 64, pages: 16, slots: 1, kv: KvType::F32, activations: ActivationKind::F32 };
        Box::new(Same { limits, rows: vec![] })
    };
    Tower::new(Box::new(Pixels), None, [part(), part()], false)
}

/// A `data:` URL of a PNG, `width` wide and one high, of one colour.
pub(crate) fn png(width: u32, colour: u8) -> String {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let body = [&kind[..], data].concat();
        let crc = body
            .iter()
            .fold(u32::MAX, |crc, b| (0..8).fold(crc ^ u32::from(*b), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }));
        [&(data.len() as u32).to_be_bytes()[..], &body, &(!crc).to_be_bytes()].concat()
    };
    let header = [&width.to_be_bytes()[..], &1u32.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    // A zlib stream of one stored block: the row's filter, and its pixels.
    let row = [&[0][..], &vec![colour; width as usize * 3]].concat();
    let length = row.len() as u16;
    let (a, b) = row.iter().fold((1u32, 0u32), |(a, b), x| ((a + u32::from(*x)) % 65521, (b + (a + u32::from(*x)) % 65521) % 65521));
    let stream = [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes(), &row, &(b << 16 | a).to_be_bytes()].concat();
    let file = [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &header), &chunk(b"IDAT", &stream), &chunk(b"IEND", &[])].concat();
    format!("data:image/png;base64,{}", base64(&file))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for some in bytes.chunks(3) {
        let bits = some.iter().chain([0, 0].iter()).take(3).fold(0, |bits, b| bits << 8 | usize::from(*b));
        (0..=some.len()).for_each(|i| text.push(char::from(DIGITS[bits >> (18 - 6 * i) & 63])));
        text.push_str(&"=".repeat(3 - some.len()));
    }
    text
}
