//! RecurrentGemma (Griffin Team 2024, arXiv:2404.07839): blocks of a linear recurrence with gates (RG-LRU, De et al. 2024,
//! arXiv:2402.19427), and some of attention in a window. Reference: transformers' `models/recurrent_gemma`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Binary, Function, Graph, Mask, RopeStyle, Value};

pub(crate) static RECURRENT_GEMMA: Arch =
    Arch { hf: &["recurrent_gemma"], gguf: &[], tensors: &[GEMMA_TRUNK, TEMPORAL_BLOCKS, MLP_BLOCK], ignored: &[], plan };

const GEMMA_TRUNK: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.final_norm").add_one(),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.temporal_pre_norm").add_one(),
    tensor("blk.{}.ffn_norm", "model.layers.{}.channel_pre_norm").add_one(),
];

const TEMPORAL_BLOCKS: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.temporal_block.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.temporal_block.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.temporal_block.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.temporal_block.o_proj"),
    tensor("blk.{}.lru_gate", "model.layers.{}.temporal_block.linear_y"),
    tensor("blk.{}.lru_in", "model.layers.{}.temporal_block.linear_x"),
    tensor("blk.{}.lru_conv1d", "model.layers.{}.temporal_block.conv_1d"),
    tensor("blk.{}.lru_input_gate.weight", "model.layers.{}.temporal_block.rg_lru.input_gate_weight"),
    tensor("blk.{}.lru_input_gate.bias", "model.layers.{}.temporal_block.rg_lru.input_gate_bias"),
    tensor("blk.{}.lru_decay_gate.weight", "model.layers.{}.temporal_block.rg_lru.recurrent_gate_weight"),
    tensor("blk.{}.lru_decay_gate.bias", "model.layers.{}.temporal_block.rg_lru.recurrent_gate_bias"),
    tensor("blk.{}.lru_decay", "model.layers.{}.temporal_block.rg_lru.recurrent_param").softplus(),
    tensor("blk.{}.lru_out", "model.layers.{}.temporal_block.linear_out"),
];

const MLP_BLOCK: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.mlp_block.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp_block.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp_block.down_proj"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let logit_softcap = Some(s.float_or("logits_soft_cap", "", 30.0)? as f32);
    let c = Decoder { embed_scale: bfloat16((c.width as f32).sqrt()), logit_softcap, ..c };
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { part: 0.5, ..Rotary::new(RopeStyle::Halves) })?;
    let window = Mask::Window(s.size_or("attention_window_size|sliding_window", "", 2048)?);
    let attention = attention_blocks(s)?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let inner = s.size("intermediate_size", "")? / 2;
    let lru = s.size_or("lru_width", "", c.width)?;
    if !lru.is_multiple_of(heads.heads) {
        return Err(s.wrong("lru_width", "", format!("is {lru}, which {} heads do not divide", heads.heads)));
    }
    let kernel = s.size_or("conv1d_width", "", 4)?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match attention[layer % attention.len()] {
            true => heads.attention(g, x, window, |g, q, _| g.rope(q, heads.head, &rope)),
            false => {
                let gate = g.linear(x, "lru_gate", lru);
                let y = g.linear(x, "lru_in", lru);
                let y = g.causal_conv(y, "lru_conv1d", kernel, None);
                let y = rg_lru(g, y, heads.heads);
                let y = g.glu(gate, y, act);
                g.linear(y, "lru_out", c.width)
            }
        });
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}

/// A real-gated linear recurrent unit (equations 1 to 4): the input is gated, and so is the decay.
fn rg_lru(g: &mut Graph<'_>, x: Value, heads: usize) -> Value {
    let [input, recurrence] = ["lru_input_gate", "lru_decay_gate"].map(|name| {
        let gate = g.block_linear(x, &format!("{name}.weight"), &format!("{name}.bias"), heads);
        g.apply(gate, Function::Sigmoid)
    });
    let decay = g.with_weight(recurrence, Binary::Mul, "lru_decay");
    let decay = g.scale(decay, -8.0);
    let x = g.mul(x, input);
    g.rg_lru(x, decay)
}

/// The nearest bfloat16, ties to even: the factor on the embedding is kept as one.
fn bfloat16(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// Which blocks of a period are attention.
fn attention_blocks(s: &Settings<'_>) -> Result<Vec<bool>> {
    const KEY: &str = "block_types|_block_types";
    let Some(value) = s.json(KEY) else { return Ok(vec![false, false, true]) };
    let one = |kind: &serde_json::Value| match kind.as_str() {
        Some("recurrent") => Some(false),
        Some("attention") => Some(true),
        _ => None,
    };
    let blocks: Option<Vec<bool>> = value.as_array().and_then(|list| list.iter().map(one).collect());
    blocks.filter(|b| !b.is_empty()).ok_or_else(|| s.wrong("block_types", "", "should be a list of recurrent and attention"))
}
