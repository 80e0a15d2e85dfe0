//! Sets of characters.

/// Ranges of code points, in order, none of which touch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Set(Vec<(u32, u32)>);

const LAST: u32 = char::MAX as u32;

impl Set {
    pub(super) fn of(ranges: impl IntoIterator<Item = (char, char)>) -> Self {
        let mut set = Self(ranges.into_iter().map(|(a, b)| (u32::from(a), u32::from(b))).collect());
        set.tidy();
        set
    }

    pub(super) fn all() -> Self {
        Self(vec![(0, LAST)])
    }

    pub(super) fn inverse(&self) -> Self {
        let mut next = 0;
        let mut out = Vec::with_capacity(self.0.len() + 1);
        for (a, b) in &self.0 {
            if *a > next {
                out.push((next, a - 1));
            }
            next = b + 1;
        }
        if next <= LAST {
            out.push((next, LAST));
        }
        Self(out)
    }

    /// Adds another's characters; tells whether there were new ones.
    pub(super) fn add(&mut self, other: &Self) -> bool {
        let before = self.0.clone();
        self.0.extend_from_slice(&other.0);
        self.tidy();
        self.0 != before
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        let (mut i, mut j) = (0, 0);
        while let (Some((a, b)), Some((c, d))) = (self.0.get(i), other.0.get(j)) {
            if a.max(c) <= b.min(d) {
                return true;
            }
            if b < d { i += 1 } else { j += 1 }
        }
        false
    }

    /// As a class of a regular expression.
    pub(super) fn class(&self) -> String {
        let surrogates = 0xd800..=0xdfff;
        let mut out = String::from("[");
        for (a, b) in &self.0 {
            let a = if surrogates.contains(a) { 0xe000 } else { *a };
            let b = if surrogates.contains(b) { 0xd7ff } else { *b };
            if a <= b {
                out.push_str(&format!("\\x{{{a:x}}}-\\x{{{b:x}}}"));
            }
        }
        out + "]"
    }

    /// Whether no character is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn tidy(&mut self) {
        self.0.sort_unstable();
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for (a, b) in self.0.drain(..) {
            match out.last_mut() {
                Some(last) if a <= last.1.saturating_add(1) => last.1 = last.1.max(b),
                _ => out.push((a, b)),
            }
        }
        self.0 = out;
    }
}
