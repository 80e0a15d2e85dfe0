//! Steps that leave only some of the tokens to choose from. Each takes the candidates that the one before has left, with
//! probabilities among these, and leaves at least one. `spare` is working memory.

use super::candidates::{Candidate, by_logit, keep_mass, normalize};
use crate::Xtc;
use std::cmp::Ordering;

/// The least logit within `n` standard deviations of the greatest (top-nσ: Tang et al. 2024, arXiv:2411.07641), where tokens
/// that are forbidden do not count.
pub(crate) fn sigma_floor(logits: &[f32], n: f32) -> f32 {
    let (mut count, mut sum, mut max) = (0.0f64, 0.0f64, f32::NEG_INFINITY);
    let allowed = || logits.iter().filter(|l| **l > f32::NEG_INFINITY);
    for l in allowed() {
        count += 1.0;
        sum += f64::from(*l);
        max = max.max(*l);
    }
    let mean = sum / count;
    let variance = allowed().map(|l| (f64::from(*l) - mean).powi(2)).sum::<f64>() / count;
    max - n * variance.sqrt() as f32
}

/// Locally typical sampling (Meister et al. 2022, arXiv:2202.00666): those whose surprise is nearest to the expected one, until
/// they reach `mass`.
pub(crate) fn typical(candidates: &mut Vec<Candidate>, spare: &mut Vec<Candidate>, mass: f32) {
    normalize(candidates, 1.0);
    // The surprise -ln p is a constant less the logit, so its distance from the entropy, which is the mean surprise, is that of the
    // logit from the mean logit.
    let mean: f64 = candidates.iter().map(|c| f64::from(c.p) * f64::from(c.logit)).sum();
    let distance = |c: &Candidate| (f64::from(c.logit) - mean).abs();
    keep_mass(candidates, spare, mass, |a, b| distance(a).partial_cmp(&distance(b)).unwrap_or(Ordering::Equal).then(by_logit(a, b)));
}

/// Nucleus sampling (Holtzman et al. 2019, arXiv:1904.09751): the most probable that together reach `mass`. Probabilities
/// have been set.
pub(crate) fn top_p(candidates: &mut Vec<Candidate>, spare: &mut Vec<Candidate>, mass: f32) {
    keep_mass(candidates, spare, mass, by_logit);
}

/// The least logit of a token that is `share` times as probable as the most probable one (min-p: Nguyen et al. 2024,
/// arXiv:2407.01082).
pub(crate) fn min_p_floor(max: f32, share: f32) -> f32 {
    // The most probable one itself stays whatever the rounding.
    (max + share.ln()).min(max)
}

/// Exclude top choices (github.com/oobabooga/text-generation-webui/pull/6335): of those at least as probable as the threshold,
/// if there are several, only the least probable stays. `unit` decides whether it is done at all.
pub(crate) fn xtc(candidates: &mut Vec<Candidate>, xtc: &Xtc, unit: f64) {
    if unit >= f64::from(xtc.probability) {
        return;
    }
    normalize(candidates, 1.0);
    let above = candidates.iter().filter(|c| c.p >= xtc.threshold);
    if let Some(least) = above.max_by(|a, b| by_logit(a, b)).copied() {
        candidates.retain(|c| c.p < xtc.threshold || c.id == least.id);
    }
}
