//! Any size within a number of patches, of which blocks are averaged (Gemma 4, transformers' `image_processing_pil_gemma4.py`).

use crate::{
    Error, Filter, Picture, Result,
    prepared::{From, Normalize, Piece, Prepared, Processor, no_strip},
};

/// Gemma 4's way.
#[derive(Clone, PartialEq)]
pub struct Pooled {
    /// Pixels of a patch's side.
    pub patch: usize,
    /// Patches of a block's side.
    pub pool: usize,
    /// Most blocks.
    pub most: usize,
    /// How it is resized.
    pub filter: Filter,
    /// Pixels to numbers.
    pub normalize: Normalize,
    /// Learned positions of columns and of rows, `[side, width]` each, whose sum is given behind the pixels.
    pub positions: [Vec<f32>; 2],
    /// Numbers of a position.
    pub width: usize,
}

impl std::fmt::Debug for Pooled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pooled").field("patch", &self.patch).field("pool", &self.pool).field("most", &self.most).finish_non_exhaustive()
    }
}

const TOKEN: &str = "<|image|>";

impl Pooled {
    /// Rows and columns of blocks: as many as are allowed, in about the picture's proportions.
    fn blocks(&self, picture: &Picture) -> Result<[usize; 2]> {
        let [height, width] = [picture.height, picture.width].map(|n| n as f64);
        let pixels = self.most * self.pool * self.pool * self.patch * self.patch;
        let factor = (pixels as f64 / (height * width)).sqrt();
        let step = (self.pool * self.patch) as f64;
        let strip = |long: f64, short: f64| ((long / short).floor() as usize).min(self.most);
        match [height, width].map(|n| (factor * n / step).floor() as usize) {
            [0, 0] => Err(Error::Invalid("the image does not fit into the tokens that it may have".into())),
            [0, _] => Ok([1, strip(width, height)]),
            [_, 0] => Ok([strip(height, width), 1]),
            blocks => Ok(blocks),
        }
    }

    /// Appends the position of a patch.
    fn position(&self, [row, column]: [usize; 2], out: &mut Vec<f32>) -> Result<()> {
        let [of_columns, of_rows] = &self.positions;
        let at = |table: &'_ [f32], i: usize| table.get(i * self.width..(i + 1) * self.width).map(<[f32]>::to_vec);
        let both = at(of_columns, column).zip(at(of_rows, row));
        let (x, y) = both.ok_or_else(|| Error::Invalid("the image is longer than the model has positions for".into()))?;
        out.extend(x.iter().zip(&y).map(|(x, y)| x + y));
        Ok(())
    }
}

impl Processor for Pooled {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        no_strip(picture, 200)?;
        let blocks = self.blocks(picture)?;
        let [rows, columns] = blocks.map(|n| n * self.pool);
        let picture = picture.resize(rows * self.patch, columns * self.patch, self.filter);
        let mut piece = Piece::default();
        for place in (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column])) {
            self.normalize.patch(&picture, place.map(|p| p * self.patch), self.patch, &mut piece.rows);
            self.position(place, &mut piece.rows)?;
            piece.places.push(place.map(|p| p as u32));
        }
        let (count, pool) = (blocks[0] * blocks[1], self.pool);
        let block = |i: usize| {
            let first = i / blocks[1] * pool * columns + i % blocks[1] * pool;
            (0..pool * pool).map(move |j| (first + j / pool * columns + j % pool) as u32)
        };
        Ok(Prepared {
            pieces: vec![piece],
            merged: (0..count).flat_map(block).collect(),
            of_each: pool * pool,
            order: (0..count as u32).map(From::Projector).collect(),
            text: format!("<|image>{}<image|>", TOKEN.repeat(count)),
            ..Prepared::default()
        })
    }
    fn most_patches(&self) -> usize {
        self.most * self.pool * self.pool
    }
    fn most_rows(&self) -> usize {
        self.most
    }
    fn mark(&self) -> &str {
        TOKEN
    }
    fn token(&self) -> &str {
        TOKEN
    }
    fn id(&self) -> Option<u32> {
        // Padding, whose small embeddings for each layer images get.
        Some(0)
    }
    fn at_most(&mut self, rows: usize) {
        self.most = self.most.min(rows);
    }
}
