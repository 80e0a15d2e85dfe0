//! Where a long text can be cut without changing what byte-pair encoding makes of it.
//!
//! Vocabularies in SentencePiece's manner have no pre-tokenizer: a whole text is one word. But every merge gives a token that
//! holds the two characters which it joined. Where no token that merges give has a certain pair of neighbours, nothing is ever
//! merged across that pair, and the text can be cut there into short pieces, which are fast to merge and often seen again.

/// Bits in the set of pairs: a power of two. Two pairs of one bit only lead to fewer cuts.
const PAIR_BITS: u32 = 22;

/// Pairs of characters that some token has as neighbours.
#[derive(Debug)]
pub(crate) struct Joints {
    /// Characters that are symbols of their own; texts are cut only between two such.
    known: Vec<u64>,
    pairs: Vec<u64>,
}

fn bit(a: char, b: char) -> usize {
    let both = u64::from(u32::from(a)) << 32 | u64::from(u32::from(b));
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PAIR_BITS)) as usize
}

fn set(bits: &mut [u64], i: usize) {
    bits[i / 64] |= 1 << (i % 64);
}
fn has(bits: &[u64], i: usize) -> bool {
    bits[i / 64] >> (i % 64) & 1 != 0
}

impl Joints {
    /// From the characters that are symbols, and the texts that merges give.
    pub(crate) fn new<'a>(known: impl Iterator<Item = char>, merged: impl Iterator<Item = &'a str>) -> Self {
        let mut joints = Self { known: vec![0; 0x11_0000 / 64], pairs: vec![0; 1 << PAIR_BITS >> 6] };
        known.for_each(|c| set(&mut joints.known, c as usize));
        for text in merged {
            for (a, b) in text.chars().zip(text.chars().skip(1)) {
                set(&mut joints.pairs, bit(a, b));
            }
        }
        joints
    }

    /// Calls `piece` for the pieces of `text` in order.
    pub(crate) fn cut<'t>(&self, text: &'t str, mut piece: impl FnMut(&'t str)) {
        let mut start = 0;
        let mut last: Option<char> = None;
        for (at, c) in text.char_indices() {
            let known = has(&self.known, c as usize);
            if let Some(last) = last
                && known
                && !has(&self.pairs, bit(last, c))
            {
                piece(&text[start..at]);
                start = at;
            }
            last = known.then_some(c);
        }
        if start < text.len() {
            piece(&text[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_known_neighbours_of_no_token() {
        let joints = Joints::new("▁abcd".chars(), ["▁ab", "cd", "▁▁"].into_iter());
        let cut = |text| {
            let mut pieces = Vec::new();
            joints.cut(text, |piece| pieces.push(piece));
            pieces
        };
        assert_eq!(cut("▁abcd▁▁ab"), ["▁ab", "cd", "▁▁ab"]);
        // x is no symbol: it may be fused with what is unknown beside it, so nothing is cut there.
        assert_eq!(cut("axxbda"), ["axxb", "d", "a"]);
        assert_eq!(cut(""), [""; 0]);
    }
}
