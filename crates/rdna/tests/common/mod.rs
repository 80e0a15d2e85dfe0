//! What the tests share.
#![allow(dead_code, clippy::unwrap_used)] // not all tests use all of it

pub(crate) mod coverage;
pub(crate) mod harness;
pub(crate) mod kernels;
pub(crate) mod oracle;
pub(crate) mod packed;
pub(crate) mod scalar;
pub(crate) mod soft;

/// xorshift64*: the same numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(n)) >> 32) as u32
    }
}

/// How often a random test repeats itself: `full` times where `RDNA_FULL` is set.
pub(crate) fn rounds(quick: u32, full: u32) -> u32 {
    if std::env::var_os("RDNA_FULL").is_some() { full } else { quick }
}

/// `RDNA_SEED`, or always the same.
pub(crate) fn seed() -> u64 {
    std::env::var("RDNA_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x1234_5678_9abc_def1)
}
