//! Sixteen f32 at a time, with the same result on every machine.
//!
//! Small ops are written once, as a [`Kernel`] over any [`Simd`], and [`dispatch`] compiles them for each instruction set.
//! All sets do the same fused multiply-adds in the same order, so a kernel's values do not depend on the machine.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use crate::isa::{Isa, Level};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// One instruction set's way to work on sixteen f32. A value of such a type is proof that the set is there.
pub(crate) trait Simd: Copy {
    /// Sixteen f32.
    type V: Copy;
    /// Registers of the instruction set.
    const REGISTERS: usize;
    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// Reads sixteen.
    fn load(self, x: &[f32; LANES]) -> Self::V;
    /// Writes sixteen.
    fn store(self, v: Self::V, out: &mut [f32; LANES]);
    /// Reads sixteen IEEE binary16.
    fn load_half(self, x: &[u16; LANES]) -> Self::V;
    /// Writes sixteen IEEE binary16, rounded to nearest even.
    fn store_half(self, v: Self::V, out: &mut [u16; LANES]);
    /// Reads sixteen bfloat16.
    fn load_brain(self, x: &[u16; LANES]) -> Self::V;
    /// Reads sixteen whole numbers.
    fn load_bytes(self, x: &[i8; LANES]) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a` where it is less than `b`, else `b` (so a NaN in `b` stays).
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a` where it is greater than `b`, else `b` (so a NaN in `b` stays).
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The nearest integer, ties to even.
    fn round(self, v: Self::V) -> Self::V;
    /// `2^n` for integers `n` from -126 to 127.
    fn exp2i(self, n: Self::V) -> Self::V;
    /// Exchanges each lane with that whose number differs in the bit `BY`: 1, 2, 4 or 8.
    fn exchange<const BY: usize>(self, v: Self::V) -> Self::V;
    /// `x` where `a < b`, else `y`.
    fn where_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;

    /// Asks for numbers that will be read soon. A hint.
    #[inline(always)]
    fn prefetch<T>(self, x: &[T]) {
        #[cfg(target_arch = "x86_64")]
        for line in (0..size_of_val(x)).step_by(64) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch touches nothing; the instruction is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(x.as_ptr().cast::<i8>().add(line)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = x;
    }
    /// All lanes.
    #[inline(always)]
    fn to_array(self, v: Self::V) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        self.store(v, &mut out);
        out
    }
    /// The sum of all lanes: halves are added until one is left.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let a = self.to_array(v);
        let b: [f32; 8] = std::array::from_fn(|i| a[i] + a[i + 8]);
        let c: [f32; 4] = std::array::from_fn(|i| b[i] + b[i + 4]);
        (c[0] + c[2]) + (c[1] + c[3])
    }
    /// The largest lane.
    #[inline(always)]
    fn largest(self, v: Self::V) -> f32 {
        let a = self.to_array(v);
        let b: [f32; 8] = std::array::from_fn(|i| a[i].max(a[i + 8]));
        let c: [f32; 4] = std::array::from_fn(|i| b[i].max(b[i + 4]));
        c[0].max(c[2]).max(c[1].max(c[3]))
    }
    /// Reads up to sixteen, with `fill` beyond the end.
    #[inline(always)]
    fn load_some(self, x: &[f32], fill: f32) -> Self::V {
        match x.first_chunk() {
            Some(x) => self.load(x),
            None => {
                let mut padded = [fill; LANES];
                padded[..x.len()].copy_from_slice(x);
                self.load(&padded)
            }
        }
    }
    /// Writes the first lanes, as many as fit.
    #[inline(always)]
    fn store_some(self, v: Self::V, out: &mut [f32]) {
        match out.first_chunk_mut() {
            Some(out) => self.store(v, out),
            None => {
                let n = out.len();
                out.copy_from_slice(&self.to_array(v)[..n]);
            }
        }
    }
}

/// Work that is compiled for each instruction set. `run` must be `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What it gives.
    type Out;
    /// Does the work.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

/// Runs `kernel` with the best instruction set that `isa` allows.
#[inline]
pub(crate) fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    match isa.level() {
        // SAFETY: an `Isa` has a level only where the machine has its instructions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Amx => unsafe { avx512::run(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::run(kernel) },
        _ => kernel.run(scalar::Scalar),
    }
}

/// Every instruction set of this machine, for tests that hold them to the same values.
#[cfg(test)]
pub(crate) fn levels() -> Vec<Isa> {
    let best = Isa::detect();
    Level::ALL.into_iter().filter(|l| *l <= best.level()).map(|l| best.at_most(l)).collect()
}
