//! Command A+ (Cohere 2026): Command A with a mixture of experts, whose answer is averaged with that of the experts that all tokens ask;
//! the first layers have none, and know positions though they see the whole context. Reference: transformers' `models/cohere2_moe`.

use super::{
    Arch,
    blocks::*,
    mixture::{Implied, Mixture, SHARED_EXPERTS},
    windows::flagged_masks,
};
use crate::{Result, rope::Rotary, settings::Settings};
use onebit_plan::{Graph, Mask, Score, Value};

pub(crate) static COHERE2_MOE: Arch = Arch {
    hf: &["cohere2_moe"],
    gguf: &["cohere2moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN, EXPERTS, SHARED_EXPERTS],
    ignored: &[],
    plan,
};

/// With RMSNorm where the checkpoint states its epsilon, else with LayerNorm.
fn decoder(s: &Settings<'_>) -> Result<Decoder> {
    const RMS: (&str, &str) = ("rms_norm_eps", "attention.layer_norm_rms_epsilon");
    match s.optional_float(RMS.0, RMS.1)? {
        Some(_) => Decoder::with_norm(s, Norm::Rms, s.epsilon(RMS.0, RMS.1)?),
        None => Decoder::read_layer_norm(s, "layer_norm_eps"),
    }
}

/// Layers before the first with experts.
fn leading_dense(mixture: &Mixture, layers: usize) -> usize {
    (0..layers).take_while(|layer| !mixture.is_sparse(*layer)).count()
}

/// What each layer sees: all, at the end of each period, which the layers with experts count for themselves.
fn masks(s: &Settings<'_>, layers: usize, dense: usize) -> Result<Vec<Mask>> {
    let periods = match s.is_gguf() {
        true => [1, 1],
        false => [s.size_or("prefix_dense_sliding_window_pattern", "", 1)?, s.size_or("sliding_window_pattern", "", 4)?],
    };
    let full = |i: usize| if i < dense { (i + 1).is_multiple_of(periods[0]) } else { (i - dense + 1).is_multiple_of(periods[1]) };
    flagged_masks(s, layers, Mask::Window(s.window()?.unwrap_or(4096)), |layer| !full(layer))
}

/// Factor on what mixture and shared experts make together.
fn share(s: &Settings<'_>) -> Result<f32> {
    const KEY: &str = "shared_expert_combination_strategy";
    let shared = s.count_or("num_shared_experts", "expert_shared_count", 0)? > 0;
    match s.text_or(KEY, "", "average")?.as_str() {
        "average" => Ok(if shared { 0.5 } else { 1.0 }),
        "sum" => {
            s.hf_only(shared, "the answers of its experts are added, where GGUF files of `cohere2moe` mean their average");
            Ok(1.0)
        }
        other => Err(s.wrong(KEY, "", format!("is `{other}`; known are average and sum"))),
    }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let logit_scale = s.float_or("logit_scale", "logit_scale", 0.0625)? as f32;
    let c = Decoder { logit_scale, ..decoder(s)? };
    let heads = Heads::read(s, c.width)?;
    s.hf_only(heads.biased, "its attention has biases");
    let rope = s.rotary(heads.head, Rotary::PAIRS)?;
    // A softmax over the chosen alone.
    let score = if s.is_gguf() { Score::Sigmoid } else { Score::Softmax };
    let implied = Implied { score, corrected: false, shared: 0, dense: 0, ..Implied::SIGMOID };
    let mixture = Mixture::read(s, c.layers, &implied)?.with_route(|route| route.normalize |= route.score == Score::Softmax);
    let dense = leading_dense(&mixture, c.layers);
    let masks = masks(s, c.layers, dense)?;
    let turns_all = s.is_gguf() || s.size_or("prefix_dense_sliding_window_pattern", "", 1)? == 1;
    s.hf_only(!turns_all && dense > 0, "its first layers do not all know positions");
    let share = share(s)?;
    Ok(c.build(g, |g, layer, x| {
        let sparse = mixture.is_sparse(layer);
        let turns = masks[layer] != Mask::Causal || !sparse && turns_all;
        let turn = |g: &mut Graph<'_>, q, _: &str| if turns { g.rope(q, heads.head, &rope) } else { q };
        let attention = |g: &mut Graph<'_>, h| heads.attention(g, h, masks[layer], turn);
        c.parallel(g, x, "attn_norm", attention, |g, h| {
            let y = mixture.build(g, layer, h);
            if sparse { g.scale(y, share) } else { y }
        })
    }))
}
