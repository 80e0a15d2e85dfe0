//! What an image becomes before a tower sees it.

use crate::{Error, Picture, Result};

/// Rows that an encoder takes in one step, as one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// `[tokens, width]`: the pixels of each patch, and what else it is given.
    pub rows: Vec<f32>,
    /// Each patch's row and column in the image.
    pub places: Vec<[u32; 2]>,
    /// The patches that each sees in layers with windows, where there are such: first and end.
    pub windows: Vec<[u32; 2]>,
}

/// Where a token of the image gets its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// From the projector: its row of this number.
    Projector(u32),
    /// From the checkpoint: what stands at the end of a line (`image_newline`).
    Newline,
}

/// An image, ready for a tower, and what it is in the prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// For the encoder.
    pub pieces: Vec<Piece>,
    /// The encoder's rows, counted over all pieces, that the projector's rows are made of, as many for each.
    pub merged: Vec<u32>,
    /// How many.
    pub of_each: usize,
    /// The rows of the image's tokens, in order.
    pub order: Vec<From>,
    /// What takes the place of the image's mark in the prompt. The image's token stands in it once for each row.
    pub text: String,
    /// For each row, how far its position is beyond that of the image's first token, in time, height and width; empty where positions
    /// simply count on.
    pub offsets: Vec<[u32; 3]>,
    /// How many positions the image takes where it has such offsets.
    pub advance: u32,
}

/// Makes of a picture what a family of models is given.
pub trait Processor: std::fmt::Debug + Send + Sync {
    /// The picture, resized, cut and normalised, and its part of the prompt.
    fn prepare(&self, picture: &Picture) -> Result<Prepared>;
    /// Most patches in a piece.
    fn most_patches(&self) -> usize;
    /// Most rows of the projector for an image.
    fn most_rows(&self) -> usize;
    /// What stands for an image in a prompt that a template has rendered.
    fn mark(&self) -> &str;
    /// The token that is given rows.
    fn token(&self) -> &str;
    /// What the ids of its tokens are, where that is not [`Processor::token`].
    fn id(&self) -> Option<u32> {
        None
    }
    /// The mark with what the family writes around it, for templates that know no images.
    fn bare(&self) -> &str {
        self.mark()
    }
    /// Keeps images to about so many rows, where the family lets an image's size decide.
    fn at_most(&mut self, _rows: usize) {}
}

/// `(pixel * scale - mean) / deviation` by channel and value, computed in the steps and types that transformers' NumPy code has.
#[derive(Clone, PartialEq)]
pub struct Normalize {
    table: Box<[[f32; 256]; 3]>,
    mean: [f64; 3],
}

impl std::fmt::Debug for Normalize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Normalize({} to {})", self.table[0][0], self.table[0][255])
    }
}

impl Normalize {
    /// `scale` is 1/255 for most.
    pub fn new(scale: f64, mean: [f64; 3], deviation: [f64; 3]) -> Self {
        let value = |c: usize, v: usize| ((v as f64 * scale) as f32 - mean[c] as f32) / deviation[c] as f32;
        Self { table: Box::new(std::array::from_fn(|c| std::array::from_fn(|v| value(c, v)))), mean }
    }

    /// The mean of each channel, from 0 to 1.
    pub fn mean(&self) -> [f64; 3] {
        self.mean
    }

    /// Appends the patch of `side` rows and columns that begins at a pixel: `[channel, row, column]`.
    pub fn patch(&self, picture: &Picture, [top, left]: [usize; 2], side: usize, out: &mut Vec<f32>) {
        for (channel, table) in self.table.iter().enumerate() {
            for row in top..top + side {
                let at = (row * picture.width + left) * 3;
                out.extend(picture.pixels[at..at + side * 3].iter().skip(channel).step_by(3).map(|p| table[usize::from(*p)]));
            }
        }
    }

    /// The patches of a picture at these places of its grid.
    pub fn piece(&self, picture: &Picture, side: usize, places: Vec<[u32; 2]>) -> Piece {
        let mut rows = Vec::with_capacity(places.len() * side * side * 3);
        places.iter().for_each(|place| self.patch(picture, place.map(|p| p as usize * side), side, &mut rows));
        Piece { rows, places, windows: vec![] }
    }
}

/// Refuses a picture that is too narrow for the family.
pub(crate) fn no_strip(picture: &Picture, most: usize) -> Result<()> {
    let (long, short) = (picture.width.max(picture.height), picture.width.min(picture.height));
    if long > most.saturating_mul(short) {
        let text = format!("the image has {} x {} pixels; sides of up to {most} to 1 are allowed", picture.width, picture.height);
        return Err(Error::Invalid(text));
    }
    Ok(())
}
