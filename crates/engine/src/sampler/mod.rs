//! From logits to a token.
//!
//! The steps, in the order of llama.cpp's default chain; each does nothing at its default:
//!
//! 1. `logit_bias`, tokens that a grammar does not allow, and end tokens forbidden by `ignore_eos`;
//! 2. repetition, presence and frequency penalties;
//! 3. DRY;
//! 4. top-nσ, top-k, typical, top-p, min-p, XTC;
//! 5. temperature;
//! 6. the draw.
//!
//! Probabilities in step 4 are those before temperature, among the tokens that the step before has left. With mirostat, step 4 is
//! left out (as in the paper and in llama.cpp) and the draw is mirostat's. At temperature 0 the most probable token after step 3
//! is taken, of equals the one with the lower id; nothing is drawn, and the steps after it, XTC, typical and mirostat among
//! them, have no effect.
//!
//! A whole vocabulary is never sorted, and candidates are only collected once something has left few of them, or where a
//! step (typical, mirostat, XTC without another truncation before it) needs all.
//!
//! The only state is what a sequence has said so far, mirostat's `mu`, and the random numbers ([`Rng`]); all of it belongs to
//! the request. So the same logits give the same tokens, whatever else the engine does.

mod candidates;
mod dry;
mod logprobs;
mod mirostat;
mod penalties;
mod rng;
mod softmax;
#[cfg(test)]
mod tests;
mod truncate;

pub use rng::{Rng, random_seed};

use crate::{EngineError, Logprobs, Sampling, Vocabulary, Xtc};
use candidates::{Candidate, collect, collect_top, normalize, top};
use dry::Dry;
use mirostat::Mirostat;
use onebit_grammar::Mask;
use penalties::Penalties;

/// Chooses the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// By id, each once.
    bias: Vec<(u32, f32)>,
    penalties: Option<Penalties>,
    dry: Option<Dry>,
    truncation: Truncation,
    mirostat: Option<Mirostat>,
    temperature: f32,
    rng: Rng,
}

#[derive(Clone, Debug)]
struct Truncation {
    top_n_sigma: Option<f32>,
    top_k: Option<usize>,
    typical_p: Option<f32>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    xtc: Option<Xtc>,
}

/// Working memory, which samplers can share one after the other.
#[derive(Debug, Default)]
pub struct Scratch {
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
    spare: Vec<Candidate>,
    sums: Vec<f64>,
}

impl Sampler {
    /// `sampling` is valid ([`Sampling::validate`]); tokens in `forbidden` are never chosen; `prompt` is what penalties know at the
    /// beginning.
    pub fn new<V: Vocabulary>(sampling: &Sampling, forbidden: &[u32], prompt: &[u32], vocabulary: &V) -> Self {
        let mut bias: std::collections::BTreeMap<u32, f32> = sampling.logit_bias.iter().copied().collect();
        bias.extend(forbidden.iter().map(|id| (*id, f32::NEG_INFINITY)));
        bias.retain(|_, b| *b != 0.0);
        let mut sampler = Self {
            bias: bias.into_iter().collect(),
            penalties: Penalties::new(sampling),
            dry: Dry::new(&sampling.dry),
            truncation: Truncation::new(sampling),
            mirostat: Mirostat::new(&sampling.mirostat),
            temperature: sampling.temperature,
            rng: Rng::new(sampling.seed.unwrap_or_else(random_seed)),
        };
        for n in 1..=prompt.len() {
            sampler.observe(&prompt[..n], vocabulary);
        }
        sampler
    }

    /// Takes note of the last of `tokens`, which was just added to the sequence.
    pub fn observe<V: Vocabulary>(&mut self, tokens: &[u32], vocabulary: &V) {
        if let Some(penalties) = &mut self.penalties {
            penalties.observe(tokens);
        }
        if let (Some(dry), Some(id)) = (&mut self.dry, tokens.last()) {
            dry.observe(*id, vocabulary);
        }
    }

    /// Chooses the token that follows `tokens`, of those that `mask` allows. `logits` are the model's, one for each token of the vocabulary,
    /// all finite.
    pub fn sample(&mut self, logits: &[f32], tokens: &[u32], mask: Option<&Mask>, scratch: &mut Scratch) -> Result<u32, EngineError> {
        let Scratch { logits: edited, candidates, spare, sums } = scratch;
        let logits = self.edit(logits, tokens, mask, edited);
        let max = softmax::max(logits);
        if max == f32::NEG_INFINITY {
            return Err(EngineError::NothingLeft);
        }
        if self.temperature == 0.0 {
            return logits.iter().position(|l| *l == max).map(|id| id as u32).ok_or(EngineError::NothingLeft);
        }
        // Finite, so that it leaves the best logit's distance of 0 to itself what it is.
        let scale = self.temperature.recip().min(f32::MAX);
        if let Some(mirostat) = &mut self.mirostat {
            collect(logits, |_| true, candidates);
            mirostat.truncate(candidates, scale);
            return mirostat.choose(candidates, &mut self.rng).ok_or(EngineError::NothingLeft);
        }
        if self.truncation.apply(logits, max, &mut self.rng, candidates, spare) {
            normalize(candidates, scale);
            return draw(candidates, self.rng.unit()).map(|c| c.id).ok_or(EngineError::NothingLeft);
        }
        Ok(softmax::draw(logits, max, scale, self.rng.unit(), sums) as u32)
    }

    /// Steps 1 to 3. Without any of them the model's logits are used where they are.
    fn edit<'a>(&mut self, logits: &'a [f32], tokens: &[u32], mask: Option<&Mask>, edited: &'a mut Vec<f32>) -> &'a [f32] {
        if mask.is_none() && self.bias.is_empty() && self.penalties.is_none() && self.dry.is_none() {
            return logits;
        }
        edited.clear();
        edited.extend_from_slice(logits);
        for (id, bias) in &self.bias {
            if let Some(logit) = edited.get_mut(*id as usize) {
                *logit += bias;
            }
        }
        if let Some(penalties) = &self.penalties {
            penalties.apply(edited);
        }
        if let Some(dry) = &mut self.dry {
            dry.apply(tokens, edited);
        }
        if let Some(mask) = mask {
            mask.apply(edited);
        }
        edited
    }
}

impl Truncation {
    fn new(s: &Sampling) -> Self {
        Self {
            top_n_sigma: (s.top_n_sigma > 0.0).then_some(s.top_n_sigma),
            top_k: (s.top_k > 0).then_some(s.top_k),
            typical_p: (s.typical_p < 1.0).then_some(s.typical_p),
            top_p: (s.top_p < 1.0).then_some(s.top_p),
            min_p: (s.min_p > 0.0).then_some(s.min_p),
            xtc: (s.xtc.probability > 0.0 && s.xtc.threshold <= 0.5).then_some(s.xtc),
        }
    }

    /// Leaves candidates in `set`, in an order that depends only on the logits; or says `false`: all tokens are left, and `set`
    /// means nothing. `max` is the greatest logit.
    fn apply(&self, logits: &[f32], max: f32, rng: &mut Rng, set: &mut Vec<Candidate>, spare: &mut Vec<Candidate>) -> bool {
        // Whether `set` holds what is left; before that it is all of `logits`.
        let mut collected = false;
        let need_all = |set: &mut Vec<Candidate>, collected: &mut bool| {
            if !std::mem::replace(collected, true) {
                collect(logits, |_| true, set);
            }
        };
        if let Some(n) = self.top_n_sigma {
            let floor = truncate::sigma_floor(logits, n).min(max);
            collect(logits, |l| l >= floor, set);
            collected = true;
        }
        if let Some(k) = self.top_k {
            match collected {
                true => top(set, k),
                false => collect_top(logits, k, set),
            }
            collected = true;
        }
        if let Some(mass) = self.typical_p {
            need_all(set, &mut collected);
            truncate::typical(set, spare, mass);
        }
        if let Some(mass) = self.top_p {
            match collected {
                true => normalize(set, 1.0),
                false => collect_nucleus(logits, max, mass, set),
            }
            collected = true;
            truncate::top_p(set, spare, mass);
        }
        if let Some(share) = self.min_p {
            let floor = truncate::min_p_floor(if collected { greatest(set) } else { max }, share);
            match collected {
                true => set.retain(|c| c.logit >= floor),
                false => collect(logits, |l| l >= floor, set),
            }
            collected = true;
        }
        if let Some(xtc) = &self.xtc {
            need_all(set, &mut collected);
            truncate::xtc(set, xtc, rng.unit());
        }
        collected
    }
}

fn greatest(set: &[Candidate]) -> f32 {
    set.iter().fold(f32::NEG_INFINITY, |m, c| m.max(c.logit))
}

/// The tokens among which the nucleus of `mass` is, with their probabilities.
///
/// Those less probable than `(1 - mass) / vocabulary` have less than `1 - mass` together. So the others have more than `mass`, and
/// the nucleus, which begins with the most probable, ends among them.
fn collect_nucleus(logits: &[f32], max: f32, mass: f32, set: &mut Vec<Candidate>) {
    let sum = softmax::sum_exp(logits, max, 1.0);
    let floor = ((1.0 - f64::from(mass)) / logits.len() as f64 * sum).ln() as f32 + max;
    // A little lower, so that rounding takes none away.
    collect(logits, |l| l >= (floor - 1e-3).min(max), set);
    let inverse = (1.0 / sum) as f32;
    set.iter_mut().for_each(|c| c.p = softmax::exp(c.logit - max) * inverse);
}

/// The candidate that is drawn by `unit`, a random number from 0 up to 1. Probabilities have been set.
fn draw(candidates: &[Candidate], unit: f64) -> Option<Candidate> {
    let mut target = unit * candidates.iter().map(|c| f64::from(c.p)).sum::<f64>();
    let mut chosen = None;
    for c in candidates.iter().filter(|c| c.p > 0.0) {
        chosen = Some(*c);
        if target < f64::from(c.p) {
            break;
        }
        target -= f64::from(c.p);
    }
    chosen
}

/// The greatest of a row of logits. `position` is where the row is in its sequence.
///
/// # Errors
/// A row with anything that is not finite; the error names the first such token.
pub fn check(logits: &[f32], position: usize) -> Result<f32, EngineError> {
    softmax::finite_max(logits).ok_or_else(|| {
        let (token, value) = logits.iter().enumerate().find(|(_, l)| !l.is_finite()).map_or((0, f32::NAN), |(i, l)| (i as u32, *l));
        EngineError::Logits { token, position, value: value.to_string() }
    })
}

/// Logprobs of `id` and of the `n` most probable tokens. `max` is the greatest of the logits.
pub(crate) fn report(logits: &[f32], max: f32, id: u32, n: usize, scratch: &mut Scratch) -> Logprobs {
    logprobs::logprobs(logits, max, id, n, &mut scratch.candidates)
}
