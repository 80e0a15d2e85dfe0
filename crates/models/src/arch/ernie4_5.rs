//! ERNIE 4.5 (Baidu 2025, technical report) and Helium (Kyutai 2025): Llama that turns adjacent dimensions, as its checkpoints on the
//! Hub are stored too. Reference: transformers' `models/ernie4_5`, `helium`.

use super::{
    Arch,
    blocks::*,
    llama::{Family, plan},
};
use crate::rope::Rotary;

pub(crate) static ERNIE4_5: Arch = Arch {
    hf: &["ernie4_5"],
    gguf: &["ernie4_5"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { rotary: Rotary { base: 500_000.0, ..Rotary::PAIRS }, bias: "use_bias", ..Family::default() }),
};

pub(crate) static HELIUM: Arch = Arch {
    hf: &["helium"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { rotary: Rotary { base: 100_000.0, ..Rotary::PAIRS }, ..Family::default() }),
};
