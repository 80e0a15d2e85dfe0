//! Scalar operations: SOP1, SOP2, SOPC, SOPK and SOPP (ISA guide, 15.1).

use super::{Memory, Op, Run, Ty, flag, value::Operand, vop2};
use crate::{
    exec::{flow, scalar},
    float::{self, max32, min32},
    isa::{
        rows::{nan_orders, orders},
        value::{F16, F16Wide},
    },
};

/// Rows of a scalar table: as in `rows`, with `s` for SCC, EXEC and the destination's old value.
macro_rules! scalar_rows {
    ($s:ident; $($code:literal $name:ident $([$flag:ident $(| $more:ident)*])? : $r:ident ( $($a:ident : $t:ty),* ) => $e:expr ;)*) => {
        vec![$(Op {
            code: $code,
            name: stringify!($name),
            dst: Some(<$r as Operand>::TY),
            src: vec![$(<$t as Operand>::TY),*],
            flags: 0 $(| flag::$flag $(| flag::$more)*)?,
            run: Run::Scalar(|$s, first, second| {
                let mut _sources = [first, second].into_iter();
                let _ = &$s;
                $(let $a = <$t as Operand>::get(_sources.next().unwrap_or(0));)*
                <$r as Operand>::put($e)
            }),
        }),*]
    };
}

/// A result and whether it overflowed, which becomes SCC.
fn carry<T>(s: &mut super::Scalar<'_>, (result, overflow): (T, bool)) -> T {
    s.scc = overflow;
    result
}

/// Sets EXEC to `new` and gives what it was.
fn save_exec(s: &mut super::Scalar<'_>, new: u32) -> u32 {
    s.scc = new != 0;
    std::mem::replace(&mut s.exec, new)
}

fn write_exec(s: &mut super::Scalar<'_>, new: u32) -> u32 {
    save_exec(s, new);
    new
}

fn shifted_add(s: &mut super::Scalar<'_>, a: u32, b: u32, shift: u32) -> u32 {
    let sum = (u64::from(a) << shift) + u64::from(b);
    carry(s, (sum as u32, sum >> 32 != 0))
}

/// Offset (5 or 6 bits) and width (7 bits from bit 16) of a bit field.
fn unsigned_field(a: u64, b: u32, bits: u32) -> u64 {
    let (offset, width) = (b & (bits - 1), b >> 16 & 127);
    let shifted = a >> offset;
    if width >= 64 { shifted } else { shifted & ((1 << width) - 1) }
}

fn signed_field(a: i64, b: u32, bits: u32) -> i64 {
    let (offset, width) = (b & (bits - 1), (b >> 16 & 127).min(bits));
    if width == 0 { 0 } else { (a >> offset) << (64 - width) >> (64 - width) }
}

/// Whether any bit of each group of four is set.
fn quads(a: u64) -> u64 {
    (0..16).fold(0, |mask, quad| mask | u64::from(a >> (4 * quad) & 15 != 0) << quad)
}

fn whole_quads(a: u64) -> u64 {
    (0..16).fold(0, |mask, quad| if a >> (4 * quad) & 15 != 0 { mask | 15 << (4 * quad) } else { mask })
}

fn replicate(a: u32) -> u64 {
    (0..32).fold(0, |bits, i| bits | (u64::from(a >> i & 1) * 3) << (2 * i))
}

fn lone(code: u16, name: &'static str, dst: Option<Ty>, src: &[Ty], flags: u32, step: crate::exec::Step) -> Op {
    Op { code, name, dst, src: src.to_vec(), flags, run: Run::Step(step) }
}

pub(super) fn sop1() -> Vec<Op> {
    let mut ops = scalar_rows! { s;
        0x00 s_mov_b32: u32(a: u32) => a;
        0x01 s_mov_b64: u64(a: u64) => a;
        0x02 s_cmov_b32: u32(a: u32) => if s.scc { a } else { s.old as u32 };
        0x03 s_cmov_b64: u64(a: u64) => if s.scc { a } else { s.old };
        0x04 s_brev_b32: u32(a: u32) => a.reverse_bits();
        0x05 s_brev_b64: u64(a: u64) => a.reverse_bits();
        0x08 s_ctz_i32_b32: u32(a: u32) => if a == 0 { u32::MAX } else { a.trailing_zeros() };
        0x09 s_ctz_i32_b64: u32(a: u64) => if a == 0 { u32::MAX } else { a.trailing_zeros() };
        0x0a s_clz_i32_u32: u32(a: u32) => if a == 0 { u32::MAX } else { a.leading_zeros() };
        0x0b s_clz_i32_u64: u32(a: u64) => if a == 0 { u32::MAX } else { a.leading_zeros() };
        0x0c s_cls_i32: u32(a: i32) => { let d = a ^ (a >> 31); if d == 0 { u32::MAX } else { d.leading_zeros() } };
        0x0d s_cls_i32_i64: u32(a: i64) => { let d = a ^ (a >> 63); if d == 0 { u32::MAX } else { d.leading_zeros() } };
        0x0e s_sext_i32_i8: i32(a: u32) => (a as i8).into();
        0x0f s_sext_i32_i16: i32(a: u32) => (a as i16).into();
        0x10 s_bitset0_b32: u32(a: u32) => s.old as u32 & !(1 << (a & 31));
        0x11 s_bitset0_b64: u64(a: u32) => s.old & !(1 << (a & 63));
        0x12 s_bitset1_b32: u32(a: u32) => s.old as u32 | 1 << (a & 31);
        0x13 s_bitset1_b64: u64(a: u32) => s.old | 1 << (a & 63);
        0x14 s_bitreplicate_b64_b32: u64(a: u32) => replicate(a);
        0x15 s_abs_i32[SCC_NZ]: i32(a: i32) => a.wrapping_abs();
        0x16 s_bcnt0_i32_b32[SCC_NZ]: u32(a: u32) => a.count_zeros();
        0x17 s_bcnt0_i32_b64[SCC_NZ]: u32(a: u64) => a.count_zeros();
        0x18 s_bcnt1_i32_b32[SCC_NZ]: u32(a: u32) => a.count_ones();
        0x19 s_bcnt1_i32_b64[SCC_NZ]: u32(a: u64) => a.count_ones();
        0x1a s_quadmask_b32[SCC_NZ]: u32(a: u32) => quads(a.into()) as u32;
        0x1b s_quadmask_b64[SCC_NZ]: u64(a: u64) => quads(a);
        0x1c s_wqm_b32[SCC_NZ]: u32(a: u32) => whole_quads(a.into()) as u32;
        0x1d s_wqm_b64[SCC_NZ]: u64(a: u64) => whole_quads(a);
        0x1e s_not_b32[SCC_NZ]: u32(a: u32) => !a;
        0x1f s_not_b64[SCC_NZ]: u64(a: u64) => !a;
        0x20 s_and_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, a & s.exec);
        0x22 s_or_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, a | s.exec);
        0x24 s_xor_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, a ^ s.exec);
        0x26 s_nand_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, !(a & s.exec));
        0x28 s_nor_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, !(a | s.exec));
        0x2a s_xnor_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, !(a ^ s.exec));
        0x2c s_and_not0_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, !a & s.exec);
        0x2e s_or_not0_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, !a | s.exec);
        0x30 s_and_not1_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, a & !s.exec);
        0x32 s_or_not1_saveexec_b32[WRITES_EXEC]: u32(a: u32) => save_exec(s, a | !s.exec);
        0x34 s_and_not0_wrexec_b32[WRITES_EXEC]: u32(a: u32) => write_exec(s, !a & s.exec);
        0x36 s_and_not1_wrexec_b32[WRITES_EXEC]: u32(a: u32) => write_exec(s, a & !s.exec);
        0x60 s_ceil_f32: f32(a: f32) => a.ceil();
        0x61 s_floor_f32: f32(a: f32) => a.floor();
        0x62 s_trunc_f32: f32(a: f32) => a.trunc();
        0x63 s_rndne_f32: f32(a: f32) => a.round_ties_even();
        0x64 s_cvt_f32_i32: f32(a: i32) => s.env.round32.to_f32(a.into());
        0x65 s_cvt_f32_u32: f32(a: u32) => s.env.round32.to_f32(a.into());
        0x66 s_cvt_i32_f32: i32(a: f32) => a as i32;
        0x67 s_cvt_u32_f32: u32(a: f32) => a as u32;
        0x68 s_cvt_f16_f32: F16(a: f32) => s.env.f16(a.into());
        0x69 s_cvt_f32_f16: f32(a: F16) => a;
        0x6a s_cvt_hi_f32_f16: f32(a: u32) => float::from_f16(a >> 16);
        0x6b s_ceil_f16: F16(a: F16) => a.ceil();
        0x6c s_floor_f16: F16(a: F16) => a.floor();
        0x6d s_trunc_f16: F16(a: F16) => a.trunc();
        0x6e s_rndne_f16: F16(a: F16) => a.round_ties_even();
    };
    let (word, pair) = (Some(Ty::U32), Some(Ty::U64));
    ops.extend([
        lone(0x40, "s_movrels_b32", word, &[Ty::U32], 0, scalar::move_relative),
        lone(0x41, "s_movrels_b64", pair, &[Ty::U64], 0, scalar::move_relative),
        lone(0x42, "s_movreld_b32", word, &[Ty::U32], 0, scalar::move_relative),
        lone(0x43, "s_movreld_b64", pair, &[Ty::U64], 0, scalar::move_relative),
        lone(0x44, "s_movrelsd_2_b32", word, &[Ty::U32], 0, scalar::move_relative),
        lone(0x47, "s_getpc_b64", pair, &[], 0, flow::get_pc),
        lone(0x48, "s_setpc_b64", None, &[Ty::U64], flag::BRANCH, flow::set_pc),
        lone(0x49, "s_swappc_b64", pair, &[Ty::U64], flag::BRANCH, flow::swap_pc),
        lone(0x4c, "s_sendmsg_rtn_b32", word, &[Ty::U32], 0, scalar::message),
        lone(0x4d, "s_sendmsg_rtn_b64", pair, &[Ty::U32], 0, scalar::message),
    ]);
    ops
}

pub(super) fn sop2() -> Vec<Op> {
    scalar_rows! { s;
        0x00 s_add_u32: u32(a: u32, b: u32) => carry(s, a.overflowing_add(b));
        0x01 s_sub_u32: u32(a: u32, b: u32) => carry(s, a.overflowing_sub(b));
        0x02 s_add_i32: i32(a: i32, b: i32) => carry(s, a.overflowing_add(b));
        0x03 s_sub_i32: i32(a: i32, b: i32) => carry(s, a.overflowing_sub(b));
        0x04 s_addc_u32: u32(a: u32, b: u32) => { let sum = u64::from(a) + u64::from(b) + u64::from(s.scc); carry(s, (sum as u32, sum >> 32 != 0)) };
        0x05 s_subb_u32: u32(a: u32, b: u32) => { let d = i64::from(a) - i64::from(b) - i64::from(s.scc); carry(s, (d as u32, d < 0)) };
        0x06 s_absdiff_i32[SCC_NZ]: i32(a: i32, b: i32) => a.wrapping_sub(b).wrapping_abs();
        0x08 s_lshl_b32[SCC_NZ]: u32(a: u32, b: u32) => a << (b & 31);
        0x09 s_lshl_b64[SCC_NZ]: u64(a: u64, b: u32) => a << (b & 63);
        0x0a s_lshr_b32[SCC_NZ]: u32(a: u32, b: u32) => a >> (b & 31);
        0x0b s_lshr_b64[SCC_NZ]: u64(a: u64, b: u32) => a >> (b & 63);
        0x0c s_ashr_i32[SCC_NZ]: i32(a: i32, b: u32) => a >> (b & 31);
        0x0d s_ashr_i64[SCC_NZ]: i64(a: i64, b: u32) => a >> (b & 63);
        0x0e s_lshl1_add_u32: u32(a: u32, b: u32) => shifted_add(s, a, b, 1);
        0x0f s_lshl2_add_u32: u32(a: u32, b: u32) => shifted_add(s, a, b, 2);
        0x10 s_lshl3_add_u32: u32(a: u32, b: u32) => shifted_add(s, a, b, 3);
        0x11 s_lshl4_add_u32: u32(a: u32, b: u32) => shifted_add(s, a, b, 4);
        0x12 s_min_i32: i32(a: i32, b: i32) => carry(s, (a.min(b), a < b));
        0x13 s_min_u32: u32(a: u32, b: u32) => carry(s, (a.min(b), a < b));
        0x14 s_max_i32: i32(a: i32, b: i32) => carry(s, (a.max(b), a >= b));
        0x15 s_max_u32: u32(a: u32, b: u32) => carry(s, (a.max(b), a >= b));
        0x16 s_and_b32[SCC_NZ]: u32(a: u32, b: u32) => a & b;
        0x17 s_and_b64[SCC_NZ]: u64(a: u64, b: u64) => a & b;
        0x18 s_or_b32[SCC_NZ]: u32(a: u32, b: u32) => a | b;
        0x19 s_or_b64[SCC_NZ]: u64(a: u64, b: u64) => a | b;
        0x1a s_xor_b32[SCC_NZ]: u32(a: u32, b: u32) => a ^ b;
        0x1b s_xor_b64[SCC_NZ]: u64(a: u64, b: u64) => a ^ b;
        0x1c s_nand_b32[SCC_NZ]: u32(a: u32, b: u32) => !(a & b);
        0x1d s_nand_b64[SCC_NZ]: u64(a: u64, b: u64) => !(a & b);
        0x1e s_nor_b32[SCC_NZ]: u32(a: u32, b: u32) => !(a | b);
        0x1f s_nor_b64[SCC_NZ]: u64(a: u64, b: u64) => !(a | b);
        0x20 s_xnor_b32[SCC_NZ]: u32(a: u32, b: u32) => !(a ^ b);
        0x21 s_xnor_b64[SCC_NZ]: u64(a: u64, b: u64) => !(a ^ b);
        0x22 s_and_not1_b32[SCC_NZ]: u32(a: u32, b: u32) => a & !b;
        0x23 s_and_not1_b64[SCC_NZ]: u64(a: u64, b: u64) => a & !b;
        0x24 s_or_not1_b32[SCC_NZ]: u32(a: u32, b: u32) => a | !b;
        0x25 s_or_not1_b64[SCC_NZ]: u64(a: u64, b: u64) => a | !b;
        0x26 s_bfe_u32[SCC_NZ]: u32(a: u32, b: u32) => unsigned_field(a.into(), b, 32) as u32;
        0x27 s_bfe_i32[SCC_NZ]: i32(a: i32, b: u32) => signed_field(a.into(), b, 32) as i32;
        0x28 s_bfe_u64[SCC_NZ]: u64(a: u64, b: u32) => unsigned_field(a, b, 64);
        0x29 s_bfe_i64[SCC_NZ]: i64(a: i64, b: u32) => signed_field(a, b, 64);
        0x2a s_bfm_b32: u32(a: u32, b: u32) => ((1u32 << (a & 31)) - 1) << (b & 31);
        0x2b s_bfm_b64: u64(a: u32, b: u32) => ((1u64 << (a & 63)) - 1) << (b & 63);
        0x2c s_mul_i32: i32(a: i32, b: i32) => a.wrapping_mul(b);
        0x2d s_mul_hi_u32: u32(a: u32, b: u32) => ((u64::from(a) * u64::from(b)) >> 32) as u32;
        0x2e s_mul_hi_i32: i32(a: i32, b: i32) => ((i64::from(a) * i64::from(b)) >> 32) as i32;
        0x30 s_cselect_b32: u32(a: u32, b: u32) => if s.scc { a } else { b };
        0x31 s_cselect_b64: u64(a: u64, b: u64) => if s.scc { a } else { b };
        0x32 s_pack_ll_b32_b16: u32(a: u32, b: u32) => b << 16 | a & 0xffff;
        0x33 s_pack_lh_b32_b16: u32(a: u32, b: u32) => b & 0xffff_0000 | a & 0xffff;
        0x34 s_pack_hh_b32_b16: u32(a: u32, b: u32) => b & 0xffff_0000 | a >> 16;
        0x35 s_pack_hl_b32_b16: u32(a: u32, b: u32) => b << 16 | a >> 16;
        0x40 s_add_f32: f32(a: f32, b: f32) => s.env.round32.add32(a, b);
        0x41 s_sub_f32: f32(a: f32, b: f32) => s.env.round32.add32(a, -b);
        0x42 s_min_f32: f32(a: f32, b: f32) => min32(a, b, s.env.ieee);
        0x43 s_max_f32: f32(a: f32, b: f32) => max32(a, b, s.env.ieee);
        0x44 s_mul_f32: f32(a: f32, b: f32) => s.env.round32.mul32(a, b);
        0x45 s_fmaak_f32[K_THIRD]: f32(a: f32, b: f32) => s.env.round32.fma32(a, b, f32::from_bits(s.old as u32));
        0x46 s_fmamk_f32[K_SECOND]: f32(a: f32, b: f32) => s.env.round32.fma32(a, f32::from_bits(s.old as u32), b);
        0x47 s_fmac_f32: f32(a: f32, b: f32) => s.env.round32.fma32(a, b, f32::from_bits(s.old as u32));
        0x48 s_cvt_pk_rtz_f16_f32: u32(a: f32, b: f32) => vop2::pack_rtz(a, b);
        0x49 s_add_f16: F16(a: F16, b: F16) => s.env.sum16(a.into(), b.into());
        0x4a s_sub_f16: F16(a: F16, b: F16) => s.env.sum16(a.into(), f64::from(-b));
        0x4b s_min_f16: F16(a: F16, b: F16) => min32(a, b, s.env.ieee);
        0x4c s_max_f16: F16(a: F16, b: F16) => max32(a, b, s.env.ieee);
        0x4d s_mul_f16: F16(a: F16, b: F16) => s.env.f16(f64::from(a) * f64::from(b));
        0x4e s_fmac_f16: F16(a: F16Wide, b: F16Wide) => s.env.sum16(a * b, float::from_f16(s.old as u32 & 0xffff).into());
    }
}

/// Comparisons write SCC.
macro_rules! compare_rows {
    ($($code:literal $name:ident ( $a:ident : $ta:ty, $b:ident : $tb:ty ) => $e:expr ;)*) => {
        scalar_rows! { s; $($code $name[NO_DST]: bool($a: $ta, $b: $tb) => { s.scc = $e; false };)* }
    };
}

#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, clippy::double_comparisons)] // NaN
pub(super) fn sopc() -> Vec<Op> {
    let mut ops = compare_rows! {
        0x00 s_cmp_eq_i32(a: i32, b: i32) => a == b;
        0x01 s_cmp_lg_i32(a: i32, b: i32) => a != b;
        0x02 s_cmp_gt_i32(a: i32, b: i32) => a > b;
        0x03 s_cmp_ge_i32(a: i32, b: i32) => a >= b;
        0x04 s_cmp_lt_i32(a: i32, b: i32) => a < b;
        0x05 s_cmp_le_i32(a: i32, b: i32) => a <= b;
        0x06 s_cmp_eq_u32(a: u32, b: u32) => a == b;
        0x07 s_cmp_lg_u32(a: u32, b: u32) => a != b;
        0x08 s_cmp_gt_u32(a: u32, b: u32) => a > b;
        0x09 s_cmp_ge_u32(a: u32, b: u32) => a >= b;
        0x0a s_cmp_lt_u32(a: u32, b: u32) => a < b;
        0x0b s_cmp_le_u32(a: u32, b: u32) => a <= b;
        0x0c s_bitcmp0_b32(a: u32, b: u32) => a >> (b & 31) & 1 == 0;
        0x0d s_bitcmp1_b32(a: u32, b: u32) => a >> (b & 31) & 1 == 1;
        0x0e s_bitcmp0_b64(a: u64, b: u32) => a >> (b & 63) & 1 == 0;
        0x0f s_bitcmp1_b64(a: u64, b: u32) => a >> (b & 63) & 1 == 1;
        0x10 s_cmp_eq_u64(a: u64, b: u64) => a == b;
        0x11 s_cmp_lg_u64(a: u64, b: u64) => a != b;
    };
    let (mut singles, mut halves) = (orders!(f32; compare_rows), orders!(F16; compare_rows));
    singles.extend(nan_orders!(f32; compare_rows));
    halves.extend(nan_orders!(F16; compare_rows));
    super::name_compares(&mut singles, 0x40, "s_cmp", "f32");
    super::name_compares(&mut halves, 0x50, "s_cmp", "f16");
    ops.extend(singles.into_iter().chain(halves));
    ops
}

/// The destination field is the first source; the second is the 16-bit constant, sign-extended.
pub(super) fn sopk() -> Vec<Op> {
    let mut ops = scalar_rows! { s;
        0x00 s_movk_i32: i32(d: i32, k: i32) => { let _ = d; k };
        0x02 s_cmovk_i32: i32(d: i32, k: i32) => if s.scc { k } else { d };
        0x03 s_cmpk_eq_i32[NO_DST]: bool(d: i32, k: i32) => { s.scc = d == k; false };
        0x04 s_cmpk_lg_i32[NO_DST]: bool(d: i32, k: i32) => { s.scc = d != k; false };
        0x05 s_cmpk_gt_i32[NO_DST]: bool(d: i32, k: i32) => { s.scc = d > k; false };
        0x06 s_cmpk_ge_i32[NO_DST]: bool(d: i32, k: i32) => { s.scc = d >= k; false };
        0x07 s_cmpk_lt_i32[NO_DST]: bool(d: i32, k: i32) => { s.scc = d < k; false };
        0x08 s_cmpk_le_i32[NO_DST]: bool(d: i32, k: i32) => { s.scc = d <= k; false };
        0x09 s_cmpk_eq_u32[NO_DST]: bool(d: u32, k: u32) => { s.scc = d == k & 0xffff; false };
        0x0a s_cmpk_lg_u32[NO_DST]: bool(d: u32, k: u32) => { s.scc = d != k & 0xffff; false };
        0x0b s_cmpk_gt_u32[NO_DST]: bool(d: u32, k: u32) => { s.scc = d > k & 0xffff; false };
        0x0c s_cmpk_ge_u32[NO_DST]: bool(d: u32, k: u32) => { s.scc = d >= k & 0xffff; false };
        0x0d s_cmpk_lt_u32[NO_DST]: bool(d: u32, k: u32) => { s.scc = d < k & 0xffff; false };
        0x0e s_cmpk_le_u32[NO_DST]: bool(d: u32, k: u32) => { s.scc = d <= k & 0xffff; false };
        0x0f s_addk_i32: i32(d: i32, k: i32) => carry(s, d.overflowing_add(k));
        0x10 s_mulk_i32: i32(d: i32, k: i32) => d.wrapping_mul(k);
    };
    let word = Some(Ty::U32);
    ops.extend([
        lone(0x01, "s_version", None, &[], 0, flow::nop),
        lone(0x11, "s_getreg_b32", word, &[], 0, scalar::get_register),
        lone(0x12, "s_setreg_b32", None, &[], 0, scalar::set_register),
        lone(0x13, "s_setreg_imm32_b32", None, &[], 0, scalar::set_register),
        lone(0x14, "s_call_b64", Some(Ty::U64), &[], flag::BRANCH, flow::call),
        lone(0x18, "s_waitcnt_vscnt", word, &[], 0, flow::nop),
        lone(0x19, "s_waitcnt_vmcnt", word, &[], 0, flow::nop),
        lone(0x1a, "s_waitcnt_expcnt", word, &[], 0, flow::nop),
        lone(0x1b, "s_waitcnt_lgkmcnt", word, &[], 0, flow::nop),
    ]);
    ops
}

/// What waits and hints is done at once here: every operation is complete before the next.
pub(super) fn sopp() -> Vec<Op> {
    let op = |code, name, flags, step| lone(code, name, None, &[], flags, step);
    let branch = flag::BRANCH;
    vec![
        op(0x00, "s_nop", 0, flow::nop),
        op(0x01, "s_setkill", 0, flow::unsupported),
        op(0x02, "s_sethalt", 0, flow::unsupported),
        op(0x03, "s_sleep", 0, flow::sleep),
        op(0x04, "s_set_inst_prefetch_distance", 0, flow::nop),
        op(0x05, "s_clause", 0, flow::nop),
        op(0x07, "s_delay_alu", 0, flow::nop),
        op(0x08, "s_waitcnt_depctr", 0, flow::nop),
        op(0x09, "s_waitcnt", 0, flow::nop),
        op(0x0a, "s_wait_idle", 0, flow::nop),
        op(0x0b, "s_wait_event", 0, flow::nop),
        op(0x10, "s_trap", branch, flow::trap),
        op(0x11, "s_round_mode", 0, scalar::set_mode),
        op(0x12, "s_denorm_mode", 0, scalar::set_mode),
        op(0x13, "s_singleuse_vdst", 0, flow::nop),
        op(0x1f, "s_code_end", branch, flow::unsupported),
        op(0x20, "s_branch", branch, flow::branch),
        op(0x21, "s_cbranch_scc0", branch, flow::branch),
        op(0x22, "s_cbranch_scc1", branch, flow::branch),
        op(0x23, "s_cbranch_vccz", branch, flow::branch),
        op(0x24, "s_cbranch_vccnz", branch, flow::branch),
        op(0x25, "s_cbranch_execz", branch, flow::branch),
        op(0x26, "s_cbranch_execnz", branch, flow::branch),
        op(0x30, "s_endpgm", branch, flow::end),
        op(0x34, "s_wakeup", 0, flow::nop),
        op(0x35, "s_setprio", 0, flow::nop),
        op(0x36, "s_sendmsg", 0, flow::message),
        op(0x38, "s_incperflevel", 0, flow::nop),
        op(0x39, "s_decperflevel", 0, flow::nop),
        op(0x3a, "s_ttracedata", 0, flow::nop),
        op(0x3b, "s_ttracedata_imm", 0, flow::nop),
        op(0x3c, "s_icache_inv", 0, flow::nop),
        op(0x3d, "s_barrier", 0, flow::barrier),
    ]
}

/// A scalar operation on memory, so that `smem` needs no macro of its own.
pub(super) fn memory(code: u16, name: &'static str, registers: u8) -> Op {
    let bytes = registers * 4;
    let run = Run::Memory(Memory::Load { bytes, signed: false, half: super::Half::Whole });
    Op { code, name, dst: Some(Ty::Regs(registers)), src: vec![Ty::U64], flags: 0, run }
}

/// An operation without operands.
pub(super) fn hint(code: u16, name: &'static str) -> Op {
    lone(code, name, None, &[], 0, flow::nop)
}
