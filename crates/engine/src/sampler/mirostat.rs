use super::candidates::{Candidate, normalize};
use super::rng::Rng;

/// Mirostat 2 (Basu et al. 2020, arXiv:2007.14966, algorithm 2): tokens more surprising than `mu` are left out, and `mu` is moved
/// so that the surprise of what is chosen stays near `tau`.
#[derive(Clone, Debug)]
pub(crate) struct Mirostat {
    tau: f32,
    eta: f32,
    mu: f32,
}

impl Mirostat {
    /// `None` if it is off.
    pub(crate) fn new(mirostat: &crate::Mirostat) -> Option<Self> {
        (mirostat.mode == 2).then_some(Self { tau: mirostat.tau, eta: mirostat.eta, mu: 2.0 * mirostat.tau })
    }

    /// Leaves the candidates whose surprise is at most `mu`, or else the most probable one, with probabilities among these.
    pub(crate) fn truncate(&self, candidates: &mut Vec<Candidate>, scale: f32) {
        normalize(candidates, scale);
        let best = candidates.iter().map(|c| c.p).fold(0.0, f32::max);
        let floor = (-self.mu).exp2().min(best);
        candidates.retain(|c| c.p >= floor);
        normalize(candidates, scale);
    }

    /// Draws one and learns from it.
    pub(crate) fn choose(&mut self, candidates: &[Candidate], rng: &mut Rng) -> Option<u32> {
        let chosen = super::draw(candidates, rng.unit())?;
        self.mu -= self.eta * (-chosen.p.log2() - self.tau);
        Some(chosen.id)
    }
}

#[cfg(test)]
impl Mirostat {
    pub(crate) fn mu(&self) -> f32 {
        self.mu
    }
}
