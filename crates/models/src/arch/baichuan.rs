//! Baichuan (Yang et al. 2023, arXiv:2309.10305): Llama with queries, keys and values of one matrix. The smaller models turn queries and
//! keys, the larger ones have linear biases on their scores (ALiBi); Baichuan 2 has an output matrix whose rows have the length one.
//! Reference: `modeling_baichuan.py` of baichuan-inc/Baichuan2-7B-Base and baichuan-inc/Baichuan2-13B-Base.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static BAICHUAN: Arch =
    Arch { hf: &["baichuan"], gguf: &["baichuan"], tensors: &[TRUNK, PRE_NORMS, PACKED, FFN], ignored: &[], plan };

pub(crate) static BAICHUAN2: Arch = Arch { hf: &["baichuan2"], tensors: &[UNIT_HEAD, TRUNK, PRE_NORMS, PACKED, FFN], ..BAICHUAN };

/// `NormHead`.
pub(super) const UNIT_HEAD: &[Entry] = &[tensor("output", "lm_head").unit_rows()];

const PACKED: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.layers.{}.self_attn.W_pack").ordered(|s| {
        let heads = Heads::read(s, Decoder::width(s)?)?;
        Ok(heads.ungrouped_pairs(if turns(s)? { heads.head } else { 0 }))
    }),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
];

/// Layers of the models whose GGUF files mean rotation, and linear biases.
const TURNING: usize = 32;
const BIASED: usize = 40;

/// Whether queries and keys turn: then configurations state how many positions there are. GGUF files tell by the number of layers.
fn turns(s: &Settings<'_>) -> Result<bool> {
    let layers = s.layers()?;
    let turns = if s.is_gguf() { layers != BIASED } else { s.json("max_position_embeddings").is_some() };
    s.hf_only(turns == (layers == BIASED), "GGUF files of its architecture mean linear biases in models of 40 layers, and only there");
    s.unread_by_llama_cpp(turns && layers != TURNING, "it knows Baichuan with 32 and with 40 layers only");
    Ok(turns)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let turns = turns(s)?;
    let heads = Heads { alibi: if turns { None } else { Some((8.0, 1.0)) }, ..Heads::read(s, c.width)? };
    s.note("rope.dimension_count", Meta::Unsigned(heads.head as u64));
    let rope = if turns { Some(s.rope(heads.head, RopeStyle::Pairs)?) } else { None };
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let prepare = |g: &mut Graph<'_>, q, _: &str| rope.as_ref().map_or(q, |rope| g.rope(q, heads.head, rope));
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, prepare));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
