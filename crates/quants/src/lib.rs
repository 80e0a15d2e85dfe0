//! Weight types: how a checkpoint stores the numbers of a tensor.
//!
//! Each type (or family of types with one layout) is one file holding its block's layout, how it splits into integer codes
//! and scales, how it is made, and its table entry ([`TypeInfo`]). Everything that needs a type (file readers, devices, the
//! quantizer) goes through [`WeightType`], so a new type is one new file and one new name in [`ALL`];
//! `docs/adding-a-weight-type.md` shows it.
//!
//! How the parts meet: `block` derives `decode`, `encode` and the table entry from a type's `split` and its maker. Makers look
//! for scales with `search` (a scale for a group of single values), `affine` (a scale and an offset), `multiples` (scales in a
//! unit that the block shares) and `lattice` (values that are points of a grid, from `grids`). Decoders share
//! `bits` and `uneven`. `ids` knows ggml's numbers.
//!
//! Nothing here does I/O, starts threads, or uses `unsafe`.

mod affine;
mod bits;
mod block;
mod coded;
mod codes;
mod grids;
mod ids;
mod lattice;
mod multiples;
mod search;
mod uneven;

pub use coded::{CODED_GROUPS, coded, put_coded};
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
    /// Bytes before the first block of every row, for what the row's blocks share; 0 for most types.
    pub header: usize,
    /// Decodes a row, `header + n * bytes` bytes, to `n * values` values.
    pub decode: fn(row: &[u8], out: &mut [f32]),
    /// Encodes whole blocks of one row: `(values, importance of each column, blocks)`. `None` where 1bit does not write the type.
    pub encode: Option<Encode>,
    /// Splits one block into integer codes with scales, exactly. `None` for plain floats and integers.
    pub codes: Option<Split>,
}

/// Splits a block of a row that begins with `header` (which is empty for most types).
pub type Split = fn(header: &[u8], block: &[u8], out: &mut Codes);

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
    /// Bytes before the first block of every row; 0 for most types.
    pub const fn header_bytes(self) -> usize {
        self.0.header
    }
    /// Mean bits per value, without what rows begin with.
    pub fn bits_per_value(self) -> f64 {
        self.0.bytes as f64 * 8.0 / self.0.values as f64
    }
    /// Bytes of a row of `columns` values; `None` where blocks do not divide it or the product overflows.
    pub fn row_bytes(self, columns: usize) -> Option<usize> {
        if !columns.is_multiple_of(self.0.values) {
            return None;
        }
        (columns / self.0.values).checked_mul(self.0.bytes)?.checked_add(self.0.header)
    }
    /// Bytes of a tensor of this shape, outermost dimension first; `None` where blocks do not divide its rows or a product overflows.
    pub fn bytes_for(self, shape: &[usize]) -> Option<usize> {
        let (columns, outer) = shape.split_last().unwrap_or((&1, &[]));
        outer.iter().try_fold(self.row_bytes(*columns)?, |n, d| n.checked_mul(*d))
    }
    /// Decodes a row to f32; for types whose rows have no header, any number of whole blocks. Panics when lengths do not fit; file
    /// readers have checked them before.
    pub fn decode(self, row: &[u8], out: &mut [f32]) {
        assert_eq!(self.row_bytes(out.len()), Some(row.len()), "{self}: block count");
        (self.0.decode)(row, out);
    }
    /// Encodes one row of whole blocks; `importance`, where given, has one non-negative weight per value. `None` where
    /// 1bit does not write the type. Panics when lengths do not fit. Block types store values that are
    /// not finite as zero, and cut off what is beyond their range: whoever quantizes checks for both first.
    #[must_use]
    pub fn encode(self, row: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Option<()> {
        let encode = self.0.encode?;
        assert_eq!(self.row_bytes(row.len()), Some(out.len()), "{self}: block count");
        assert!(importance.is_none_or(|w| w.len() == row.len()), "{self}: one importance per value");
        encode(row, importance, out);
        Some(())
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

mod bf16;
mod f16;
mod f32;
mod f64;
mod f8;
mod fp4;
mod integers;
mod iq1;
mod iq1_xs;
mod iq2;
mod iq3;
mod iq4;
mod iq_bn;
mod iqk;
mod iqks;
mod iqkt;
mod ptq1_0;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_0;
mod q6_k;
mod q8_0;
mod q8_kv;
mod tq1_0;
mod tq2_0;

pub use bf16::BF16;
pub use f8::{F8_E4M3, F8_E5M2, F8_E8M0};
pub use f16::F16;
pub use f32::F32;
pub use f64::F64;
pub use fp4::{MXFP4, NVFP4};
pub use integers::{BOOL, I8, I16, I32, I64, U8, U16, U32, U64};
pub use iq_bn::{IQ1_BN, IQ2_BN};
pub use iq1::{IQ1_M, IQ1_S};
pub use iq1_xs::{IQ1_XS, IQ1_XXS, IQ1_XXXS};
pub use iq2::{IQ2_S, IQ2_XS, IQ2_XXS};
pub use iq3::{IQ3_S, IQ3_XXS};
pub use iq4::{IQ4_NL, IQ4_XS};
pub use iqk::{IQ2_K, IQ3_K, IQ4_K, IQ5_K, IQ6_K};
pub use iqks::{IQ2_KL, IQ2_KS, IQ3_KS, IQ4_KS, IQ4_KSS, IQ5_KS};
pub use iqkt::{IQ1_KT, IQ2_KT, IQ3_KT, IQ4_KT};
pub use ptq1_0::PTQ1_0;
pub use q1_0::Q1_0;
pub use q2_0::{PQ2_0, Q2_0};
pub use q2_k::Q2_K;
pub use q3_k::Q3_K;
pub use q4_0::Q4_0;
pub use q4_1::Q4_1;
pub use q4_k::Q4_K;
pub use q5_0::Q5_0;
pub use q5_1::Q5_1;
pub use q5_k::Q5_K;
pub use q6_0::Q6_0;
pub use q6_k::Q6_K;
pub use q8_0::Q8_0;
pub use q8_kv::Q8_KV;
pub use tq1_0::TQ1_0;
pub use tq2_0::TQ2_0;

/// Every weight type, in ggml's order of ids; those without an id come last.
#[rustfmt::skip]
pub static ALL: &[WeightType] = &[
    F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
    IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, IQ4_XS,
    I8, I16, I32, I64, F64, IQ1_M, BF16, TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0,
    IQ1_XS, IQ1_XXS, IQ1_XXXS,
    Q6_0, IQ1_BN, IQ2_BN, IQ2_K, IQ3_K, IQ4_K, IQ5_K, IQ6_K, PQ2_0, PTQ1_0, IQ4_KS, IQ2_KS, IQ4_KSS, Q8_KV, IQ5_KS,
    IQ2_KT, IQ3_KT, IQ4_KT, IQ3_KS, IQ2_KL, IQ1_KT,
    F8_E4M3, F8_E5M2, F8_E8M0, U8, U16, U32, U64, BOOL,
];
