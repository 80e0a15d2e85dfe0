//! Dream (Ye et al. 2025, arXiv:2508.15487), and DiffuCoder (Gong et al. 2025, arXiv:2506.20639): Qwen2 that sees the whole text. As it was
//! made of a causal model, the row of a position is about the token behind it.
//! Reference: `modeling_dream.py` of the published checkpoints.

use super::{Arch, blocks::*, denoiser::denoises, qwen2};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static DREAM: Arch = Arch { hf: &["Dream"], gguf: &["dream"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    if s.implied("use_sliding_window", false)? {
        return Err(s.wrong("use_sliding_window", "", "is true, which no Dream has, and is not known here"));
    }
    denoises(s, g, true)?;
    qwen2::decoder(s, g, None, &vec![Mask::Full; s.layers()?])
}
