//! What models of an encoder and a decoder share (Vaswani et al. 2017, arXiv:1706.03762): how an answer begins, and attention of the
//! decoder to what the encoder has made of the source.

use super::blocks::Heads;
use crate::{Result, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::{Answering, AttentionSpec, Graph, Mask, StateId, Value};
use serde_json::Value as Json;

/// Attention of `heads` to what `mask` allows.
pub(crate) fn spec(heads: &Heads, mask: Mask) -> AttentionSpec {
    AttentionSpec { scale: heads.scale, mask, ..AttentionSpec::causal(heads.heads, heads.kv_heads, heads.head) }
}

/// Attention of a layer to its own stack's tokens, as `spec` says. All layers of an encoder can have one cache: a source is read in one
/// step, layer by layer.
pub(crate) fn self_attention(g: &mut Graph<'_>, x: Value, heads: &Heads, cache: StateId, spec: &AttentionSpec) -> Value {
    let [q, k, v] = heads.project(g, x);
    let y = g.attention_in(cache, q, Some([k, v]), spec);
    g.linear(y, "attn_o", g.width(x))
}

/// What each of `layers` layers of the decoder reads of the encoder's output: its keys and values, made once.
pub(crate) fn remember(g: &mut Graph<'_>, encoded: Value, layers: usize, heads: &Heads) -> Vec<StateId> {
    let of_layer = |g: &mut Graph<'_>| {
        let [k, v] = ["cross_attn_k", "cross_attn_v"].map(|name| g.linear(encoded, name, heads.kv_heads * heads.head));
        g.remember(k, v, heads.kv_heads)
    };
    g.part("dec.", |g| (0..layers).map(|layer| g.weights_of(Some(layer), of_layer)).collect())
}

/// Attention of a layer of the decoder to the source, whose keys and values are `source`.
pub(crate) fn cross_attention(g: &mut Graph<'_>, x: Value, heads: &Heads, source: StateId) -> Value {
    let q = g.linear(x, "cross_attn_q", heads.heads * heads.head);
    let y = g.attention_in(source, q, None, &spec(heads, Mask::Source));
    g.linear(y, "cross_attn_o", g.width(x))
}

/// How answers begin, and tokens that they never have. What `generation_config.json` says goes before `config.json`, as in transformers.
pub(crate) fn answering(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<()> {
    const START: (&str, &str) = ("decoder_start_token_id", "decoder_start_token_id");
    let vocabulary = g.vocabulary();
    let id = |key: &str, value: &Json| match value.as_u64().filter(|id| *id < vocabulary as u64) {
        Some(id) => Ok(id as u32),
        None => Err(s.wrong(key, START.1, format!("should be a token of the vocabulary of {vocabulary}, but is {value}"))),
    };
    let setting = |key: &str| {
        let said = s.checkpoint.generation_config.get(key).or_else(|| s.json(key)).filter(|value| !value.is_null());
        said.map(|value| id(key, value)).transpose()
    };
    let start = match s.gguf_value(START.1) {
        Some(Meta::Unsigned(n)) => Some(id(START.0, &Json::from(*n))?),
        Some(_) => return Err(s.wrong(START.0, START.1, "should be a token")),
        None => setting(START.0)?,
    };
    let start = start.ok_or_else(|| s.wrong(START.0, START.1, "is missing: it says what answers begin with"))?;
    s.note(START.1, Meta::Unsigned(u64::from(start)));
    let forced = setting("forced_bos_token_id")?;
    s.hf_only(forced.is_some(), "its answers have a second token that is given, `forced_bos_token_id`");
    // Words of one token; longer ones are no matter of the model, but of how it is asked.
    let words = s.checkpoint.generation_config.get("bad_words_ids").or_else(|| s.json("bad_words_ids"));
    let words = words.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_array);
    let never = words.filter(|word| word.len() == 1).map(|word| id("bad_words_ids", &word[0])).collect::<Result<Vec<_>>>()?;
    s.hf_only(!never.is_empty(), "it has tokens that are never chosen, `bad_words_ids`");
    g.answers(Answering { start: [start].into_iter().chain(forced).collect(), never });
    Ok(())
}
