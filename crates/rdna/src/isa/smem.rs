//! SMEM: loads into SGPRs (ISA guide, 15.2). `s_buffer_load_*` needs buffer descriptors, which no kernel of plain pointers has.

use super::{Op, sop};

pub(super) fn table() -> Vec<Op> {
    vec![
        sop::memory(0x00, "s_load_b32", 1),
        sop::memory(0x01, "s_load_b64", 2),
        sop::memory(0x02, "s_load_b128", 4),
        sop::memory(0x03, "s_load_b256", 8),
        sop::memory(0x04, "s_load_b512", 16),
        sop::hint(0x20, "s_gl1_inv"),
        sop::hint(0x21, "s_dcache_inv"),
    ]
}

/// Of MUBUF only what fences need: buffers are for graphics.
pub(super) fn cache_control() -> Vec<Op> {
    vec![sop::hint(0x2b, "buffer_gl0_inv"), sop::hint(0x2c, "buffer_gl1_inv")]
}
