use super::{Check, Function, Op, Operator};
use crate::{Graph, Kind, Result, Rotation, Value, WeightId};
use serde::Serialize;

/// A mixture of gated feed-forward experts: `out = sum_e w_e down_e(R(f(gate_e x) * up_e x))` over the experts that `route` chose.
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
    /// The gate's function.
    pub f: Function,
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
        vec![self.gate, self.up, self.down]
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
        let chosen_from = |op: &Op| if let Op::Route(r) = op { (r.out == self.route).then(|| c.width(r.logits)) } else { None };
        match c.plan.ops.iter().find_map(chosen_from) {
            Some(n) if n == experts => Ok(()),
            n => c.fail(format!("the router chooses among {} experts, but the weights are of {experts}", n.unwrap_or(0))),
        }
    }
}

impl Graph<'_> {
    /// A mixture of gated experts, with the usual tensor names (`ffn_gate_exps`, ...); as wide as `x`.
    pub fn experts(&mut self, x: Value, route: Value, experts: usize, inner: usize, f: Function) -> Value {
        let width = self.width(x);
        let gate = self.weight("ffn_gate_exps.weight", &[experts, inner, width]);
        let up = self.weight("ffn_up_exps.weight", &[experts, inner, width]);
        let down = self.weight("ffn_down_exps.weight", &[experts, width, inner]);
        self.op(width, Some(x), |out| Experts { x, route, gate, up, down, f, rotation: None, out })
    }
}
