//! How the keys of a sequence are cut, so that threads can share them and the sums come out the same whoever does what.
//!
//! Keys are taken in blocks of [`BLOCK`] groups, and blocks in ranges: sixteen ranges of four blocks, sixteen of eight,
//! and so on. The cuts depend on a key's position alone. A range's softmax starts afresh; ranges are merged in order.
//! Because ranges grow, even a million keys have fewer than two hundred of them.

use std::ops::Range;

/// Groups of sixteen keys in a block.
pub(super) const BLOCK: usize = 4;
/// Blocks in each of the first ranges.
const FIRST: usize = 4;
/// Ranges of one size.
const TIER: usize = 16;

/// The first block of a range.
fn start(range: usize) -> usize {
    let (tier, of_tier) = (range / TIER, range % TIER);
    TIER * FIRST * ((1 << tier) - 1) + of_tier * (FIRST << tier)
}

/// The range that a block is in.
fn range_of(block: usize) -> usize {
    let tier = (block / (TIER * FIRST) + 1).ilog2() as usize;
    tier * TIER + (block - start(tier * TIER)) / (FIRST << tier)
}

/// Ranges that hold the groups `groups`.
pub(super) fn ranges(groups: &Range<usize>) -> Range<usize> {
    if groups.is_empty() {
        return 0..0;
    }
    range_of(groups.start / BLOCK)..range_of((groups.end - 1) / BLOCK) + 1
}

/// The groups of `groups` that are in a range.
pub(super) fn groups_of(range: usize, groups: &Range<usize>) -> Range<usize> {
    groups.start.max(start(range) * BLOCK)..groups.end.min(start(range + 1) * BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_groups_once_and_in_order() {
        for groups in [0..0, 0..1, 3..17, 0..4096, 100..100_000, 65_535..65_536] {
            let mut next = groups.start;
            for r in ranges(&groups) {
                let part = groups_of(r, &groups);
                assert!(part.start == next && !part.is_empty());
                next = part.end;
            }
            assert_eq!(next, groups.end);
        }
        assert!(ranges(&(0..65_536)).len() < 200);
        for block in 0..10_000 {
            let r = range_of(block);
            assert!(start(r) <= block && block < start(r + 1));
        }
    }
}
