/// The most values that one block of any type holds.
pub(crate) const MOST_VALUES: usize = 256;

/// One block as an integer dot product wants it: `w[i] = codes[i] * scales[i / group] + offsets[i / group]`, exactly up to one rounding.
///
/// Every block type, the grid types and ternary ones included, can be written so; this is the generic path by which a
/// device runs a type that it has no kernel for.
#[derive(Clone)]
pub struct Codes {
    /// Values that share a scale: 16, 32, or more; divides the block.
    pub group: usize,
    /// Signed codes, as many as the block has values.
    pub codes: [i8; MOST_VALUES],
    /// One scale per group.
    pub scales: [f32; MOST_VALUES / 8],
    /// One offset per group, zero for symmetric types.
    pub offsets: [f32; MOST_VALUES / 8],
}

impl Default for Codes {
    fn default() -> Self {
        Self { group: 32, codes: [0; MOST_VALUES], scales: [0.0; MOST_VALUES / 8], offsets: [0.0; MOST_VALUES / 8] }
    }
}
