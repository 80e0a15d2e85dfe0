//! The ops: everything that a device must be able to do.
//!
//! Each doc says what one row of the output is. `x[i]` is number `i` of the row; "head" means a run of numbers.

use crate::{Error, Kind, Plan, Result, Rope, Rows, State, StateId, Value, WeightId};
use serde::Serialize;

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Function {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the error function.
    Gelu,
    /// The tanh approximation of `Gelu` (Hendrycks & Gimpel 2016, arXiv:1606.08415).
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `ln(1 + exp(x))`, and `x` above 20.
    Softplus,
    /// Hyperbolic tangent.
    Tanh,
}

impl Function {
    /// The value at `x`, in f32 arithmetic.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Gelu => 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh()),
            Self::Relu => x.max(0.0),
            Self::ReluSquared => x.max(0.0) * x.max(0.0),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Softplus => {
                if x > 20.0 {
                    x
                } else {
                    x.exp().ln_1p()
                }
            }
            Self::Tanh => x.tanh(),
        }
    }
}

/// The error function to f32 accuracy: the Maclaurin series below 2.5, a continued fraction of the complement above.
fn erf(x: f32) -> f32 {
    let x = f64::from(x);
    let a = x.abs();
    let y = if a < 2.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..40 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if a < 6.0 {
        let fraction = (1..60).rev().fold(0.0, |c, n| f64::from(n) / 2.0 / (a + c));
        1.0 - (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt())
    } else {
        1.0
    };
    y.copysign(x) as f32
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a * b`.
    Mul,
}

impl Binary {
    /// The value.
    pub fn apply(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Mul => a * b,
        }
    }
}

/// `out[i] = f(x[i])`.
#[derive(Clone, Debug, Serialize)]
pub struct Elementwise {
    /// The input.
    pub x: Value,
    /// The function.
    pub f: Function,
    /// The output, as wide as `x`.
    pub out: Value,
}

/// `out[i] = f(x[i], weight[i])`.
#[derive(Clone, Debug, Serialize)]
pub struct WeightedBinary {
    /// The input.
    pub x: Value,
    /// A vector as wide as `x`.
    pub weight: WeightId,
    /// The function.
    pub f: Binary,
    /// The output, as wide as `x`.
    pub out: Value,
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mask {
    /// All up to its own position.
    Causal,
    /// The last `n` up to and with its own position.
    Window(usize),
}

/// Scaled dot-product attention over the sequence so far (Vaswani et al. 2017, arXiv:1706.03762), with grouped heads
/// (Ainslie et al. 2023, arXiv:2305.13245): query head `h` reads key/value head `h / (heads / kv_heads)`.
///
/// Appends `k` and `v` to the state, then `out = sum_t softmax_t(scale * q . k_t) v_t` over the positions that `mask` allows.
#[derive(Clone, Debug, Serialize)]
pub struct Attention {
    /// Queries, `heads * key`.
    pub q: Value,
    /// Keys, `kv_heads * key`.
    pub k: Value,
    /// Values, `kv_heads * value`.
    pub v: Value,
    /// The cache, a [`State::Kv`].
    pub state: StateId,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers in a query or key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// Factor on the dot products.
    pub scale: f32,
    /// Which keys are seen.
    pub mask: Mask,
    /// `c * tanh(score / c)` on the scaled scores (Gemma 2).
    pub softcap: Option<f32>,
    /// One logit for each query head that takes part in the softmax and carries no value (gpt-oss).
    pub sinks: Option<WeightId>,
    /// The output, `heads * value`.
    pub out: Value,
}

/// Gated DeltaNet (Yang et al. 2024, arXiv:2412.06464): a recurrent matrix S of `key x value` numbers for each value head.
///
/// For each token: `S = exp(decay) S`; `u = beta (v - S^T k)`; `S = S + k u^T`; `out = scale S^T q`.
/// Queries and keys come normalised. Value head `h` uses key head `h / (v_heads / k_heads)`, or `h % k_heads` where
/// `tiled` (how ggml stores the heads).
#[derive(Clone, Debug, Serialize)]
pub struct GatedDelta {
    /// Queries, `k_heads * key`.
    pub q: Value,
    /// Keys, `k_heads * key`.
    pub k: Value,
    /// Values, `v_heads * value`.
    pub v: Value,
    /// Logarithm of the decay, `v_heads`; at most zero.
    pub decay: Value,
    /// Write strength, `v_heads`.
    pub beta: Value,
    /// The matrices, a [`State::Fixed`] of `[v_heads, key, value]`.
    pub state: StateId,
    /// Query and key heads; divides `v_heads`.
    pub k_heads: usize,
    /// Value heads.
    pub v_heads: usize,
    /// Numbers in a key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// How key heads are shared.
    pub tiled: bool,
    /// Factor on the output.
    pub scale: f32,
    /// The output, `v_heads * value`.
    pub out: Value,
}

/// A depthwise causal convolution: `out[c] = f(bias[c] + sum_j weight[c][j] x_(t - kernel + 1 + j)[c])`, zero before the sequence's start.
#[derive(Clone, Debug, Serialize)]
pub struct CausalConv {
    /// The input.
    pub x: Value,
    /// `[channels, kernel]`.
    pub weight: WeightId,
    /// `[channels]`.
    pub bias: Option<WeightId>,
    /// The last `kernel - 1` inputs, a [`State::Fixed`] of `[kernel - 1, channels]`, oldest first.
    pub state: StateId,
    /// Inputs that reach an output.
    pub kernel: usize,
    /// What is applied to the sum.
    pub f: Option<Function>,
    /// The output, as wide as `x`.
    pub out: Value,
}

/// How a router's logits become scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Score {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
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

/// A mixture of gated feed-forward experts: `out = sum_e w_e down_e(f(gate_e x) * up_e x)` over the experts that `route` chose.
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
    /// The output.
    pub out: Value,
}

/// One step of a plan.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// `out = scale * weight[token]`: the row of a table `[vocabulary, width]` for the token.
    Embed {
        /// The table.
        weight: WeightId,
        /// A factor (Gemma); 1 for most.
        scale: f32,
        /// The output.
        out: Value,
    },
    /// `out = weight x + bias`, `weight` being `[out, x]`.
    Linear {
        /// The input.
        x: Value,
        /// The matrix.
        weight: WeightId,
        /// `[out]`.
        bias: Option<WeightId>,
        /// The output.
        out: Value,
    },
    /// `out = x / sqrt(mean(x^2) + eps) * weight` over each run of `dim` numbers (Zhang & Sennrich 2019, arXiv:1910.07467).
    RmsNorm {
        /// The input.
        x: Value,
        /// `[dim]`.
        weight: Option<WeightId>,
        /// Numbers that are normalised together; divides the width.
        dim: usize,
        /// Added to the mean square.
        eps: f32,
        /// The output, as wide as `x`.
        out: Value,
    },
    /// `out = (x - mean) / sqrt(variance + eps) * weight + bias` over the row (Ba et al. 2016, arXiv:1607.06450).
    LayerNorm {
        /// The input.
        x: Value,
        /// `[x]`.
        weight: Option<WeightId>,
        /// `[x]`.
        bias: Option<WeightId>,
        /// Added to the variance.
        eps: f32,
        /// The output, as wide as `x`.
        out: Value,
    },
    /// `out = x / sqrt(sum(x^2) + eps)` over each run of `dim` numbers.
    L2Norm {
        /// The input.
        x: Value,
        /// Numbers that are normalised together; divides the width.
        dim: usize,
        /// Added to the sum.
        eps: f32,
        /// The output, as wide as `x`.
        out: Value,
    },
    /// Turns each head of `x` by the token's position.
    Rope {
        /// The input.
        x: Value,
        /// Numbers in a head; divides the width.
        head: usize,
        /// The rotation.
        rope: Rope,
        /// The output, as wide as `x`.
        out: Value,
    },
    /// Attention.
    Attention(Attention),
    /// Gated DeltaNet.
    GatedDelta(GatedDelta),
    /// A depthwise convolution over time.
    CausalConv(CausalConv),
    /// A function of each number.
    Elementwise(Elementwise),
    /// `out[i] = f(a[i], b[i * b_width / a_width])`: each number of a narrower `b` serves a run of `a`.
    Binary {
        /// The wider input.
        a: Value,
        /// The other; its width divides that of `a`.
        b: Value,
        /// The function.
        f: Binary,
        /// The output, as wide as `a`.
        out: Value,
    },
    /// A function of each number and a weight.
    WeightedBinary(WeightedBinary),
    /// `out = by * x`.
    Scale {
        /// The input.
        x: Value,
        /// The factor.
        by: f32,
        /// The output, as wide as `x`.
        out: Value,
    },
    /// `out[i] = f(gate[i]) * up[i]`: gated linear units (Shazeer 2020, arXiv:2002.05202) and output gates.
    Glu {
        /// The gate.
        gate: Value,
        /// What is gated, as wide.
        up: Value,
        /// The gate's function.
        f: Function,
        /// The output, as wide.
        out: Value,
    },
    /// Takes numbers `start .. start + len` of each of `groups` equal runs of `x`.
    Slice {
        /// The input.
        x: Value,
        /// Runs that `x` is seen as; divides its width.
        groups: usize,
        /// First number taken from each.
        start: usize,
        /// Numbers taken from each.
        len: usize,
        /// The output, `groups * len` wide.
        out: Value,
    },
    /// Chooses experts.
    Route(Route),
    /// Runs the chosen experts.
    Experts(Experts),
    /// Keeps the rows whose logits were asked for: [`Rows::Tokens`] to [`Rows::Outputs`].
    Select {
        /// The input.
        x: Value,
        /// The output, as wide as `x`.
        out: Value,
    },
}

impl Op {
    /// The name, as `show --plan` prints it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::Linear { .. } => "linear",
            Self::RmsNorm { .. } => "rms_norm",
            Self::LayerNorm { .. } => "layer_norm",
            Self::L2Norm { .. } => "l2_norm",
            Self::Rope { .. } => "rope",
            Self::Attention(_) => "attention",
            Self::GatedDelta(_) => "gated_delta",
            Self::CausalConv(_) => "causal_conv",
            Self::Elementwise(e) => match e.f {
                Function::Silu => "silu",
                Function::Gelu => "gelu",
                Function::GeluTanh => "gelu_tanh",
                Function::Relu => "relu",
                Function::ReluSquared => "relu_squared",
                Function::Sigmoid => "sigmoid",
                Function::Softplus => "softplus",
                Function::Tanh => "tanh",
            },
            Self::Binary { f: Binary::Add, .. } => "add",
            Self::Binary { f: Binary::Mul, .. } => "mul",
            Self::WeightedBinary(WeightedBinary { f: Binary::Add, .. }) => "add_weight",
            Self::WeightedBinary(WeightedBinary { f: Binary::Mul, .. }) => "mul_weight",
            Self::Scale { .. } => "scale",
            Self::Glu { .. } => "glu",
            Self::Slice { .. } => "slice",
            Self::Route(_) => "route",
            Self::Experts(_) => "experts",
            Self::Select { .. } => "select",
        }
    }

    /// The value that the op makes.
    pub fn output(&self) -> Value {
        match self {
            Self::Embed { out, .. }
            | Self::Linear { out, .. }
            | Self::RmsNorm { out, .. }
            | Self::LayerNorm { out, .. }
            | Self::L2Norm { out, .. }
            | Self::Rope { out, .. }
            | Self::Binary { out, .. }
            | Self::Scale { out, .. }
            | Self::Glu { out, .. }
            | Self::Slice { out, .. }
            | Self::Select { out, .. } => *out,
            Self::Attention(a) => a.out,
            Self::GatedDelta(d) => d.out,
            Self::CausalConv(c) => c.out,
            Self::Elementwise(e) => e.out,
            Self::WeightedBinary(w) => w.out,
            Self::Route(r) => r.out,
            Self::Experts(e) => e.out,
        }
    }

    /// The values that the op reads.
    pub fn inputs(&self) -> Vec<Value> {
        match self {
            Self::Embed { .. } => vec![],
            Self::Linear { x, .. }
            | Self::RmsNorm { x, .. }
            | Self::LayerNorm { x, .. }
            | Self::L2Norm { x, .. }
            | Self::Rope { x, .. }
            | Self::Scale { x, .. }
            | Self::Slice { x, .. }
            | Self::Select { x, .. } => vec![*x],
            Self::Binary { a, b, .. } => vec![*a, *b],
            Self::Glu { gate, up, .. } => vec![*gate, *up],
            Self::Attention(a) => vec![a.q, a.k, a.v],
            Self::GatedDelta(d) => vec![d.q, d.k, d.v, d.decay, d.beta],
            Self::CausalConv(c) => vec![c.x],
            Self::Elementwise(e) => vec![e.x],
            Self::WeightedBinary(w) => vec![w.x],
            Self::Route(r) => vec![r.logits],
            Self::Experts(e) => vec![e.x, e.route],
        }
    }

    /// The weights that the op reads.
    pub fn weights(&self) -> Vec<WeightId> {
        match self {
            Self::Embed { weight, .. } => vec![*weight],
            Self::Linear { weight, bias, .. } => [Some(*weight), *bias].into_iter().flatten().collect(),
            Self::RmsNorm { weight, .. } => weight.iter().copied().collect(),
            Self::LayerNorm { weight, bias, .. } => [*weight, *bias].into_iter().flatten().collect(),
            Self::Attention(a) => a.sinks.into_iter().collect(),
            Self::CausalConv(c) => [Some(c.weight), c.bias].into_iter().flatten().collect(),
            Self::WeightedBinary(w) => vec![w.weight],
            Self::Route(r) => r.bias.into_iter().collect(),
            Self::Experts(e) => vec![e.gate, e.up, e.down],
            _ => vec![],
        }
    }

    /// The state that the op reads and writes.
    pub fn state(&self) -> Option<StateId> {
        match self {
            Self::Attention(a) => Some(a.state),
            Self::GatedDelta(d) => Some(d.state),
            Self::CausalConv(c) => Some(c.state),
            _ => None,
        }
    }

    /// Checks the op against the plan's shapes; `known` tells which values exist before it.
    pub(crate) fn check(&self, plan: &Plan, known: &[bool]) -> Result<()> {
        let fail = |what: String| Err(Error::invalid(format!("op `{}` making value {}: {what}", self.name(), self.output().0)));
        for v in self.inputs() {
            if known.get(v.0 as usize) != Some(&true) {
                return fail(format!("value {} does not exist yet", v.0));
            }
            let wanted = if matches!(self, Self::Experts(e) if e.route == v) { Kind::Route } else { Kind::Numbers };
            if plan.value(v).kind != wanted {
                return fail(format!("value {} holds {:?}, but {wanted:?} is needed", v.0, plan.value(v).kind));
            }
        }
        if known[self.output().0 as usize] {
            return fail("it is made already".into());
        }
        let makes = if matches!(self, Self::Route(_)) { Kind::Route } else { Kind::Numbers };
        if plan.value(self.output()).kind != makes {
            return fail(format!("the output holds {:?}, but {makes:?} is made", plan.value(self.output()).kind));
        }
        let width = |v: Value| plan.value(v).width;
        let expect = |what: &str, found: usize, wanted: usize| {
            if found == wanted { Ok(()) } else { fail(format!("{what} is {found} wide, but should be {wanted}")).map(|_: ()| ()) }
        };
        let shape = |w: WeightId, wanted: &[usize]| {
            let info = plan.weight(w);
            if info.shape == wanted {
                Ok(())
            } else {
                Err(Error::Shape { name: info.name.clone(), found: info.shape.clone(), expected: wanted.to_vec() })
            }
        };
        let divides = |what: &str, a: usize, b: usize| {
            if a > 0 && b.is_multiple_of(a) { Ok(()) } else { fail(format!("{what}: {a} does not divide {b}")) }
        };
        let out = width(self.output());
        match self {
            Self::Embed { weight, .. } => shape(*weight, &[plan.vocabulary, out])?,
            Self::Linear { x, weight, bias, .. } => {
                shape(*weight, &[out, width(*x)])?;
                bias.map_or(Ok(()), |b| shape(b, &[out]))?;
            }
            Self::RmsNorm { x, weight, dim, .. } => {
                divides("norm", *dim, width(*x))?;
                weight.map_or(Ok(()), |w| shape(w, &[*dim]))?;
                expect("the output", out, width(*x))?;
            }
            Self::L2Norm { x, dim, .. } => {
                divides("norm", *dim, width(*x))?;
                expect("the output", out, width(*x))?;
            }
            Self::LayerNorm { x, weight, bias, .. } => {
                weight.map_or(Ok(()), |w| shape(w, &[width(*x)]))?;
                bias.map_or(Ok(()), |b| shape(b, &[width(*x)]))?;
                expect("the output", out, width(*x))?;
            }
            Self::Rope { x, head, rope, .. } => {
                divides("head", *head, width(*x))?;
                if rope.dims() > *head {
                    return fail(format!("the rotary dimension {} is larger than the head, {head}", rope.dims()));
                }
                expect("the output", out, width(*x))?;
            }
            Self::Attention(a) => {
                divides("key/value heads", a.kv_heads, a.heads)?;
                expect("q", width(a.q), a.heads * a.key)?;
                expect("k", width(a.k), a.kv_heads * a.key)?;
                expect("v", width(a.v), a.kv_heads * a.value)?;
                expect("the output", out, a.heads * a.value)?;
                a.sinks.map_or(Ok(()), |s| shape(s, &[a.heads]))?;
                match plan.state(a.state) {
                    State::Kv { heads, key, value, .. } if (*heads, *key, *value) == (a.kv_heads, a.key, a.value) => {}
                    other => return fail(format!("the state is {other:?}")),
                }
            }
            Self::GatedDelta(d) => {
                divides("key heads", d.k_heads, d.v_heads)?;
                expect("q", width(d.q), d.k_heads * d.key)?;
                expect("k", width(d.k), d.k_heads * d.key)?;
                expect("v", width(d.v), d.v_heads * d.value)?;
                expect("decay", width(d.decay), d.v_heads)?;
                expect("beta", width(d.beta), d.v_heads)?;
                expect("the output", out, d.v_heads * d.value)?;
                if *plan.state(d.state) != (State::Fixed { shape: vec![d.v_heads, d.key, d.value] }) {
                    return fail(format!("the state is {:?}", plan.state(d.state)));
                }
            }
            Self::CausalConv(c) => {
                if c.kernel < 2 {
                    return fail(format!("a kernel of {} has no past", c.kernel));
                }
                shape(c.weight, &[width(c.x), c.kernel])?;
                c.bias.map_or(Ok(()), |b| shape(b, &[width(c.x)]))?;
                expect("the output", out, width(c.x))?;
                if *plan.state(c.state) != (State::Fixed { shape: vec![c.kernel - 1, width(c.x)] }) {
                    return fail(format!("the state is {:?}", plan.state(c.state)));
                }
            }
            Self::Elementwise(e) => expect("the output", out, width(e.x))?,
            Self::Binary { a, b, .. } => {
                divides("broadcast", width(*b), width(*a))?;
                expect("the output", out, width(*a))?;
            }
            Self::WeightedBinary(w) => {
                shape(w.weight, &[width(w.x)])?;
                expect("the output", out, width(w.x))?;
            }
            Self::Scale { x, .. } | Self::Select { x, .. } => expect("the output", out, width(*x))?,
            Self::Glu { gate, up, .. } => {
                expect("up", width(*up), width(*gate))?;
                expect("the output", out, width(*gate))?;
            }
            Self::Slice { x, groups, start, len, .. } => {
                divides("groups", *groups, width(*x))?;
                if start.saturating_add(*len) > width(*x) / groups {
                    return fail(format!("{start} + {len} is beyond a run of {}", width(*x) / groups));
                }
                expect("the output", out, groups * len)?;
            }
            Self::Route(r) => {
                if r.top_k == 0 || r.top_k > width(r.logits) {
                    return fail(format!("{} of {} experts cannot be chosen", r.top_k, width(r.logits)));
                }
                r.bias.map_or(Ok(()), |b| shape(b, &[width(r.logits)]))?;
                expect("the choice", out, r.top_k)?;
            }
            Self::Experts(e) => {
                let Some(&[experts, inner, _]) = plan.weight(e.up).shape.first_chunk::<3>() else {
                    return fail("its weights should have three dimensions".into());
                };
                shape(e.gate, &[experts, inner, width(e.x)])?;
                shape(e.up, &[experts, inner, width(e.x)])?;
                shape(e.down, &[experts, out, inner])?;
                let chosen_from = |op: &Op| if let Self::Route(r) = op { (r.out == e.route).then(|| width(r.logits)) } else { None };
                match plan.ops.iter().find_map(chosen_from) {
                    Some(n) if n == experts => {}
                    n => return fail(format!("the router chooses among {} experts, but the weights are of {experts}", n.unwrap_or(0))),
                }
            }
        }
        let rows = plan.value(self.output()).rows;
        let selects = matches!(self, Self::Select { .. });
        let fits = |v: &Value| plan.value(*v).rows == if selects { Rows::Tokens } else { rows };
        if !self.inputs().iter().all(fits) || selects && rows != Rows::Outputs || self.state().is_some() && rows != Rows::Tokens {
            return fail("rows of all tokens and rows of outputs are mixed".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from Python's `math.erf`.
    #[test]
    fn error_function() {
        for (x, y) in [
            (0.0, 0.0),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (2.4, 0.9993114861033549),
            (2.6, 0.9997639655834707),
            (-1.5, -0.9661051464753108),
        ] {
            assert!((erf(x) - y as f32).abs() < 1e-7, "erf({x}) = {}", erf(x));
        }
    }
}
