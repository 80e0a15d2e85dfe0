//! Maincoder (Maincode 2025): Llama whose queries and keys are normalised after they were turned. Reference: `modeling_maincoder.py` of
//! Maincode/Maincoder-1B.

use super::{Arch, blocks::*, hunyuan};
use crate::rope::Rotary;

pub(crate) static MAINCODER: Arch = Arch {
    hf: &["maincoder"],
    gguf: &["maincoder"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN],
    ignored: &[],
    plan: |s, g| hunyuan::plan(s, g, None, Rotary { base: 1e6, ..Rotary::PAIRS }),
};
