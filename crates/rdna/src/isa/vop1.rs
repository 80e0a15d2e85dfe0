//! VOP1: one source (ISA guide, 15.3.2). The same operations are VOP3's 0x180..0x1ff.

use super::{Op, Run, flag, rows::*, value::*};
use crate::{exec::vector, float};

fn i4_offset(a: u32) -> f32 {
    (((a & 15) as i32) << 28 >> 28) as f32 / 16.0
}

/// f32 to the nearest integer in a range; NaN is 0 (Rust's `as` saturates as the hardware does).
fn norm16(x: f32, scale: f32) -> f32 {
    (x * scale).round_ties_even()
}

cloned! {
    pub(super) fn table() -> Vec<Op> {
        let mut ops = rows! { x, l;
            0x01 v_mov_b32: u32(a: u32) => a;
            0x05 v_cvt_f32_i32: f32(a: i32) => a as f32, modal x.round32.to_f32(a.into());
            0x06 v_cvt_f32_u32: f32(a: u32) => a as f32, modal x.round32.to_f32(a.into());
            0x07 v_cvt_u32_f32: u32(a: f32) => a as u32;
            0x08 v_cvt_i32_f32: i32(a: f32) => a as i32;
            0x0a v_cvt_f16_f32: F16(a: f32) => a, modal float::from_f16(x.round16.to_f16(a.into()));
            0x0b v_cvt_f32_f16: f32(a: F16) => a;
            0x0c v_cvt_nearest_i32_f32: i32(a: f32) => (f64::from(a) + 0.5).floor() as i32;
            0x0d v_cvt_floor_i32_f32: i32(a: f32) => a.floor() as i32;
            0x0e v_cvt_off_f32_i4: f32(a: u32) => i4_offset(a);
            0x11 v_cvt_f32_ubyte0: f32(a: u32) => (a & 255) as f32;
            0x12 v_cvt_f32_ubyte1: f32(a: u32) => (a >> 8 & 255) as f32;
            0x13 v_cvt_f32_ubyte2: f32(a: u32) => (a >> 16 & 255) as f32;
            0x14 v_cvt_f32_ubyte3: f32(a: u32) => (a >> 24) as f32;
            0x1c v_mov_b16[TRUE16]: B16(a: B16) => a;
            0x20 v_fract_f32: f32(a: f32) => if a.is_infinite() { f32::NAN } else { (a - a.floor()).min(1.0f32.next_down()) };
            0x21 v_trunc_f32: f32(a: f32) => a.trunc();
            0x22 v_ceil_f32: f32(a: f32) => a.ceil();
            0x23 v_rndne_f32: f32(a: f32) => a.round_ties_even();
            0x24 v_floor_f32: f32(a: f32) => a.floor();
            0x25 v_exp_f32: f32(a: f32) => float::flush32(float::exp2(float::flush32(a)));
            0x27 v_log_f32: f32(a: f32) => float::log2(float::flush32(a));
            0x2a v_rcp_f32: f32(a: f32) => float::flush32(1.0 / float::flush32(a));
            0x2b v_rcp_iflag_f32: f32(a: f32) => float::flush32(1.0 / float::flush32(a));
            0x2e v_rsq_f32: f32(a: f32) => (1.0 / f64::from(float::flush32(a)).sqrt()) as f32;
            0x33 v_sqrt_f32: f32(a: f32) => float::flush32(a).sqrt();
            0x35 v_sin_f32: f32(a: f32) => float::sin_turns(float::flush32(a));
            0x36 v_cos_f32: f32(a: f32) => float::cos_turns(float::flush32(a));
            0x37 v_not_b32: u32(a: u32) => !a;
            0x38 v_bfrev_b32: u32(a: u32) => a.reverse_bits();
            0x39 v_clz_i32_u32: u32(a: u32) => if a == 0 { u32::MAX } else { a.leading_zeros() };
            0x3a v_ctz_i32_b32: u32(a: u32) => if a == 0 { u32::MAX } else { a.trailing_zeros() };
            0x3b v_cls_i32: u32(a: i32) => { let d = a ^ (a >> 31); if d == 0 { u32::MAX } else { d.leading_zeros() } };
            0x3f v_frexp_exp_i32_f32: i32(a: f32) => float::frexp(a.into()).1;
            0x40 v_frexp_mant_f32: f32(a: f32) => float::frexp(a.into()).0 as f32;
            0x50 v_cvt_f16_u16: F16(a: u16) => f32::from(a), modal float::from_f16(x.round16.to_f16(a.into()));
            0x51 v_cvt_f16_i16: F16(a: i16) => f32::from(a), modal float::from_f16(x.round16.to_f16(a.into()));
            0x52 v_cvt_u16_f16: u16(a: F16) => a as u16;
            0x53 v_cvt_i16_f16: i16(a: F16) => a as i16;
            0x54 v_rcp_f16: F16(a: F16) => 1.0 / a, modal float::from_f16(x.round16.to_f16(1.0 / f64::from(a)));
            0x55 v_sqrt_f16: F16(a: F16) => a.sqrt(), modal float::from_f16(x.round16.to_f16(f64::from(a).sqrt()));
            0x56 v_rsq_f16: F16Wide(a: F16Wide) => 1.0 / a.sqrt();
            0x57 v_log_f16: F16(a: F16) => float::log2(a);
            0x58 v_exp_f16: F16(a: F16) => float::exp2(a);
            0x59 v_frexp_mant_f16: F16(a: F16) => float::frexp(a.into()).0 as f32;
            0x5a v_frexp_exp_i16_f16: i16(a: F16) => float::frexp(a.into()).1 as i16;
            0x5b v_floor_f16: F16(a: F16) => a.floor();
            0x5c v_ceil_f16: F16(a: F16) => a.ceil();
            0x5d v_trunc_f16: F16(a: F16) => a.trunc();
            0x5e v_rndne_f16: F16(a: F16) => a.round_ties_even();
            0x5f v_fract_f16: F16(a: F16) => if a.is_infinite() { f32::NAN } else { (a - a.floor()).min(1.0 - 1.0 / 2048.0) };
            0x60 v_sin_f16: F16(a: F16) => float::sin_turns(a);
            0x61 v_cos_f16: F16(a: F16) => float::cos_turns(a);
            0x62 v_sat_pk_u8_i16: B16(a: PkI16) => {
                let saturated = |h: u32| (h as i16).clamp(0, 255) as u32;
                saturated(a >> 16) << 8 | saturated(a)
            };
            0x63 v_cvt_norm_i16_f16: i16(a: F16) => norm16(a.clamp(-1.0, 1.0), 32767.0) as i16;
            0x64 v_cvt_norm_u16_f16: u16(a: F16) => norm16(a.clamp(0.0, 1.0), 65535.0) as u16;
            0x69 v_not_b16: B16(a: B16) => !a;
            0x6a v_cvt_i32_i16: i32(a: i16) => a.into();
            0x6b v_cvt_u32_u16: u32(a: u16) => a.into();
        };
        ops.extend(wide_rows! { x, l;
            0x03 v_cvt_i32_f64: i32(a: f64) => a as i32;
            0x04 v_cvt_f64_i32: f64(a: i32) => a.into();
            0x0f v_cvt_f32_f64: f32(a: f64) => a as f32, modal x.round32.to_f32(a);
            0x10 v_cvt_f64_f32: f64(a: f32) => a.into();
            0x15 v_cvt_u32_f64: u32(a: f64) => a as u32;
            0x16 v_cvt_f64_u32: f64(a: u32) => a.into();
            0x17 v_trunc_f64: f64(a: f64) => a.trunc();
            0x18 v_ceil_f64: f64(a: f64) => a.ceil();
            0x19 v_rndne_f64: f64(a: f64) => a.round_ties_even();
            0x1a v_floor_f64: f64(a: f64) => a.floor();
            0x2f v_rcp_f64: f64(a: f64) => 1.0 / a;
            0x31 v_rsq_f64: f64(a: f64) => 1.0 / a.sqrt();
            0x34 v_sqrt_f64: f64(a: f64) => a.sqrt();
            0x3c v_frexp_exp_i32_f64: i32(a: f64) => float::frexp(a).1;
            0x3d v_frexp_mant_f64: f64(a: f64) => float::frexp(a).0;
            0x3e v_fract_f64: f64(a: f64) => if a.is_infinite() { f64::NAN } else { (a - a.floor()).min(1.0f64.next_down()) };
        });
        ops
    }
}

/// What is no function of a lane.
pub(super) fn special() -> Vec<Op> {
    let op = |code, name, dst, src: &[Ty], flags, step| Op { code, name, dst, src: src.to_vec(), flags, run: Run::Step(step) };
    let only = flag::E32_ONLY;
    vec![
        Op { code: 0x00, name: "v_nop", dst: None, src: vec![], flags: 0, run: Run::Step(vector::nop) },
        op(0x02, "v_readfirstlane_b32", Some(Ty::U32), &[Ty::U32], only | flag::SGPR_DST, vector::read_first_lane),
        op(0x1b, "v_pipeflush", None, &[], 0, vector::nop),
        op(0x42, "v_movreld_b32", Some(Ty::U32), &[Ty::U32], 0, vector::move_relative),
        op(0x43, "v_movrels_b32", Some(Ty::U32), &[Ty::U32], 0, vector::move_relative),
        op(0x44, "v_movrelsd_b32", Some(Ty::U32), &[Ty::U32], 0, vector::move_relative),
        op(0x48, "v_movrelsd_2_b32", Some(Ty::U32), &[Ty::U32], 0, vector::move_relative),
        op(0x65, "v_swap_b32", Some(Ty::U32), &[Ty::U32], only, vector::swap),
        op(0x67, "v_permlane64_b32", Some(Ty::U32), &[Ty::U32], only, vector::nop),
        op(0x68, "v_swaprel_b32", Some(Ty::U32), &[Ty::U32], only, vector::swap),
    ]
}
