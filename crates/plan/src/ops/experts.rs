use super::{Check, Gating, Op, Operator};
use crate::{Graph, Kind, Result, Rotation, Value, WeightId};
use serde::Serialize;

/// Where the weight of an expert is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Weigh {
    /// To what the expert makes.
    Output,
    /// To what the expert is given (Llama 4).
    Input,
}

/// A mixture of feed-forward experts: `out = sum_e w_e down_e(R(gating(gate_e x, up_e x)))` over the experts that `route` chose, or with
/// `w_e x` in place of `x` where [`Weigh::Input`]. Each product may have a bias. Experts that the route counts beyond those
/// that have matrices give back what they are given (Jin et al. 2024, arXiv:2410.07348).
#[derive(Clone, Debug, Serialize)]
pub struct Experts {
    /// The input.
    pub x: Value,
    /// Who is asked, and with what weight.
    pub route: Value,
    /// `[experts, inner, x]`.
    pub gate: WeightId,
    /// `[experts, inner, x]`.
    pub up: WeightId,
    /// `[experts, out, inner]`.
    pub down: WeightId,
    /// Added to the products of gate, up and down: `[experts, inner]`, `[experts, inner]` and `[experts, out]`.
    pub biases: Option<[WeightId; 3]>,
    /// What the gate does.
    pub gating: Gating,
    /// Where weights are applied.
    pub weigh: Weigh,
    /// Experts without matrices.
    pub identities: usize,
    /// `R`, where `down` is rotated.
    pub rotation: Option<Rotation>,
    /// The output.
    pub out: Value,
}

impl Operator for Experts {
    fn name(&self) -> &'static str {
        "experts"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x, self.route]
    }
    fn weights(&self) -> Vec<WeightId> {
        [self.gate, self.up, self.down].into_iter().chain(self.biases.into_iter().flatten()).collect()
    }
    fn takes(&self, input: Value) -> Kind {
        if input == self.route { Kind::Route } else { Kind::Numbers }
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let Some(&[experts, inner, _]) = c.plan.weight(self.up).shape.first_chunk::<3>() else {
            return c.fail("its weights should have three dimensions");
        };
        c.shape(self.gate, &[experts, inner, c.width(self.x)])?;
        c.shape(self.up, &[experts, inner, c.width(self.x)])?;
        c.shape(self.down, &[experts, c.out(), inner])?;
        self.rotation.as_ref().and_then(|r| r.fault(inner)).map_or(Ok(()), |fault| c.fail(fault))?;
        if let Some([gate, up, down]) = self.biases {
            c.shape(gate, &[experts, inner])?;
            c.shape(up, &[experts, inner])?;
            c.shape(down, &[experts, c.out()])?;
        }
        if self.gating.limit.is_some_and(|limit| limit.is_nan() || limit <= 0.0) {
            return c.fail("the limit should be positive");
        }
        if self.identities > 0 {
            c.as_wide_as(self.x)?;
        }
        let chosen_from = |op: &Op| if let Op::Route(r) = op { (r.out == self.route).then(|| c.width(r.logits)) } else { None };
        match c.plan.ops.iter().find_map(chosen_from) {
            Some(n) if n == experts + self.identities => Ok(()),
            n => c.fail(format!(
                "the router chooses among {} experts, but the weights are of {experts} and {} have none",
                n.unwrap_or(0),
                self.identities
            )),
        }
    }
}

/// What a mixture of experts adds to its operands; see [`Experts`].
#[derive(Clone, Copy, Debug)]
pub struct ExpertsSpec {
    /// Experts that have matrices.
    pub experts: usize,
    /// Width within an expert.
    pub inner: usize,
    /// What the gate does.
    pub gating: Gating,
    /// Whether products have biases (`ffn_gate_exps.bias`, ...).
    pub biased: bool,
    /// Where weights are applied.
    pub weigh: Weigh,
    /// Experts without matrices.
    pub identities: usize,
}

impl ExpertsSpec {
    /// Experts without biases, whose output is weighted.
    pub fn new(experts: usize, inner: usize, gating: impl Into<Gating>) -> Self {
        Self { experts, inner, gating: gating.into(), biased: false, weigh: Weigh::Output, identities: 0 }
    }
}

impl Graph<'_> {
    /// A mixture of gated experts, with the usual tensor names (`ffn_gate_exps`, ...); as wide as `x`.
    pub fn experts(&mut self, x: Value, route: Value, spec: &ExpertsSpec) -> Value {
        let &ExpertsSpec { experts, inner, gating, biased, weigh, identities } = spec;
        let width = self.width(x);
        let shapes = [("gate", inner, width), ("up", inner, width), ("down", width, inner)];
        let [gate, up, down] = shapes.map(|(name, out, from)| self.weight(&format!("ffn_{name}_exps.weight"), &[experts, out, from]));
        let biases = biased.then(|| shapes.map(|(name, out, _)| self.weight(&format!("ffn_{name}_exps.bias"), &[experts, out])));
        self.op(width, Some(x), |out| Experts { x, route, gate, up, down, biases, gating, weigh, identities, rotation: None, out })
    }
}
