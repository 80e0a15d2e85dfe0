//! A picture in tiles, row by row, and whole at the end (Idefics3 and SmolVLM, transformers' `image_processing_pil_idefics3.py` and
//! `processing_smolvlm.py`).

use crate::{
    Picture, Result, Tiles,
    prepared::{Prepared, Processor, no_strip},
};

/// No side is longer, whatever the settings say.
const LONGEST: usize = 4096;

/// Idefics3's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Splits {
    /// The tiles.
    pub tiles: Tiles,
    /// The length of the longer side, in pixels.
    pub longest: usize,
    /// Whether there are tiles besides the whole.
    pub split: bool,
}

impl Splits {
    /// The first size, height and width: the longer side as long as is set, the other even.
    fn first(&self, picture: &Picture) -> [usize; 2] {
        let ratio = picture.width as f64 / picture.height as f64;
        let even = |n: f64| (n as usize).next_multiple_of(2).max(1);
        let longest = self.longest;
        let [height, width] = match picture.width >= picture.height {
            true => [even(longest as f64 / ratio), longest],
            false => [longest, even(longest as f64 * ratio)],
        };
        let ratio = width as f64 / height as f64;
        match height.max(width) > LONGEST {
            false => [height, width],
            true if width >= height => [((LONGEST as f64 / ratio) as usize).max(1), LONGEST],
            true => [LONGEST, ((LONGEST as f64 * ratio) as usize).max(1)],
        }
    }

    /// The size in whole tiles.
    fn in_tiles(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        let ratio = width as f64 / height as f64;
        let up = |n: usize| n.next_multiple_of(self.tiles.side).max(self.tiles.side);
        match width >= height {
            true => [up((up(width) as f64 / ratio) as usize), up(width)],
            false => [up(height), up((up(height) as f64 * ratio) as usize)],
        }
    }
}

/// What is written around tiles.
const FAKE: &str = "<fake_token_around_image>";
const GLOBAL: &str = "<global-img>";
const IMAGE: &str = "<image>";

impl Processor for Splits {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        no_strip(picture, 200)?;
        let first = self.first(picture);
        let picture = picture.resize(first[0], first[1], self.tiles.filter);
        let rows = IMAGE.repeat(self.tiles.tokens());
        let whole = format!("{FAKE}{GLOBAL}{rows}{FAKE}");
        if !self.split {
            return Ok(self.tiles.prepare(&[self.tiles.stretched(&picture)], whole));
        }
        let size = self.in_tiles(first);
        let picture = picture.resize(size[0], size[1], self.tiles.filter);
        let grid = size.map(|n| n / self.tiles.side);
        if grid == [1, 1] {
            return Ok(self.tiles.prepare(&[picture], whole));
        }
        let mut tiles = self.tiles.cut(&picture, grid);
        tiles.push(self.tiles.stretched(&picture));
        let tile = |row: usize, column: usize| format!("{FAKE}<row_{row}_col_{column}>{rows}");
        let line = |row: usize| (1..=grid[1]).map(|column| tile(row, column)).collect::<String>() + "\n";
        let text = (1..=grid[0]).map(line).collect::<String>() + "\n" + &whole;
        Ok(self.tiles.prepare(&tiles, text))
    }
    fn most_patches(&self) -> usize {
        self.tiles.rows()
    }
    fn most_rows(&self) -> usize {
        let side = self.longest.min(LONGEST).div_ceil(self.tiles.side).max(1);
        self.tiles.tokens() * (1 + if self.split { side * side } else { 0 })
    }
    fn mark(&self) -> &str {
        IMAGE
    }
    fn token(&self) -> &str {
        IMAGE
    }
}
