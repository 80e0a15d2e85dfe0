//! The code objects, built from `kernels/*.hip.cpp` by `kernels/build.sh` and committed, and what their manifest says.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A code object for gfx1151, by the name that forms and plans use.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// Its file's name without `.co`.
    pub name: &'static str,
    /// The file.
    pub bytes: &'static [u8],
}

macro_rules! objects {
    ($($name:literal)*) => {
        /// All code objects, by name.
        pub static OBJECTS: &[Object] = &[$(Object { name: $name, bytes: include_bytes!(concat!("../kernels/built/gfx1151/", $name, ".co")) }),*];
    };
}

objects! {
    "arrange" "attention" "elementwise" "floats" "linear_codes_16" "linear_codes_32" "linear_codes_offset_16" "linear_codes_offset_32" "linear_iq1_m" "linear_iq1_s" "linear_iq2_s"
    "linear_iq2_xs" "linear_iq2_xxs" "linear_iq3_s" "linear_iq3_xxs" "linear_iq4_nl" "linear_iq4_xs" "linear_mxfp4" "linear_nvfp4"
    "linear_pq2_0" "linear_ptq1_0" "linear_q1_0" "linear_q2_0" "linear_q2_k" "linear_q3_k" "linear_q4_0" "linear_q4_1" "linear_q4_k"
    "linear_q5_0" "linear_q5_1" "linear_q5_k" "linear_q6_0" "linear_q6_k" "linear_q8_0" "linear_tq1_0" "linear_tq2_0"
    "moe" "ngram" "norm" "prompt" "recurrent" "rope" "sparse"
}

/// The code object of a name.
#[must_use]
pub fn object(name: &str) -> Option<&'static Object> {
    OBJECTS.iter().find(|object| object.name == name)
}

/// What is known of the code objects without a GPU; `kernels/built/gfx1151/manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The compiler's version line.
    pub compiler: String,
    /// SHA-256 of all sources, in order of their paths.
    pub sources: String,
    /// Kernels by object and name: `linear_q4_k/matvec_1`.
    pub kernels: BTreeMap<String, Figures>,
}

/// What decides how well a kernel can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Vector registers of a lane.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Bytes of LDS of a workgroup.
    pub lds: u32,
    /// Bytes of private memory of a lane: 0 unless registers were spilled.
    pub scratch: u32,
    /// Threads of a workgroup.
    pub threads: u32,
    /// Waves that a SIMD can hold at once, at most 16.
    pub waves: u32,
    /// Instructions of the kernel's code.
    pub instructions: u32,
    /// Of these, integer dot products.
    pub dots: u32,
    /// Matrix products.
    pub matrices: u32,
    /// Loads of 128 bits from global memory.
    pub wide_loads: u32,
    /// All loads from global memory.
    pub loads: u32,
}

impl Manifest {
    /// The manifest of [`OBJECTS`].
    ///
    /// # Errors
    /// If it does not parse, which a test excludes.
    pub fn built() -> Result<Self, serde_json::Error> {
        serde_json::from_str(include_str!("../kernels/built/gfx1151/manifest.json"))
    }
}
