//! Learned positions of patches.

/// A square table of learned positions.
#[derive(Clone, PartialEq)]
pub struct PositionTable {
    /// `[side, side, width]`.
    pub rows: Vec<f32>,
    /// Rows and columns.
    pub side: usize,
    /// Numbers of a position.
    pub width: usize,
}

impl std::fmt::Debug for PositionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PositionTable({} x {} x {})", self.side, self.side, self.width)
    }
}

impl PositionTable {
    /// Stretches the table over a grid: appends the position at `place` of a grid, mixed linearly of its four neighbours, the corners being the table's corners.
    pub(crate) fn append(&self, place: [u32; 2], grid: [usize; 2], out: &mut Vec<f32>) {
        let axis = |at: u32, size: usize| {
            let source = at as f32 * (self.side - 1) as f32 / (size.max(2) - 1) as f32;
            let low = source.floor();
            let [a, b] = [low as usize, low as usize + 1].map(|i| i.min(self.side - 1));
            [(a, 1.0 - (source - low)), (b, (1.0 - (source - low - 1.0).abs()).max(0.0))]
        };
        let (rows, columns) = (axis(place[0], grid[0]), axis(place[1], grid[1]));
        let from = out.len();
        out.resize(from + self.width, 0.0);
        for ((row, by_row), (column, by_column)) in rows.into_iter().flat_map(|r| columns.map(|c| (r, c))) {
            let at = (row * self.side + column) * self.width;
            let weight = by_row * by_column;
            out[from..].iter_mut().zip(&self.rows[at..at + self.width]).for_each(|(o, p)| *o += weight * p);
        }
    }
}
