//! Any size in whole patches, line by line (Pixtral and Mistral Small 3.1, transformers' `image_processing_pil_pixtral.py` and
//! `processing_pixtral.py`).

use crate::{
    Filter, Picture, Result,
    prepared::{From, Normalize, Prepared, Processor, no_strip},
};

/// Pixtral's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixtral {
    /// Pixels of a patch's side.
    pub patch: usize,
    /// Patches of the side of a block that becomes one token.
    pub merge: usize,
    /// Most pixels of the longer side.
    pub longest: usize,
    /// How it is resized.
    pub filter: Filter,
    /// Pixels to numbers.
    pub normalize: Normalize,
}

const IMAGE: &str = "[IMG]";
const BREAK: &str = "[IMG_BREAK]";
const END: &str = "[IMG_END]";

impl Pixtral {
    /// Rows and columns of blocks.
    fn blocks(&self, picture: &Picture) -> [usize; 2] {
        let sides = [picture.height, picture.width];
        let ratio = sides.map(|n| n as f64 / self.longest as f64).into_iter().fold(1.0, f64::max);
        sides.map(|n| if ratio > 1.0 { (n as f64 / ratio).floor() as usize } else { n }).map(|n| n.div_ceil(self.patch * self.merge).max(1))
    }
}

impl Processor for Pixtral {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        no_strip(picture, 200)?;
        let blocks = self.blocks(picture);
        let [rows, columns] = blocks.map(|n| n * self.merge);
        let picture = picture.resize(rows * self.patch, columns * self.patch, self.filter);
        let places = (0..rows as u32).flat_map(|row| (0..columns as u32).map(move |column| [row, column])).collect();
        let at = |i: usize| [i / blocks[1] * self.merge, i % blocks[1] * self.merge];
        let count = blocks[0] * blocks[1];
        let merge = self.merge;
        let block = |i: usize| {
            let [row, column] = at(i);
            (0..merge * merge).map(move |j| ((row + j / merge) * columns + column + j % merge) as u32)
        };
        Ok(Prepared {
            pieces: vec![self.normalize.piece(&picture, self.patch, places)],
            merged: (0..count).flat_map(block).collect(),
            of_each: merge * merge,
            order: (0..count as u32).map(From::Projector).collect(),
            text: vec![IMAGE.repeat(blocks[1]); blocks[0]].join(BREAK) + END,
            ..Prepared::default()
        })
    }
    fn most_patches(&self) -> usize {
        self.most_rows() * self.merge * self.merge
    }
    fn most_rows(&self) -> usize {
        self.longest.div_ceil(self.patch * self.merge).pow(2)
    }
    fn mark(&self) -> &str {
        IMAGE
    }
    fn token(&self) -> &str {
        IMAGE
    }
    fn at_most(&mut self, rows: usize) {
        self.longest = self.longest.min(rows.isqrt() * self.patch * self.merge);
    }
}
