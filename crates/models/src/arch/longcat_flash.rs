//! LongCat-Flash (Meituan 2025, arXiv:2509.01322): each layer has two latent attentions and two feed-forward layers one after the other;
//! a mixture of experts beside the second half starts from the middle (shortcut-connected), and some of its experts do nothing.
//! Reference: transformers' `models/longcat_flash`.

use super::{
    Arch,
    blocks::*,
    latent::Latent,
    mixture::{Implied, Mixture},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, RopeStyle, Score, Value};

pub(crate) static LONGCAT_FLASH: Arch =
    Arch { hf: &["longcat_flash"], gguf: &[], tensors: &[TRUNK, FIRST, SECOND, ROUTER, EXPERTS], ignored: &["model.mtp.*"], plan };

/// Names of one half of a layer.
macro_rules! half {
    ($half:literal) => {
        &[
            tensor(concat!("blk.{}.", $half, ".attn_norm"), concat!("model.layers.{}.input_layernorm.", $half)),
            tensor(concat!("blk.{}.", $half, ".ffn_norm"), concat!("model.layers.{}.post_attention_layernorm.", $half)),
            tensor(concat!("blk.{}.", $half, ".attn_q_a"), concat!("model.layers.{}.self_attn.", $half, ".q_a_proj")),
            tensor(concat!("blk.{}.", $half, ".attn_q_a_norm"), concat!("model.layers.{}.self_attn.", $half, ".q_a_layernorm")),
            tensor(concat!("blk.{}.", $half, ".attn_q_b"), concat!("model.layers.{}.self_attn.", $half, ".q_b_proj")),
            tensor(concat!("blk.{}.", $half, ".attn_kv_a_mqa"), concat!("model.layers.{}.self_attn.", $half, ".kv_a_proj_with_mqa")),
            tensor(concat!("blk.{}.", $half, ".attn_kv_a_norm"), concat!("model.layers.{}.self_attn.", $half, ".kv_a_layernorm")),
            tensor(concat!("blk.{}.", $half, ".attn_kv_b"), concat!("model.layers.{}.self_attn.", $half, ".kv_b_proj")),
            tensor(concat!("blk.{}.", $half, ".attn_k_b.weight"), "").of_heads(
                "",
                concat!("model.layers.{}.self_attn.", $half, ".kv_b_proj.weight"),
                false,
            ),
            tensor(concat!("blk.{}.", $half, ".attn_v_b.weight"), "").of_heads(
                "",
                concat!("model.layers.{}.self_attn.", $half, ".kv_b_proj.weight"),
                true,
            ),
            tensor(concat!("blk.{}.", $half, ".attn_output"), concat!("model.layers.{}.self_attn.", $half, ".o_proj")),
            tensor(concat!("blk.{}.", $half, ".ffn_gate"), concat!("model.layers.{}.mlps.", $half, ".gate_proj")),
            tensor(concat!("blk.{}.", $half, ".ffn_up"), concat!("model.layers.{}.mlps.", $half, ".up_proj")),
            tensor(concat!("blk.{}.", $half, ".ffn_down"), concat!("model.layers.{}.mlps.", $half, ".down_proj")),
        ]
    };
}

const FIRST: &[Entry] = half!("0");
const SECOND: &[Entry] = half!("1");

const ROUTER: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router.classifier"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.router.e_score_correction_bias"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let latent = Latent::read(s, RopeStyle::Pairs, c.eps)?;
    let growth = |rank: usize| (c.width as f32 / rank as f32).sqrt();
    let latent = latent.scaled(growth(s.size("q_lora_rank", "")?), growth(s.size("kv_lora_rank", "")?));
    if s.text_or("zero_expert_type", "", "identity")? != "identity" {
        return Err(s.wrong("zero_expert_type", "", "is not `identity`, the only kind that is known"));
    }
    let identities = s.count_or("zero_expert_num", "", 0)?;
    let implied =
        Implied { score: Score::Softmax, normalize: false, says_normalize: false, scale: 6.0, shared: 0, dense: 0, ..Implied::SIGMOID };
    let mixture = Mixture::read(s, c.layers, &implied)?.with_spec(|spec| spec.identities = identities);
    // Checkpoints hold matrices of the experts that do nothing, too.
    s.note_spare_experts(mixture.experts());
    let inner = s.size("ffn_hidden_size|intermediate_size", "")?;
    let act = s.activation("silu")?;
    let dense = |g: &mut Graph<'_>, x, half: &str| {
        g.gated_ffn_named(x, [&format!("{half}ffn_gate"), &format!("{half}ffn_up"), &format!("{half}ffn_down")], inner, act)
    };
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "0.attn_norm", |g, x| latent.build(g, x, "0."));
        let h = c.norm(g, x, "0.ffn_norm");
        let shortcut = mixture.build(g, layer, h);
        let y = dense(g, h, "0.");
        let x = g.add(x, y);
        let x = c.residual(g, x, "1.attn_norm", |g, x| latent.build(g, x, "1."));
        let x = c.residual(g, x, "1.ffn_norm", |g, x| dense(g, x, "1."));
        g.add(x, shortcut)
    }))
}
