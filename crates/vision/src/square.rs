//! One tile for a picture (LLaVA, transformers' `image_processing_pil_llava.py` and `..._clip.py`), and crops of it where it is long
//! (Gemma 3, `image_processing_pil_gemma3.py`).

use crate::{
    Picture, Result, Tiles,
    prepared::{Prepared, Processor, no_strip},
};

/// How a picture becomes a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is stretched.
    Stretch,
    /// Its shorter side becomes so many pixels long, and the middle is kept.
    Middle(usize),
    /// It lies in the middle of a square of this colour.
    Pad([u8; 3]),
}

/// When a picture is seen in crops, too ("pan and scan").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crops {
    /// Fewest pixels of a crop's side.
    pub min_side: usize,
    /// Most crops.
    pub most: usize,
    /// The proportion of the sides from which on there are some.
    pub from_ratio: f64,
}

/// One tile for a picture, and one for each crop.
#[derive(Clone, Debug, PartialEq)]
pub struct Square {
    /// The tile.
    pub tiles: Tiles,
    /// How a picture becomes one.
    pub fit: Fit,
    /// Whether it is cropped.
    pub crops: Option<Crops>,
    /// What stands for an image in a rendered prompt.
    pub mark: String,
    /// The token that is given rows.
    pub token: String,
    /// What comes before and after the tokens of a tile.
    pub around: [String; 2],
}

impl Square {
    fn fitted(&self, picture: &Picture) -> Picture {
        let (side, filter) = (self.tiles.side, self.tiles.filter);
        let Picture { width, height, .. } = *picture;
        let middle = |picture: &Picture, height: usize, width: usize| {
            let from = |size: usize, kept: usize| (size as isize - kept as isize).div_euclid(2);
            picture.crop(from(picture.height, height), from(picture.width, width), height, width)
        };
        match self.fit {
            Fit::Stretch => self.tiles.stretched(picture),
            Fit::Middle(short) => {
                let long = (short * width.max(height)) as f64 / width.min(height) as f64;
                let (height, width) = if width <= height { (long as usize, short) } else { (short, long as usize) };
                middle(&picture.resize(height, width, filter), side, side)
            }
            Fit::Pad(_) if width == height => self.tiles.stretched(picture),
            Fit::Pad(colour) => self.tiles.stretched(&picture.on_square(colour)),
        }
    }
}

impl Crops {
    /// The crops of a picture, along its longer side.
    fn of(self, picture: &Picture) -> Vec<Picture> {
        let (long, short) = (picture.width.max(picture.height), picture.width.min(picture.height));
        let ratio = long as f64 / short as f64;
        if ratio < self.from_ratio {
            return vec![];
        }
        let count = ((ratio + 0.5).floor() as usize).min(long / self.min_side).max(2).min(self.most.max(1));
        let step = long.div_ceil(count);
        if step.min(short) < self.min_side {
            return vec![];
        }
        let crop = |i: usize| {
            // The last may be shorter.
            let part = step.min(long.saturating_sub(i * step)).max(1);
            let at = (i * step) as isize;
            if picture.width >= picture.height { picture.crop(0, at, short, part) } else { picture.crop(at, 0, part, short) }
        };
        (0..count).map(crop).collect()
    }
}

impl Processor for Square {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        no_strip(picture, 200)?;
        let crops = self.crops.map(|crops| crops.of(picture)).unwrap_or_default();
        let [before, after] = &self.around;
        let one = format!("{before}{}{after}", self.token.repeat(self.tiles.tokens()));
        let text = match crops.len() {
            0 => one,
            count => {
                let more = vec![one.as_str(); count].join(" ");
                format!("Here is the original image {one} and here are some crops to help you see better {more}")
            }
        };
        let tiles: Vec<Picture> = [picture].into_iter().chain(&crops).map(|picture| self.fitted(picture)).collect();
        Ok(self.tiles.prepare(&tiles, text))
    }
    fn most_patches(&self) -> usize {
        self.tiles.rows()
    }
    fn most_rows(&self) -> usize {
        self.tiles.tokens() * (1 + self.crops.map_or(0, |crops| crops.most))
    }
    fn mark(&self) -> &str {
        &self.mark
    }
    fn token(&self) -> &str {
        &self.token
    }
}
