//! The few vector operations that kernels are written in, so that each kernel, each way of storing codes and each way of
//! storing scales is written once, and an instruction set is one implementation of [`Simd`].
//!
//! A panel is 16 rows of a matrix, one row in each lane. A register holds [`Simd::LANES`] lanes; where that is fewer than
//! 16, a panel is worked through in [`Simd::PARTS`] parts.

/// Rows in a panel.
pub(super) const ROWS: usize = 16;

/// Vector operations of one instruction set.
///
/// # Safety
/// Every function may be called only where the instruction set is there, and pointers must be valid for the bytes that
/// the function is said to read or write; no alignment is needed.
///
/// Implementations are inlined into kernels that enable the instructions, which is why they carry no `target_feature`.
pub(super) trait Simd: Copy + 'static {
    /// Four bytes in each lane.
    type Bytes: Copy;
    /// An `i32` in each lane.
    type Ints: Copy;
    /// An `f32` in each lane.
    type Floats: Copy;
    /// Lanes of a register.
    const LANES: usize;
    /// Registers that a panel's row numbers take.
    const PARTS: usize = ROWS / Self::LANES;

    /// Asks for the cache line at `p`, which may be any address.
    unsafe fn prefetch(p: *const u8);
    /// Reads `4 * LANES` bytes.
    unsafe fn bytes(p: *const u8) -> Self::Bytes;
    /// `(byte >> shift) & mask` for each byte; `mask` has no bits that would come from a neighbour.
    unsafe fn field(v: Self::Bytes, shift: i32, mask: u8) -> Self::Bytes;
    /// `(byte << shift) & mask` for each byte; `mask` has no bits that would come from a neighbour.
    unsafe fn raised(v: Self::Bytes, shift: i32, mask: u8) -> Self::Bytes;
    /// Bitwise or.
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// `table[byte]` for bytes below 16.
    unsafe fn lookup(table: *const [u8; 16], v: Self::Bytes) -> Self::Bytes;
    /// The sum over `g < N`, `j < 4` of `(codes[g][j] - zero) * x[4 g + j]` in each lane, exactly. Codes are below
    /// `2^bits`; `zero` is 128 for 8 bits, otherwise zero or a power of two; `x` are from -127 to 127 and `*sum` is their sum.
    unsafe fn dot<const N: usize>(codes: &[Self::Bytes], bits: u32, zero: i32, x: *const i8, sum: *const i32) -> Self::Ints;
    /// Byte `j` of each lane, as a number from 0 to 255.
    unsafe fn byte(v: Self::Bytes, j: i32) -> Self::Floats;

    /// To the nearest `f32`.
    unsafe fn to_floats(v: Self::Ints) -> Self::Floats;

    /// The same number in each lane.
    unsafe fn splat(v: f32) -> Self::Floats;
    /// Reads `LANES` `f32`.
    unsafe fn f32s(p: *const u8) -> Self::Floats;
    /// Reads `LANES` binary16.
    unsafe fn f16s(p: *const u8) -> Self::Floats;
    /// Reads `LANES` bfloat16.
    unsafe fn bf16s(p: *const u8) -> Self::Floats;
    /// Reads `LANES` `u8`.
    unsafe fn u8s(p: *const u8) -> Self::Floats;
    /// Reads `LANES` `i8`.
    unsafe fn i8s(p: *const u8) -> Self::Floats;
    /// Writes `LANES` `f32`.
    unsafe fn store(v: Self::Floats, p: *mut f32);
    /// `a + b`
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a - b`
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b`
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}
