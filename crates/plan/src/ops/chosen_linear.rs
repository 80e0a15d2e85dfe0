use super::{Check, Op, Operator};
use crate::{Graph, Kind, Result, Value, WeightId};
use serde::Serialize;

/// One product for each choice of a route, laid end to end: `out_c = w_c weight[e_c] x_c`, `e_c` being the expert that choice `c`
/// names, and `w_c` its weight where `weighted`, else 1. `x_c` is run `c` of `x` where `x` has a run for each choice, and all of
/// `x` otherwise. So attention can have experts (Zhang et al. 2022, arXiv:2210.05144).
#[derive(Clone, Debug, Serialize)]
pub struct ChosenLinear {
    /// The input: one row, or a run for each choice.
    pub x: Value,
    /// Whose matrices, and with what weight.
    pub route: Value,
    /// `[experts, numbers in a run of the output, numbers in a run of x]`.
    pub weight: WeightId,
    /// Whether products are multiplied with the weights of the route.
    pub weighted: bool,
    /// The output: a run for each choice.
    pub out: Value,
}

impl Operator for ChosenLinear {
    fn name(&self) -> &'static str {
        "chosen_linear"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.x, self.route]
    }
    fn weights(&self) -> Vec<WeightId> {
        vec![self.weight]
    }
    fn takes(&self, input: Value) -> Kind {
        if input == self.route { Kind::Route } else { Kind::Numbers }
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        let &[experts, out, from] = &c.plan.weight(self.weight).shape[..] else {
            return c.fail("its weight should have three dimensions");
        };
        let choices = c.width(self.route);
        c.expect("the output", c.out(), choices * out)?;
        if c.width(self.x) != from {
            c.expect("x", c.width(self.x), choices * from)?;
        }
        let chosen_from = |op: &Op| if let Op::Route(r) = op { (r.out == self.route).then(|| c.width(r.logits)) } else { None };
        match c.plan.ops.iter().find_map(chosen_from) {
            Some(n) if n == experts => Ok(()),
            n => c.fail(format!("the router chooses among {} experts, but there are matrices of {experts}", n.unwrap_or(0))),
        }
    }
}

impl Graph<'_> {
    /// A product of `x` with the matrix `name.weight` of each expert chosen among `experts`, which make `out` numbers.
    pub fn chosen_linear(&mut self, x: Value, route: Value, name: &str, experts: usize, out: usize) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[experts, out, self.width(x)]);
        let width = out * self.width(route);
        self.op(width, Some(x), |out| ChosenLinear { x, route, weight, weighted: false, out })
    }

    /// The sum, by the weights of `route`, of what each chosen expert's matrix makes of its run of `x`: `out` numbers.
    pub fn chosen_sum(&mut self, x: Value, route: Value, name: &str, experts: usize, out: usize) -> Value {
        let choices = self.width(route);
        let weight = self.weight(&format!("{name}.weight"), &[experts, out, self.width(x) / choices.max(1)]);
        let runs = self.op(out * choices, Some(x), |out| ChosenLinear { x, route, weight, weighted: true, out });
        self.sum(runs, 1, choices)
    }
}
