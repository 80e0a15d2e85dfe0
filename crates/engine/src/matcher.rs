/// Finds one string in bytes that come piece by piece (Knuth, Morris, Pratt 1977): each byte once, without keeping any.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    pattern: Box<[u8]>,
    /// For each length of a matched beginning, the length of the longest shorter one that ends in the same bytes.
    shorter: Box<[u16]>,
    matched: usize,
}

impl Matcher {
    /// `pattern` is not empty, and not longer than [`MAX_STOP_BYTES`](crate::request::MAX_STOP_BYTES).
    pub(crate) fn new(pattern: &str) -> Self {
        let pattern: Box<[u8]> = pattern.bytes().collect();
        let mut shorter = vec![0; pattern.len() + 1];
        let mut k = 0usize;
        for i in 1..pattern.len() {
            while k > 0 && pattern[i] != pattern[k] {
                k = usize::from(shorter[k]);
            }
            k += usize::from(pattern[i] == pattern[k]);
            shorter[i + 1] = k as u16;
        }
        Self { pattern, shorter: shorter.into(), matched: 0 }
    }

    /// Takes the next byte, and says whether the string ends with it.
    pub(crate) fn push(&mut self, byte: u8) -> bool {
        let mut k = self.matched;
        if k == self.pattern.len() {
            k = usize::from(self.shorter[k]);
        }
        while k > 0 && self.pattern[k] != byte {
            k = usize::from(self.shorter[k]);
        }
        k += usize::from(self.pattern[k] == byte);
        self.matched = k;
        k == self.pattern.len()
    }

    /// How many of the last bytes are a beginning of the string, or all of it.
    pub(crate) fn matched(&self) -> usize {
        self.matched
    }

    pub(crate) fn pattern(&self) -> &[u8] {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_trying_every_place(pattern in "[ab]{1,6}", text in "[abc]{0,60}") {
            let mut m = Matcher::new(&pattern);
            for end in 1..=text.len() {
                let here = &text[..end];
                prop_assert_eq!(m.push(text.as_bytes()[end - 1]), here.ends_with(&pattern));
                let longest = (0..=pattern.len().min(end)).rev().find(|n| here.ends_with(&pattern[..*n]));
                prop_assert_eq!(Some(m.matched()), longest);
            }
        }
    }
}
