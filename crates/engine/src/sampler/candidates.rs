use super::softmax::exp;
use std::cmp::Ordering;

/// A token that may still be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub id: u32,
    pub logit: f32,
    /// Its probability among the candidates, where [`normalize`] was called.
    pub p: f32,
}

impl Candidate {
    pub(crate) fn new(id: usize, logit: f32) -> Self {
        Self { id: id as u32, logit, p: 0.0 }
    }
}

/// The more probable first; of equals the lower id.
pub(crate) fn by_logit(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// All tokens that are not forbidden and that `keep` accepts by their logits.
pub(crate) fn collect(logits: &[f32], keep: impl Fn(f32) -> bool, out: &mut Vec<Candidate>) {
    out.clear();
    let kept = logits.iter().enumerate().filter(|(_, l)| **l > f32::NEG_INFINITY && keep(**l));
    out.extend(kept.map(|(id, logit)| Candidate::new(id, *logit)));
}

/// The `k` most probable tokens, best first, in one pass: whatever is not above the least of the best so far is passed over.
pub(crate) fn collect_top(logits: &[f32], k: usize, out: &mut Vec<Candidate>) {
    out.clear();
    if k == 0 {
        return;
    }
    let full = k.saturating_mul(2).max(64);
    let mut least = f32::NEG_INFINITY;
    for (id, logit) in logits.iter().enumerate() {
        // Ids rise, so one that equals the least cannot displace it.
        if *logit > least {
            out.push(Candidate::new(id, *logit));
            if out.len() >= full {
                out.select_nth_unstable_by(k - 1, by_logit);
                out.truncate(k);
                least = out[k - 1].logit;
            }
        }
    }
    top(out, k);
}

/// Keeps the `k` most probable and sorts them, best first.
pub(crate) fn top(candidates: &mut Vec<Candidate>, k: usize) {
    if k < candidates.len() {
        candidates.select_nth_unstable_by(k, by_logit);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(by_logit);
}

/// Sets probabilities: the softmax of `logit * scale` over the candidates.
pub(crate) fn normalize(candidates: &mut [Candidate], scale: f32) {
    let max = candidates.iter().fold(f32::NEG_INFINITY, |m, c| m.max(c.logit));
    let mut sum = 0.0f64;
    for c in candidates.iter_mut() {
        c.p = exp((c.logit - max) * scale);
        sum += f64::from(c.p);
    }
    let inverse = (1.0 / sum) as f32;
    candidates.iter_mut().for_each(|c| c.p *= inverse);
}

/// Keeps the first in the given order whose probabilities reach `mass`; at least one. Those that stay keep their places among each
/// other. `spare` is working memory.
///
/// The last that stays is found by halving: the better half is either more than enough, or all of it stays and the search goes
/// on in the other. So it takes a few passes and no sort.
pub(crate) fn keep_mass(
    candidates: &mut Vec<Candidate>,
    spare: &mut Vec<Candidate>,
    mass: f32,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
) {
    const FEW: usize = 32;
    spare.clone_from(candidates);
    let mut needed = f64::from(mass);
    let mut part = &mut spare[..];
    while part.len() > FEW {
        let half = part.len() / 2;
        part.select_nth_unstable_by(half, &order);
        let (better, worse) = part.split_at_mut(half);
        let sum: f64 = better.iter().map(|c| f64::from(c.p)).sum();
        part = if sum >= needed {
            better
        } else {
            needed -= sum;
            worse
        };
    }
    part.sort_unstable_by(&order);
    let last = part.iter().find(|c| {
        needed -= f64::from(c.p);
        needed <= 0.0
    });
    // If rounding leaves the sum of all a little short, all stay.
    if let Some(last) = last {
        candidates.retain(|c| order(c, last).is_le());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_top_are_those_of_a_whole_sort(
            logits in prop::collection::vec(prop_oneof![(-5i32..5).prop_map(|x| x as f32), Just(f32::NEG_INFINITY)], 1..400),
            k in 1usize..150,
        ) {
            let mut all: Vec<Candidate> = logits.iter().enumerate().map(|(i, l)| Candidate::new(i, *l)).collect();
            all.retain(|c| c.logit.is_finite());
            all.sort_by(by_logit);
            let mut got = Vec::new();
            collect(&logits, |_| true, &mut got);
            top(&mut got, k);
            all.truncate(k);
            prop_assert_eq!(&got, &all);
            collect_top(&logits, k, &mut got);
            prop_assert_eq!(&got, &all);
        }

        #[test]
        fn the_mass_is_that_of_a_whole_sort(weights in prop::collection::vec(1u32..50, 1..600), mass in 0.01f32..1.0) {
            let mut all: Vec<Candidate> = weights.iter().enumerate().map(|(i, w)| Candidate::new(i, (*w as f32).ln())).collect();
            normalize(&mut all, 1.0);
            prop_assert!((all.iter().map(|c| c.p).sum::<f32>() - 1.0).abs() < 1e-5);
            let mut got = all.clone();
            all.sort_by(by_logit);
            let mut sum = 0.0;
            let n = all.iter().position(|c| { sum += f64::from(c.p); sum >= f64::from(mass) }).map_or(all.len(), |i| i + 1);
            all.truncate(n);
            let before: Vec<u32> = got.iter().map(|c| c.id).collect();
            keep_mass(&mut got, &mut Vec::new(), mass, by_logit);
            prop_assert!(got.is_sorted_by_key(|c| before.iter().position(|id| *id == c.id)));
            got.sort_by(by_logit);
            prop_assert_eq!(got, all);
        }
    }
}
