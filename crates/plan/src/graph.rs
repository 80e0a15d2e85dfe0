use crate::{
    Attention, Binary, CausalConv, Elementwise, Error, Experts, Function, GatedDelta, Kind, Mask, Model, Op, Plan, Result, Rope, Route,
    Rows, State, StateId, Value, ValueInfo, Weight, WeightId, WeightInfo, WeightedBinary,
};
use std::collections::HashMap;

/// Finds weights by the plan's names.
pub trait Resolve {
    /// The weight called `name` (`blk.3.attn_q.weight`, `output_norm.weight`), seen with `shape`; `None` when the checkpoint has none.
    fn resolve(&self, name: &str, shape: &[usize]) -> Result<Option<Weight>>;
}

/// What an attention layer adds to its operands; see [`Attention`].
#[derive(Clone, Debug)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Numbers in a query or key of one head.
    pub key: usize,
    /// Numbers in a value of one head.
    pub value: usize,
    /// Factor on the dot products.
    pub scale: f32,
    /// Which keys are seen.
    pub mask: Mask,
    /// Bound on the scores.
    pub softcap: Option<f32>,
    /// Name of the sinks' vector.
    pub sinks: Option<&'static str>,
}

impl AttentionSpec {
    /// Causal attention with the usual scale, `1 / sqrt(head)`.
    pub fn causal(heads: usize, kv_heads: usize, head: usize) -> Self {
        Self { heads, kv_heads, key: head, value: head, scale: 1.0 / (head as f32).sqrt(), mask: Mask::Causal, softcap: None, sinks: None }
    }
}

/// Builds a [`Plan`], op by op, and gathers the weights that it names.
///
/// Methods that make an op return its output. The first fault (a missing tensor, a wrong shape) is kept and reported by
/// [`Graph::finish`]; until then building goes on with made-up values, so that architectures read without a `?` on each line.
///
/// Within [`Graph::layers`], weight names are relative to the layer: `attn_q` is `blk.3.attn_q.weight`.
pub struct Graph<'a> {
    weights_by_name: &'a dyn Resolve,
    plan: Plan,
    weights: Vec<Weight>,
    found: HashMap<String, WeightId>,
    layer: Option<usize>,
    fault: Option<Error>,
}

impl<'a> Graph<'a> {
    /// An empty plan of the architecture `name`.
    pub fn new(name: &str, vocabulary: usize, context: usize, weights: &'a dyn Resolve) -> Self {
        let plan = Plan {
            name: name.to_string(),
            layers: 0,
            values: vec![],
            ops: vec![],
            op_layers: vec![],
            weights: vec![],
            states: vec![],
            output: Value(0),
            vocabulary,
            context,
        };
        Self { weights_by_name: weights, plan, weights: vec![], found: HashMap::new(), layer: None, fault: None }
    }

    /// Runs `layer` for each of `count` layers, handing the stream from one to the next.
    pub fn layers(&mut self, count: usize, mut x: Value, mut layer: impl FnMut(&mut Self, usize, Value) -> Value) -> Value {
        self.plan.layers = count;
        for i in 0..count {
            if self.fault.is_some() {
                break;
            }
            self.layer = Some(i);
            x = layer(self, i, x);
        }
        self.layer = None;
        x
    }

    /// Records a fault that the architecture itself found.
    pub fn fail(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    /// The plan's name for a weight: `blk.N.` before it within a layer, `.weight` behind it where it has no suffix of its own.
    fn full_name(&self, name: &str, suffix: &str) -> String {
        let layer = self.layer.map_or(String::new(), |l| format!("blk.{l}."));
        format!("{layer}{name}{suffix}")
    }

    /// The weight `name`, where the checkpoint has it. `name` is relative to the layer and complete: `attn_q.bias`, `ssm_a`.
    pub fn optional_weight(&mut self, name: &str, shape: &[usize]) -> Option<WeightId> {
        let name = self.full_name(name, "");
        if let Some(id) = self.found.get(&name) {
            return Some(*id);
        }
        match self.weights_by_name.resolve(&name, shape) {
            Ok(Some(weight)) => {
                if weight.shape != shape {
                    self.fail(Error::Shape { name: name.clone(), found: weight.shape.clone(), expected: shape.to_vec() });
                }
                let id = WeightId(self.weights.len() as u32);
                self.plan.weights.push(WeightInfo { name: name.clone(), shape: shape.to_vec(), ty: weight.ty, bytes: weight.bytes() });
                self.weights.push(weight);
                self.found.insert(name, id);
                Some(id)
            }
            Ok(None) => None,
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// The weight `name`, which must be there.
    pub fn weight(&mut self, name: &str, shape: &[usize]) -> WeightId {
        self.optional_weight(name, shape).unwrap_or_else(|| {
            let name = self.full_name(name, "");
            self.fail(Error::Missing(name));
            WeightId(0)
        })
    }

    /// Whether the checkpoint has the weight.
    pub fn has(&self, name: &str, shape: &[usize]) -> bool {
        let name = self.full_name(name, "");
        matches!(self.weights_by_name.resolve(&name, shape), Ok(Some(_)))
    }

    fn new_value(&mut self, width: usize, rows: Rows, kind: Kind) -> Value {
        self.plan.values.push(ValueInfo { width, rows, kind });
        Value(self.plan.values.len() as u32 - 1)
    }

    /// Numbers in a row of `v`.
    pub fn width(&self, v: Value) -> usize {
        self.plan.value(v).width
    }

    /// Adds an op whose output is `width` wide and has the rows of `like`.
    fn op(&mut self, width: usize, like: Option<Value>, make: impl FnOnce(Value) -> Op) -> Value {
        let rows = like.map_or(Rows::Tokens, |v| self.plan.value(v).rows);
        let out = self.new_value(width, rows, Kind::Numbers);
        self.push(make(out));
        out
    }

    fn push(&mut self, op: Op) {
        self.plan.ops.push(op);
        self.plan.op_layers.push(self.layer);
    }

    fn new_state(&mut self, state: State) -> StateId {
        self.plan.states.push(state);
        StateId(self.plan.states.len() as u32 - 1)
    }

    /// The tokens' rows of the table `name`, which is `width` wide.
    pub fn embed(&mut self, name: &str, width: usize, scale: f32) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[self.plan.vocabulary, width]);
        self.op(width, None, |out| Op::Embed { weight, scale, out })
    }

    /// `name.weight x`, plus `name.bias` where the checkpoint has one; `out` wide.
    pub fn linear(&mut self, x: Value, name: &str, out: usize) -> Value {
        let weight = self.weight(&format!("{name}.weight"), &[out, self.width(x)]);
        let bias = self.optional_weight(&format!("{name}.bias"), &[out]);
        self.op(out, Some(x), |out| Op::Linear { x, weight, bias, out })
    }

    /// RMSNorm of the whole row with the weight `name`.
    pub fn rms_norm(&mut self, x: Value, name: &str, eps: f32) -> Value {
        self.head_norm(x, name, self.width(x), eps)
    }

    /// RMSNorm of each run of `dim` numbers with the weight `name`.
    pub fn head_norm(&mut self, x: Value, name: &str, dim: usize, eps: f32) -> Value {
        let weight = Some(self.weight(&format!("{name}.weight"), &[dim]));
        self.op(self.width(x), Some(x), |out| Op::RmsNorm { x, weight, dim, eps, out })
    }

    /// LayerNorm with the weight and, where there is one, the bias `name`.
    pub fn layer_norm(&mut self, x: Value, name: &str, eps: f32) -> Value {
        let width = self.width(x);
        let weight = Some(self.weight(&format!("{name}.weight"), &[width]));
        let bias = self.optional_weight(&format!("{name}.bias"), &[width]);
        self.op(width, Some(x), |out| Op::LayerNorm { x, weight, bias, eps, out })
    }

    /// L2 norm of each run of `dim` numbers.
    pub fn l2_norm(&mut self, x: Value, dim: usize, eps: f32) -> Value {
        self.op(self.width(x), Some(x), |out| Op::L2Norm { x, dim, eps, out })
    }

    /// Turns heads of `head` numbers by position.
    pub fn rope(&mut self, x: Value, head: usize, rope: &Rope) -> Value {
        self.op(self.width(x), Some(x), |out| Op::Rope { x, head, rope: rope.clone(), out })
    }

    /// Attention over the sequence so far, with a cache of its own.
    pub fn attention(&mut self, q: Value, k: Value, v: Value, spec: &AttentionSpec) -> Value {
        let s = spec.clone();
        let window = if let Mask::Window(n) = s.mask { Some(n) } else { None };
        let state = self.new_state(State::Kv { heads: s.kv_heads, key: s.key, value: s.value, window });
        let sinks = s.sinks.map(|name| self.weight(&format!("{name}.weight"), &[s.heads]));
        self.op(s.heads * s.value, Some(q), |out| {
            Op::Attention(Attention {
                q,
                k,
                v,
                state,
                heads: s.heads,
                kv_heads: s.kv_heads,
                key: s.key,
                value: s.value,
                scale: s.scale,
                mask: s.mask,
                softcap: s.softcap,
                sinks,
                out,
            })
        })
    }

    /// Gated DeltaNet with a state of its own; `heads` are (key heads, value heads), `dims` (key, value) numbers in a head.
    #[allow(clippy::too_many_arguments)] // its five operands and their layout are what it is
    pub fn gated_delta(
        &mut self,
        (q, k, v): (Value, Value, Value),
        decay: Value,
        beta: Value,
        (k_heads, v_heads): (usize, usize),
        (key, value): (usize, usize),
        tiled: bool,
    ) -> Value {
        let state = self.new_state(State::Fixed { shape: vec![v_heads, key, value] });
        let scale = 1.0 / (key as f32).sqrt();
        self.op(v_heads * value, Some(v), |out| {
            Op::GatedDelta(GatedDelta { q, k, v, decay, beta, state, k_heads, v_heads, key, value, tiled, scale, out })
        })
    }

    /// A depthwise causal convolution with a state of its own.
    pub fn causal_conv(&mut self, x: Value, name: &str, kernel: usize, f: Option<Function>) -> Value {
        let channels = self.width(x);
        let weight = self.weight(&format!("{name}.weight"), &[channels, kernel]);
        let bias = self.optional_weight(&format!("{name}.bias"), &[channels]);
        let state = self.new_state(State::Fixed { shape: vec![kernel.saturating_sub(1), channels] });
        self.op(channels, Some(x), |out| Op::CausalConv(CausalConv { x, weight, bias, state, kernel, f, out }))
    }

    /// A function of each number.
    pub fn apply(&mut self, x: Value, f: Function) -> Value {
        self.op(self.width(x), Some(x), |out| Op::Elementwise(Elementwise { x, f, out }))
    }

    /// `a + b`.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.op(self.width(a), Some(a), |out| Op::Binary { a, b, f: Binary::Add, out })
    }

    /// `a * b`; a narrower `b` serves runs of `a`.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.op(self.width(a), Some(a), |out| Op::Binary { a, b, f: Binary::Mul, out })
    }

    /// A function of each number and the vector `name` (complete: `ssm_dt.bias`).
    pub fn with_weight(&mut self, x: Value, f: Binary, name: &str) -> Value {
        let width = self.width(x);
        let weight = self.weight(name, &[width]);
        self.op(width, Some(x), |out| Op::WeightedBinary(WeightedBinary { x, weight, f, out }))
    }

    /// `by * x`; nothing where `by` is 1.
    pub fn scale(&mut self, x: Value, by: f32) -> Value {
        if by == 1.0 { x } else { self.op(self.width(x), Some(x), |out| Op::Scale { x, by, out }) }
    }

    /// `f(gate) * up`.
    pub fn glu(&mut self, gate: Value, up: Value, f: Function) -> Value {
        self.op(self.width(gate), Some(gate), |out| Op::Glu { gate, up, f, out })
    }

    /// A gated feed-forward layer of `inner` width: `down(f(gate x) * up x)`, with the usual tensor names.
    pub fn gated_ffn(&mut self, x: Value, inner: usize, f: Function) -> Value {
        self.gated_ffn_named(x, ["ffn_gate", "ffn_up", "ffn_down"], inner, f)
    }

    /// [`Graph::gated_ffn`] with other names for gate, up and down.
    pub fn gated_ffn_named(&mut self, x: Value, [gate, up, down]: [&str; 3], inner: usize, f: Function) -> Value {
        let g = self.linear(x, gate, inner);
        let u = self.linear(x, up, inner);
        let h = self.glu(g, u, f);
        self.linear(h, down, self.width(x))
    }

    /// Numbers `start .. start + len` of each of `groups` runs.
    pub fn slice(&mut self, x: Value, groups: usize, start: usize, len: usize) -> Value {
        self.op(groups * len, Some(x), |out| Op::Slice { x, groups, start, len, out })
    }

    /// Chooses experts; `route.logits` and `route.out` are filled in.
    pub fn route(&mut self, logits: Value, route: Route) -> Value {
        let rows = self.plan.value(logits).rows;
        let out = self.new_value(route.top_k, rows, Kind::Route);
        self.push(Op::Route(Route { logits, out, ..route }));
        out
    }

    /// A mixture of gated experts, with the usual tensor names (`ffn_gate_exps`, ...); as wide as `x`.
    pub fn experts(&mut self, x: Value, route: Value, experts: usize, inner: usize, f: Function) -> Value {
        let width = self.width(x);
        let gate = self.weight("ffn_gate_exps.weight", &[experts, inner, width]);
        let up = self.weight("ffn_up_exps.weight", &[experts, inner, width]);
        let down = self.weight("ffn_down_exps.weight", &[experts, width, inner]);
        self.op(width, Some(x), |out| Op::Experts(Experts { x, route, gate, up, down, f, out }))
    }

    /// Keeps the rows whose logits are asked for.
    pub fn select(&mut self, x: Value) -> Value {
        let width = self.width(x);
        let out = self.new_value(width, Rows::Outputs, Kind::Numbers);
        self.push(Op::Select { x, out });
        out
    }

    /// The logits: `output` of `x`, or the embedding table `token_embd` where the checkpoint ties them.
    pub fn head(&mut self, x: Value) -> Value {
        let vocabulary = self.plan.vocabulary;
        let tied = !self.has("output.weight", &[vocabulary, self.width(x)]);
        self.linear(x, if tied { "token_embd" } else { "output" }, vocabulary)
    }

    /// Ends the plan in `logits` and checks it whole.
    pub fn finish(mut self, logits: Value) -> Result<Model> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.plan.output = logits;
        self.plan.validate()?;
        Ok(Model { plan: self.plan, weights: self.weights })
    }
}
