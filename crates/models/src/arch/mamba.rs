//! Mamba (Gu & Dao 2023, arXiv:2312.00752): a stack of selective state spaces; and Falcon Mamba (Zuo et al. 2024, arXiv:2410.05355),
//! which normalises what the selection depends on. Reference: transformers' `models/mamba`, `falcon_mamba`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Value, ops::Scan};

pub(crate) static MAMBA: Arch =
    Arch { hf: &["mamba"], gguf: &["mamba"], tensors: &[BACKBONE, MAMBA_MIXER], ignored: &[], plan: |s, g| plan(s, g, false) };

pub(crate) static FALCON_MAMBA: Arch =
    Arch { hf: &["falcon_mamba"], gguf: &["mamba"], tensors: &[BACKBONE, MAMBA_MIXER], ignored: &[], plan: |s, g| plan(s, g, true) };

/// Names outside of the mixers in models that are nothing but a stack of them.
pub(crate) const BACKBONE: &[Entry] = &[
    tensor("token_embd", "model.embeddings").or("model.embedding"),
    tensor("output_norm", "model.norm_f"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.norm"),
];

/// Names of a Mamba mixer below the module `$mixer` of a layer.
macro_rules! mixer {
    ($mixer:literal) => {
        &[
            tensor("blk.{}.ssm_in", concat!("model.layers.{}.", $mixer, ".in_proj")),
            tensor("blk.{}.ssm_conv1d", concat!("model.layers.{}.", $mixer, ".conv1d")),
            tensor("blk.{}.ssm_x", concat!("model.layers.{}.", $mixer, ".x_proj")),
            tensor("blk.{}.ssm_dt", concat!("model.layers.{}.", $mixer, ".dt_proj")),
            tensor("blk.{}.ssm_dt_norm", concat!("model.layers.{}.", $mixer, ".dt_layernorm")),
            tensor("blk.{}.ssm_b_norm", concat!("model.layers.{}.", $mixer, ".b_layernorm")),
            tensor("blk.{}.ssm_c_norm", concat!("model.layers.{}.", $mixer, ".c_layernorm")),
            tensor("blk.{}.ssm_a", concat!("model.layers.{}.", $mixer, ".A_log")).neg_exp(),
            tensor("blk.{}.ssm_d", concat!("model.layers.{}.", $mixer, ".D")),
            tensor("blk.{}.ssm_out", concat!("model.layers.{}.", $mixer, ".out_proj")),
        ]
    };
}

const MAMBA_MIXER: &[Entry] = mixer!("mixer");
/// Names of the mixers of hybrids.
pub(crate) const HYBRID_MAMBA: &[Entry] = mixer!("mamba");

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, falcon: bool) -> Result<Value> {
    let c = backbone(s)?;
    // What tells the two apart in GGUF files, which have one name for both.
    let normalised = s.is_gguf() && s.bool_or("", "ssm.dt_b_c_rms", false)? || !s.is_gguf() && falcon;
    s.note("ssm.dt_b_c_rms", Meta::Bool(normalised));
    let norms = if normalised {
        Norms::Plain(s.epsilon_or("mixer_rms_eps", "ssm.dt_b_c_rms_epsilon", if s.is_gguf() { c.eps } else { 1e-6 })?)
    } else {
        Norms::None
    };
    let inner = match s.optional_size("intermediate_size|d_inner", "ssm.inner_size")? {
        Some(inner) => inner,
        None => c.width * s.size_or("expand", "", 2)?,
    };
    let mixer = Mamba::read(s, c.width, inner, norms)?;
    Ok(c.build(g, |g, _, x| c.residual(g, x, "attn_norm", |g, x| mixer.build(g, x))))
}

/// The trunk of a model that is nothing but a stack of mixers.
pub(crate) fn backbone(s: &Settings<'_>) -> Result<Decoder> {
    // GGUF files must have them.
    s.note("feed_forward_length", Meta::Unsigned(0));
    s.note("attention.head_count", Meta::Unsigned(0));
    Decoder::with_norm(s, Norm::Rms, s.epsilon("layer_norm_epsilon|rms_norm_eps", "attention.layer_norm_rms_epsilon")?)
}

/// What normalises step, input and output weights.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Norms {
    None,
    /// RMSNorm without weights.
    Plain(f32),
    /// RMSNorm.
    Weighted(f32),
}

/// The shape of a Mamba mixer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mamba {
    inner: usize,
    size: usize,
    rank: usize,
    kernel: usize,
    act: Function,
    norms: Norms,
}

impl Mamba {
    pub(crate) fn read(s: &Settings<'_>, width: usize, inner: usize, norms: Norms) -> Result<Self> {
        const RANK: (&str, &str) = ("time_step_rank|mamba_dt_rank|dt_rank", "ssm.time_step_rank");
        s.note("ssm.inner_size", Meta::Unsigned(inner as u64));
        let automatic = s.json(RANK.0).is_some_and(|v| v == "auto");
        let rank = if automatic { width.div_ceil(16) } else { s.size_or(RANK.0, RANK.1, width.div_ceil(16))? };
        s.note(RANK.1, Meta::Unsigned(rank as u64));
        Ok(Self {
            inner,
            rank,
            size: s.size_or("state_size|mamba_d_state|d_state", "ssm.state_size", 16)?,
            kernel: s.size_or("conv_kernel|mamba_d_conv|d_conv", "ssm.conv_kernel", 4)?,
            act: s.activation("silu")?,
            norms,
        })
    }

    pub(crate) fn build(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let &Self { inner, size, rank, .. } = self;
        let width = g.width(x);
        let both = g.linear(x, "ssm_in", 2 * inner);
        let (x, z) = (g.slice(both, 1, 0, inner), g.slice(both, 1, inner, inner));
        let x = g.causal_conv(x, "ssm_conv1d", self.kernel, Some(self.act));
        let selection = g.linear(x, "ssm_x", rank + 2 * size);
        let [step, b, c] =
            [(0, rank, "ssm_dt_norm"), (rank, size, "ssm_b_norm"), (rank + size, size, "ssm_c_norm")].map(|(start, len, norm)| {
                let part = g.slice(selection, 1, start, len);
                match self.norms {
                    Norms::None => part,
                    Norms::Plain(eps) => g.plain_norm(part, len, eps),
                    Norms::Weighted(eps) => g.rms_norm(part, norm, eps),
                }
            });
        let step = g.linear(step, "ssm_dt", inner);
        let step = g.apply(step, Function::Softplus);
        let scan = Scan { heads: inner, groups: 1, head: 1, size, row_rates: true };
        let y = g.selective_scan(x, step, (b, c), "ssm_a", "ssm_d", scan);
        let y = g.glu(z, y, Function::Silu);
        g.linear(y, "ssm_out", width)
    }
}
