//! Mixtures of experts as DeepSeek's models have them (Dai et al. 2024, arXiv:2401.06066; DeepSeek-AI 2024, arXiv:2412.19437): many
//! experts, of which a router chooses a few, perhaps from a few groups; experts that all tokens ask; and layers without a mixture.

use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{ExpertsSpec, Function, Graph, Groups, Route, Score, Value};

/// Names of the bias that counts for the choice of experts only.
pub(super) const CORRECTION: &[Entry] = &[tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.e_score_correction_bias")];

/// Names of the experts that all tokens ask, which are one feed-forward layer.
pub(super) const SHARED_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_experts.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_experts.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_experts.down_proj"),
];

/// What a family's mixtures are where the configuration does not say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Implied {
    /// Logits to scores.
    pub(super) score: Score,
    /// Whether scores are corrected for the choice.
    pub(super) corrected: bool,
    /// Whether the weights of the chosen are made to sum to one.
    pub(super) normalize: bool,
    /// Whether the configuration can say otherwise.
    pub(super) says_normalize: bool,
    /// Factor on the weights.
    pub(super) scale: f64,
    /// Experts that all tokens ask.
    pub(super) shared: usize,
    /// Layers at the start that have no mixture.
    pub(super) dense: usize,
    /// Experts of a group that count for it.
    pub(super) best: usize,
}

impl Implied {
    /// As DeepSeek-V3 has them.
    pub(super) const SIGMOID: Self =
        Self { score: Score::Sigmoid, corrected: true, normalize: true, says_normalize: true, scale: 1.0, shared: 1, dense: 1, best: 2 };
}

/// Feed-forward layers, with a mixture of experts or without.
#[derive(Clone, Debug)]
pub(super) struct Mixture {
    spec: ExpertsSpec,
    route: Route,
    corrected: bool,
    /// Width of the experts that all tokens ask.
    shared: Option<usize>,
    /// By layer, whether it has the mixture.
    sparse: Vec<bool>,
    /// Width of layers without.
    inner: usize,
    act: Function,
}

impl Mixture {
    pub(super) fn read(s: &Settings<'_>, layers: usize, implied: &Implied) -> Result<Self> {
        const TOP_K: (&str, &str) = ("num_experts_per_tok|num_experts_per_token|moe_k|moe_topk", "expert_used_count");
        let experts = s.size_to("n_routed_experts|num_experts|num_local_experts|moe_num_experts", "expert_count", 1 << 14)?;
        let top_k = s.size(TOP_K.0, TOP_K.1)?;
        let inner = s.size("moe_intermediate_size|expert_ffn_hidden_size|intermediate_size", "expert_feed_forward_length")?;
        let score = score(s, implied.score)?;
        let scale = s.float_or(
            "routed_scaling_factor|router_scaling_factor|route_scale",
            "expert_weights_scale",
            if s.is_gguf() { 1.0 } else { implied.scale },
        )? as f32;
        let groups = groups(s, experts, implied)?;
        if top_k > groups.map_or(experts, |g| experts / g.count * g.chosen) {
            return Err(s.wrong(TOP_K.0, TOP_K.1, format!("is {top_k}, more than there are experts to choose from")));
        }
        let act = s.activation("silu")?;
        let sparse = sparse_layers(s, layers, implied.dense)?;
        let route = Route { normalize: normalizes(s, implied)?, groups, scale, ..Route::new(top_k, score) };
        Ok(Self {
            spec: ExpertsSpec::new(experts, inner, act),
            route,
            corrected: implied.corrected,
            shared: shared(s, inner, implied.shared)?,
            inner: if sparse.contains(&false) {
                s.size("intermediate_size_mlp|prefix_dense_intermediate_size|intermediate_size|ffn_hidden_size", "feed_forward_length")?
            } else {
                0
            },
            sparse,
            act,
        })
    }

    /// The same with other experts.
    pub(super) fn with_spec(mut self, change: impl FnOnce(&mut ExpertsSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// The same with another choice.
    pub(super) fn with_route(mut self, change: impl FnOnce(&mut Route)) -> Self {
        change(&mut self.route);
        self
    }

    /// Experts with matrices.
    pub(super) fn experts(&self) -> usize {
        self.spec.experts
    }

    /// Whether the layer has the mixture.
    pub(super) fn is_sparse(&self, layer: usize) -> bool {
        self.sparse[layer]
    }

    pub(super) fn build(&self, g: &mut Graph<'_>, layer: usize, x: Value) -> Value {
        if !self.sparse[layer] {
            return g.gated_ffn(x, self.inner, self.act);
        }
        let choices = self.spec.experts + self.spec.identities;
        let logits = g.linear(x, "ffn_gate_inp", choices);
        let bias = if self.corrected { g.optional_weight("exp_probs_b.bias", &[choices]) } else { None };
        let route = g.route(logits, Route { bias, ..self.route.clone() });
        let y = g.experts(x, route, &self.spec);
        let Some(inner) = self.shared else { return y };
        let shared = g.gated_ffn_named(x, ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"], inner, self.act);
        g.add(y, shared)
    }
}

/// How logits become scores.
fn score(s: &Settings<'_>, implied: Score) -> Result<Score> {
    const KEYS: (&str, &str) = ("scoring_func|score_func|score_function|expert_selection_fn", "expert_gating_func");
    let score = if s.is_gguf() {
        match s.optional_size("", KEYS.1)? {
            None => implied,
            Some(1) => Score::Softmax,
            // Softmax over the chosen alone.
            Some(3) if implied == Score::Softmax => Score::Softmax,
            Some(2) => Score::Sigmoid,
            Some(n) => return Err(s.wrong("", KEYS.1, format!("is {n}; known are 1 (softmax) and 2 (sigmoid)"))),
        }
    } else {
        match s.text_or(KEYS.0, "", "")?.as_str() {
            "" => implied,
            "softmax" => Score::Softmax,
            // dots.llm1 names the method of the choice here.
            "sigmoid" | "noaux_tc" => Score::Sigmoid,
            other => return Err(s.wrong(KEYS.0, "", format!("is `{other}`; known are softmax and sigmoid"))),
        }
    };
    s.note(KEYS.1, Meta::Unsigned(if score == Score::Softmax { 1 } else { 2 }));
    Ok(score)
}

/// Whether the weights of the chosen are made to sum to one.
fn normalizes(s: &Settings<'_>, implied: &Implied) -> Result<bool> {
    const KEYS: (&str, &str) = ("norm_topk_prob|moe_renormalize|route_norm", "expert_weights_norm");
    let default = implied.normalize && !(s.is_gguf() && implied.says_normalize);
    let normalizes = s.bool_or(KEYS.0, KEYS.1, default)?;
    if normalizes != implied.normalize && !implied.says_normalize {
        return Err(s.wrong(KEYS.0, KEYS.1, format!("is {normalizes}, but models of this architecture are always {}", implied.normalize)));
    }
    Ok(normalizes)
}

/// The groups of experts, where not all of them are asked.
fn groups(s: &Settings<'_>, experts: usize, implied: &Implied) -> Result<Option<Groups>> {
    const COUNT: (&str, &str) = ("n_group|num_expert_group", "expert_group_count");
    const CHOSEN: (&str, &str) = ("topk_group", "expert_group_used_count");
    const METHOD: &str = "topk_method";
    // Not noted: llama.cpp refuses groups of which all stay.
    let unnoted = |key| if s.is_gguf() { key } else { "" };
    let count = s.count_or(COUNT.0, unnoted(COUNT.1), 1)?.max(1);
    let chosen = s.count_or(CHOSEN.0, unnoted(CHOSEN.1), count)?.clamp(1, count);
    match s.text_or(METHOD, "", if implied.best == 1 { "greedy" } else { "noaux_tc" })?.as_str() {
        "greedy" if !s.is_gguf() => return Ok(None),
        "greedy" | "group_limited_greedy" | "noaux_tc" => {}
        other => return Err(s.wrong(METHOD, "", format!("is `{other}`; known are greedy, group_limited_greedy, noaux_tc"))),
    }
    if chosen == count {
        return Ok(None);
    }
    if !experts.is_multiple_of(count) || count > Groups::MOST || experts / count < implied.best {
        let what = format!("is {count}, which does not cut {experts} experts into groups of {} or more", implied.best);
        return Err(s.wrong(COUNT.0, COUNT.1, what));
    }
    s.hf_only(implied.best != 2, "it chooses groups by their best expert, where GGUF files mean the best two");
    s.note(COUNT.1, Meta::Unsigned(count as u64));
    s.note(CHOSEN.1, Meta::Unsigned(chosen as u64));
    Ok(Some(Groups { count, chosen, best: if s.is_gguf() { 2 } else { implied.best } }))
}

/// Width of the experts that all tokens ask.
fn shared(s: &Settings<'_>, inner: usize, default: usize) -> Result<Option<usize>> {
    const WIDTH: &str = "expert_shared_feed_forward_length";
    let count = s.count_or("n_shared_experts|num_shared_experts|moe_num_shared_experts", "expert_shared_count", default)?;
    let stated = if s.is_gguf() { s.count_or("", WIDTH, 0)? } else { 0 };
    let width = if stated > 0 { stated } else { count.saturating_mul(inner) };
    s.note(WIDTH, Meta::Unsigned(width as u64));
    Ok(Some(width).filter(|width| *width > 0))
}

/// By layer, whether it has a mixture: some at the start, and later ones at an interval, may have none.
fn sparse_layers(s: &Settings<'_>, layers: usize, dense: usize) -> Result<Vec<bool>> {
    const FIRST: (&str, &str) = ("first_k_dense_replace|num_dense_layers|moe_layer_start_index", "leading_dense_block_count");
    const STEP: &str = "interleave_moe_layer_step";
    let after = |first: usize, end: usize, step: usize| {
        (0..layers).map(|i| i >= first && i < end && (i + 1).is_multiple_of(step)).collect::<Vec<_>>()
    };
    if s.is_gguf() {
        let has_router = |i: usize| s.checkpoint.tensor(&format!("blk.{i}.ffn_gate_inp.weight")).is_some();
        return Ok(match s.gguf_value(FIRST.1).or(s.gguf_value(STEP)) {
            Some(_) => after(s.count_or("", FIRST.1, 0)?, layers, s.size_or("", STEP, 1)?),
            None => (0..layers).map(has_router).collect(),
        });
    }
    let list = |key: &str| if s.json(key).is_some_and(|v| v.is_array()) { s.per_layer(key, layers) } else { Ok(None) };
    let sparse = if let Some(sparse) = s.kinds("mlp_layer_types", layers, &[("dense", false), ("sparse", true)])? {
        sparse
    } else if let Some(chosen) = s.json("moe_layers").and_then(|v| v.as_array()) {
        (0..layers).map(|i| chosen.iter().any(|n| n.as_u64() == Some(i as u64))).collect()
    } else if let Some(flags) = list("moe_layer_freq")? {
        flags.into_iter().map(|flag| flag.as_u64() != Some(0)).collect()
    } else {
        let first = s.count_or(FIRST.0, "", dense)?;
        let end = s.optional_float("moe_layer_end_index", "")?.filter(|end| *end >= 0.0).map_or(layers, |end| end as usize + 1);
        let step = s.optional_size("moe_layer_interval|interleave_moe_layer_step", "")?.unwrap_or(1);
        // DeepSeek counts layers from 0, ERNIE from 1.
        let every = s.optional_size("moe_layer_freq", "")?.unwrap_or(1);
        after(first, end, step).into_iter().enumerate().map(|(i, sparse)| sparse && i.is_multiple_of(every)).collect()
    };
    let first = sparse.iter().position(|sparse| *sparse).unwrap_or(layers);
    let step = (1..=layers).find(|step| after(first, layers, *step) == sparse);
    s.hf_only(step.is_none(), "its layers without experts are not those at its start");
    s.note(FIRST.1, Meta::Unsigned(first as u64));
    s.note(STEP, Meta::Unsigned(step.unwrap_or(1) as u64));
    Ok(sparse)
}
