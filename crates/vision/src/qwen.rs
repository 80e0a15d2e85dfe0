//! Qwen's vision models: any size, in steps of a block of patches (transformers' `image_processing_pil_qwen2_vl.py`).

use crate::{
    Filter, Picture, PositionTable, Result,
    prepared::{From, Normalize, Piece, Prepared, Processor, no_strip},
};

/// Qwen2-VL and its successors.
#[derive(Clone, Debug, PartialEq)]
pub struct Qwen {
    /// Pixels of a patch's side.
    pub patch: usize,
    /// Patches of the side of a block that becomes one token.
    pub merge: usize,
    /// Fewest pixels.
    pub min_pixels: usize,
    /// Most pixels.
    pub max_pixels: usize,
    /// How it is resized.
    pub filter: Filter,
    /// Pixels to numbers.
    pub normalize: Normalize,
    /// Blocks of the side of a window, where layers have such (Qwen2.5-VL).
    pub window: Option<usize>,
    /// Learned positions, given to the tower behind the pixels (Qwen3-VL).
    pub positions: Option<PositionTable>,
    /// The image's token.
    pub token: String,
    /// The same between those that begin and end an image.
    pub bare: String,
}

impl Qwen {
    /// Rows and columns of pixels, multiples of a block, with about the same proportions and a number of pixels within bounds.
    pub fn size(&self, picture: &Picture) -> Result<[usize; 2]> {
        no_strip(picture, 200)?;
        let factor = self.patch * self.merge;
        let [height, width] = [picture.height, picture.width].map(|n| n as f64);
        let step = factor as f64;
        let near = |n: f64| (n / step).round_ties_even() as usize * factor;
        let (h, w) = (near(height), near(width));
        if h * w > self.max_pixels {
            let shrink = (height * width / self.max_pixels as f64).sqrt();
            return Ok([height, width].map(|n| factor.max((n / shrink / step).floor() as usize * factor)));
        }
        if h * w < self.min_pixels {
            let grow = (self.min_pixels as f64 / (height * width)).sqrt();
            return Ok([height, width].map(|n| (n * grow / step).ceil() as usize * factor));
        }
        Ok([h, w])
    }

    /// The blocks of a grid in the order of windows, and how many each window has.
    fn windows(&self, [height, width]: [usize; 2]) -> (Vec<[usize; 2]>, Vec<usize>) {
        let side = self.window.unwrap_or(height.max(width)).max(1);
        let corners = (0..height).step_by(side).flat_map(|top| (0..width).step_by(side).map(move |left| (top, left)));
        let cells = |(top, left): (usize, usize)| {
            let rows = top..(top + side).min(height);
            rows.flat_map(move |row| (left..(left + side).min(width)).map(move |column| [row, column])).collect::<Vec<_>>()
        };
        let windows: Vec<Vec<[usize; 2]>> = corners.map(cells).collect();
        (windows.concat(), windows.iter().map(Vec::len).collect())
    }
}

impl Processor for Qwen {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        let size = self.size(picture)?;
        let picture = picture.resize(size[0], size[1], self.filter);
        let grid = size.map(|n| n / self.patch);
        let [height, width] = grid.map(|n| n / self.merge);
        let (cells, sizes) = self.windows([height, width]);
        let unit = self.merge * self.merge;
        let mut piece = Piece::default();
        let mut merged = vec![0; cells.len() * unit];
        for (i, cell) in cells.iter().enumerate() {
            for j in 0..unit {
                let place = [cell[0] * self.merge + j / self.merge, cell[1] * self.merge + j % self.merge];
                self.normalize.patch(&picture, place.map(|p| p * self.patch), self.patch, &mut piece.rows);
                let place = place.map(|p| p as u32);
                if let Some(positions) = &self.positions {
                    positions.append(place, grid, &mut piece.rows);
                }
                piece.places.push(place);
                merged[(cell[0] * width + cell[1]) * unit + j] = (i * unit + j) as u32;
            }
        }
        if self.window.is_some() {
            let mut first = 0;
            for size in sizes {
                let end = first + (size * unit) as u32;
                piece.windows.resize(end as usize, [first, end]);
                first = end;
            }
        }
        let count = height * width;
        Ok(Prepared {
            pieces: vec![piece],
            merged,
            of_each: unit,
            order: (0..count as u32).map(From::Projector).collect(),
            text: self.token.repeat(count),
            offsets: (0..count).map(|i| [0, (i / width) as u32, (i % width) as u32]).collect(),
            advance: height.max(width) as u32,
        })
    }
    fn most_patches(&self) -> usize {
        // A thin picture of few pixels may take a block for each step of its side.
        (self.max_pixels.max(self.min_pixels) / (self.patch * self.patch)).next_multiple_of(self.merge * self.merge) + 400 * self.merge
    }
    fn most_rows(&self) -> usize {
        self.most_patches() / (self.merge * self.merge)
    }
    fn mark(&self) -> &str {
        &self.token
    }
    fn token(&self) -> &str {
        &self.token
    }
    fn bare(&self) -> &str {
        &self.bare
    }
    fn at_most(&mut self, rows: usize) {
        let most = rows.saturating_mul((self.patch * self.merge).pow(2));
        self.max_pixels = self.max_pixels.min(most);
        self.min_pixels = self.min_pixels.min(most);
    }
}
