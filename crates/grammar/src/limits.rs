/// How much what comes from strangers may cost. Whatever exceeds a bound is refused with [`GrammarError`](crate::GrammarError).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a schema, grammar or expression.
    pub bytes: usize,
    /// Brackets within one another.
    pub depth: usize,
    /// Work for reading one: some 50,000 units are a millisecond.
    pub fuel: u64,
    /// Symbols of one that was read.
    pub symbols: usize,
    /// Work for one mask on its letters: some 14,000 units are a millisecond.
    pub step_fuel: u64,
    /// Work for one mask on its rules: some 20,000 units are a millisecond.
    pub step_items: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 256 << 10, depth: 64, fuel: 1_000_000, symbols: 500_000, step_fuel: 400_000, step_items: 1_000_000 }
    }
}
