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

/// Which experts are asked at all: they are seen as `count` equal runs, of which the `chosen` best stay. A run is as good as the sum of
/// its `best` highest scores (DeepSeek-V2, arXiv:2405.04434: 1; DeepSeek-V3, arXiv:2412.19437: 2). Ties go to the lower index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// Runs; divides the experts, up to [`Groups::MOST`].
    pub count: usize,
    /// Runs that stay.
    pub chosen: usize,
    /// Experts of a run that count for it, up to [`Groups::BEST`].
    pub best: usize,
}

impl Groups {
    /// Most runs.
    pub const MOST: usize = 64;
    /// Most experts of a run that count for it.
    pub const BEST: usize = 4;
}

/// Chooses experts for each token: the `top_k` highest scores (plus `bias`, which counts for the choice only) among those that `groups`
/// leave, ties to the lower index. Their weights are the scores, divided by their sum (plus 1e-20) where `normalize`, times `scale`, times
/// the expert's factor where there are `factors`.
///
/// The last `nothing` choices stand for no expert (ZAYA1): their weight is zero. Softmax over the chosen alone is `Score::Softmax` with `normalize`.
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
    /// Which experts are asked at all.
    pub groups: Option<Groups>,
    /// Choices that stand for no expert.
    pub nothing: usize,
    /// Factor on the weights.
    pub scale: f32,
    /// Factors on the weights, one for each expert (Gemma 4), `[experts]`.
    pub factors: Option<WeightId>,
    /// The choice, a value of [`Kind::Route`], `top_k` wide.
    pub out: Value,
}

impl Route {
    /// Added to a sum that the weights are divided by.
    pub const FLOOR: f32 = 1e-20;

    /// The `top_k` highest scores as they are; operands are filled in by [`Graph::route`].
    pub fn new(top_k: usize, score: Score) -> Self {
        Self {
            logits: Value(0),
            top_k,
            score,
            normalize: false,
            bias: None,
            groups: None,
            nothing: 0,
            scale: 1.0,
            factors: None,
            out: Value(0),
        }
    }
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
        self.bias.into_iter().chain(self.factors).collect()
    }
    fn makes(&self) -> Kind {
        Kind::Route
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let experts = c.width(self.logits);
        if self.top_k == 0 || self.top_k > experts {
            return c.fail(format!("{} of {experts} experts cannot be chosen", self.top_k));
        }
        if matches!(self.score, Score::SparseMixer { .. })
            && (self.normalize || self.bias.or(self.factors).is_some() || self.groups.is_some() || self.nothing > 0)
        {
            return c.fail("scores that are made one after the other have no bias, factors or groups, and are not normalised");
        }
        if let Some(Groups { count, chosen, best }) = self.groups {
            c.divides("groups of experts", count, experts)?;
            let run = experts / count;
            if count > Groups::MOST
                || chosen == 0
                || chosen > count
                || best == 0
                || best > run.min(Groups::BEST)
                || self.top_k > chosen * run
            {
                let what = format!("{} experts of {chosen} out of {count} groups of {run}, by the {best} best of each", self.top_k);
                return c.fail(what + ", cannot be chosen");
            }
        }
        if self.nothing >= experts {
            return c.fail(format!("{} of {experts} experts are none", self.nothing));
        }
        c.shape(self.bias, &[experts])?;
        c.shape(self.factors, &[experts])?;
        c.expect("the choice", c.out(), self.top_k)
    }
}

impl Graph<'_> {
    /// Chooses experts; `route.logits` and `route.out` are filled in.
    pub fn route(&mut self, logits: Value, route: Route) -> Value {
        self.op_of(Kind::Route, route.top_k, Some(logits), |out| Route { logits, out, ..route })
    }
}
