//! A grammar while an answer is made.

use crate::GrammarError;
use llguidance::{Matcher, api::StopReason, toktrie::SimpleVob};
use std::sync::Arc;

/// How far one answer has come in its grammar.
pub struct Guide {
    matcher: Box<Matcher>,
}

/// The tokens that may come next.
#[derive(Clone, Debug)]
pub struct Mask(Arc<SimpleVob>);

impl Mask {
    pub(crate) fn new(mask: SimpleVob) -> Self {
        Self(Arc::new(mask))
    }

    /// Whether the token may come.
    pub fn allows(&self, id: u32) -> bool {
        (id as usize) < self.0.len() && self.0.is_allowed(id)
    }

    /// Makes all other logits minus infinity.
    pub fn apply(&self, logits: &mut [f32]) {
        let words = self.0.as_slice();
        for (logits, word) in logits.chunks_mut(32).zip(words.iter().copied().chain(std::iter::repeat(0))) {
            if word == u32::MAX {
                continue;
            }
            for (bit, logit) in logits.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// Whether nothing but these tokens may come.
    pub fn is_within(&self, ids: &[u32]) -> bool {
        let mut rest = SimpleVob::clone(&self.0);
        for id in ids.iter().filter(|id| (**id as usize) < self.0.len()) {
            rest.disallow_token(*id);
        }
        rest.is_zero()
    }
}

impl Guide {
    pub(crate) fn new(matcher: Matcher) -> Self {
        Self { matcher: Box::new(matcher) }
    }

    /// What may come next; the tokens that end an answer where it may end here. It takes up to some ten milliseconds.
    pub fn mask(&mut self) -> Result<Mask, GrammarError> {
        self.matcher.compute_mask_or_eos().map(Mask::new).map_err(|error| GrammarError::of(&error.to_string()))
    }

    /// Takes note of a token, which the mask allowed.
    pub fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        self.matcher.consume_token(id).map_err(|error| GrammarError::of(&error.to_string()))
    }

    /// Whether nothing can follow, so that the answer ends here.
    pub fn is_complete(&self) -> bool {
        matches!(self.matcher.stop_reason(), StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence)
    }

    /// Whether the answer may end here.
    pub fn may_end(&mut self) -> bool {
        self.is_complete() || self.matcher.is_accepting().unwrap_or(false)
    }
}

impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").field("is_complete", &self.is_complete()).finish_non_exhaustive()
    }
}
