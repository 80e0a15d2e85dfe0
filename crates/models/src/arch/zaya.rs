//! ZAYA1 (Zyphra 2025, arXiv:2511.17127): compressed convolutional attention (CCA; Figliolia et al. 2025, arXiv:2510.04476), a router
//! with a network and a memory of its own, which may choose no expert at all, and scales and biases on the residual stream.
//! Reference: transformers' `models/zaya`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Binary, ExpertsSpec, Function, Graph, Mask, Rope, RopeStyle, Route, Score, Value};

pub(crate) static ZAYA: Arch =
    Arch { hf: &["zaya"], gguf: &[], tensors: &[TRUNK, PRE_NORMS, SCALES, CCA, ROUTER, EXPERTS], ignored: &[], plan };

const SCALES: &[Entry] = &[
    tensor("input_scale.weight", "model.input_hidden_states_scale"),
    tensor("input_scale.bias", "model.input_hidden_states_bias"),
    tensor("blk.{}.attn_out_scale.weight", "model.layers.{}.post_attention_residual_scale.hidden_states_scale"),
    tensor("blk.{}.attn_out_scale.bias", "model.layers.{}.post_attention_residual_scale.hidden_states_bias"),
    tensor("blk.{}.attn_res_scale.weight", "model.layers.{}.post_attention_residual_scale.residual_scale"),
    tensor("blk.{}.attn_res_scale.bias", "model.layers.{}.post_attention_residual_scale.residual_bias"),
    tensor("blk.{}.ffn_out_scale.weight", "model.layers.{}.post_mlp_residual_scale.hidden_states_scale"),
    tensor("blk.{}.ffn_out_scale.bias", "model.layers.{}.post_mlp_residual_scale.hidden_states_bias"),
    tensor("blk.{}.ffn_res_scale.weight", "model.layers.{}.post_mlp_residual_scale.residual_scale"),
    tensor("blk.{}.ffn_res_scale.bias", "model.layers.{}.post_mlp_residual_scale.residual_bias"),
];

const CCA: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.qkv_proj.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.qkv_proj.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.qkv_proj.v_proj_current"),
    tensor("blk.{}.attn_v_delayed", "model.layers.{}.self_attn.qkv_proj.v_proj_delayed"),
    tensor("blk.{}.attn_conv.weight", "model.layers.{}.self_attn.qkv_proj.conv_qk_depthwise.weight"),
    tensor("blk.{}.attn_conv.bias", ""),
    tensor("blk.{}.attn_conv_shift", "model.layers.{}.self_attn.qkv_proj.conv_qk_depthwise.bias"),
    tensor("blk.{}.attn_conv_heads.weight", "model.layers.{}.self_attn.qkv_proj.conv_qk_grouped.weight"),
    tensor("blk.{}.attn_conv_heads.bias", "model.layers.{}.self_attn.qkv_proj.conv_qk_grouped.bias"),
    tensor("blk.{}.attn_k_scale", "model.layers.{}.self_attn.qk_norm.temp"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
];

const ROUTER: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp_down", "model.layers.{}.mlp.gate.down_proj"),
    tensor("blk.{}.ffn_gate_inp_past", "model.layers.{}.mlp.gate.router_states_scale"),
    tensor("blk.{}.ffn_gate_inp_norm", "model.layers.{}.mlp.gate.router_mlp.norm"),
    tensor("blk.{}.ffn_gate_inp_1", "model.layers.{}.mlp.gate.router_mlp.fc1"),
    tensor("blk.{}.ffn_gate_inp_2", "model.layers.{}.mlp.gate.router_mlp.fc2"),
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate.router_mlp.out_proj"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.balancing_biases"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let cca = Cca::read(s, c.width)?;
    let kinds = kinds(s, c.layers, cca.heads.head)?;
    let router = Router::read(s, c.eps)?;
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let x = scaled(g, x, "input_scale");
    let mut past = None;
    let x = g.layers(c.layers, x, |g, layer, x| {
        let h = c.norm(g, x, "attn_norm");
        let y = cca.build(g, h, &kinds[layer]);
        let x = merge(g, x, y, "attn");
        let h = c.norm(g, x, "ffn_norm");
        let (y, state) = router.build(g, h, past);
        past = Some(state);
        merge(g, x, y, "ffn")
    });
    let x = g.select(x);
    let x = c.norm(g, x, c.output_norm);
    Ok(c.logits(g, x))
}

/// `(x + bias) * weight`.
fn scaled(g: &mut Graph<'_>, x: Value, name: &str) -> Value {
    let x = g.with_weight(x, Binary::Add, &format!("{name}.bias"));
    g.with_weight(x, Binary::Mul, &format!("{name}.weight"))
}

/// The stream `x` and a block's output `y`, each with its scale.
fn merge(g: &mut Graph<'_>, x: Value, y: Value, block: &str) -> Value {
    let y = scaled(g, y, &format!("{block}_out_scale"));
    let x = scaled(g, x, &format!("{block}_res_scale"));
    g.add(x, y)
}

/// What a layer sees, and how it turns.
struct Kind {
    mask: Mask,
    rope: Rope,
}

/// The kind of each layer; `hybrid` ones see all, `hybrid_sliding` ones have a window.
fn kinds(s: &Settings<'_>, layers: usize, head: usize) -> Result<Vec<Kind>> {
    let stated = s.json("rope_parameters").is_some();
    let rope = |objects: &'static [&'static str], base: f64| {
        let keys = RopeKeys { objects, base: "rope_theta", ..RopeKeys::FULL };
        // A part that is not stated beside a base that is means the whole head.
        s.rotary(head, Rotary { base, part: if stated { 1.0 } else { 0.5 }, keys, ..Rotary::new(RopeStyle::Halves) })
    };
    let sliding = s.kinds("layer_types", layers, &[("hybrid", false), ("hybrid_sliding", true)])?.unwrap_or_else(|| vec![false; layers]);
    let one = |sliding: bool| match (sliding, s.window()?) {
        (false, _) => Ok(Kind { mask: Mask::Causal, rope: rope(&["rope_parameters.hybrid"], 5e6)? }),
        (true, Some(window)) => Ok(Kind { mask: Mask::Window(window), rope: rope(&["rope_parameters.hybrid_sliding"], 1e4)? }),
        (true, None) => Err(s.wrong("sliding_window", "", "is missing, but there are layers with a window")),
    };
    sliding.into_iter().map(one).collect()
}

/// Compressed convolutional attention.
struct Cca {
    heads: Heads,
    /// Tokens that reach a token by the convolution of each channel, and by that of each head.
    kernels: [usize; 2],
}

impl Cca {
    fn read(s: &Settings<'_>, width: usize) -> Result<Self> {
        let heads = Heads::read(s, width)?;
        let kernel = |key: &str| match s.size_to(key, "", 1 << 10)? {
            1 => Err(s.wrong(key, "", "is 1, which reaches no other token")),
            n => Ok(n),
        };
        if !(heads.kv_heads * heads.head).is_multiple_of(2) {
            return Err(s.wrong("head_dim", "", "makes an odd number of values, half of which should come from the token before"));
        }
        Ok(Self { heads, kernels: [kernel("cca_time0")?, kernel("cca_time1")?] })
    }

    fn build(&self, g: &mut Graph<'_>, x: Value, kind: &Kind) -> Value {
        let Heads { heads, kv_heads, head, .. } = self.heads;
        let (queries, keys) = (heads * head, kv_heads * head);
        let (q, k) = (g.linear(x, "attn_q", queries), g.linear(x, "attn_k", keys));
        let both = g.concat(q, k, 1);
        let mixed = self.convolve(g, both);
        let (q_mean, k_mean) = self.means(g, q, k);
        let q = g.slice(mixed, 1, 0, queries);
        let q = g.add(q, q_mean);
        let k = g.slice(mixed, 1, queries, keys);
        let k = g.add(k, k_mean);

        // To the length of a head's root, at least 2^-23 being taken for what it has.
        let eps = f32::EPSILON * f32::EPSILON / head as f32;
        let (q, k) = (g.plain_norm(q, head, eps), g.plain_norm(k, head, eps));
        let k = g.with_short_weight(k, Binary::Mul, "attn_k_scale", kv_heads);
        let (q, k) = (g.rope(q, head, &kind.rope), g.rope(k, head, &kind.rope));

        let now = g.linear(x, "attn_v", keys / 2);
        let last = g.delay(x);
        let last = g.linear(last, "attn_v_delayed", keys / 2);
        let v = g.concat(now, last, 1);
        let y = g.attention(q, k, v, &AttentionSpec { mask: kind.mask, ..AttentionSpec::causal(heads, kv_heads, head) });
        g.linear(y, "attn_output", g.width(x))
    }

    /// Queries and keys convolved with those before them: channel by channel, then within each head.
    fn convolve(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let channels = g.width(x);
        let [first, second] = self.kernels;
        let x = g.causal_conv(x, "attn_conv", first, None);
        // Before the sequence's start only the input is zero, so that the shift counts there too.
        let mut taps = vec![x];
        for i in 1..second {
            taps.push(g.delay(taps[i - 1]));
        }
        let shifted = taps.into_iter().rev().map(|x| g.with_weight(x, Binary::Add, "attn_conv_shift")).collect::<Vec<_>>();
        let window = shifted.into_iter().reduce(|window, x| g.concat(window, x, channels)).unwrap_or(x);
        let Heads { heads, kv_heads, head, .. } = self.heads;
        let y = g.head_linear(window, "attn_conv_heads", heads + kv_heads, head, false);
        g.with_weight(y, Binary::Add, "attn_conv_heads.bias")
    }

    /// The mean of each query and its key, and of those of each key.
    fn means(&self, g: &mut Graph<'_>, q: Value, k: Value) -> (Value, Value) {
        let Heads { heads, kv_heads, .. } = self.heads;
        let group = heads / kv_heads;
        let repeated = g.repeat(k, kv_heads, group);
        let sum = g.add(q, repeated);
        let q = g.scale(sum, 0.5);
        let k = g.sum(q, kv_heads, group);
        (q, g.scale(k, 1.0 / group as f32))
    }
}

/// A router with a small network, which sees what the router of the layer before saw. Its last choice stands for no expert.
struct Router {
    width: usize,
    experts: usize,
    inner: usize,
    act: Function,
    eps: f32,
}

impl Router {
    fn read(s: &Settings<'_>, eps: f32) -> Result<Self> {
        const TOP_K: &str = "num_experts_per_tok";
        let top_k = s.optional_size(TOP_K, "")?.unwrap_or(1);
        if top_k != 1 {
            return Err(s.wrong(TOP_K, "", format!("is {top_k}; only one is known here")));
        }
        Ok(Self {
            width: s.size("router_hidden_size", "")?,
            experts: s.size_to("num_experts", "", 1 << 14)?,
            inner: s.size("moe_intermediate_size", "")?,
            act: s.activation("silu")?,
            eps,
        })
    }

    /// The chosen expert's output, and what the next layer's router sees of this one.
    fn build(&self, g: &mut Graph<'_>, x: Value, past: Option<Value>) -> (Value, Value) {
        let mut state = g.linear(x, "ffn_gate_inp_down", self.width);
        if let Some(past) = past {
            let past = g.with_weight(past, Binary::Mul, "ffn_gate_inp_past");
            state = g.add(state, past);
        }
        let mut h = g.rms_norm(state, "ffn_gate_inp_norm", self.eps);
        for layer in ["ffn_gate_inp_1", "ffn_gate_inp_2"] {
            h = g.linear(h, layer, self.width);
            h = g.apply(h, Function::Gelu);
        }
        let choices = self.experts + 1;
        let logits = g.linear(h, "ffn_gate_inp", choices);
        let bias = Some(g.weight("exp_probs_b.bias", &[choices]));
        let route = g.route(logits, Route { normalize: false, bias, nothing: 1, ..Route::new(1, Score::Softmax) });
        let spec = ExpertsSpec { identities: 1, ..ExpertsSpec::new(self.experts, self.inner, self.act) };
        (g.experts(x, route, &spec), state)
    }
}
