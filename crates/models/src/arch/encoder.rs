//! What encoders share: they see all of a text, and end in hidden states.

use super::blocks::{Decoder, Heads};
use crate::{Error, Result, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::{Graph, Value};

/// Layers that normalise what they have added up (Vaswani et al. 2017, arXiv:1706.03762).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    pub(crate) c: Decoder,
    pub(crate) heads: Heads,
    pub(crate) inner: usize,
}

impl Encoder {
    /// With LayerNorm, whose epsilon is `eps` where `config.json` does not say.
    pub(crate) fn read(s: &Settings<'_>, eps: f32) -> Result<Self> {
        says_nothing_of_causes(s)?;
        let eps = s.epsilon_or("layer_norm_eps|layer_norm_epsilon", "attention.layer_norm_epsilon", eps)?;
        let c = Decoder::with_norm(s, super::blocks::Norm::Layer, eps)?;
        let heads = Heads::read(s, c.width)?;
        let inner = s.size("intermediate_size|hidden_dim|n_inner", "feed_forward_length")?;
        Ok(Self { c, heads, inner })
    }

    /// `norm(x + attention(x))`, then `norm(x + feed_forward(x))`, for each layer; the rows that are asked for of the last one's output.
    pub(crate) fn build(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        attention: impl FnMut(&mut Graph<'_>, usize, Value) -> Value,
        feed_forward: impl FnMut(&mut Graph<'_>, usize, Value) -> Value,
    ) -> Value {
        self.build_with(g, x, |_| "attn_output_norm", attention, feed_forward)
    }

    /// The same with another name of the norm behind attention.
    pub(crate) fn build_with(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        norm: impl Fn(&Graph<'_>) -> &'static str,
        mut attention: impl FnMut(&mut Graph<'_>, usize, Value) -> Value,
        mut feed_forward: impl FnMut(&mut Graph<'_>, usize, Value) -> Value,
    ) -> Value {
        let x = g.layers(self.c.layers, x, |g, layer, x| {
            let y = attention(g, layer, x);
            let y = g.add(x, y);
            let name = norm(g);
            let x = self.c.norm(g, y, name);
            let y = feed_forward(g, layer, x);
            let y = g.add(x, y);
            self.c.norm(g, y, "layer_output_norm")
        });
        let x = g.select(x);
        g.hidden(x)
    }
}

/// The rows that are asked for of what the layers of an encoder with norms before them add up to, normalised.
pub(crate) fn end(c: &Decoder, g: &mut Graph<'_>, x: Value) -> Value {
    let x = g.select(x);
    let x = c.norm(g, x, c.output_norm);
    g.hidden(x)
}

/// Notes that attention looks both ways, and refuses what says that it does not.
pub(crate) fn says_nothing_of_causes(s: &Settings<'_>) -> Result<()> {
    if s.implied("is_decoder", false)? || s.implied("add_cross_attention", false)? {
        return Err(s.wrong("is_decoder", "", "is true, or `add_cross_attention` is; only encoders are known of this architecture"));
    }
    const KIND: &str = "position_embedding_type";
    let kind = if s.is_gguf() { "absolute".into() } else { s.text_or(KIND, "", "absolute")? };
    if !["absolute", "rotary", "alibi"].contains(&kind.as_str()) {
        return Err(s.wrong(KIND, "", format!("is `{kind}`, which is not known here")));
    }
    causes(s)
}

/// Notes that attention looks both ways; a GGUF file must not say otherwise.
pub(super) fn causes(s: &Settings<'_>) -> Result<()> {
    s.note("attention.causal", Meta::Bool(false));
    match s.gguf_value("attention.causal") {
        Some(Meta::Bool(true)) => Err(s.wrong("", "attention.causal", "is true, but the architecture sees whole texts")),
        _ => Ok(()),
    }
}

/// The first row of the table of kinds of tokens, added to `x`, where there are kinds, or another that tokens are given; `default` is how many there are where
/// `config.json` does not say.
pub(crate) fn add_token_types(s: &Settings<'_>, g: &mut Graph<'_>, x: Value, default: usize) -> Result<Value> {
    const KEY: &str = "tokenizer.ggml.token_type_count";
    let width = g.width(x);
    let types = match s.checkpoint.metadata.get(KEY) {
        Some(Meta::Unsigned(n)) => usize::try_from(*n).unwrap_or(usize::MAX),
        _ if s.is_gguf() => 0,
        _ => s.count_or("type_vocab_size", "", default)?,
    };
    if types > 1 << 20 {
        return Err(Error::Setting { path: s.checkpoint.path.clone(), key: KEY.into(), what: format!("is {types}, which is too many") });
    }
    // llama.cpp asks for it also where there are none.
    s.note_global(KEY, Meta::Unsigned(types.max(1) as u64));
    if types == 0 || s.is_gguf() && !g.has("token_types.weight", &[types, width]) {
        return Ok(x);
    }
    let y = g.embed_row("token_types", types, width);
    let x = g.add(x, y);
    // Tokens of a second text are given how its kind differs from the first.
    Ok(if types > 1 { g.add_given(x, 0) } else { x })
}
