// Random numbers of tests that mutate files and requests, and how long they go on. Taken in by `#[path]`.

/// SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

#[allow(dead_code)] // not each test needs each
impl Random {
    /// 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Below `n`; 0 where that is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// One of `all`, which is not empty.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// The environment's `ONEBIT_MUTATION_SEED`, or 1.
pub(crate) fn seed() -> u64 {
    variable("ONEBIT_MUTATION_SEED", 1)
}

/// How long to go on: `ONEBIT_MUTATION_SECONDS` of the environment, or 2.
pub(crate) fn time() -> std::time::Duration {
    std::time::Duration::from_secs(variable("ONEBIT_MUTATION_SECONDS", 2))
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name} should be a whole number, and is {v:?}")))
}
