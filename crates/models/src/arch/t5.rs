//! T5 (Raffel et al. 2020, arXiv:1910.10683), v1.0 and the gated v1.1 of Flan-T5 (Chung et al. 2022, arXiv:2210.11416); mT5 (Xue et al.
//! 2021, arXiv:2010.11934); UMT5 (Chung et al. 2023, arXiv:2304.09151), each layer of which has biases of its own; and their encoders
//! alone. An encoder and a decoder that know positions by biases on their scores, which are not scaled.
//! Reference: transformers' `models/{t5,mt5,umt5}`.

use super::{
    Arch,
    blocks::{Decoder, Heads},
    encoder::causes,
    relative::{distances, t5_bucket},
    seq2seq::{answering, cross_attention, remember, self_attention, spec},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::{Settings, function},
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, Function, Graph, Mask, Value, ops::Relative};

const fn arch(hf: &'static [&'static str], plan: fn(&Settings<'_>, &mut Graph<'_>) -> Result<Value>) -> Arch {
    Arch { hf, gguf: &["t5"], tensors: &[TRUNK, ENCODER, DECODER], ignored: IGNORED, plan }
}

pub(crate) static T5: Arch = arch(&["t5"], |s, g| plan(s, g, true));
pub(crate) static UMT5: Arch = arch(&["umt5"], |s, g| plan(s, g, true));
/// Its logits are never scaled.
pub(crate) static MT5: Arch = arch(&["mt5"], |s, g| plan(s, g, false));

/// Published under the names of the whole models.
pub(crate) static T5_ENCODER: Arch =
    Arch { hf: &["t5_encoder"], gguf: &["t5encoder"], tensors: &[TRUNK, ENCODER], ignored: IGNORED, plan: encoder_alone };

/// Copies of the table of embeddings, and biases, which become a part of the plan: those on attention to the source nothing reads.
const IGNORED: &[&str] = &[
    "*encoder.embed_tokens.weight",
    "*decoder.embed_tokens.weight",
    "*.relative_attention_bias.weight",
    "*.attn_rel_b.weight",
    "*.cross_attn_rel_b.weight",
];

const TRUNK: &[Entry] = &[
    tensor("token_embd", "model.shared").or("model.encoder.embed_tokens"),
    tensor("enc.output_norm", "model.encoder.final_layer_norm"),
    tensor("dec.output_norm", "model.decoder.final_layer_norm"),
    tensor("output", "lm_head"),
];

const ENCODER: &[Entry] = &[
    tensor("enc.blk.{}.attn_norm", "model.encoder.block.{}.layer.0.layer_norm"),
    tensor("enc.blk.{}.attn_q", "model.encoder.block.{}.layer.0.SelfAttention.q"),
    tensor("enc.blk.{}.attn_k", "model.encoder.block.{}.layer.0.SelfAttention.k"),
    tensor("enc.blk.{}.attn_v", "model.encoder.block.{}.layer.0.SelfAttention.v"),
    tensor("enc.blk.{}.attn_o", "model.encoder.block.{}.layer.0.SelfAttention.o"),
    tensor("enc.blk.{}.attn_qkv", ""),
    tensor("enc.blk.{}.attn_rel_b", "model.encoder.block.{}.layer.0.SelfAttention.relative_attention_bias"),
    tensor("enc.blk.{}.ffn_norm", "model.encoder.block.{}.layer.1.layer_norm"),
    tensor("enc.blk.{}.ffn_gate", "model.encoder.block.{}.layer.1.DenseReluDense.wi_0"),
    tensor("enc.blk.{}.ffn_up", "model.encoder.block.{}.layer.1.DenseReluDense.wi")
        .or("model.encoder.block.{}.layer.1.DenseReluDense.wi_1"),
    tensor("enc.blk.{}.ffn_down", "model.encoder.block.{}.layer.1.DenseReluDense.wo"),
];

const DECODER: &[Entry] = &[
    tensor("dec.blk.{}.attn_norm", "model.decoder.block.{}.layer.0.layer_norm"),
    tensor("dec.blk.{}.attn_q", "model.decoder.block.{}.layer.0.SelfAttention.q"),
    tensor("dec.blk.{}.attn_k", "model.decoder.block.{}.layer.0.SelfAttention.k"),
    tensor("dec.blk.{}.attn_v", "model.decoder.block.{}.layer.0.SelfAttention.v"),
    tensor("dec.blk.{}.attn_o", "model.decoder.block.{}.layer.0.SelfAttention.o"),
    tensor("dec.blk.{}.attn_qkv", ""),
    tensor("dec.blk.{}.attn_rel_b", "model.decoder.block.{}.layer.0.SelfAttention.relative_attention_bias"),
    tensor("dec.blk.{}.cross_attn_norm", "model.decoder.block.{}.layer.1.layer_norm"),
    tensor("dec.blk.{}.cross_attn_q", "model.decoder.block.{}.layer.1.EncDecAttention.q"),
    tensor("dec.blk.{}.cross_attn_k", "model.decoder.block.{}.layer.1.EncDecAttention.k"),
    tensor("dec.blk.{}.cross_attn_v", "model.decoder.block.{}.layer.1.EncDecAttention.v"),
    tensor("dec.blk.{}.cross_attn_o", "model.decoder.block.{}.layer.1.EncDecAttention.o"),
    tensor("dec.blk.{}.ffn_norm", "model.decoder.block.{}.layer.2.layer_norm"),
    tensor("dec.blk.{}.ffn_gate", "model.decoder.block.{}.layer.2.DenseReluDense.wi_0"),
    tensor("dec.blk.{}.ffn_up", "model.decoder.block.{}.layer.2.DenseReluDense.wi")
        .or("model.decoder.block.{}.layer.2.DenseReluDense.wi_1"),
    tensor("dec.blk.{}.ffn_down", "model.decoder.block.{}.layer.2.DenseReluDense.wo"),
];

/// What both stacks have.
struct Stack {
    c: Decoder,
    heads: Heads,
    inner: usize,
    /// With a gate; and the function, of the gate where there is one.
    gated: bool,
    act: Function,
    buckets: usize,
    /// The distance from which on all are in the last bucket.
    farthest: usize,
}

/// The distance that GGUF files imply.
const FARTHEST: usize = 128;

impl Stack {
    fn read(s: &Settings<'_>, g: &Graph<'_>) -> Result<Self> {
        let c = Decoder::read(s)?;
        let count = Heads::count(s)?;
        let heads = Heads { scale: 1.0, ..Heads::with(s, c.width, count, count)? };
        let inner = s.size("d_ff", "feed_forward_length")?;
        let (gated, act) = feed_forward(s, g, c.width, inner)?;
        const BUCKETS: (&str, &str) = ("relative_attention_num_buckets", "attention.relative_buckets_count");
        const DISTANCE: &str = "relative_attention_max_distance";
        let buckets = s.size_or(BUCKETS.0, BUCKETS.1, 32)?;
        if !(4..=4096).contains(&buckets) {
            return Err(s.wrong(BUCKETS.0, BUCKETS.1, format!("is {buckets}; from 4 to 4096 are allowed")));
        }
        let farthest = s.size_or(DISTANCE, "", FARTHEST)?;
        if !(buckets / 2 + 1..=1 << 16).contains(&farthest) {
            return Err(s.wrong(
                DISTANCE,
                "",
                format!("is {farthest}; with {buckets} buckets it is more than half of them, and at most 65536"),
            ));
        }
        s.hf_only(farthest != FARTHEST, "its `relative_attention_max_distance` is not the 128 that GGUF files of `t5` mean");
        Ok(Self { c, heads, inner, gated, act, buckets, farthest })
    }

    /// What the part of the model that `g` is at makes of `x`; `between` stands between attention and feed-forward layer.
    fn build(
        &self,
        s: &Settings<'_>,
        g: &mut Graph<'_>,
        (part, layers, mask): (&'static str, usize, Mask),
        between: impl Fn(&mut Graph<'_>, usize, Value) -> Value,
    ) -> Value {
        let x = g.part("", |g| g.embed("token_embd", self.c.width, 1.0));
        let first = if mask == Mask::Full { Some(g.kv_cache(&spec(&self.heads, mask))) } else { None };
        let mut biases = None;
        g.layers(layers, x, |g, layer, x| {
            if layer == 0 || g.has("attn_rel_b.weight", &[self.buckets, self.heads.heads]) {
                biases = Some(self.biases(s, g, &format!("{part}blk.{layer}."), mask == Mask::Full));
            }
            let spec = AttentionSpec { relative: biases.clone(), ..spec(&self.heads, mask) };
            let cache = first.unwrap_or_else(|| g.kv_cache(&spec));
            let x = self.c.residual(g, x, "attn_norm", |g, x| self_attention(g, x, &self.heads, cache, &spec));
            let x = between(g, layer, x);
            self.c.residual(g, x, "ffn_norm", |g, x| match self.gated {
                true => g.gated_ffn(x, self.inner, self.act),
                false => g.ffn(x, self.inner, self.act),
            })
        })
    }

    /// The biases of a layer, of which there are some for each head and bucket.
    fn biases(&self, s: &Settings<'_>, g: &mut Graph<'_>, layer: &str, both_ways: bool) -> Relative {
        const NAME: &str = "attn_rel_b.weight";
        let (count, heads) = (self.buckets, self.heads.heads);
        let table = g.constant(NAME, &[count, heads]);
        s.note_shaped_tensor(&format!("{layer}{NAME}"), vec![count, heads], table.clone());
        let fixed = (0..heads).flat_map(|h| (0..count).map(move |b| (h, b))).map(|(h, b)| table[b * heads + h]).collect();
        let buckets = distances(self.farthest, |d| t5_bucket(d, both_ways, count, self.farthest));
        Relative { buckets, count, fixed: Some(fixed), of_query: None, of_key: None }
    }

    /// The normalised output of the encoder.
    fn encode(&self, s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
        let layers = s.layers()?;
        Ok(g.part("enc.", |g| {
            let x = self.build(s, g, ("enc.", layers, Mask::Full), |_, _, x| x);
            self.c.norm(g, x, "output_norm")
        }))
    }
}

/// Whether the feed-forward layer has a gate, and its function. GGUF files with a gate mean an approximated GELU, others ReLU.
fn feed_forward(s: &Settings<'_>, g: &Graph<'_>, width: usize, inner: usize) -> Result<(bool, Function)> {
    const KEY: &str = "feed_forward_proj";
    let meant = |gated| if gated { Function::GeluTanh } else { Function::Relu };
    if s.is_gguf() {
        let gated = g.has("enc.blk.0.ffn_gate.weight", &[inner, width]);
        return Ok((gated, meant(gated)));
    }
    let word = s.text_or(KEY, "", "relu")?;
    let (gated, name) = word.strip_prefix("gated-").map_or((false, word.as_str()), |name| (true, name));
    // What is called `gated-gelu` is the approximation.
    let act = if gated && name == "gelu" { Some(Function::GeluTanh) } else { function(name) };
    let act = act.ok_or_else(|| s.wrong(KEY, "", format!("is `{word}`; known are relu, gated-gelu, and other functions, gated or not")))?;
    s.hf_only(act != meant(gated), &format!("its `{KEY}` is `{word}`, where GGUF files of `t5` mean relu or gated-gelu"));
    Ok((gated, act))
}

/// The factor on the decoder's output. Of the models whose output matrix is the table of embeddings it makes up for the latter's size
/// (`scale_decoder_outputs`). llama.cpp has none, so that the files that `convert` writes hold it in the norm before, and say so.
fn output_scale(s: &Settings<'_>, g: &Graph<'_>, c: &Decoder, scales: bool) -> Result<f32> {
    const KEY: &str = "logit_scale";
    let usual = (c.width as f32).powf(-0.5);
    if s.is_gguf() {
        let tied = !g.has("output.weight", &[g.vocabulary(), c.width]);
        let implied = if tied { usual } else { 1.0 };
        return Ok(s.optional_float("", KEY)?.map_or(implied, |x| x as f32));
    }
    let tied = s.bool_or("tie_word_embeddings", "", true)?;
    let scales = scales && s.bool_or("scale_decoder_outputs", "", tied)?;
    let scale = if scales { usual } else { 1.0 };
    s.note(KEY, Meta::Float(1.0));
    s.note_factors("dec.output_norm.weight", &[scale]);
    Ok(scale)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, scales: bool) -> Result<Value> {
    let stack = Stack::read(s, g)?;
    let (c, heads) = (&stack.c, &stack.heads);
    let encoder = s.layers()?;
    let layers = s.size_or("num_decoder_layers", "decoder_block_count", encoder)?;
    let tensors = s.checkpoint.tensors.len();
    if layers > tensors {
        let what = format!("is {layers}, more than there are tensors ({tensors})");
        return Err(s.wrong("num_decoder_layers", "decoder_block_count", what));
    }
    s.unread_by_llama_cpp(layers > encoder, "its decoder has more layers than its encoder");
    let scale = output_scale(s, g, c, scales)?;
    answering(s, g)?;
    let encoded = stack.encode(s, g)?;
    let sources = remember(g, encoded, layers, heads);
    let x = g.part("dec.", |g| {
        let x = stack.build(s, g, ("dec.", layers, Mask::Causal), |g, layer, x| {
            c.residual(g, x, "cross_attn_norm", |g, x| cross_attention(g, x, heads, sources[layer]))
        });
        let x = g.select(x);
        c.norm(g, x, "output_norm")
    });
    let x = g.scale(x, scale);
    Ok(g.head(x))
}

fn encoder_alone(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    causes(s)?;
    let x = Stack::read(s, g)?.encode(s, g)?;
    let x = g.select(x);
    Ok(g.hidden(x))
}
