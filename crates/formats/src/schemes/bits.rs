//! Numbers of a few bits, packed one after the other from the lowest bit on.

/// Unpacks numbers of `bits` bits (1 to 8) from little-endian words, the first from the lowest bits of the first word on; numbers
/// may reach into the next word. Where the words end early, the rest is zero.
pub(super) fn unpack(words: impl Iterator<Item = u32>, bits: u32, out: &mut [u8]) {
    let mask = (1u64 << bits) - 1;
    let (mut held, mut count) = (0u64, 0);
    let mut words = words.fuse();
    for q in out {
        if count < bits {
            held |= u64::from(words.next().unwrap_or(0)) << count;
            count += 32;
        }
        *q = (held & mask) as u8;
        held >>= bits;
        count -= bits;
    }
}

/// The little-endian words of `bytes`.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w))
}

/// Number `index` of those that [`unpack`] gives; `word(i)` is word `i`, asked for the one or two that hold it.
pub(super) fn one(word: impl Fn(usize) -> u32, bits: u32, index: usize) -> u32 {
    let bit = index * bits as usize;
    let (first, shift) = (bit / 32, (bit % 32) as u32);
    let mut value = u64::from(word(first)) >> shift;
    if shift + bits > 32 {
        value |= u64::from(word(first + 1)) << (32 - shift);
    }
    (value & ((1 << bits) - 1)) as u32
}

/// Words that `count` numbers of `bits` bits take.
pub(super) fn words_for(count: usize, bits: u32) -> Option<usize> {
    Some(count.checked_mul(bits as usize)?.div_ceil(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that cross words: 3 bits, so that number 10 has its lowest 2 bits in the first word (Python:
    /// `sum((i % 8) << (3 * i) for i in range(32))`).
    #[test]
    fn numbers_cross_words() {
        let all = (0..32u128).fold(0u128, |sum, i| sum | (i % 8) << (3 * i));
        let words = [all as u32, (all >> 32) as u32, (all >> 64) as u32];
        let mut out = [0; 32];
        unpack(words.into_iter(), 3, &mut out);
        assert!(out.iter().enumerate().all(|(i, q)| usize::from(*q) == i % 8), "{out:?}");
        assert!((0..32).all(|i| one(|w| words[w], 3, i) as usize == i % 8));
        assert_eq!((words_for(32, 3), words_for(1, 8), words_for(33, 1)), (Some(3), Some(1), Some(2)));
    }
}
