use crate::Vocabulary;
use crate::matcher::Matcher;
use std::collections::HashMap;

/// DRY, "don't repeat yourself", as its author describes it (github.com/oobabooga/text-generation-webui/pull/5677).
///
/// If the last `n` tokens are also found earlier in the sequence, the token that followed them there would prolong a repetition of
/// `n` tokens. If `n` is at least `allowed_length`, its logit loses `multiplier * base^(n - allowed_length)`, for the longest such
/// `n`. No repetition reaches over a sequence breaker. A breaker ends in the token that holds its last byte, so that it is
/// found however it is cut into tokens.
#[derive(Clone, Debug)]
pub(crate) struct Dry {
    multiplier: f32,
    base: f32,
    allowed_length: usize,
    last_n: usize,
    breakers: Vec<Matcher>,
    /// Tokens since the last breaker.
    unbroken: usize,
    /// Working memory: lengths of matches by distance from the end.
    matches: Vec<u32>,
    longest: HashMap<u32, u32>,
}

impl Dry {
    /// `None` if it does nothing.
    pub(crate) fn new(dry: &crate::Dry) -> Option<Self> {
        let last_n = dry.penalty_last_n.unwrap_or(usize::MAX);
        (dry.multiplier > 0.0 && last_n > 0).then(|| Self {
            multiplier: dry.multiplier,
            base: dry.base,
            allowed_length: dry.allowed_length,
            last_n,
            breakers: dry.sequence_breakers.iter().map(|s| Matcher::new(s)).collect(),
            unbroken: 0,
            matches: Vec::new(),
            longest: HashMap::new(),
        })
    }

    /// Takes note of a token that was just added.
    pub(crate) fn observe<V: Vocabulary>(&mut self, id: u32, vocabulary: &V) {
        let mut broken = false;
        for byte in vocabulary.bytes(id) {
            for breaker in &mut self.breakers {
                broken |= breaker.push(*byte);
            }
        }
        self.unbroken = if broken { 0 } else { self.unbroken + 1 };
    }

    pub(crate) fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        let window = &tokens[tokens.len() - self.last_n.min(tokens.len())..];
        let limit = self.unbroken.min(window.len());
        if limit < self.allowed_length {
            return;
        }
        common_suffixes(window, &mut self.matches);
        self.longest.clear();
        for (distance, n) in self.matches.iter().enumerate().skip(1) {
            let n = (*n).min(limit as u32);
            if n as usize >= self.allowed_length {
                let next = window[window.len() - distance];
                let longest = self.longest.entry(next).or_default();
                *longest = n.max(*longest);
            }
        }
        for (&id, &n) in &self.longest {
            let penalty = f64::from(self.multiplier) * f64::from(self.base).powf((n as usize - self.allowed_length) as f64);
            // Large enough to rule the token out, and small enough to stay a number.
            logits[id as usize] -= penalty.min(1e30) as f32;
        }
    }
}

/// For each distance from the end, how many tokens before that place equal those at the end: the Z algorithm, backwards, in
/// one pass. Distance 0 is the end itself.
fn common_suffixes(window: &[u32], out: &mut Vec<u32>) {
    let n = window.len();
    let at = |i: usize| window[n - 1 - i];
    out.clear();
    out.resize(n, 0);
    // The match that reaches farthest back covers `left..right`.
    let (mut left, mut right) = (0, 0);
    for i in 1..n {
        let mut k = if i < right { (out[i - left] as usize).min(right - i) } else { 0 };
        while i + k < n && at(k) == at(i + k) {
            k += 1;
        }
        if i + k > right {
            (left, right) = (i, i + k);
        }
        out[i] = k as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn suffixes_agree_with_comparing_each(window in prop::collection::vec(0u32..3, 0..40)) {
            let mut got = Vec::new();
            common_suffixes(&window, &mut got);
            let n = window.len();
            for d in 1..n {
                let longest = (0..=n - d).rev().find(|k| window[n - d - k..n - d] == window[n - k..]).unwrap();
                prop_assert_eq!(got[d] as usize, longest);
            }
        }
    }
}
