//! Weight types: how a checkpoint stores the numbers of a tensor.
//!
//! Each type is one file holding its block's layout, `decode`, `encode`, and one table entry ([`TypeInfo`]).
//! Everything that needs a type (file readers, devices, the quantizer) goes through [`WeightType`], so a new type is
//! one new file and one new line in [`ALL`].
//!
//! Nothing here does I/O, starts threads, or uses `unsafe`.

mod codes;
mod ids;

pub use codes::Codes;
pub use ids::{UnknownType, from_ggml_id, from_ggml_id_sized};

use std::fmt;

/// The facts about one weight type.
pub struct TypeInfo {
    /// The name users know, as ggml spells it: `Q4_K`.
    pub name: &'static str,
    /// ggml's id in GGUF files, `None` where no GGUF can hold the type.
    pub ggml_id: Option<u32>,
    /// Values in one block.
    pub values: usize,
    /// Bytes of one block.
    pub bytes: usize,
    /// Decodes whole blocks: `blocks.len() == n * bytes`, `out.len() == n * values`.
    pub decode: fn(blocks: &[u8], out: &mut [f32]),
    /// Encodes whole blocks of one row: `(values, importance of each column, blocks)`. `None` where 1bit does not write the type.
    pub encode: Option<Encode>,
    /// Splits one block into integer codes with scales, exactly. `None` for plain floats and integers.
    pub codes: Option<fn(block: &[u8], out: &mut Codes)>,
}

/// Encodes `row` into `out`; `importance`, where given, has one non-negative weight per value of the row.
pub type Encode = fn(row: &[f32], importance: Option<&[f32]>, out: &mut [u8]);

/// A weight type: a cheap handle to its [`TypeInfo`].
#[derive(Clone, Copy)]
pub struct WeightType(&'static TypeInfo);

impl WeightType {
    /// Wraps a table entry.
    pub const fn new(info: &'static TypeInfo) -> Self {
        Self(info)
    }
    /// All facts.
    pub const fn info(self) -> &'static TypeInfo {
        self.0
    }
    /// The name, as ggml spells it.
    pub const fn name(self) -> &'static str {
        self.0.name
    }
    /// Values in one block.
    pub const fn block_values(self) -> usize {
        self.0.values
    }
    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        self.0.bytes
    }
    /// Mean bits per value.
    pub fn bits_per_value(self) -> f64 {
        self.0.bytes as f64 * 8.0 / self.0.values as f64
    }
    /// Bytes that `values` values take; `None` where blocks do not divide them or the product overflows.
    pub fn bytes_for(self, values: usize) -> Option<usize> {
        if !values.is_multiple_of(self.0.values) {
            return None;
        }
        (values / self.0.values).checked_mul(self.0.bytes)
    }
    /// Decodes whole blocks to f32. Panics when lengths do not fit; file readers have checked them before.
    pub fn decode(self, blocks: &[u8], out: &mut [f32]) {
        assert_eq!(blocks.len() / self.0.bytes * self.0.values, out.len(), "{self}: block count");
        (self.0.decode)(blocks, out);
    }
    /// Finds a type by name, ignoring case.
    pub fn by_name(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(name))
    }
}

impl PartialEq for WeightType {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for WeightType {}
impl std::hash::Hash for WeightType {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}
impl fmt::Debug for WeightType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
impl fmt::Display for WeightType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

mod f32;
pub use f32::F32;
mod f16;
pub use f16::F16;
mod bf16;
pub use bf16::BF16;

/// Every weight type, in ggml's order of ids.
pub static ALL: &[WeightType] = &[F32, F16, BF16];
