//! The stored code objects.

pub(crate) const HARNESS: &[u8] = include_bytes!("../data/harness.co");
pub(crate) const BOTH: &[u8] = include_bytes!("../data/both.co");
pub(crate) const BOTH_O0: &[u8] = include_bytes!("../data/both_O0.co");
pub(crate) const FAULTS: &[u8] = include_bytes!("../data/faults.co");
pub(crate) const MEMORY: &[u8] = include_bytes!("../data/memory.co");
pub(crate) const WMMA: &[u8] = include_bytes!("../data/wmma.co");
pub(crate) const MATVEC: &[u8] = include_bytes!("../data/matvec.co");
