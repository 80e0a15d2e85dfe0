//! SmallThinker (IPADS and Zenergize 2025, arXiv:2507.20984): the router sees the stream before attention, so that experts can be fetched
//! meanwhile; gates of ReLU; layers with a window know positions, those without do not. Reference: `modeling_smallthinker.py` of
//! Tiiny/SmallThinker-21BA3B-Instruct.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{ExpertsSpec, Graph, Mask, Route, Score, Value};

pub(crate) static SMALLTHINKER: Arch =
    Arch { hf: &["smallthinker"], gguf: &["smallthinker"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, EARLY_EXPERTS], ignored: &[], plan };

const EARLY_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.primary_router"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{e}.gate"),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{e}.up"),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{e}.down"),
];

/// Of which layers the first sees all and knows no positions, in models with windows as GGUF files have them.
const PERIOD: usize = 4;
/// The window that llama.cpp takes, whatever the file says.
const WINDOW: usize = 4096;

/// What a layer sees, and whether it knows positions.
#[derive(Clone, Copy, PartialEq)]
struct Sight {
    mask: Mask,
    turns: bool,
}

/// Refuses what the configuration can say and is not known here.
fn refuse_others(s: &Settings<'_>, layers: usize) -> Result<()> {
    for (key, known) in [("moe_enable_early_router", true), ("moe_enable_secondary_experts", false), ("use_qk_norm", false)] {
        if s.implied(key, known)? != known {
            return Err(s.wrong(key, "", format!("is {}, but models with {known} are known only", !known)));
        }
    }
    if s.count_or("moe_shared_primary_experts", "", 0)? > 0 {
        return Err(s.wrong("moe_shared_primary_experts", "", "counts experts that all tokens ask, which are not known here"));
    }
    match s.per_layer("moe_layer_layout", layers)? {
        Some(layout) if layout.iter().any(|v| v.as_u64() != Some(1)) => {
            Err(s.wrong("moe_layer_layout", "", "has layers without experts, which are not known here"))
        }
        _ => Ok(()),
    }
}

/// By layer; the layouts are lists of zeros and ones.
fn sights(s: &Settings<'_>, layers: usize) -> Result<Vec<Sight>> {
    const KEYS: (&str, &str) = ("sliding_window_size", "attention.sliding_window");
    const PATTERN: &str = "attention.sliding_window_pattern";
    let periodic =
        |window| (0..layers).map(|i| i % PERIOD != 0).map(move |turns| Sight { mask: if turns { window } else { Mask::Causal }, turns });
    let all = Sight { mask: Mask::Causal, turns: true };
    if s.is_gguf() {
        if s.gguf_value(PATTERN).is_some_and(|v| *v != Meta::Unsigned(PERIOD as u64)) {
            return Err(s.wrong("", PATTERN, format!("should be {PERIOD}")));
        }
        return Ok(s.window()?.map_or(vec![all; layers], |window| periodic(Mask::Window(window)).collect()));
    }
    let flags = |key: &str, default: bool| -> Result<Vec<bool>> {
        let list = s.per_layer(key, layers)?;
        Ok(list.map_or(vec![default; layers], |list| list.iter().map(|v| v.as_u64() != Some(0)).collect()))
    };
    let (windowed, turning) = (flags("sliding_window_layout", false)?, flags("rope_layout", true)?);
    let window = if windowed.contains(&true) { Mask::Window(s.size(KEYS.0, "")?) } else { Mask::Causal };
    let mask = |windowed| if windowed { window } else { Mask::Causal };
    let sights: Vec<Sight> = windowed.into_iter().zip(turning).map(|(windowed, turns)| Sight { mask: mask(windowed), turns }).collect();
    let sayable = sights.iter().all(|sight| *sight == all) || sights.iter().copied().eq(periodic(window));
    s.hf_only(!sayable, "its layers with windows or without positions do not come as GGUF files of `smallthinker` mean");
    if let Mask::Window(window) = window {
        s.note(KEYS.1, Meta::Unsigned(window as u64));
        s.unread_by_llama_cpp(window != WINDOW, "its window is not of 4096 tokens");
    }
    Ok(sights)
}

/// How the router's logits become scores, which are made to sum to one.
fn score(s: &Settings<'_>) -> Result<Score> {
    const GATING: &str = "expert_gating_func";
    let softmax = match s.is_gguf() {
        true => s.size("", GATING)? == 1,
        false => s.bool_or("moe_primary_router_apply_softmax", "", false)?,
    };
    s.note(GATING, Meta::Unsigned(if softmax { 1 } else { 2 }));
    Ok(if softmax { Score::Softmax } else { Score::Sigmoid })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    const TOP_K: (&str, &str) = ("moe_num_active_primary_experts", "expert_used_count");
    let c = Decoder::read(s)?;
    refuse_others(s, c.layers)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 1e6, ..Rotary::HALVES })?;
    let sights = sights(s, c.layers)?;
    let experts = s.size_to("moe_num_primary_experts", "expert_count", 1 << 14)?;
    let top_k = s.size_to(TOP_K.0, TOP_K.1, experts)?;
    let inner = s.size("moe_ffn_hidden_size", "expert_feed_forward_length")?;
    s.note("feed_forward_length", Meta::Unsigned(inner as u64));
    let spec = ExpertsSpec::new(experts, inner, s.activation("relu")?);
    let route = Route { normalize: true, ..Route::new(top_k, score(s)?) };
    Ok(c.build(g, |g, layer, x| {
        let Sight { mask, turns } = sights[layer];
        let logits = g.linear(x, "ffn_gate_inp", experts);
        let chosen = g.route(logits, route.clone());
        let turn = |g: &mut Graph<'_>, q, _: &str| if turns { g.rope(q, heads.head, &rope) } else { q };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, mask, turn));
        c.residual(g, x, "ffn_norm", |g, x| g.experts(x, chosen, &spec))
    }))
}
