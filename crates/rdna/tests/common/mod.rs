//! What the tests share.
#![allow(dead_code, unused_imports, clippy::unwrap_used)] // not all tests use all of it

pub(crate) mod coverage;
pub(crate) mod harness;
pub(crate) mod kernels;
pub(crate) mod oracle;
pub(crate) mod packed;
pub(crate) mod random;
pub(crate) mod scalar;
pub(crate) mod soft;

pub(crate) use random::Random;

/// How often a random test repeats itself: `full` times where `RDNA_FULL` is set.
pub(crate) fn rounds(quick: u32, full: u32) -> u32 {
    if std::env::var_os("RDNA_FULL").is_some() { full } else { quick }
}

/// `RDNA_SEED`, or always the same.
pub(crate) fn seed() -> u64 {
    std::env::var("RDNA_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x1234_5678_9abc_def1)
}
