//! JetMoE (Shen et al. 2024, arXiv:2404.07413): a mixture of experts in the feed-forward layer, and one in attention, whose experts
//! are pairs of query and output projections (Zhang et al. 2022, arXiv:2210.05144). Each chosen expert makes a query for every head of
//! keys. Reference: transformers' `models/jetmoe`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, part, tensor},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Binary, Graph, RopeStyle, Route, Score, Value};

pub(crate) static JETMOE: Arch = Arch { hf: &["jetmoe"], gguf: &[], tensors: &[TRUNK, PRE_NORMS, LAYERS], ignored: &[], plan };

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_gate_inp", "model.layers.{}.self_attention.experts.router.layer"),
    tensor("blk.{}.attn_q_exps", "model.layers.{}.self_attention.experts.input_linear"),
    part("blk.{}.attn_k", "model.layers.{}.self_attention.kv_proj.weight", 0, 2),
    part("blk.{}.attn_v", "model.layers.{}.self_attention.kv_proj.weight", 1, 2),
    tensor("blk.{}.attn_output_exps", "model.layers.{}.self_attention.experts.output_linear"),
    tensor("blk.{}.attn_shift", "model.layers.{}.self_attention.experts.bias"),
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router.layer"),
    part("blk.{}.ffn_gate_exps", "model.layers.{}.mlp.input_linear.weight", 0, 2),
    part("blk.{}.ffn_up_exps", "model.layers.{}.mlp.input_linear.weight", 1, 2),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.mlp.output_linear"),
    tensor("blk.{}.ffn_shift", "model.layers.{}.mlp.bias"),
];

/// Of the norms before attention and feed-forward layer, whatever the configuration says of the last one.
const EPS: f32 = 1e-6;

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Rms, s.epsilon_or("rms_norm_eps", "", EPS)?)?;
    let heads = MixtureOfHeads::read(s)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let moe = Moe::read(s, true, false)?;
    Ok(c.build(g, |g, _, x| {
        let h = g.rms_norm(x, "attn_norm", EPS);
        let y = heads.attention(g, h, |g, x| g.rope(x, heads.head, &rope));
        let y = g.with_weight(y, Binary::Add, "attn_shift");
        let x = g.add(x, y);
        let h = g.rms_norm(x, "ffn_norm", EPS);
        let y = moe.build(g, h);
        let y = g.with_weight(y, Binary::Add, "ffn_shift");
        g.add(x, y)
    }))
}

/// Attention whose queries come of chosen experts.
struct MixtureOfHeads {
    experts: usize,
    top_k: usize,
    kv_heads: usize,
    head: usize,
}

impl MixtureOfHeads {
    fn read(s: &Settings<'_>) -> Result<Self> {
        let (experts, top_k) = Moe::counts(s)?;
        let (kv_heads, head) = (s.size("num_key_value_heads", "")?, s.size("kv_channels|head_dim", "")?);
        Ok(Self { experts, top_k, kv_heads, head })
    }

    fn attention(&self, g: &mut Graph<'_>, x: Value, turn: impl Fn(&mut Graph<'_>, Value) -> Value) -> Value {
        let &Self { experts, top_k, kv_heads, head } = self;
        let logits = g.linear(x, "attn_gate_inp", experts);
        let route = g.route(logits, Route { normalize: true, ..Route::new(top_k, Score::Softmax) });
        let q = g.chosen_linear(x, route, "attn_q_exps", experts, kv_heads * head);
        let (k, v) = (g.linear(x, "attn_k", kv_heads * head), g.linear(x, "attn_v", kv_heads * head));
        let (q, k) = (turn(g, q), turn(g, k));
        // Queries come expert by expert; attention wants those of a head of keys side by side.
        let q = g.transpose(q, top_k, kv_heads);
        let y = g.attention(q, k, v, &AttentionSpec::causal(top_k * kv_heads, kv_heads, head));
        let y = g.transpose(y, kv_heads, top_k);
        g.chosen_sum(y, route, "attn_output_exps", experts, g.width(x))
    }
}
