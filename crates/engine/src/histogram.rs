//! How often values of which size came, for those who watch a server.

use serde::Serialize;
use std::time::Duration;

/// Upper bounds of times in microseconds: 1, 2, 5 of each power of ten, from a millisecond to 500 seconds.
const TIMES: [u64; 18] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
];
/// Upper bounds of counts of tokens.
const TOKENS: [u64; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Counts of values by size, in buckets with fixed upper bounds as Prometheus has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Greatest values of all buckets but the last, which has none.
    bounds: &'static [u64],
    /// By bucket, each value in one. One more than the longest list of bounds.
    counts: [u64; TIMES.len() + 1],
    sum: u64,
}

impl Histogram {
    /// Of times, in microseconds.
    pub(crate) const fn of_times() -> Self {
        Self { bounds: &TIMES, counts: [0; TIMES.len() + 1], sum: 0 }
    }

    /// Of tokens in a step.
    pub(crate) const fn of_tokens() -> Self {
        Self { bounds: &TOKENS, counts: [0; TIMES.len() + 1], sum: 0 }
    }

    pub(crate) fn add(&mut self, value: u64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    pub(crate) fn add_time(&mut self, time: Duration) {
        self.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// All values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What they come to together: microseconds, or tokens.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Upper bounds, and how many values are not above each; the last bucket, which holds all ([`count`](Self::count)), is left out.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bounds.iter().zip(&self.counts).scan(0, |below, (bound, count)| {
            *below += count;
            Some((*bound, *below))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::of_tokens();
        for value in [0, 1, 2, 3, 4, 5, 8192, 8193] {
            histogram.add(value);
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets[..4], [(1, 2), (2, 3), (4, 5), (8, 6)]);
        assert_eq!((buckets[13], histogram.count(), histogram.sum()), ((8192, 7), 8, 16_400));
    }

    #[test]
    fn times_are_counted_in_microseconds() {
        let mut histogram = Histogram::of_times();
        histogram.add_time(Duration::from_millis(1));
        histogram.add_time(Duration::from_secs(3600));
        assert_eq!(histogram.buckets().next(), Some((1000, 1)));
        assert_eq!((histogram.buckets().last(), histogram.count()), (Some((500_000_000, 1)), 2));
        histogram.add_time(Duration::MAX);
        assert_eq!(histogram.sum(), u64::MAX);
    }
}
