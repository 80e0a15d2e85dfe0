//! BART (Lewis et al. 2019, arXiv:1910.13461): an encoder and a decoder as in Vaswani et al. 2017, with learned positions; and those that
//! transformers made of its code: mBART (Liu et al. 2020, arXiv:2001.08210), PLBART (Ahmad et al. 2021, arXiv:2103.06333), PEGASUS
//! (Zhang et al. 2019, arXiv:1912.08777), Marian (Junczys-Dowmunt et al. 2018, arXiv:1804.00344), M2M-100 and NLLB (Fan et al. 2020,
//! arXiv:2010.11125), Blenderbot (Roller et al. 2020, arXiv:2004.13637). They differ in where they normalise and in what positions are.
//! Reference: transformers' `modeling_bart.py` and those named after each.

use super::{
    Arch,
    blocks::{Decoder, Heads, Norm},
    opt::even_sines,
    seq2seq::{answering, cross_attention, remember, self_attention, spec},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

/// What positions are.
#[derive(Clone, Copy)]
enum Positions {
    /// Rows of a table, from this one on.
    Learned(usize),
    /// Sines of frequencies down to `10000^(-1 + 2/width)`, from 0 on (Vaswani et al. 2017).
    Sines,
    /// Sines of frequencies down to 1/10000, from behind the position of the padding token on.
    EvenSines,
}

/// Where a model normalises besides.
#[derive(Clone, Copy)]
struct Form {
    positions: Positions,
    /// Before attention and feed-forward layers, and at the end; else behind each addition.
    before: bool,
    /// Embeddings.
    embeddings: bool,
    /// Embeddings of the decoder before their positions are added.
    embeddings_alone: bool,
}

impl Form {
    const BART: Self = Self { positions: Positions::Learned(2), before: false, embeddings: true, embeddings_alone: false };
    const MBART: Self = Self { before: true, ..Self::BART };
    const MARIAN: Self = Self { positions: Positions::Sines, embeddings: false, ..Self::BART };
    const PEGASUS: Self = Self { before: true, ..Self::MARIAN };
    const M2M: Self = Self { positions: Positions::EvenSines, ..Self::PEGASUS };
    const BLENDERBOT: Self = Self { positions: Positions::Learned(0), ..Self::PEGASUS };
    const BLENDERBOT_SMALL: Self = Self { positions: Positions::Learned(0), embeddings_alone: true, ..Self::BART };
}

const fn arch(hf: &'static [&'static str], plan: fn(&Settings<'_>, &mut Graph<'_>) -> Result<Value>) -> Arch {
    Arch { hf, gguf: &[], tensors: &[TRUNK, ENCODER, DECODER], ignored: IGNORED, plan }
}

pub(crate) static BART: Arch = arch(&["bart", "plbart"], |s, g| plan(s, g, Form::BART));
pub(crate) static MBART: Arch = arch(&["mbart"], |s, g| plan(s, g, Form::MBART));
pub(crate) static MARIAN: Arch = arch(&["marian"], |s, g| plan(s, g, Form::MARIAN));
pub(crate) static PEGASUS: Arch = arch(&["pegasus"], |s, g| plan(s, g, Form::PEGASUS));
pub(crate) static M2M_100: Arch = arch(&["m2m_100"], |s, g| plan(s, g, Form::M2M));
pub(crate) static BLENDERBOT: Arch = arch(&["blenderbot"], |s, g| plan(s, g, Form::BLENDERBOT));
pub(crate) static BLENDERBOT_SMALL: Arch = arch(&["blenderbot-small"], |s, g| plan(s, g, Form::BLENDERBOT_SMALL));

/// Copies of the table of embeddings, sines that are computed, and heads for other tasks.
const IGNORED: &[&str] = &[
    "*encoder.embed_tokens.weight",
    "*decoder.embed_tokens.weight",
    "*embed_positions.weight",
    "*embed_positions.weights",
    "classification_head.*",
    "qa_outputs.*",
];

const TRUNK: &[Entry] = &[
    tensor("token_embd", "model.shared").or("model.encoder.embed_tokens"),
    tensor("enc.position_embd", "model.encoder.embed_positions"),
    tensor("enc.token_embd_norm", "model.encoder.layernorm_embedding"),
    tensor("enc.output_norm", "model.encoder.layer_norm"),
    tensor("dec.position_embd", "model.decoder.embed_positions"),
    tensor("dec.token_embd_norm", "model.decoder.layernorm_embedding"),
    tensor("dec.output_norm", "model.decoder.layer_norm"),
    tensor("output", "lm_head"),
    tensor("output.bias", "final_logits_bias"),
];

const ENCODER: &[Entry] = &[
    tensor("enc.blk.{}.attn_norm", "model.encoder.layers.{}.self_attn_layer_norm"),
    tensor("enc.blk.{}.attn_q", "model.encoder.layers.{}.self_attn.q_proj"),
    tensor("enc.blk.{}.attn_k", "model.encoder.layers.{}.self_attn.k_proj"),
    tensor("enc.blk.{}.attn_v", "model.encoder.layers.{}.self_attn.v_proj"),
    tensor("enc.blk.{}.attn_o", "model.encoder.layers.{}.self_attn.out_proj"),
    tensor("enc.blk.{}.attn_qkv", ""),
    tensor("enc.blk.{}.ffn_norm", "model.encoder.layers.{}.final_layer_norm"),
    tensor("enc.blk.{}.ffn_up", "model.encoder.layers.{}.fc1"),
    tensor("enc.blk.{}.ffn_down", "model.encoder.layers.{}.fc2"),
];

const DECODER: &[Entry] = &[
    tensor("dec.blk.{}.attn_norm", "model.decoder.layers.{}.self_attn_layer_norm"),
    tensor("dec.blk.{}.attn_q", "model.decoder.layers.{}.self_attn.q_proj"),
    tensor("dec.blk.{}.attn_k", "model.decoder.layers.{}.self_attn.k_proj"),
    tensor("dec.blk.{}.attn_v", "model.decoder.layers.{}.self_attn.v_proj"),
    tensor("dec.blk.{}.attn_o", "model.decoder.layers.{}.self_attn.out_proj"),
    tensor("dec.blk.{}.attn_qkv", ""),
    tensor("dec.blk.{}.cross_attn_norm", "model.decoder.layers.{}.encoder_attn_layer_norm"),
    tensor("dec.blk.{}.cross_attn_q", "model.decoder.layers.{}.encoder_attn.q_proj"),
    tensor("dec.blk.{}.cross_attn_k", "model.decoder.layers.{}.encoder_attn.k_proj"),
    tensor("dec.blk.{}.cross_attn_v", "model.decoder.layers.{}.encoder_attn.v_proj"),
    tensor("dec.blk.{}.cross_attn_o", "model.decoder.layers.{}.encoder_attn.out_proj"),
    tensor("dec.blk.{}.ffn_norm", "model.decoder.layers.{}.final_layer_norm"),
    tensor("dec.blk.{}.ffn_up", "model.decoder.layers.{}.fc1"),
    tensor("dec.blk.{}.ffn_down", "model.decoder.layers.{}.fc2"),
];

/// The sizes of an encoder or a decoder.
struct Stack {
    layers: usize,
    heads: Heads,
    inner: usize,
}

impl Stack {
    fn read(s: &Settings<'_>, part: &str, width: usize) -> Result<Self> {
        let heads = s.size(&format!("{part}_attention_heads"), "")?;
        Ok(Self {
            layers: s.size(&format!("{part}_layers"), "")?,
            heads: Heads { biased: true, ..Heads::with(s, width, heads, heads)? },
            inner: s.size(&format!("{part}_ffn_dim"), "")?,
        })
    }
}

/// Tokens and their positions.
struct Embedding {
    /// Factor on the tokens'.
    scale: f32,
    positions: Positions,
    /// Frequencies of the sines, and the position of the first token.
    sines: Option<(Vec<f32>, usize)>,
}

impl Embedding {
    fn read(s: &Settings<'_>, width: usize, positions: Positions) -> Result<Self> {
        let scale = if s.bool_or("scale_embedding", "", false)? { (width as f32).sqrt() } else { 1.0 };
        let sines = match positions {
            Positions::Learned(_) => None,
            _ if width < 4 || !width.is_multiple_of(2) => {
                return Err(s.wrong("d_model", "", format!("is {width}; sines and cosines need an even number from 4 on")));
            }
            Positions::Sines => {
                let frequency = |i: usize| 10_000f64.powf(-2.0 * i as f64 / width as f64) as f32;
                Some(((0..width / 2).map(frequency).collect(), 0))
            }
            Positions::EvenSines => Some((even_sines(width), s.count_or("pad_token_id", "", 1)? + 1)),
        };
        Ok(Self { scale, positions, sines })
    }

    fn build(&self, g: &mut Graph<'_>, c: &Decoder, form: Form, alone: bool) -> Value {
        let norm = |g: &mut Graph<'_>, x, here: bool| if form.embeddings && here { c.norm(g, x, "token_embd_norm") } else { x };
        let x = g.part("", |g| g.embed("token_embd", c.width, self.scale));
        let x = norm(g, x, alone);
        let positions = match (&self.sines, self.positions) {
            (Some((frequencies, first)), _) => g.sinusoid(frequencies.clone(), *first),
            (None, Positions::Learned(first)) => g.embed_position("position_embd", c.width, first),
            (None, _) => return x,
        };
        let x = g.add(x, positions);
        norm(g, x, !alone)
    }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, form: Form) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Layer, 1e-5)?;
    let (encoder, decoder) = (Stack::read(s, "encoder", c.width)?, Stack::read(s, "decoder", c.width)?);
    let act = s.activation("gelu")?;
    if !s.bool_or("share_encoder_decoder_embeddings", "", true)? {
        return Err(s.wrong("share_encoder_decoder_embeddings", "", "is false; only one vocabulary for source and answer is known here"));
    }
    answering(s, g)?;
    let embedding = Embedding::read(s, c.width, form.positions)?;
    let residual = |g: &mut Graph<'_>, x, norm: &str, f: &dyn Fn(&mut Graph<'_>, Value) -> Value| {
        if form.before {
            return c.residual(g, x, norm, f);
        }
        let y = f(g, x);
        let x = g.add(x, y);
        c.norm(g, x, norm)
    };
    let last = |g: &mut Graph<'_>, x| if form.before { c.norm(g, x, "output_norm") } else { x };
    let encoded = g.part("enc.", |g| {
        let (heads, spec) = (&encoder.heads, spec(&encoder.heads, Mask::Full));
        let x = embedding.build(g, &c, form, false);
        let cache = g.kv_cache(&spec);
        let x = g.layers(encoder.layers, x, |g, _, x| {
            let x = residual(g, x, "attn_norm", &|g, x| self_attention(g, x, heads, cache, &spec));
            residual(g, x, "ffn_norm", &|g, x| g.ffn(x, encoder.inner, act))
        });
        last(g, x)
    });
    let sources = remember(g, encoded, decoder.layers, &decoder.heads);
    let x = g.part("dec.", |g| {
        let (heads, spec) = (&decoder.heads, spec(&decoder.heads, Mask::Causal));
        let x = embedding.build(g, &c, form, form.embeddings_alone);
        let x = g.layers(decoder.layers, x, |g, layer, x| {
            let cache = g.kv_cache(&spec);
            let x = residual(g, x, "attn_norm", &|g, x| self_attention(g, x, heads, cache, &spec));
            let x = residual(g, x, "cross_attn_norm", &|g, x| cross_attention(g, x, heads, sources[layer]));
            residual(g, x, "ffn_norm", &|g, x| g.ffn(x, decoder.inner, act))
        });
        let x = g.select(x);
        last(g, x)
    });
    Ok(g.head(x))
}
