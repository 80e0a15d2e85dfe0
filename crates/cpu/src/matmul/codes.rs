//! How codes lie in a panel.
//!
//! A block is 32 columns of a panel's 16 rows: eight groups of four columns. Group `g` of row `r` is the four bytes
//! (one for each column) that an integer dot product takes into lane `r`, so that a register of 64 bytes is one group of
//! all rows, and the result needs no sum across lanes. Codes of fewer bits share such registers ("chunks") group-wise:
//!
//! | kind | chunks | where group g is |
//! |---|---|---|
//! | [`Bits8`] | 8 | chunk g |
//! | [`Bits4`] | 4 | chunk g mod 4; low half of each byte for g < 4, else high |
//! | [`Lookup4`] | 4 | as Bits4 |
//! | [`Bits2`] | 2 | chunk g / 4, bits 2 (g mod 4) and the next of each byte |
//! | [`Bits3`] | 3 | as Bits2, and the highest bit in chunk 2, bit g of each byte |
//! | [`Bits5`] | 5 | as Bits4, and the highest bit in chunk 4, bit g of each byte |
//! | [`Bits6`] | 6 | as Bits4, and the two highest bits as Bits2 in chunks 4 and 5 |
//!
//! Codes are unsigned in memory; `zero` is subtracted from what they say.

use super::simd::{ROWS, Simd};

/// Columns in a block.
pub(super) const BLOCK: usize = 32;
/// Bytes in a chunk: four columns of all rows.
pub(super) const CHUNK: usize = 4 * ROWS;

/// Levels of a matrix whose codes choose from some.
pub(super) type Levels = [u8; 16];

/// A way to store the codes of a block.
pub(super) trait Codes: 'static {
    /// Bits of a code as it is multiplied.
    const BITS: u32;
    /// What is subtracted from codes.
    const ZERO: i32;
    /// Bytes of a block of 16 rows.
    const BYTES: usize;

    /// Levels that stored codes choose from; `None` where codes are numbers themselves.
    const LEVELS: Option<usize> = None;

    /// The eight groups of a block, one part of its rows; `p` is the block's first byte plus `4 * LANES * part`, and `levels`
    /// are the matrix's, 128 added.
    ///
    /// # Safety
    /// As for [`Simd`]; chunks are read from `p` on in steps of [`CHUNK`].
    unsafe fn unpack<S: Simd>(p: *const u8, levels: *const Levels) -> [S::Bytes; 8];
    /// Writes one row's codes, as they are stored, into a block.
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]);
}

/// Two bits: -1 to 2 if signed, else 0 to 3.
pub(super) struct Bits2<const SIGNED: bool>;
/// Three bits: -4 to 3.
pub(super) struct Bits3;
/// Four bits: -8 to 7 if signed, else 0 to 15.
pub(super) struct Bits4<const SIGNED: bool>;
/// Four bits that choose from 16 levels of -128 to 127.
pub(super) struct Lookup4;
/// Five bits: -16 to 15 if signed, else 0 to 31.
pub(super) struct Bits5<const SIGNED: bool>;
/// Six bits: -32 to 31.
pub(super) struct Bits6;
/// Eight bits: -128 to 127.
pub(super) struct Bits8;

/// A row's codes, one word for each group.
fn groups(codes: &[u8; BLOCK]) -> [u32; 8] {
    std::array::from_fn(|g| u32::from_le_bytes([codes[4 * g], codes[4 * g + 1], codes[4 * g + 2], codes[4 * g + 3]]))
}

/// Sets a row's word of a chunk.
fn set(block: &mut [u8], chunk: usize, row: usize, word: u32) {
    block[chunk * CHUNK + row * 4..][..4].copy_from_slice(&word.to_le_bytes());
}

/// Puts the lowest four bits of each code.
fn put4(block: &mut [u8], row: usize, groups: &[u32; 8]) {
    for c in 0..4 {
        set(block, c, row, groups[c] & 0x0f0f_0f0f | (groups[c + 4] & 0x0f0f_0f0f) << 4);
    }
}

/// Puts two bits of each code, from `shift` on, into chunks `first` and the next.
fn put2(block: &mut [u8], first: usize, row: usize, groups: &[u32; 8], shift: u32) {
    for (c, groups) in groups.as_chunks::<4>().0.iter().enumerate() {
        let word = groups.iter().rev().fold(0, |word, g| word << 2 | g >> shift & 0x0303_0303);
        set(block, first + c, row, word);
    }
}

/// Bit `bit` of each code: that of group g in bit g of the bytes.
fn top_bits(groups: &[u32; 8], bit: u32) -> u32 {
    groups.iter().rev().fold(0, |word, g| word << 1 | g >> bit & 0x0101_0101)
}

/// # Safety
/// As for [`Codes::unpack`].
#[inline(always)]
unsafe fn unpack4<S: Simd>(p: *const u8) -> [S::Bytes; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let c = [S::bytes(p), S::bytes(p.add(CHUNK)), S::bytes(p.add(2 * CHUNK)), S::bytes(p.add(3 * CHUNK))];
        let [a, b, c, d] = [c[0], c[1], c[2], c[3]];
        [
            S::field(a, 0, 15),
            S::field(b, 0, 15),
            S::field(c, 0, 15),
            S::field(d, 0, 15),
            S::field(a, 4, 15),
            S::field(b, 4, 15),
            S::field(c, 4, 15),
            S::field(d, 4, 15),
        ]
    }
}

impl<const SIGNED: bool> Codes for Bits4<SIGNED> {
    const BITS: u32 = 4;
    const ZERO: i32 = if SIGNED { 8 } else { 0 };
    const BYTES: usize = 4 * CHUNK;

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, _levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe { unpack4::<S>(p) }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        put4(block, row, &groups(codes));
    }
}

impl Codes for Lookup4 {
    const BITS: u32 = 8;
    const ZERO: i32 = 128;
    const BYTES: usize = 4 * CHUNK;
    const LEVELS: Option<usize> = Some(16);

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut codes = unpack4::<S>(p);
            for code in &mut codes {
                *code = S::lookup(levels, *code);
            }
            codes
        }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        put4(block, row, &groups(codes));
    }
}

impl<const SIGNED: bool> Codes for Bits5<SIGNED> {
    const BITS: u32 = 5;
    const ZERO: i32 = if SIGNED { 16 } else { 0 };
    const BYTES: usize = 5 * CHUNK;

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, _levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = unpack4::<S>(p);
            let high = S::bytes(p.add(4 * CHUNK));
            [
                S::or(low[0], S::raised(high, 4, 16)),
                S::or(low[1], S::raised(high, 3, 16)),
                S::or(low[2], S::raised(high, 2, 16)),
                S::or(low[3], S::raised(high, 1, 16)),
                S::or(low[4], S::field(high, 0, 16)),
                S::or(low[5], S::field(high, 1, 16)),
                S::or(low[6], S::field(high, 2, 16)),
                S::or(low[7], S::field(high, 3, 16)),
            ]
        }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        let groups = groups(codes);
        put4(block, row, &groups);
        set(block, 4, row, top_bits(&groups, 4));
    }
}

impl Codes for Bits6 {
    const BITS: u32 = 6;
    const ZERO: i32 = 32;
    const BYTES: usize = 6 * CHUNK;

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, _levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = unpack4::<S>(p);
            let (a, b) = (S::bytes(p.add(4 * CHUNK)), S::bytes(p.add(5 * CHUNK)));
            [
                S::or(low[0], S::raised(a, 4, 48)),
                S::or(low[1], S::raised(a, 2, 48)),
                S::or(low[2], S::field(a, 0, 48)),
                S::or(low[3], S::field(a, 2, 48)),
                S::or(low[4], S::raised(b, 4, 48)),
                S::or(low[5], S::raised(b, 2, 48)),
                S::or(low[6], S::field(b, 0, 48)),
                S::or(low[7], S::field(b, 2, 48)),
            ]
        }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        let groups = groups(codes);
        put4(block, row, &groups);
        put2(block, 4, row, &groups, 4);
    }
}

/// # Safety
/// As for [`Codes::unpack`].
#[inline(always)]
unsafe fn unpack2<S: Simd>(p: *const u8) -> [S::Bytes; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (S::bytes(p), S::bytes(p.add(CHUNK)));
        [
            S::field(a, 0, 3),
            S::field(a, 2, 3),
            S::field(a, 4, 3),
            S::field(a, 6, 3),
            S::field(b, 0, 3),
            S::field(b, 2, 3),
            S::field(b, 4, 3),
            S::field(b, 6, 3),
        ]
    }
}

impl<const SIGNED: bool> Codes for Bits2<SIGNED> {
    const BITS: u32 = 2;
    const ZERO: i32 = if SIGNED { 1 } else { 0 };
    const BYTES: usize = 2 * CHUNK;

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, _levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe { unpack2::<S>(p) }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        put2(block, 0, row, &groups(codes), 0);
    }
}

impl Codes for Bits3 {
    const BITS: u32 = 3;
    const ZERO: i32 = 4;
    const BYTES: usize = 3 * CHUNK;

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, _levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = unpack2::<S>(p);
            let high = S::bytes(p.add(2 * CHUNK));
            [
                S::or(low[0], S::raised(high, 2, 4)),
                S::or(low[1], S::raised(high, 1, 4)),
                S::or(low[2], S::field(high, 0, 4)),
                S::or(low[3], S::field(high, 1, 4)),
                S::or(low[4], S::field(high, 2, 4)),
                S::or(low[5], S::field(high, 3, 4)),
                S::or(low[6], S::field(high, 4, 4)),
                S::or(low[7], S::field(high, 5, 4)),
            ]
        }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        let groups = groups(codes);
        put2(block, 0, row, &groups, 0);
        set(block, 2, row, top_bits(&groups, 2));
    }
}

impl Codes for Bits8 {
    const BITS: u32 = 8;
    const ZERO: i32 = 128;
    const BYTES: usize = 8 * CHUNK;

    #[inline(always)]
    unsafe fn unpack<S: Simd>(p: *const u8, _levels: *const Levels) -> [S::Bytes; 8] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                S::bytes(p),
                S::bytes(p.add(CHUNK)),
                S::bytes(p.add(2 * CHUNK)),
                S::bytes(p.add(3 * CHUNK)),
                S::bytes(p.add(4 * CHUNK)),
                S::bytes(p.add(5 * CHUNK)),
                S::bytes(p.add(6 * CHUNK)),
                S::bytes(p.add(7 * CHUNK)),
            ]
        }
    }
    fn put(block: &mut [u8], row: usize, codes: &[u8; BLOCK]) {
        for (g, word) in groups(codes).into_iter().enumerate() {
            set(block, g, row, word);
        }
    }
}
