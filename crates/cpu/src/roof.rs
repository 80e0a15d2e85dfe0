//! What this machine's memory and multipliers can do at most, measured: the roof that speeds are shares of.

use crate::{
    isa::{Isa, Level},
    pool::{Pool, Worker},
};
use serde::Serialize;
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Rates of all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// Bytes read from memory, in a second.
    pub read_bytes_per_second: f64,
    /// Multiplications of int8 numbers, each with its addition, in a second.
    pub products_per_second: f64,
}

/// Bytes that are read: more than any cache holds.
const BYTES: usize = 512 << 20;
/// How long each rate is measured.
const TIME: Duration = Duration::from_millis(400);

impl Roof {
    /// Measures both, which takes a second and, meanwhile, 512 MiB of memory (a quarter of what there is, where that is less).
    pub fn measure(pool: &Pool, isa: Isa) -> Self {
        let bytes = crate::available_memory().map_or(BYTES, |there| BYTES.min(there / 4)) / LINE * LINE;
        Self { read_bytes_per_second: read(pool, bytes), products_per_second: products(pool, isa) }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// The best of several passes over so many bytes: what else the machine does only makes them slower.
fn read(pool: &Pool, bytes: usize) -> f64 {
    // Written once, so that each page is one of its own.
    let data: Vec<[u64; LINE / 8]> = (0..bytes / LINE).map(|i| [i as u64; LINE / 8]).collect();
    best(pool, bytes as f64, |worker| {
        let mut sums = [0u64; LINE / 8];
        for line in &data[worker.chunk(data.len(), 1)] {
            sums.iter_mut().zip(line).for_each(|(sum, x)| *sum ^= x);
        }
        black_box(sums);
    })
}

/// Products of numbers that stay in registers, by the widest instructions in use.
fn products(pool: &Pool, isa: Isa) -> f64 {
    const ROUNDS: usize = 200_000;
    let each = match isa.level() {
        Level::Scalar => scalar(0),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Isa` stands for the instructions being there.
        level => unsafe { x86::products(level, 0) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => scalar(0),
    };
    best(pool, (ROUNDS * each * pool.threads()) as f64, |_| match isa.level() {
        #[cfg(target_arch = "x86_64")]
        level if level > Level::Scalar => {
            // SAFETY: as above.
            unsafe { x86::products(level, ROUNDS) };
        }
        _ => {
            scalar(ROUNDS);
        }
    })
}

/// The highest rate of `amount` among passes of [`TIME`] in all.
fn best(pool: &Pool, amount: f64, pass: impl Fn(Worker<'_>) + Sync) -> f64 {
    let start = Instant::now();
    let mut best = f64::MAX;
    while start.elapsed() < TIME {
        let pass_start = Instant::now();
        pool.run(&|worker| pass(worker));
        best = best.min(pass_start.elapsed().as_secs_f64());
    }
    amount / best
}

/// Runs rounds of products in plain Rust; returns the products of one.
fn scalar(rounds: usize) -> usize {
    const WIDE: usize = 32;
    let (x, mut sums) = (black_box([3i8; WIDE]), [0i32; WIDE]);
    for round in 0..rounds {
        let y = black_box(round as i8);
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += i32::from(x) * i32::from(y));
    }
    black_box(sums);
    WIDE
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::isa::Level;
    use std::{arch::x86_64::*, hint::black_box};

    /// Sums that do not wait for each other: as many as hide the latency of two instructions a cycle.
    const CHAINS: usize = 12;

    /// Runs rounds of products; returns the products of one.
    ///
    /// # Safety
    /// The level's instructions are there.
    pub(super) unsafe fn products(level: Level, rounds: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match level {
                Level::Amx => amx(rounds),
                Level::Avx512 => avx512(rounds),
                Level::Avx2 | Level::Scalar => avx2(rounds),
            }
        }
    }

    /// # Safety
    /// AVX2 is there.
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(rounds: usize) -> usize {
        let (a, b, ones) = (black_box(_mm256_set1_epi8(3)), black_box(_mm256_set1_epi8(1)), _mm256_set1_epi16(1));
        let mut sums = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                // Each depends on the sum, or the compiler would take one for all.
                let pairs = _mm256_maddubs_epi16(_mm256_xor_si256(a, *sum), b);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
        black_box(sums);
        CHAINS * 32
    }

    /// # Safety
    /// AVX-512 F and VNNI are there.
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn avx512(rounds: usize) -> usize {
        let (a, b) = (black_box(_mm512_set1_epi8(3)), black_box(_mm512_set1_epi8(1)));
        let mut sums = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        black_box(sums);
        CHAINS * 64
    }

    /// Four products of tiles, of 16 rows of 64 bytes.
    ///
    /// # Safety
    /// AMX's int8 tiles are there, and may be used.
    unsafe fn amx(rounds: usize) -> usize {
        if !crate::isa::has_tiles() {
            // SAFETY: tests pretend to have tiles where there is AVX-512.
            return unsafe { avx512(rounds) };
        }
        #[repr(C, align(64))]
        struct Shapes([u8; 64]);
        let mut shapes = Shapes([0; 64]);
        shapes.0[0] = 1;
        for tile in 0..6 {
            shapes.0[16 + 2 * tile] = 64;
            shapes.0[48 + tile] = 16;
        }
        // SAFETY: the unit is there; the instructions touch nothing but tiles, which are cleared, and the 64 bytes.
        unsafe {
            std::arch::asm!(
                "ldtilecfg [{shapes}]",
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", "tilezero tmm4", "tilezero tmm5",
                shapes = in(reg) &raw const shapes,
                options(nostack, readonly, preserves_flags),
            );
            for _ in 0..rounds {
                std::arch::asm!(
                    "tdpbssd tmm0, tmm4, tmm5",
                    "tdpbssd tmm1, tmm4, tmm5",
                    "tdpbssd tmm2, tmm4, tmm5",
                    "tdpbssd tmm3, tmm4, tmm5",
                    options(nostack, nomem, preserves_flags),
                );
            }
            std::arch::asm!("tilerelease", options(nostack, nomem, preserves_flags));
        }
        4 * 16 * 16 * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_grow_with_the_instructions() {
        let pool = Pool::new(1);
        let isa = Isa::detect();
        let rates: Vec<f64> = Level::ALL.iter().filter(|l| **l <= isa.level()).map(|l| products(&pool, isa.at_most(*l))).collect();
        assert!(rates.iter().all(|r| *r > 1e7 && *r < 1e15), "{rates:?}");
        let read = read(&pool, 64 << 20);
        assert!(read > 1e7 && read < 1e13, "{read}");
    }
}
