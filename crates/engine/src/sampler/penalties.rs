use crate::Sampling;
use std::collections::HashMap;

/// Repetition, presence and frequency penalties over the last tokens of a sequence.
///
/// The first is that of CTRL (Keskar et al. 2019, arXiv:1909.05858, section 4.1) as the transformers library applies it: a
/// positive logit is divided by it, a negative one multiplied. The other two are OpenAI's: `logit - count * frequency - presence`.
#[derive(Clone, Debug)]
pub(crate) struct Penalties {
    repeat: f32,
    presence: f32,
    frequency: f32,
    last_n: usize,
    /// How often each token is among the last.
    counts: HashMap<u32, u32>,
}

impl Penalties {
    /// `None` if they do nothing.
    pub(crate) fn new(sampling: &Sampling) -> Option<Self> {
        let last_n = sampling.repeat_last_n.unwrap_or(usize::MAX);
        let Sampling { repeat_penalty: repeat, presence_penalty: presence, frequency_penalty: frequency, .. } = *sampling;
        let idle = last_n == 0 || (repeat == 1.0 && presence == 0.0 && frequency == 0.0);
        (!idle).then(|| Self { repeat, presence, frequency, last_n, counts: HashMap::new() })
    }

    /// Counts the last of `tokens`, which was just added.
    pub(crate) fn observe(&mut self, tokens: &[u32]) {
        let Some((&new, before)) = tokens.split_last() else { return };
        *self.counts.entry(new).or_default() += 1;
        if before.len() >= self.last_n {
            let old = before[before.len() - self.last_n];
            if let Some(count) = self.counts.get_mut(&old) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&old);
                }
            }
        }
    }

    pub(crate) fn apply(&self, logits: &mut [f32]) {
        for (&id, &count) in &self.counts {
            let logit = &mut logits[id as usize];
            *logit = if *logit > 0.0 { *logit / self.repeat } else { *logit * self.repeat };
            *logit -= count as f32 * self.frequency + self.presence;
        }
    }
}
