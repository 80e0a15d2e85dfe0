//! A picture in the grid of tiles whose proportions are closest, and whole at the end (InternVL, transformers'
//! `image_processing_pil_got_ocr2.py` and `processing_internvl.py`).

use crate::{
    Picture, Result, Tiles,
    prepared::{Prepared, Processor, no_strip},
};

/// InternVL's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The tiles.
    pub tiles: Tiles,
    /// Fewest and most tiles besides the whole.
    pub counts: [usize; 2],
}

const START: &str = "<img>";
const CONTEXT: &str = "<IMG_CONTEXT>";
const END: &str = "</img>";

impl Grid {
    /// Rows and columns of tiles: the closest proportions, and of equal ones more tiles as long as the picture has half their pixels.
    fn best(&self, picture: &Picture) -> [usize; 2] {
        let [min, max] = self.counts;
        let mut grids: Vec<[usize; 2]> = (1..=max).flat_map(|columns| (1..=max / columns).map(move |rows| [rows, columns])).collect();
        grids.retain(|[rows, columns]| rows * columns >= min);
        grids.sort_by_key(|[rows, columns]| rows * columns);
        let ratio = picture.width as f64 / picture.height as f64;
        let (mut best, mut least) = ([1, 1], f64::INFINITY);
        for grid in grids {
            let off = (ratio - grid[1] as f64 / grid[0] as f64).abs();
            let half = 0.5 * (self.tiles.side * self.tiles.side * grid[0] * grid[1]) as f64;
            if off < least {
                (best, least) = (grid, off);
            } else if off == least && (picture.width * picture.height) as f64 > half {
                best = grid;
            }
        }
        best
    }
}

impl Processor for Grid {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        no_strip(picture, 200)?;
        let grid = if self.counts[1] > 1 { self.best(picture) } else { [1, 1] };
        let [height, width] = grid.map(|n| n * self.tiles.side);
        let mut tiles = self.tiles.cut(&picture.resize(height, width, self.tiles.filter), grid);
        if tiles.len() > 1 {
            tiles.push(self.tiles.stretched(picture));
        }
        let text = format!("{START}{}{END}", CONTEXT.repeat(self.tiles.tokens() * tiles.len()));
        Ok(self.tiles.prepare(&tiles, text))
    }
    fn most_patches(&self) -> usize {
        self.tiles.rows()
    }
    fn most_rows(&self) -> usize {
        self.tiles.tokens() * (1 + self.counts[1])
    }
    fn mark(&self) -> &str {
        CONTEXT
    }
    fn token(&self) -> &str {
        CONTEXT
    }
    fn at_most(&mut self, rows: usize) {
        let tiles = (rows / self.tiles.tokens().max(1)).saturating_sub(1).max(1);
        self.counts = self.counts.map(|count| count.min(tiles));
    }
}
