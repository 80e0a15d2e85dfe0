use super::{Check, Operator};
use crate::{Graph, Kind, Result, Value, WeightId};
use serde::Serialize;

/// How a router's logits become scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Score {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
    /// SparseMixer (Liu et al. 2023, arXiv:2310.00811; as Phi-3.5-MoE has it): experts are chosen one after the other. Each time, the
    /// score of the largest logit `m` is its softmax over the logits `l` not chosen yet with `(m - l) / max(|l|, m) <= 2 jitter`.
    /// It is for routers that neither normalise nor have a bias.
    SparseMixer {
        /// Half the distance from which on other experts are left out.
        jitter: f32,
    },
}

/// Chooses experts for each token: the `top_k` highest scores (plus `bias`, which counts for the choice only), ties to the lower index.
/// Their weights are the scores, divided by their sum where `normalize`, times `scale`.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// One logit for each expert.
    pub logits: Value,
    /// Experts for each token.
    pub top_k: usize,
    /// Logits to scores.
    pub score: Score,
    /// Whether the chosen weights are made to sum to one.
    pub normalize: bool,
    /// Added to the scores for the choice (DeepSeek-V3), `[experts]`.
    pub bias: Option<WeightId>,
    /// Factor on the weights.
    pub scale: f32,
    /// The choice, a value of [`Kind::Route`], `top_k` wide.
    pub out: Value,
}

impl Operator for Route {
    fn name(&self) -> &'static str {
        "route"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.logits]
    }
    fn weights(&self) -> Vec<WeightId> {
        self.bias.into_iter().collect()
    }
    fn makes(&self) -> Kind {
        Kind::Route
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let experts = c.width(self.logits);
        if self.top_k == 0 || self.top_k > experts {
            return c.fail(format!("{} of {experts} experts cannot be chosen", self.top_k));
        }
        if matches!(self.score, Score::SparseMixer { .. }) && (self.normalize || self.bias.is_some()) {
            return c.fail("scores that are made one after the other have no bias, and are not normalised");
        }
        c.shape(self.bias, &[experts])?;
        c.expect("the choice", c.out(), self.top_k)
    }
}

impl Graph<'_> {
    /// Chooses experts; `route.logits` and `route.out` are filled in.
    pub fn route(&mut self, logits: Value, route: Route) -> Value {
        self.op_of(Kind::Route, route.top_k, Some(logits), |out| Route { logits, out, ..route })
    }
}
