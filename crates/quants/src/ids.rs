//! ggml's numeric type ids, and what to say of those that mean something else, or nothing.
//!
//! Ids are not unique: forks of llama.cpp gave the same number to other layouts, and mainline has withdrawn some. A
//! wrong guess decodes to nonsense without any error, so [`from_ggml_id_sized`] lets the tensor's own size decide
//! where two layouts share an id, and every other id is refused with what it most likely is.

use crate::{ALL, WeightType};
use thiserror::Error;

/// Why a ggml type id names no weight type that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownType {
    /// Mainline ggml once had the type and removed it.
    #[error("weight type {id} ({name}) was withdrawn from GGUF; convert the file again from its source with a current type")]
    Retired {
        /// The id in the file.
        id: u32,
        /// The name it had.
        name: &'static str,
    },
    /// A fork's type, not read by this version.
    #[error("weight type {id} is not in mainline GGUF; {owner} uses it for {name}, which is not read: convert the file to a mainline type")]
    Fork {
        /// The id in the file.
        id: u32,
        /// The project that uses the id.
        owner: &'static str,
        /// What it calls the type.
        name: &'static str,
    },
    /// A fork's type whose rows are interleaved for its kernels.
    #[error("weight type {id} is a row-interleaved form of ik_llama.cpp (_R4, _R8, _R16); use the plain file it was made from")]
    Interleaved {
        /// The id in the file.
        id: u32,
    },
    /// Nobody is known to use the id.
    #[error("weight type {id} is unknown; convert the file to a type that GGUF defines")]
    Unknown {
        /// The id in the file.
        id: u32,
    },
    /// The id is known, but the bytes that the file holds for the tensor fit none of its layouts.
    #[error("weight type {id}: {values} values in {span} bytes ({bits:.4} bits each) fit none of the layouts known by this id ({layouts})", bits = *span as f64 * 8.0 / (*values).max(1) as f64)]
    Size {
        /// The id in the file.
        id: u32,
        /// Values of the tensor.
        values: usize,
        /// Bytes from its start to the next tensor, or to the end of the file.
        span: usize,
        /// The layouts tried.
        layouts: String,
    },
}

/// Types that mainline removed.
const RETIRED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4, or I2_S of bitnet.cpp"),
    (37, "IQ4_NL_4_8, or I8_S of bitnet.cpp"),
    (38, "IQ4_NL_8_8, or TL1 of bitnet.cpp"),
];

const IK: &str = "ik_llama.cpp";
/// Second layouts that files use under an id of mainline: `(id, name of the type whose layout it is)`.
///
/// PrismML's older files (Ternary-Bonsai 1) store 34 bytes for 128 values under id 42: the codes of Q2_0 with one scale per 128.
const SHARED: &[(u32, &str)] = &[(42, "PQ2_0")];

/// The type that mainline ggml, or a fork where mainline has none, gives an id.
pub fn from_ggml_id(id: u32) -> Result<WeightType, UnknownType> {
    if let Some(t) = ALL.iter().find(|t| t.info().ggml_id == Some(id)) {
        return Ok(*t);
    }
    if let Some((_, name)) = RETIRED.iter().find(|r| r.0 == id) {
        return Err(UnknownType::Retired { id, name });
    }
    Err(match id {
        160 | 161 | 202..=399 => UnknownType::Interleaved { id },
        97..=159 => UnknownType::Fork { id, owner: IK, name: "a type of its own" },
        _ => UnknownType::Unknown { id },
    })
}

/// As [`from_ggml_id`], choosing between the layouts that share an id by the tensor's size in the file; `shape` is outermost first.
///
/// `span` is the number of bytes from the tensor's start to the next tensor's (or to the end of the file) and may
/// include padding of less than `alignment`. Sizes decide only between layouts: for an id that has one layout the
/// answer is that of [`from_ggml_id`], and the reader's own bounds check tells when bytes are missing.
pub fn from_ggml_id_sized(id: u32, shape: &[usize], span: usize, alignment: usize) -> Result<WeightType, UnknownType> {
    let first = from_ggml_id(id)?;
    let others = || SHARED.iter().filter(|s| s.0 == id).filter_map(|s| WeightType::by_name(s.1));
    if others().next().is_none() {
        return Ok(first);
    }
    let fits = |t: &WeightType| t.bytes_for(shape).is_some_and(|need| need <= span && span - need < alignment.max(1));
    std::iter::once(first).chain(others()).find(fits).ok_or_else(|| {
        let layouts: Vec<_> = std::iter::once(first)
            .chain(others())
            .map(|t| format!("{t}: {} bytes for {} values", t.block_bytes(), t.block_values()))
            .collect();
        let values = shape.iter().fold(1, |n: usize, d| n.saturating_mul(*d));
        UnknownType::Size { id, values, span, layouts: layouts.join("; ") }
    })
}
