use super::{Check, Function, Operator};
use crate::{Graph, Result, Value};
use serde::Serialize;

/// `out[i] = f(gate[i]) * up[i]`: gated linear units (Shazeer 2020, arXiv:2002.05202) and output gates.
#[derive(Clone, Debug, Serialize)]
pub struct Glu {
    /// The gate.
    pub gate: Value,
    /// What is gated, as wide.
    pub up: Value,
    /// The gate's function.
    pub f: Function,
    /// The output, as wide.
    pub out: Value,
}

impl Operator for Glu {
    fn name(&self) -> &'static str {
        "glu"
    }
    fn output(&self) -> Value {
        self.out
    }
    fn inputs(&self) -> Vec<Value> {
        vec![self.gate, self.up]
    }
    fn check(&self, c: &Check<'_>) -> Result<()> {
        c.expect("up", c.width(self.up), c.width(self.gate))?;
        c.as_wide_as(self.gate)
    }
}

/// What a gate does to what it gates: `f(min(gate, limit)) * (clamp(up, -limit, limit) + offset)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gating {
    /// The gate's function.
    pub f: Function,
    /// The bound; above for the gate, both ways for what is gated (gpt-oss: 7).
    pub limit: Option<f32>,
    /// Added to what is gated (gpt-oss: 1).
    pub offset: f32,
}

impl From<Function> for Gating {
    fn from(f: Function) -> Self {
        Self { f, limit: None, offset: 0.0 }
    }
}

impl Gating {
    /// The value, in f32 arithmetic.
    pub fn apply(self, gate: f32, up: f32) -> f32 {
        let (gate, up) = match self.limit {
            Some(limit) => (gate.min(limit), up.clamp(-limit, limit)),
            None => (gate, up),
        };
        self.f.apply(gate) * (up + self.offset)
    }
}

impl Graph<'_> {
    /// `f(gate) * up`.
    pub fn glu(&mut self, gate: Value, up: Value, f: Function) -> Value {
        self.op(self.width(gate), Some(gate), |out| Glu { gate, up, f, out })
    }

    /// A feed-forward layer of `inner` width: `down(f(up x))`, with the usual tensor names.
    pub fn ffn(&mut self, x: Value, inner: usize, f: Function) -> Value {
        let h = self.linear(x, "ffn_up", inner);
        let h = self.apply(h, f);
        self.linear(h, "ffn_down", self.width(x))
    }

    /// A gated feed-forward layer of `inner` width: `down(f(gate x) * up x)`, with the usual tensor names.
    pub fn gated_ffn(&mut self, x: Value, inner: usize, f: Function) -> Value {
        self.gated_ffn_named(x, ["ffn_gate", "ffn_up", "ffn_down"], inner, f)
    }

    /// [`Graph::gated_ffn`] with gate and up in one matrix `ffn_up`, the gate first.
    pub fn fused_gated_ffn(&mut self, x: Value, inner: usize, f: Function) -> Value {
        let both = self.linear(x, "ffn_up", 2 * inner);
        let (g, u) = (self.slice(both, 1, 0, inner), self.slice(both, 1, inner, inner));
        let h = self.glu(g, u, f);
        self.linear(h, "ffn_down", self.width(x))
    }

    /// [`Graph::gated_ffn`] with other names for gate, up and down.
    pub fn gated_ffn_named(&mut self, x: Value, [gate, up, down]: [&str; 3], inner: usize, f: Function) -> Value {
        let g = self.linear(x, gate, inner);
        let u = self.linear(x, up, inner);
        let h = self.glu(g, u, f);
        self.linear(h, down, self.width(x))
    }
}
