//! How the semantics of each operation are tested: asked by the tests themselves, and printed as the table of the README.

use super::{oracle::oracle, scalar};
use rdna::isa::{Encoding, Op};

/// Operations that are tested by a small program, a loop over lanes, or a comparison within a bound, with the test's place.
const NAMED: &[(&str, &[&str])] = &[
    (
        "scalars.rs, small programs",
        &[
            "s_movrels_b32",
            "s_movrels_b64",
            "s_movreld_b32",
            "s_movreld_b64",
            "s_movrelsd_2_b32",
            "s_getpc_b64",
            "s_setpc_b64",
            "s_swappc_b64",
            "s_call_b64",
            "s_sendmsg_rtn_b32",
            "s_sendmsg_rtn_b64",
            "s_getreg_b32",
            "s_setreg_b32",
            "s_setreg_imm32_b32",
            "s_round_mode",
            "s_denorm_mode",
            "s_branch",
            "s_cbranch_scc0",
            "s_cbranch_scc1",
            "s_cbranch_vccz",
            "s_cbranch_vccnz",
            "s_cbranch_execz",
            "s_cbranch_execnz",
            "s_nop",
            "s_sleep",
            "s_set_inst_prefetch_distance",
            "s_clause",
            "s_delay_alu",
            "s_waitcnt_depctr",
            "s_waitcnt",
            "s_wait_idle",
            "s_wait_event",
            "s_singleuse_vdst",
            "s_wakeup",
            "s_setprio",
            "s_sendmsg",
            "s_incperflevel",
            "s_decperflevel",
            "s_ttracedata",
            "s_ttracedata_imm",
            "s_icache_inv",
            "s_version",
            "s_waitcnt_vscnt",
            "s_waitcnt_vmcnt",
            "s_waitcnt_expcnt",
            "s_waitcnt_lgkmcnt",
        ],
    ),
    ("scalars.rs, refused when reached", &["s_setkill", "s_sethalt", "s_code_end"]),
    ("faults.rs, planted faults", &["s_trap", "s_endpgm", "s_barrier"]),
    (
        "lanes.rs, loops over lanes",
        &[
            "v_readlane_b32",
            "v_readfirstlane_b32",
            "v_writelane_b32",
            "v_permlane16_b32",
            "v_permlanex16_b32",
            "v_permlane64_b32",
            "v_swap_b32",
            "v_swaprel_b32",
            "v_movreld_b32",
            "v_movrels_b32",
            "v_movrelsd_2_b32",
            "v_movrelsd_b32",
            "v_nop",
            "v_pipeflush",
        ],
    ),
    (
        "functions.rs, within a bound of f64",
        &[
            "v_cos_f16",
            "v_cos_f32",
            "v_exp_f16",
            "v_exp_f32",
            "v_log_f16",
            "v_log_f32",
            "v_rcp_f16",
            "v_rcp_f32",
            "v_rcp_f64",
            "v_rcp_iflag_f32",
            "v_rsq_f16",
            "v_rsq_f32",
            "v_rsq_f64",
            "v_sin_f16",
            "v_sin_f32",
            "v_sqrt_f16",
            "v_sqrt_f32",
            "v_sqrt_f64",
            "v_trig_preop_f64",
            "v_fract_f64",
            "v_mqsad_u32_u8",
        ],
    ),
    ("both.rs, divisions equal the host's", &["v_div_fmas_f32", "v_div_fmas_f64", "v_div_scale_f32", "v_div_scale_f64"]),
    (
        "packed.rs, against exact sums",
        &[
            "v_dot2_bf16_bf16",
            "v_dot2_f16_f16",
            "v_dot2acc_f32_f16",
            "v_fmaak_f16",
            "v_fmaak_f32",
            "v_fmamk_f16",
            "v_fmamk_f32",
            "v_pk_fmac_f16",
        ],
    ),
];

fn named(name: &str) -> Option<&'static str> {
    NAMED.iter().find(|(_, names)| names.contains(&name)).map(|&(place, _)| place)
}

/// Whether a scalar operation is tested by a program of its own.
pub(crate) fn by_programs(name: &str) -> bool {
    named(name).is_some()
}

/// The test of an operation's semantics, if there is one.
pub(crate) fn tested_by(encoding: Encoding, op: &Op) -> Option<&'static str> {
    let sample = scalar::In { a: 0, b: 0, old: 0, scc: false, exec: 0, rounds: [super::soft::Round::Nearest; 2] };
    if let Some(place) = named(op.name) {
        return Some(place);
    }
    match encoding {
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 => {
            oracle(op.name).map(|_| "operations.rs, random operands, exact")
        }
        Encoding::Vop3p if op.name.contains("wmma") => Some("matrices.rs, loops over matrices"),
        Encoding::Vop3p => Some("packed.rs, random operands, exact"),
        Encoding::Vopd => Some("lanes.rs, pairs against their halves"),
        Encoding::Ds | Encoding::Flat | Encoding::Scratch | Encoding::Global => Some("memory.rs, against bytes"),
        Encoding::Smem | Encoding::Mubuf => Some("scalars.rs, small programs"),
        _ => scalar::scalar(op.name, &sample).map(|_| "scalars.rs, random operands, exact"),
    }
}
