use super::candidates::{Candidate, collect_top};
use super::softmax::sum_exp;
use crate::{Logprobs, TokenLogprob};

/// ln of the softmax of the model's own logits, for one token and for the `n` most probable ones. `max` is the greatest logit;
/// `top` is working memory.
pub(crate) fn logprobs(logits: &[f32], max: f32, id: u32, n: usize, top: &mut Vec<Candidate>) -> Logprobs {
    let total = f64::from(max) + sum_exp(logits, max, 1.0).ln();
    let of = |logit: f32| (f64::from(logit) - total) as f32;
    collect_top(logits, n, top);
    let top = top.iter().map(|c| TokenLogprob { id: c.id, logprob: of(c.logit) }).collect();
    Logprobs { logprob: of(logits[id as usize]), top }
}
