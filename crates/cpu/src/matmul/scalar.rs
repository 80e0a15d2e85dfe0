//! [`Simd`] in plain Rust: what the other instruction sets are compared with, and the way to run on machines that have none of them.

use super::simd::{ROWS, Simd};
use half::f16;
use std::array::from_fn;

/// Sixteen lanes in an array.
#[derive(Clone, Copy)]
pub(super) struct Scalar;

/// Reads `LANES` values of `N` bytes.
///
/// # Safety
/// `p` must be valid for reads of `16 * N` bytes.
unsafe fn read<const N: usize>(p: *const u8) -> [[u8; N]; ROWS] {
    // SAFETY: the caller's promise; arrays of bytes have no alignment.
    unsafe { p.cast::<[[u8; N]; ROWS]>().read() }
}

impl Simd for Scalar {
    type Bytes = [[u8; 4]; ROWS];
    type Ints = [i32; ROWS];
    type Floats = [f32; ROWS];
    const LANES: usize = ROWS;

    unsafe fn prefetch(_p: *const u8) {}
    unsafe fn bytes(p: *const u8) -> Self::Bytes {
        // SAFETY: the caller's promise.
        unsafe { read(p) }
    }
    unsafe fn field(v: Self::Bytes, shift: i32, mask: u8) -> Self::Bytes {
        v.map(|b| b.map(|b| (b >> shift) & mask))
    }
    unsafe fn raised(v: Self::Bytes, shift: i32, mask: u8) -> Self::Bytes {
        v.map(|b| b.map(|b| (b << shift) & mask))
    }
    unsafe fn or(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        from_fn(|i| from_fn(|j| a[i][j] | b[i][j]))
    }
    unsafe fn lookup(table: *const [u8; 16], v: Self::Bytes) -> Self::Bytes {
        // SAFETY: the caller's promise.
        let table = unsafe { table.read() };
        v.map(|b| b.map(|b| table[usize::from(b & 15)]))
    }
    unsafe fn dot<const N: usize>(codes: &[Self::Bytes], _bits: u32, zero: i32, x: *const i8, _sum: *const i32) -> Self::Ints {
        let mut out = [0; ROWS];
        for (g, codes) in codes.iter().enumerate().take(N) {
            // SAFETY: the caller's promise: `x` is valid for `4 * N` reads.
            let x = unsafe { x.add(4 * g).cast::<[i8; 4]>().read() };
            for (out, codes) in out.iter_mut().zip(codes) {
                *out += codes.iter().zip(x).map(|(q, x)| (i32::from(*q) - zero) * i32::from(x)).sum::<i32>();
            }
        }
        out
    }
    unsafe fn byte(v: Self::Bytes, j: i32) -> Self::Floats {
        v.map(|b| f32::from(b[j as usize]))
    }
    unsafe fn to_floats(v: Self::Ints) -> Self::Floats {
        v.map(|v| v as f32)
    }
    unsafe fn splat(v: f32) -> Self::Floats {
        [v; ROWS]
    }
    unsafe fn f32s(p: *const u8) -> Self::Floats {
        // SAFETY: the caller's promise.
        unsafe { read(p) }.map(f32::from_le_bytes)
    }
    unsafe fn f16s(p: *const u8) -> Self::Floats {
        // SAFETY: the caller's promise.
        unsafe { read(p) }.map(|b| f16::from_le_bytes(b).to_f32())
    }
    unsafe fn bf16s(p: *const u8) -> Self::Floats {
        // SAFETY: the caller's promise.
        unsafe { read(p) }.map(|b: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
    }
    unsafe fn u8s(p: *const u8) -> Self::Floats {
        // SAFETY: the caller's promise.
        unsafe { read::<1>(p) }.map(|[b]| f32::from(b))
    }
    unsafe fn i8s(p: *const u8) -> Self::Floats {
        // SAFETY: the caller's promise.
        unsafe { read::<1>(p) }.map(|[b]| f32::from(b as i8))
    }
    unsafe fn store(v: Self::Floats, p: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f32; ROWS]>().write_unaligned(v) }
    }
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|i| a[i] + b[i])
    }
    unsafe fn sub(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|i| a[i] - b[i])
    }
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        from_fn(|i| a[i] * b[i])
    }
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
}
