//! What repeats between architectures.

use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, ExpertsSpec, Function, Graph, Mask, RopeStyle, Route, Score, Value, ops::Relative};

/// Names of the trunk of nearly all decoders.
pub(crate) const TRUNK: &[Entry] =
    &[tensor("token_embd", "model.embed_tokens"), tensor("output_norm", "model.norm"), tensor("output", "lm_head")];

/// Names of the norms before attention and feed-forward layer.
pub(crate) const PRE_NORMS: &[Entry] =
    &[tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"), tensor("blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm")];

/// [`TRUNK`] with a norm that the Hub stores less one (zero-centred).
pub(crate) const ZERO_CENTRED_TRUNK: &[Entry] =
    &[tensor("token_embd", "model.embed_tokens"), tensor("output_norm", "model.norm").add_one(), tensor("output", "lm_head")];

/// [`PRE_NORMS`] that the Hub stores less one.
pub(crate) const ZERO_CENTRED_PRE_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm").add_one(),
    tensor("blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm").add_one(),
];

/// Names of an attention layer whose heads both sources store alike.
pub(crate) const ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
    GGUF_QKV,
];

/// Names of an attention layer that has queries, keys and values in one matrix in both forms.
pub(crate) const FUSED_ATTENTION: &[Entry] =
    &[tensor("blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"), tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj")];

/// The name of such a matrix, which GGUF files of any architecture may have.
pub(crate) const GGUF_QKV: Entry = tensor("blk.{}.attn_qkv", "");

/// Names of an attention layer whose rotary dimensions GGUF files hold in adjacent pairs.
pub(crate) const INTERLEAVED_ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj").ordered(pairs),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj").ordered(pairs),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
    GGUF_QKV,
];

/// Dimensions `i` and `i + dims / 2` of each head, one after the other.
pub(super) fn pairs(s: &Settings<'_>) -> Result<Order> {
    let heads = Heads::read(s, Decoder::width(s)?)?;
    let dims = s.rope(heads.head, RopeStyle::Pairs)?.dims();
    Ok(Order::Runs((0..heads.head).map(|i| paired(i, dims)).collect()))
}

/// Which dimension of a head that pairs halves comes at `i` where `dims` are paired one by one.
pub(crate) fn paired(i: usize, dims: usize) -> usize {
    if i < dims { i / 2 + i % 2 * dims / 2 } else { i }
}

/// Names of the norms of queries and keys.
pub(crate) const QK_NORMS: &[Entry] =
    &[tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"), tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm")];

/// Names of a gated feed-forward layer.
pub(crate) const FFN: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"),
];

/// Names of a gated feed-forward layer whose gate and up are one matrix.
pub(crate) const FUSED_FFN: &[Entry] =
    &[tensor("blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"), tensor("blk.{}.ffn_down", "model.layers.{}.mlp.down_proj")];

/// Names of a mixture of experts and its router; MLX has stacks.
pub(crate) const EXPERTS: &[Entry] =
    &[
        tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"),
        tensor("blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{e}.gate_proj")
            .or("model.layers.{}.mlp.switch_mlp.gate_proj")
            .or_fused("blk.{}.ffn_gate_up_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj", 0, 2),
        tensor("blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{e}.up_proj").or("model.layers.{}.mlp.switch_mlp.up_proj").or_fused(
            "blk.{}.ffn_gate_up_exps.weight",
            "model.layers.{}.mlp.experts.gate_up_proj",
            1,
            2,
        ),
        tensor("blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{e}.down_proj")
            .or("model.layers.{}.mlp.switch_mlp.down_proj")
            .or_fused("", "model.layers.{}.mlp.experts.down_proj", 0, 1),
    ];

/// Names of the expert that all tokens ask, and its gate.
pub(crate) const SHARED_EXPERT: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp_shexp", "model.layers.{}.mlp.shared_expert_gate"),
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_expert.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_expert.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_expert.down_proj"),
];

/// How a decoder normalises its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norm {
    /// RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467).
    Rms,
    /// LayerNorm (Ba et al. 2016, arXiv:1607.06450), with biases where the checkpoint has them.
    Layer,
    /// LayerNorm without weights.
    PlainLayer,
}

/// A pre-norm decoder (Xiong et al. 2020, arXiv:2002.04745).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    pub(crate) width: usize,
    pub(crate) layers: usize,
    pub(crate) norm: Norm,
    pub(crate) eps: f32,
    /// Factor on the embedding.
    pub(crate) embed_scale: f32,
    /// Factor on what [`Decoder::residual`] adds.
    pub(crate) residual_scale: f32,
    /// Factor on the logits.
    pub(crate) logit_scale: f32,
    /// Bound `c` on the logits, which become `c * tanh(logit / c)`.
    pub(crate) logit_softcap: Option<f32>,
    /// What the norm before the output is called.
    pub(crate) output_norm: &'static str,
}

impl Decoder {
    /// With RMSNorm. All factors are 1.
    pub(crate) fn read(s: &Settings<'_>) -> Result<Self> {
        Self::with_norm(s, Norm::Rms, s.epsilon("rms_norm_eps|layer_norm_epsilon", "attention.layer_norm_rms_epsilon")?)
    }

    /// With LayerNorm, whose epsilon `config.json` calls `eps`; 1e-5 where it does not say. All factors are 1.
    pub(crate) fn read_layer_norm(s: &Settings<'_>, eps: &str) -> Result<Self> {
        Self::with_norm(s, Norm::Layer, s.epsilon_or(eps, "attention.layer_norm_epsilon", 1e-5)?)
    }

    /// With the norm given. All factors are 1.
    pub(crate) fn with_norm(s: &Settings<'_>, norm: Norm, eps: f32) -> Result<Self> {
        let (width, layers) = (Self::width(s)?, s.layers()?);
        Ok(Self {
            width,
            layers,
            norm,
            eps,
            embed_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
            logit_softcap: None,
            output_norm: "output_norm",
        })
    }

    /// Numbers in a row of the stream.
    pub(crate) fn width(s: &Settings<'_>) -> Result<usize> {
        s.size("hidden_size|n_embd|d_model|n_embed|model_dim|dim", "embedding_length")
    }

    /// The norm `name` of a row of the stream.
    pub(crate) fn norm(&self, g: &mut Graph<'_>, x: Value, name: &str) -> Value {
        match self.norm {
            Norm::Rms => g.rms_norm(x, name, self.eps),
            Norm::Layer => g.layer_norm(x, name, self.eps),
            Norm::PlainLayer => g.plain_layer_norm(x, self.width, self.eps),
        }
    }

    /// Embedding, `layer` for each layer, final norm, logits.
    pub(crate) fn build(&self, g: &mut Graph<'_>, layer: impl FnMut(&mut Graph<'_>, usize, Value) -> Value) -> Value {
        let x = g.embed("token_embd", self.width, self.embed_scale);
        self.build_on(g, x, layer)
    }

    /// The same on an embedding that was made.
    pub(crate) fn build_on(&self, g: &mut Graph<'_>, x: Value, layer: impl FnMut(&mut Graph<'_>, usize, Value) -> Value) -> Value {
        let x = g.layers(self.layers, x, layer);
        let x = g.select(x);
        let x = self.norm(g, x, self.output_norm);
        self.logits(g, x)
    }

    /// The logits of the last layer's normalised output.
    pub(crate) fn logits(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let logits = g.head(x);
        let logits = g.scale(logits, self.logit_scale);
        self.logit_softcap.map_or(logits, |cap| softcap(g, logits, cap))
    }

    /// `x + attention(h) + feed_forward(h)` with `h = norm(x)` (Wang & Komatsuzaki 2021, GPT-J).
    pub(crate) fn parallel(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        norm: &str,
        attention: impl FnOnce(&mut Graph<'_>, Value) -> Value,
        feed_forward: impl FnOnce(&mut Graph<'_>, Value) -> Value,
    ) -> Value {
        self.parallel_with(g, x, [norm; 2], attention, feed_forward)
    }

    /// The same with a norm for each of the two.
    pub(crate) fn parallel_with(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        norms: [&str; 2],
        attention: impl FnOnce(&mut Graph<'_>, Value) -> Value,
        feed_forward: impl FnOnce(&mut Graph<'_>, Value) -> Value,
    ) -> Value {
        let h = self.norm(g, x, norms[0]);
        let y = attention(g, h);
        let h = if norms[1] == norms[0] { h } else { self.norm(g, x, norms[1]) };
        let z = feed_forward(g, h);
        let x = g.add(x, y);
        g.add(x, z)
    }

    /// `x + norm(f(x))`.
    pub(crate) fn residual_after(&self, g: &mut Graph<'_>, x: Value, norm: &str, f: impl FnOnce(&mut Graph<'_>, Value) -> Value) -> Value {
        let y = f(g, x);
        let y = self.norm(g, y, norm);
        g.add(x, y)
    }

    /// `x + f(norm(x))`.
    pub(crate) fn residual(&self, g: &mut Graph<'_>, x: Value, norm: &str, f: impl FnOnce(&mut Graph<'_>, Value) -> Value) -> Value {
        let h = self.norm(g, x, norm);
        let y = f(g, h);
        let y = g.scale(y, self.residual_scale);
        g.add(x, y)
    }
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(g: &mut Graph<'_>, x: Value, cap: f32) -> Value {
    let bounded = g.scale(x, 1.0 / cap);
    let bounded = g.apply(bounded, Function::Tanh);
    g.scale(bounded, cap)
}

/// The width of a feed-forward layer; four times the stream's where the configuration does not say.
pub(crate) fn feed_forward_width(s: &Settings<'_>, width: usize) -> Result<usize> {
    s.size_or("intermediate_size|n_inner|ffn_dim|ffn_hidden_size", "feed_forward_length", 4 * width)
}

/// How the rows of a matrix of queries, keys and values are ordered in Hugging Face checkpoints: so many runs, each with a part of the
/// queries, the keys and the values, in this order (0, 1 and 2). GGUF files have one run in the usual order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fused {
    pub(crate) runs: usize,
    pub(crate) order: [usize; 3],
}

impl Fused {
    /// All queries, all keys, all values.
    pub(crate) const PLAIN: Self = Self { runs: 1, order: [0, 1, 2] };

    /// In so many runs.
    pub(crate) fn runs(runs: usize) -> Self {
        Self { runs, ..Self::PLAIN }
    }
}

/// The slopes of linear biases for so many heads: powers of `2^(-max / n)`, `n` being the power of two not above `heads`; the heads
/// beyond those take the odd powers for twice as many (Press et al. 2021, arXiv:2108.12409, and its reference code).
pub(crate) fn alibi_slopes(heads: usize, max: f32) -> Vec<f32> {
    let n = 1usize << heads.max(1).ilog2();
    let slope = |power: usize, of: usize| 2f64.powf(-f64::from(max) * power as f64 / of as f64) as f32;
    (0..heads).map(|h| if h < n { slope(h + 1, n) } else { slope(2 * (h - n) + 1, 2 * n) }).collect()
}

/// The heads of grouped-query attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head: usize,
    /// Numbers in a value of one head.
    pub(crate) value: usize,
    /// Factor on the scores.
    pub(crate) scale: f32,
    /// Bound `c` on the scores, which become `c * tanh(score / c)`.
    pub(crate) softcap: Option<f32>,
    /// Bound on queries, keys and values, before anything else is done to them.
    pub(crate) clip: Option<f32>,
    /// The largest exponent of the slopes, where the scores have linear biases ([`alibi_slopes`]), and a factor on the slopes.
    pub(crate) alibi: Option<(f32, f32)>,
    /// How a matrix of all three is ordered, where there is one.
    pub(crate) fused: Fused,
    /// Whether queries, keys and values must have biases. They are used in any case where the checkpoint has them.
    pub(crate) biased: bool,
    /// Epsilon of an RMSNorm before the output projection.
    pub(crate) sub_norm: Option<f32>,
    /// Name of the logits, one for each head, that take part in the softmax and carry no value (gpt-oss).
    pub(crate) sinks: Option<&'static str>,
}

impl Heads {
    /// The heads of a model of `width`.
    pub(crate) fn read(s: &Settings<'_>, width: usize) -> Result<Self> {
        let heads = Self::count(s)?;
        let kv_heads = s.size_or("num_key_value_heads|n_kv_heads", "attention.head_count_kv", heads)?;
        Self::with(s, width, heads, kv_heads)
    }

    /// Heads that make queries.
    pub(crate) fn count(s: &Settings<'_>) -> Result<usize> {
        s.size("num_attention_heads|n_head|num_heads|n_heads|attention_heads", "attention.head_count")
    }

    /// So many heads, of which `config.json` states those of keys and values in a way of its own.
    pub(crate) fn with(s: &Settings<'_>, width: usize, heads: usize, kv_heads: usize) -> Result<Self> {
        let kv_heads = if s.is_gguf() { s.size_or("", "attention.head_count_kv", heads)? } else { kv_heads };
        s.note("attention.head_count_kv", Meta::Unsigned(kv_heads as u64));
        if !heads.is_multiple_of(kv_heads) {
            return Err(s.wrong(
                "num_key_value_heads",
                "attention.head_count_kv",
                format!("is {kv_heads}, which does not divide {heads} heads"),
            ));
        }
        let head = match s.optional_size("head_dim|kv_channels|d_kv", "attention.key_length")? {
            Some(head) => head,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(s.wrong(
                    "num_attention_heads",
                    "attention.head_count",
                    format!("is {heads}, which does not divide the width {width}"),
                ));
            }
        };
        s.note("attention.key_length", Meta::Unsigned(head as u64));
        let value = if s.is_gguf() { s.size_or("", "attention.value_length", head)? } else { head };
        if value != head {
            return Err(s.wrong("", "attention.value_length", format!("is {value}, but keys have {head} numbers in a head")));
        }
        s.note("attention.value_length", Meta::Unsigned(head as u64));
        Ok(Self { biased: s.implied("attention_bias", false)?, ..Self::new(heads, kv_heads, head) })
    }

    /// Heads of `head` numbers, with the usual scale and without anything more.
    pub(crate) fn new(heads: usize, kv_heads: usize, head: usize) -> Self {
        Self {
            heads,
            kv_heads,
            head,
            value: head,
            scale: 1.0 / (head as f32).sqrt(),
            softcap: None,
            clip: None,
            alibi: None,
            fused: Fused::PLAIN,
            biased: false,
            sub_norm: None,
            sinks: None,
        }
    }

    /// Attention over `x`. Queries and keys pass `prepare` (norms, rotation), which gets their name.
    pub(crate) fn attention(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        mask: Mask,
        prepare: impl Fn(&mut Graph<'_>, Value, &str) -> Value,
    ) -> Value {
        let [q, k, v] = self.project(g, x);
        let (q, k) = (prepare(g, q, "attn_q"), prepare(g, k, "attn_k"));
        self.mix(g, [q, k, v], mask, g.width(x))
    }

    /// Queries, keys and values of `x`, which come of one matrix, `attn_qkv`, where the checkpoint has it.
    pub(crate) fn project(&self, g: &mut Graph<'_>, x: Value) -> [Value; 3] {
        let project = |g: &mut Graph<'_>, name: &str, out: usize| {
            if self.biased {
                g.weight(&format!("{name}.bias"), &[out]);
            }
            let y = g.linear(x, name, out);
            if let Some(limit) = self.clip { g.clamp(y, limit) } else { y }
        };
        let widths = self.widths();
        let total = widths.iter().sum();
        if !g.has("attn_qkv.weight", &[total, g.width(x)]) {
            let [q, k, v] = widths;
            return [project(g, "attn_q", q), project(g, "attn_k", k), project(g, "attn_v", v)];
        }
        let all = project(g, "attn_qkv", total);
        self.fused_parts().map(|(start, len)| g.slice(all, self.fused.runs, start, len))
    }

    /// Numbers of all queries, keys and values.
    fn widths(&self) -> [usize; 3] {
        [self.heads * self.head, self.kv_heads * self.head, self.kv_heads * self.value]
    }

    /// The output, `width` wide, of prepared queries, keys and values.
    pub(crate) fn mix(&self, g: &mut Graph<'_>, qkv: [Value; 3], mask: Mask, width: usize) -> Value {
        let y = self.attend(g, qkv, mask);
        let y = if let Some(eps) = self.sub_norm { g.rms_norm(y, "attn_sub_norm", eps) } else { y };
        g.linear(y, "attn_output", width)
    }

    /// What the heads make of prepared queries, keys and values.
    pub(crate) fn attend(&self, g: &mut Graph<'_>, qkv: [Value; 3], mask: Mask) -> Value {
        self.attend_apart(g, qkv, mask, None)
    }

    /// The same with what is added to the scores by distance.
    pub(crate) fn attend_apart(&self, g: &mut Graph<'_>, [q, k, v]: [Value; 3], mask: Mask, relative: Option<Relative>) -> Value {
        let &Self { heads, kv_heads, head, value, scale, softcap, sinks, .. } = self;
        let alibi = self.alibi.map(|(max, by)| alibi_slopes(heads, max).iter().map(|slope| slope * by).collect());
        g.attention(
            q,
            k,
            v,
            &AttentionSpec { heads, kv_heads, key: head, value, scale, mask, groups: false, softcap, sinks, alibi, relative },
        )
    }

    /// Where queries, keys and values begin in a run of a matrix of all three, and how many rows of each a run has.
    fn fused_parts(&self) -> [(usize, usize); 3] {
        let lens = self.widths().map(|width| width / self.fused.runs);
        let mut parts = [(0, 0); 3];
        let mut start = 0;
        for i in self.fused.order {
            parts[i] = (start, lens[i]);
            start += lens[i];
        }
        parts
    }

    /// The rows of a matrix of all three in the order that GGUF files have.
    pub(crate) fn ungrouped(&self) -> Order {
        Order::Rows(self.ungrouped_rows())
    }

    /// The same where GGUF files hold the `dims` dimensions that turn, of each head of queries and keys, in adjacent pairs.
    pub(crate) fn ungrouped_pairs(&self, dims: usize) -> Order {
        let (rows, turning) = (self.ungrouped_rows(), (self.heads + self.kv_heads) * self.head);
        let from = |i: usize| if i < turning { i / self.head * self.head + paired(i % self.head, dims) } else { i };
        Order::Rows((0..rows.len()).map(|i| rows[from(i)]).collect())
    }

    fn ungrouped_rows(&self) -> Vec<usize> {
        let parts = self.fused_parts();
        let run: usize = parts.iter().map(|(_, len)| len).sum();
        let rows = |(start, len): (usize, usize)| (0..self.fused.runs).flat_map(move |r| r * run + start..r * run + start + len);
        parts.into_iter().flat_map(rows).collect()
    }
}

/// What each of `layers` sees: `window` tokens where `layer_types` says so, or from layer `first` on where there is no such list.
/// GGUF files of most architectures have no windows.
pub(crate) fn masks(s: &Settings<'_>, layers: usize, window: Option<usize>, first: usize) -> Result<Vec<Mask>> {
    let windowed = window.map_or(Mask::Causal, Mask::Window);
    let usual = || (0..layers).map(|i| if i >= first { windowed } else { Mask::Causal }).collect();
    let masks = listed_masks(s, layers, windowed)?.unwrap_or_else(usual);
    s.hf_only(masks.iter().any(|m| *m != Mask::Causal), "it has layers with a sliding window");
    Ok(masks)
}

/// The list `layer_types`, where there is one.
pub(crate) fn listed_masks(s: &Settings<'_>, layers: usize, windowed: Mask) -> Result<Option<Vec<Mask>>> {
    s.kinds("layer_types", layers, &[("full_attention", Mask::Causal), ("sliding_attention", windowed)])
}

/// Gated feed-forward layers, or a mixture of experts where the layer has one.
#[derive(Clone, Debug)]
pub(crate) struct FeedForward {
    inner: usize,
    act: Function,
    moe: Option<Moe>,
    /// Layers without the mixture.
    dense: Vec<bool>,
}

impl FeedForward {
    /// Of `layers`, those in `mlp_only_layers`, and all but each `decoder_sparse_step`th, go without `moe`.
    pub(crate) fn read(s: &Settings<'_>, layers: usize, moe: Option<Moe>) -> Result<Self> {
        let step = s.optional_size("decoder_sparse_step", "")?.unwrap_or(1);
        let listed: Vec<u64> =
            s.json("mlp_only_layers").and_then(|v| v.as_array()).into_iter().flatten().filter_map(|v| v.as_u64()).collect();
        let dense: Vec<bool> = (0..layers).map(|i| moe.is_none() || listed.contains(&(i as u64)) || (i + 1) % step != 0).collect();
        s.hf_only(moe.is_some() && dense.contains(&true), "it has layers without experts among those with");
        let inner = match s.optional_size("intermediate_size", "feed_forward_length")? {
            Some(inner) => inner,
            None if !dense.contains(&true) => 0,
            None => return Err(s.wrong("intermediate_size", "feed_forward_length", "is missing")),
        };
        Ok(Self { inner, act: s.activation("silu")?, moe, dense })
    }

    pub(crate) fn build(&self, g: &mut Graph<'_>, layer: usize, x: Value) -> Value {
        match &self.moe {
            Some(moe) if !self.dense[layer] => moe.build(g, x),
            _ => g.gated_ffn(x, self.inner, self.act),
        }
    }
}

/// A mixture of experts (Shazeer et al. 2017, arXiv:1701.06538) with softmax routing, and the expert that all tokens ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moe {
    experts: usize,
    top_k: usize,
    inner: usize,
    /// Whether the weights of the chosen are made to sum to one.
    normalize: bool,
    /// Width of the expert that all tokens ask.
    shared: Option<usize>,
    /// Whether the shared expert has a gate.
    shared_gate: bool,
    score: Score,
    act: Function,
}

const EXPERTS_PER_TOKEN: (&str, &str) = ("num_experts_per_tok|ffn_config.moe_top_k|moe_topk", "expert_used_count");

impl Moe {
    /// `normalize`: what the architecture does where the configuration does not say; GGUF files never say.
    pub(crate) fn read(s: &Settings<'_>, normalize: bool, shared: bool) -> Result<Self> {
        let (experts, top_k) = Self::counts(s)?;
        let normalizes = s.implied("norm_topk_prob", normalize)?;
        s.hf_only(normalizes != normalize, "GGUF files of its architecture mean the other value of `norm_topk_prob`");
        let shared = if shared { Some(s.size("shared_expert_intermediate_size", "expert_shared_feed_forward_length")?) } else { None };
        let inner = match s.optional_size("moe_intermediate_size|expert_intermediate_size", "expert_feed_forward_length")? {
            Some(inner) => inner,
            None => s.size("intermediate_size|ffn_config.ffn_hidden_size", "feed_forward_length")?,
        };
        Ok(Self {
            experts,
            top_k,
            inner,
            normalize: normalizes,
            shared,
            shared_gate: true,
            score: Score::Softmax,
            act: s.activation("silu")?,
        })
    }

    /// All experts, and those that a token asks.
    pub(crate) fn counts(s: &Settings<'_>) -> Result<(usize, usize)> {
        let experts = s.size_to("num_experts|num_local_experts|n_routed_experts|ffn_config.moe_num_experts", "expert_count", 1 << 14)?;
        let top_k = s.size(EXPERTS_PER_TOKEN.0, EXPERTS_PER_TOKEN.1)?;
        if top_k > experts {
            return Err(s.wrong(EXPERTS_PER_TOKEN.0, EXPERTS_PER_TOKEN.1, format!("is {top_k}, but there are {experts} experts")));
        }
        Ok((experts, top_k))
    }

    /// The same with other scores than softmax, which are taken as they are.
    pub(crate) fn with_score(self, score: Score) -> Self {
        Self { score, normalize: false, ..self }
    }

    /// The same with an expert of `width` that all tokens ask, whose answer is added as it is.
    pub(crate) fn with_shared(self, width: usize) -> Self {
        Self { shared: Some(width), shared_gate: false, ..self }
    }

    pub(crate) fn build(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let logits = g.linear(x, "ffn_gate_inp", self.experts);
        let route = g.route(logits, Route { normalize: self.normalize, ..Route::new(self.top_k, self.score) });
        let y = g.experts(x, route, &ExpertsSpec::new(self.experts, self.inner, self.act));
        let Some(inner) = self.shared else { return y };
        let shared = g.gated_ffn_named(x, ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"], inner, self.act);
        if !self.shared_gate {
            return g.add(y, shared);
        }
        let gate = g.linear(x, "ffn_gate_inp_shexp", 1);
        let gate = g.apply(gate, Function::Sigmoid);
        let shared = g.mul(shared, gate);
        g.add(y, shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of transformers' `_get_alibi_slopes` (BLOOM), and for 16 as the largest exponent of `build_mpt_alibi_tensor`.
    #[test]
    fn slopes_of_linear_biases() {
        assert_eq!(alibi_slopes(4, 8.0), [0.25, 0.0625, 0.015625, 0.00390625]);
        assert_eq!(alibi_slopes(6, 8.0), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]);
        assert_eq!(alibi_slopes(3, 16.0), [0.00390625, 1.0 / 65536.0, 0.0625]);
        assert_eq!(alibi_slopes(1, 8.0), [0.00390625]);
    }
}
