//! Vector operations: operands with their modifiers, the function over the lanes, the result with its modifiers.

use super::{Exec, Flow};
use crate::{
    decode::{Dpp, Inst, operand},
    fault::Kind,
    float,
    isa::{Encoding, Env, LANES, Lanes, Lanewise, Run, Ty, Wide, flag, masked_quad_sad},
};

const ZERO: Lanes = Lanes([0; LANES]);

/// Whether an operation on 32-bit lanes has no modifier at all, so that its registers can be used as they are.
pub(crate) fn is_simple(inst: &Inst) -> bool {
    let op = inst.op;
    let narrow = op.src.iter().chain(&op.dst).any(|ty| ty.is_16() || *ty == Ty::Mask);
    let special = flag::PACKED | flag::MIX | flag::VCC_READ | flag::HIGH_DST | flag::CARRY_OUT;
    let modified = inst.neg != 0 || inst.abs != 0 || inst.op_sel != 0 || inst.clamp || inst.omod != 0 || inst.dpp != Dpp::None;
    let signs_only = op.is(flag::SIGNED) && inst.abs == 0 && inst.op_sel == 0 && !inst.clamp;
    !narrow && !op.is(special) && (!modified || signs_only)
}

fn lanewise(inst: &Inst) -> Option<&'static Lanewise> {
    match &inst.op.run {
        Run::Lanes(lanewise) => Some(lanewise),
        _ => None,
    }
}

/// An operation without modifiers.
#[inline(always)]
pub(crate) fn simple(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Some(functions) = lanewise(inst) else { return Flow::Next };
    if !exec.wave.env.plain {
        return lanes(exec, inst);
    }
    exec.wave.env.signed = inst.neg.into();
    let (mut first, mut second, mut third, mut out) = (ZERO, ZERO, ZERO, ZERO);
    let wave = &*exec.wave;
    let types = &inst.op.src;
    let a = if types.is_empty() { &ZERO } else { wave.lanes(inst.src[0], types[0], inst.literal, &mut first) };
    let b = if types.len() < 2 { &ZERO } else { wave.lanes(inst.src[1], types[1], inst.literal, &mut second) };
    let c = if types.len() < 3 { &ZERO } else { wave.lanes(inst.src[2], types[2], inst.literal, &mut third) };
    (functions.plain)(&mut out, a, b, c, &wave.env);
    let mask = exec.wave.exec();
    exec.wave.set_v(inst.dst.into(), &out, mask);
    Flow::Next
}

/// Any operation on lanes of up to 32 bits.
#[inline(always)]
pub(crate) fn lanes(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let mut mask = exec.wave.exec();
    let out = compute(exec, inst, &mut mask);
    write_result(exec, inst, &out, mask);
    Flow::Next
}

/// Two operations, both of which read before either writes.
#[inline(always)]
pub(crate) fn pair(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let mut mask = exec.wave.exec();
    let first = compute(exec, inst, &mut mask);
    if let Some(second) = &inst.second {
        let out = compute(exec, second, &mut mask);
        write_result(exec, second, &out, mask);
    }
    write_result(exec, inst, &first, mask);
    Flow::Next
}

#[inline(always)]
fn compute(exec: &mut Exec<'_>, inst: &Inst, mask: &mut u32) -> Lanes {
    let Some(functions) = lanewise(inst) else { return ZERO };
    let op = inst.op;
    exec.wave.env.signed = inst.neg.into();
    exec.wave.env.vcc = exec.wave.vcc();
    let wave = &*exec.wave;
    let integer_clamp = inst.clamp && functions.clamped.is_some();
    let function = match (functions.clamped, functions.modal) {
        (Some(clamped), _) if integer_clamp => clamped,
        (_, Some(modal)) if !wave.env.plain => modal,
        _ => functions.plain,
    };
    let mut sources = [ZERO; 3];
    for i in 0..op.src.len().min(3) {
        let mut spare = ZERO;
        sources[i] = *wave.lanes(inst.src[i], op.src[i], inst.literal, &mut spare);
    }
    if inst.dpp != Dpp::None {
        *mask &= rearrange(&mut sources[0], inst.dpp, wave.exec());
    }
    let mut out = ZERO;
    if op.is(flag::PACKED) {
        return packed(inst, &wave.env, &sources, function);
    }
    for (i, source) in sources.iter_mut().enumerate().take(op.src.len()) {
        modify(inst, i, source, &wave.env);
    }
    let [a, b, c] = &sources;
    function(&mut out, a, b, c, &wave.env);
    finish(inst, &mut out, &wave.env, integer_clamp);
    out
}

/// Applies a source's half, sign modifiers and flushing.
fn modify(inst: &Inst, i: usize, source: &mut Lanes, env: &Env) {
    let ty = inst.op.src[i];
    if inst.op.is(flag::MIX) {
        mix_source(inst, i, source);
        flush(source, Ty::F32, env.keep32[0]);
        return;
    }
    if ty.is_16() {
        if inst.op_sel >> i & 1 == 1 {
            source.0.iter_mut().for_each(|x| *x >>= 16);
        }
        source.0.iter_mut().for_each(|x| *x &= 0xffff);
    }
    if inst.encoding == Encoding::Vop3p {
        return;
    }
    let sign = if ty.is_16() { 0x8000 } else { 0x8000_0000 };
    let has_signs = ty.is_float() || (inst.op.is(flag::FLOAT_MODS) && ty != Ty::Mask);
    if has_signs && inst.abs >> i & 1 == 1 {
        source.0.iter_mut().for_each(|x| *x &= !sign);
    }
    if has_signs && inst.neg >> i & 1 == 1 {
        source.0.iter_mut().for_each(|x| *x ^= sign);
    }
    match ty {
        Ty::F32 => flush(source, ty, env.keep32[0]),
        Ty::F16 => flush(source, ty, env.keep16[0]),
        _ => {}
    }
}

/// An operand of `v_fma_mix*`: an f32, or a half of an f16 pair.
fn mix_source(inst: &Inst, i: usize, source: &mut Lanes) {
    if inst.op_sel_hi >> i & 1 == 1 {
        let shift = if inst.op_sel >> i & 1 == 1 { 16 } else { 0 };
        source.0.iter_mut().for_each(|x| *x = float::from_f16(*x >> shift & 0xffff).to_bits());
    }
    if inst.abs >> i & 1 == 1 {
        source.0.iter_mut().for_each(|x| *x &= 0x7fff_ffff);
    }
    if inst.neg >> i & 1 == 1 {
        source.0.iter_mut().for_each(|x| *x ^= 0x8000_0000);
    }
}

/// Subnormals become zeros of their sign unless they are kept.
fn flush(lanes: &mut Lanes, ty: Ty, keep: bool) {
    let (exponent, mantissa) = if ty == Ty::F16 { (0x7c00, 0x3ff) } else { (0x7f80_0000, 0x7f_ffff) };
    if !keep {
        lanes.0.iter_mut().for_each(|x| *x = if *x & exponent == 0 { *x & !mantissa } else { *x });
    }
}

/// A packed operation: the function on each half, with its own choice of halves and signs.
fn packed(inst: &Inst, env: &Env, sources: &[Lanes; 3], function: crate::isa::LaneFn) -> Lanes {
    let op = inst.op;
    // In VOP2 (v_pk_fmac_f16) both halves are as they stand.
    let shorter = inst.encoding != Encoding::Vop3p;
    let (select_low, select_high) = if shorter { (0, 7) } else { (inst.op_sel, inst.op_sel_hi) };
    let mut results = [ZERO; 2];
    for (high, result) in results.iter_mut().enumerate() {
        let (select, negate) = if high == 0 { (select_low, inst.neg) } else { (select_high, inst.abs) };
        let mut halves = *sources;
        for (i, half) in halves.iter_mut().enumerate().take(op.src.len()) {
            let shift = if select >> i & 1 == 1 { 16 } else { 0 };
            let sign = if !shorter && op.src[i].is_float() && negate >> i & 1 == 1 { 0x8000 } else { 0 };
            half.0.iter_mut().for_each(|x| *x = (*x >> shift & 0xffff) ^ sign);
            if op.src[i] == Ty::F16 {
                flush(half, Ty::F16, env.keep16[0]);
            }
        }
        let [a, b, c] = &halves;
        function(result, a, b, c, env);
        finish(inst, result, env, inst.clamp && !op.src[0].is_float());
    }
    let mut out = ZERO;
    for l in 0..LANES {
        out[l] = results[0][l] & 0xffff | results[1][l] << 16;
    }
    out
}

/// Flushes a float result, then applies output modifier and clamp.
fn finish(inst: &Inst, out: &mut Lanes, env: &Env, clamped: bool) {
    let Some(ty) = inst.op.dst else { return };
    match ty {
        Ty::F32 => {
            flush(out, ty, env.keep32[1]);
            // With subnormals kept the output modifier has no effect (ISA guide, 7.2.3).
            if inst.omod != 0 && !env.keep32[1] {
                let factor = [1.0, 2.0, 4.0, 0.5][usize::from(inst.omod)];
                out.0.iter_mut().for_each(|x| *x = (f32::from_bits(*x) * factor).to_bits());
            }
            if inst.clamp && !clamped {
                out.0.iter_mut().for_each(|x| *x = clamp(f32::from_bits(*x), env.dx10_clamp).to_bits());
            }
        }
        Ty::F16 => {
            flush(out, ty, env.keep16[1]);
            if inst.omod != 0 && !env.keep16[1] {
                let factor = [1.0, 2.0, 4.0, 0.5][usize::from(inst.omod)];
                out.0.iter_mut().for_each(|x| *x = float::to_f16(float::from_f16(*x) * factor));
            }
            if inst.clamp && !clamped {
                out.0.iter_mut().for_each(|x| *x = float::to_f16(clamp(float::from_f16(*x), env.dx10_clamp)));
            }
        }
        _ => {}
    }
}

/// Into [0, 1]; a NaN becomes 0 if MODE says so.
fn clamp(x: f32, dx10: bool) -> f32 {
    if x.is_nan() {
        if dx10 { 0.0 } else { x }
    } else if x <= 0.0 {
        0.0
    } else {
        x.min(1.0)
    }
}

/// The bits of lanes that are not zero.
#[inline(always)]
pub(crate) fn bits_of(lanes: &Lanes) -> u32 {
    let mut mask = 0;
    for l in 0..LANES {
        mask |= u32::from(lanes[l] & 1 != 0) << l;
    }
    mask
}

#[inline(always)]
fn write_result(exec: &mut Exec<'_>, inst: &Inst, out: &Lanes, mask: u32) {
    let wave = &mut *exec.wave;
    let dst = usize::from(inst.dst);
    match inst.op.dst {
        Some(Ty::Mask) => write_mask(wave, inst, dst, bits_of(out) & mask),
        Some(ty) if ty.is_16() && !inst.op.is(flag::PACKED) => {
            let high = inst.op.is(flag::HIGH_DST) || (inst.encoding != Encoding::Vop3p && inst.op_sel >> 3 & 1 == 1);
            let mut merged = wave.v[dst & 255];
            for l in 0..LANES {
                merged[l] = if high { merged[l] & 0xffff | out[l] << 16 } else { merged[l] & 0xffff_0000 | out[l] & 0xffff };
            }
            wave.set_v(dst, &merged, mask);
        }
        _ => wave.set_v(dst, out, mask),
    }
}

/// A comparison's result: to EXEC, or to an SGPR.
fn write_mask(wave: &mut super::Wave, inst: &Inst, dst: usize, bits: u32) {
    if inst.op.is(flag::EXEC_DST) { wave.set_exec(bits) } else { wave.set_s(dst, bits) }
}

/// An operation on 32-bit lanes with a carry.
#[inline(always)]
pub(crate) fn carry(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Run::Carry(function) = inst.op.run else { return Flow::Next };
    let types = &inst.op.src;
    let mut mask = exec.wave.exec();
    let (mut first, mut second, mut third, mut out, mut bits) = (ZERO, ZERO, ZERO, ZERO, ZERO);
    let wave = &*exec.wave;
    let a = wave.lanes(inst.src[0], types[0], inst.literal, &mut first);
    let b = wave.lanes(inst.src[1], types[1], inst.literal, &mut second);
    let c = if types.len() < 3 { &ZERO } else { wave.lanes(inst.src[2], types[2], inst.literal, &mut third) };
    if inst.dpp == Dpp::None {
        function(&mut out, &mut bits, a, b, c);
    } else {
        let mut moved = *a;
        mask &= rearrange(&mut moved, inst.dpp, wave.exec());
        function(&mut out, &mut bits, &moved, b, c);
    }
    exec.wave.set_s(inst.sdst.into(), bits_of(&bits) & mask);
    exec.wave.set_v(inst.dst.into(), &out, mask);
    Flow::Next
}

/// Any operation with 64-bit lanes.
#[inline(always)]
pub(crate) fn wide(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Run::Wide(functions) = &inst.op.run else { return Flow::Next };
    let op = inst.op;
    exec.wave.env.vcc = exec.wave.vcc();
    let wave = &mut *exec.wave;
    let env = wave.env;
    let mut mask = wave.exec();
    let mut sources = [Wide([0; LANES]); 3];
    for i in 0..op.src.len().min(3) {
        sources[i] = wave.wide(inst.src[i], op.src[i], inst.literal);
    }
    if inst.dpp != Dpp::None {
        let mut low = ZERO;
        for l in 0..LANES {
            low[l] = sources[0][l] as u32;
        }
        mask &= rearrange(&mut low, inst.dpp, wave.exec());
        for l in 0..LANES {
            sources[0][l] = low[l].into();
        }
    }
    for i in 0..op.src.len().min(3) {
        modify_wide(inst, i, &mut sources[i], &env);
    }
    let function = functions.modal.filter(|_| !env.plain).unwrap_or(functions.plain);
    let (mut out, mut carry) = (Wide([0; LANES]), ZERO);
    let [a, b, c] = &sources;
    function(&mut out, &mut carry, a, b, c, &env);
    finish_wide(inst, &mut out, &env);
    if op.is(flag::CARRY_OUT) {
        wave.set_s(inst.sdst.into(), bits_of(&carry) & mask);
    }
    let dst = usize::from(inst.dst);
    let (mut low, mut high) = (ZERO, ZERO);
    for l in 0..LANES {
        low[l] = out[l] as u32;
        high[l] = (out[l] >> 32) as u32;
    }
    match op.dst {
        Some(Ty::Mask) => write_mask(wave, inst, dst, bits_of(&low) & mask),
        Some(ty) => {
            wave.set_v(dst, &low, mask);
            if ty.registers() == 2 {
                wave.set_v(dst + 1, &high, mask);
            }
        }
        None => {}
    }
    Flow::Next
}

fn modify_wide(inst: &Inst, i: usize, source: &mut Wide, env: &Env) {
    let ty = inst.op.src[i];
    let (sign, exponent, mantissa, keep) = match ty {
        Ty::F64 => (1 << 63, 0x7ffu64 << 52, (1 << 52) - 1, env.keep16[0]),
        _ => (1 << 31, 0xff << 23, (1 << 23) - 1, env.keep32[0]),
    };
    if !ty.is_float() {
        return;
    }
    for x in &mut source.0 {
        if inst.abs >> i & 1 == 1 && inst.encoding == Encoding::Vop3 {
            *x &= !sign;
        }
        if inst.neg >> i & 1 == 1 {
            *x ^= sign;
        }
        if !keep && *x & exponent == 0 {
            *x &= !mantissa;
        }
    }
}

fn finish_wide(inst: &Inst, out: &mut Wide, env: &Env) {
    let factor = [1.0, 2.0, 4.0, 0.5][usize::from(inst.omod)];
    match inst.op.dst {
        Some(Ty::F64) => {
            for x in &mut out.0 {
                if !env.keep16[1] {
                    if *x & 0x7ff << 52 == 0 {
                        *x &= 1 << 63;
                    }
                    *x = (f64::from_bits(*x) * factor).to_bits();
                }
                if inst.clamp {
                    let value = f64::from_bits(*x);
                    let nan = if env.dx10_clamp { 0.0 } else { value };
                    *x = (if value.is_nan() { nan } else { value.clamp(0.0, 1.0) + 0.0 }).to_bits();
                }
            }
        }
        Some(Ty::F32) => {
            let mut lanes = ZERO;
            for l in 0..LANES {
                lanes[l] = out[l] as u32;
            }
            finish(inst, &mut lanes, env, false);
            for l in 0..LANES {
                out[l] = lanes[l].into();
            }
        }
        _ => {}
    }
}

/// Moves lanes as a DPP word says; the result is the mask of lanes that may be written.
fn rearrange(lanes: &mut Lanes, dpp: Dpp, exec: u32) -> u32 {
    let old = *lanes;
    let mut written = 0;
    for l in 0..LANES {
        let (source, enabled, bound, inactive) = match dpp {
            Dpp::None => (Some(l), true, false, true),
            Dpp::Eight { select, inactive } => (Some(l & !7 | (select >> (3 * (l & 7)) & 7) as usize), true, true, inactive),
            Dpp::Row { control, row_mask, bank_mask, bound, inactive } => {
                let enabled = row_mask >> (l / 16) & 1 == 1 && bank_mask >> (l % 16 / 4) & 1 == 1;
                (row_source(control, l), enabled, bound, inactive)
            }
        };
        let source = source.filter(|&s| inactive || exec >> s & 1 == 1);
        let readable = source.is_some() || bound;
        lanes[l] = source.map_or(0, |s| old[s]);
        written |= u32::from(enabled && readable) << l;
    }
    written
}

/// The lane that a lane reads, within its row of 16 (ISA guide, "DPP16 controls").
fn row_source(control: u16, lane: usize) -> Option<usize> {
    let (row, at, n) = (lane & !15, lane & 15, usize::from(control & 15));
    let within = |at: usize| (at < 16).then(|| row + at);
    match control {
        0..=0xff => Some(lane & !3 | usize::from(control >> (2 * (lane & 3)) & 3)),
        0x101..=0x10f => within(at + n),
        0x111..=0x11f => within(at.wrapping_sub(n)),
        0x121..=0x12f => within((at + 16 - n) & 15),
        0x140 => within(15 - at),
        0x141 => within(at ^ 7),
        0x150..=0x15f => within(n),
        0x160..=0x16f => within(at ^ n),
        _ => None,
    }
}

pub(crate) fn nop(_: &mut Exec<'_>, _: &Inst) -> Flow {
    Flow::Next
}

/// The value of the lowest active lane, or of lane 0 if none is.
pub(crate) fn read_first_lane(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let mask = exec.wave.exec();
    let lane = if mask == 0 { 0 } else { mask.trailing_zeros() as usize };
    let mut spare = ZERO;
    let value = exec.wave.lanes(inst.src[0], Ty::U32, inst.literal, &mut spare)[lane];
    exec.wave.set_s(inst.dst.into(), value);
    Flow::Next
}

pub(crate) fn read_lane(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let lane = exec.wave.scalar(inst.src[1], Ty::U32, inst.literal) as usize & 31;
    let mut spare = ZERO;
    let value = exec.wave.lanes(inst.src[0], Ty::U32, inst.literal, &mut spare)[lane];
    exec.wave.set_s(inst.dst.into(), value);
    Flow::Next
}

/// Writes a lane whether it is active or not.
pub(crate) fn write_lane(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let value = exec.wave.scalar(inst.src[0], Ty::U32, inst.literal) as u32;
    let lane = exec.wave.scalar(inst.src[1], Ty::U32, inst.literal) as usize & 31;
    exec.wave.v[usize::from(inst.dst)][lane] = value;
    Flow::Next
}

/// A register number after an index was added, or a fault.
fn relative(exec: &mut Exec<'_>, inst: &Inst, base: u32, index: u32) -> Option<usize> {
    let number = base.wrapping_add(index);
    if number < 256 {
        return Some(number as usize);
    }
    exec.fail(inst, Kind::OutOfBounds, exec.wave.exec(), None, format!("register v{base} plus M0's {index} is beyond v255"));
    None
}

/// `v_movrel*`: the number of source, destination or both has M0 added.
pub(crate) fn move_relative(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let m0 = exec.wave.s[usize::from(operand::M0)];
    let (from, to) = match inst.op.name {
        "v_movreld_b32" => (0, m0),
        "v_movrels_b32" => (m0, 0),
        "v_movrelsd_2_b32" => (m0 & 0x3ff, m0 >> 16 & 0x3ff),
        _ => (m0, m0),
    };
    let mut spare = ZERO;
    let value = if inst.src[0] >= operand::VGPR {
        let Some(source) = relative(exec, inst, u32::from(inst.src[0] - operand::VGPR), from) else { return Flow::Fault };
        exec.wave.v[source]
    } else {
        *exec.wave.lanes(inst.src[0], Ty::U32, inst.literal, &mut spare)
    };
    let Some(dst) = relative(exec, inst, inst.dst.into(), to) else { return Flow::Fault };
    let mask = exec.wave.exec();
    exec.wave.set_v(dst, &value, mask);
    Flow::Next
}

/// `v_swap_b32`, `v_swaprel_b32`.
pub(crate) fn swap(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let m0 = if inst.op.name == "v_swaprel_b32" { exec.wave.s[usize::from(operand::M0)] } else { 0 };
    let Some(from) = inst.src[0].checked_sub(operand::VGPR) else {
        return exec.fail(inst, Kind::Unsupported, 0, None, "the source of a swap has to be a VGPR");
    };
    let Some(from) = relative(exec, inst, from.into(), m0 & 0x3ff) else { return Flow::Fault };
    let Some(to) = relative(exec, inst, inst.dst.into(), m0 >> 16 & 0x3ff) else { return Flow::Fault };
    let (a, b, mask) = (exec.wave.v[from], exec.wave.v[to], exec.wave.exec());
    exec.wave.set_v(from, &b, mask);
    exec.wave.set_v(to, &a, mask);
    Flow::Next
}

/// `v_permlane16_b32`, `v_permlanex16_b32`: any lane of the own row, or of the other one. OP_SEL: inactive lanes may be read; those
/// that may not give 0 if so wanted, else nothing is written.
pub(crate) fn permute_lanes(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let wave = &*exec.wave;
    let select = wave.scalar(inst.src[1], Ty::U32, inst.literal) & 0xffff_ffff | wave.scalar(inst.src[2], Ty::U32, inst.literal) << 32;
    let other_row = if inst.op.name == "v_permlanex16_b32" { 16 } else { 0 };
    let (inactive, bound) = (inst.op_sel & 1 == 1, inst.op_sel >> 1 & 1 == 1);
    let mut spare = ZERO;
    let source = *wave.lanes(inst.src[0], Ty::U32, inst.literal, &mut spare);
    let (mut out, mut mask) = (ZERO, wave.exec());
    for l in 0..LANES {
        let from = (l & 16 ^ other_row) | (select >> (4 * (l & 15)) & 15) as usize;
        let readable = inactive || wave.exec() >> from & 1 == 1;
        out[l] = if readable { source[from] } else { 0 };
        if !readable && !bound {
            mask &= !(1 << l);
        }
    }
    exec.wave.set_v(inst.dst.into(), &out, mask);
    Flow::Next
}

/// `v_mqsad_u32_u8`, the one operation with a 128-bit result.
pub(crate) fn mqsad(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let wave = &mut *exec.wave;
    let (a, b) = (wave.wide(inst.src[0], Ty::U64, inst.literal), wave.wide(inst.src[1], Ty::U32, inst.literal));
    let first = usize::from(inst.src[2].saturating_sub(operand::VGPR));
    let mut out = [ZERO; 4];
    for l in 0..LANES {
        let sums = masked_quad_sad(a[l], b[l] as u32, std::array::from_fn(|i| wave.v[(first + i) & 255][l]));
        for (register, sum) in out.iter_mut().zip(sums) {
            register[l] = sum;
        }
    }
    let mask = wave.exec();
    for (i, register) in out.iter().enumerate() {
        wave.set_v(usize::from(inst.dst) + i, register, mask);
    }
    Flow::Next
}
