//! VOPD: two operations at once (ISA guide, 7.6 and 15.3.5). They are operations of VOP1 and VOP2 under other numbers.

/// Code, name within a pair, name of the operation, and whether only the second may be it.
pub(super) const PAIRED: [(u8, &str, &str); 16] = [
    (0x00, "v_dual_fmac_f32", "v_fmac_f32"),
    (0x01, "v_dual_fmaak_f32", "v_fmaak_f32"),
    (0x02, "v_dual_fmamk_f32", "v_fmamk_f32"),
    (0x03, "v_dual_mul_f32", "v_mul_f32"),
    (0x04, "v_dual_add_f32", "v_add_f32"),
    (0x05, "v_dual_sub_f32", "v_sub_f32"),
    (0x06, "v_dual_subrev_f32", "v_subrev_f32"),
    (0x07, "v_dual_mul_dx9_zero_f32", "v_mul_dx9_zero_f32"),
    (0x08, "v_dual_mov_b32", "v_mov_b32"),
    (0x09, "v_dual_cndmask_b32", "v_cndmask_b32"),
    (0x0a, "v_dual_max_f32", "v_max_f32"),
    (0x0b, "v_dual_min_f32", "v_min_f32"),
    (0x0c, "v_dual_dot2acc_f32_f16", "v_dot2acc_f32_f16"),
    (0x10, "v_dual_add_nc_u32", "v_add_nc_u32"),
    (0x11, "v_dual_lshlrev_b32", "v_lshlrev_b32"),
    (0x12, "v_dual_and_b32", "v_and_b32"),
];

/// Codes from here on are only allowed as the second of a pair.
pub(super) const SECOND_ONLY: u8 = 0x10;
