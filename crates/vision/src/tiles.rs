//! Square tiles of one size, whose patches have learned positions, as the towers of CLIP, SigLIP and InternVL take them.

use crate::{
    Filter, Picture, PositionTable,
    prepared::{From, Normalize, Piece, Prepared},
};

/// How tiles become rows, and rows tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// Pixels of a tile's side.
    pub side: usize,
    /// Pixels of a patch's side. What is left at the end of a tile is not seen.
    pub patch: usize,
    /// How a picture is resampled.
    pub filter: Filter,
    /// Pixels to numbers.
    pub normalize: Normalize,
    /// The position of each patch, given to the tower behind its pixels.
    pub positions: PositionTable,
    /// What is given in place of a position to a row without pixels that comes before the patches, where the tower has one for the whole
    /// tile (its class).
    pub class: Option<Vec<f32>>,
    /// Whether that row becomes a token, too.
    pub keeps_class: bool,
    /// Patches of the side of a block that becomes one token.
    pub merge: usize,
}

impl Tiles {
    /// Patches of a tile's side.
    pub(crate) fn grid(&self) -> usize {
        self.side / self.patch
    }

    /// Rows of a tile.
    pub fn rows(&self) -> usize {
        self.grid() * self.grid() + usize::from(self.class.is_some())
    }

    /// Tokens of a tile.
    pub fn tokens(&self) -> usize {
        let blocks = self.grid() / self.merge;
        blocks * blocks + usize::from(self.keeps_class && self.class.is_some())
    }

    /// The picture as one tile, whatever its proportions.
    pub(crate) fn stretched(&self, picture: &Picture) -> Picture {
        picture.resize(self.side, self.side, self.filter)
    }

    /// The tiles of a picture of `rows` times `columns` tiles, row after row.
    pub(crate) fn cut(&self, picture: &Picture, [rows, columns]: [usize; 2]) -> Vec<Picture> {
        let at = |i: usize| (i * self.side) as isize;
        (0..rows).flat_map(|row| (0..columns).map(move |column| picture.crop(at(row), at(column), self.side, self.side))).collect()
    }

    /// Tiles that are ready for a tower, whose tokens follow each other; `text` is their part of the prompt.
    pub(crate) fn prepare(&self, tiles: &[Picture], text: String) -> Prepared {
        let count = tiles.len() * self.tokens();
        Prepared {
            pieces: tiles.iter().map(|tile| self.piece(tile)).collect(),
            merged: (0..tiles.len()).flat_map(|tile| self.merged(tile)).collect(),
            of_each: self.merge * self.merge,
            order: (0..count as u32).map(From::Projector).collect(),
            text,
            ..Prepared::default()
        }
    }

    fn piece(&self, tile: &Picture) -> Piece {
        let pixels = 3 * self.patch * self.patch;
        let mut piece = Piece { rows: Vec::with_capacity(self.rows() * (pixels + self.positions.width)), ..Piece::default() };
        if let Some(class) = &self.class {
            piece.rows.resize(pixels, 0.0);
            piece.rows.extend_from_slice(class);
            piece.places.push([0, 0]);
        }
        let grid = self.grid();
        for (i, position) in self.positions.rows.chunks_exact(self.positions.width.max(1)).take(grid * grid).enumerate() {
            let place = [i / grid, i % grid];
            self.normalize.patch(tile, place.map(|p| p * self.patch), self.patch, &mut piece.rows);
            piece.rows.extend_from_slice(position);
            piece.places.push(place.map(|p| p as u32));
        }
        piece
    }

    /// The rows of which the tokens of a tile are made, block after block.
    fn merged(&self, tile: usize) -> Vec<u32> {
        let (grid, merge) = (self.grid(), self.merge);
        let first = tile * self.rows();
        let patches = first + usize::from(self.class.is_some());
        let class = Some(first as u32).filter(|_| self.keeps_class && self.class.is_some());
        let blocks = (0..grid / merge).flat_map(|row| (0..grid / merge).map(move |column| [row * merge, column * merge]));
        let block =
            |[row, column]: [usize; 2]| (0..merge * merge).map(move |i| (patches + (row + i / merge) * grid + column + i % merge) as u32);
        class.into_iter().chain(blocks.flat_map(block)).collect()
    }
}
