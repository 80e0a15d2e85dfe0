//! A picture whole and in tiles, by the grid that fits it best (LLaVA-NeXT, transformers' `image_processing_pil_llava_next.py`). Of the
//! tiles' tokens those that show no picture are left out, and a line of them ends with a row of its own (`modeling_llava_next.py`).

use crate::{
    Picture, Result, Tiles,
    prepared::{From, Prepared, Processor, no_strip},
};

/// LLaVA-NeXT's way.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyResolution {
    /// The tiles.
    pub tiles: Tiles,
    /// Sizes in pixels, height and width, of which the one that fits best is taken.
    pub sizes: Vec<[usize; 2]>,
    /// The mark, and the token that is given rows.
    pub token: String,
}

impl AnyResolution {
    /// The size that keeps most of the picture's pixels, and wastes fewest where several do.
    fn best(&self, picture: &Picture) -> [usize; 2] {
        let (width, height) = (picture.width as f64, picture.height as f64);
        let pixels = picture.width * picture.height;
        let kept = |size: &[usize; 2]| {
            let scale = (size[1] as f64 / width).min(size[0] as f64 / height);
            pixels.min((width * scale) as usize * (height * scale) as usize)
        };
        let mut best = ([self.tiles.side; 2], 0, usize::MAX);
        for size in &self.sizes {
            let kept = kept(size);
            let wasted = (size[0] * size[1]).saturating_sub(kept);
            if kept > best.1 || (kept == best.1 && wasted < best.2) {
                best = (*size, kept, wasted);
            }
        }
        best.0
    }

    /// The picture in the middle of a black one of this size, as large as that allows.
    fn inside(&self, picture: &Picture, [height, width]: [usize; 2]) -> Picture {
        let [by_width, by_height] = [width as f64 / picture.width as f64, height as f64 / picture.height as f64];
        let resized = match by_width < by_height {
            true => [((picture.height as f64 * by_width).ceil() as usize).min(height), width],
            false => [height, ((picture.width as f64 * by_height).ceil() as usize).min(width)],
        };
        let [top, left] = [height - resized[0], width - resized[1]].map(|space| -((space / 2) as isize));
        picture.resize(resized[0], resized[1], self.tiles.filter).crop(top, left, height, width)
    }

    /// The rows and columns of a grid of patches that show something of the picture.
    fn shown(picture: &Picture, [height, width]: [usize; 2]) -> [std::ops::Range<usize>; 2] {
        let own = picture.width as f64 / picture.height as f64;
        // Rounded before it is cut, as Python does it to undo what division has lost.
        let scaled = |size: usize, scale: f64| ((size as f64 * scale * 1e7).round_ties_even() / 1e7) as usize;
        match own > width as f64 / height as f64 {
            true => {
                let empty = height.saturating_sub(scaled(picture.height, width as f64 / picture.width as f64)) / 2;
                [empty..height - empty, 0..width]
            }
            false => {
                let empty = width.saturating_sub(scaled(picture.width, height as f64 / picture.height as f64)) / 2;
                [0..height, empty..width - empty]
            }
        }
    }
}

impl Processor for AnyResolution {
    fn prepare(&self, picture: &Picture) -> Result<Prepared> {
        no_strip(picture, 200)?;
        let size = self.best(picture);
        let [rows, columns] = size.map(|n| n / self.tiles.side);
        let mut tiles = vec![self.tiles.stretched(picture)];
        tiles.extend(self.tiles.cut(&self.inside(picture, size), [rows, columns]));
        let (grid, tokens) = (self.tiles.grid(), self.tiles.tokens());
        let mut order: Vec<From> = (0..tokens as u32).map(From::Projector).collect();
        let [shown_rows, shown_columns] = Self::shown(picture, [rows * grid, columns * grid]);
        for row in shown_rows {
            let at = |column: usize| (1 + row / grid * columns + column / grid) * tokens + row % grid * grid + column % grid;
            order.extend(shown_columns.clone().map(|column| From::Projector(at(column) as u32)));
            order.push(From::Newline);
        }
        let text = self.token.repeat(order.len());
        Ok(Prepared { order, ..self.tiles.prepare(&tiles, text) })
    }
    fn most_patches(&self) -> usize {
        self.tiles.rows()
    }
    fn most_rows(&self) -> usize {
        let tiles = |size: &[usize; 2]| size[0] / self.tiles.side * (size[1] / self.tiles.side);
        self.tiles.tokens() * (1 + self.sizes.iter().map(tiles).max().unwrap_or(0))
    }
    fn mark(&self) -> &str {
        &self.token
    }
    fn token(&self) -> &str {
        &self.token
    }
}
