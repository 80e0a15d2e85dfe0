//! Scalar operations.

use super::{Exec, Flow};
use crate::{
    decode::{Inst, operand},
    fault::Kind,
    isa::{Encoding, Run, Scalar, Ty, flag},
};

/// A row of a scalar table.
pub(crate) fn compute(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let Run::Scalar(function) = inst.op.run else { return Flow::Next };
    let (op, wave) = (inst.op, &mut *exec.wave);
    let dst = usize::from(inst.dst);
    let pair = op.dst.is_some_and(|ty| ty.registers() == 2);
    let read = |i: usize| match (inst.encoding, i) {
        (Encoding::Sopk, 0) => wave.s[dst & 127].into(),
        (Encoding::Sopk, 1) => u64::from(inst.literal as u16 as i16 as u32),
        _ => op.src.get(i).map_or(0, |&ty| wave.scalar(inst.src[i], ty, inst.literal)),
    };
    let (mut a, mut b) = (read(0), read(1));
    let mut old = if op.is(flag::K_SECOND | flag::K_THIRD) {
        inst.literal.into()
    } else if pair {
        wave.s64(dst)
    } else {
        wave.s[dst & 127].into()
    };
    let env = wave.env;
    if !env.plain {
        let input = |x: u64, ty: Option<&Ty>| flushed(x, ty, if ty == Some(&Ty::F16) { env.keep16[0] } else { env.keep32[0] });
        // A number that the destination or the literal adds is an input as well.
        (a, b, old) = (input(a, op.src.first()), input(b, op.src.get(1)), input(old, op.dst.as_ref()));
    }
    let mut state = Scalar { scc: wave.scc, exec: wave.exec(), old, env: &env };
    let mut result = function(&mut state, a, b);
    let (mut scc, mask) = (state.scc, state.exec);
    if !env.plain {
        let keep = if op.dst == Some(Ty::F16) { env.keep16[1] } else { env.keep32[1] };
        result = flushed(result, op.dst.as_ref(), keep);
    }
    if op.is(flag::SCC_NZ) {
        scc = if pair { result != 0 } else { result as u32 != 0 };
    }
    wave.scc = scc;
    if op.is(flag::WRITES_EXEC) {
        wave.set_exec(mask);
    }
    if !op.is(flag::NO_DST) {
        wave.set_s(dst, result as u32);
        if pair && dst != usize::from(operand::NULL) {
            wave.set_s(dst + 1, (result >> 32) as u32);
        }
    }
    Flow::Next
}

/// A subnormal of a float type as a zero.
fn flushed(x: u64, ty: Option<&Ty>, keep: bool) -> u64 {
    match ty {
        Some(Ty::F32) if !keep && x & 0x7f80_0000 == 0 => x & 0x8000_0000,
        Some(Ty::F16) if !keep && x & 0x7c00 == 0 => x & 0x8000,
        _ => x,
    }
}

/// `s_movrel*`: the number of source, destination or both has M0 added.
pub(crate) fn move_relative(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let m0 = exec.wave.s[usize::from(operand::M0)];
    let (from, to) = match inst.op.name {
        "s_movrels_b32" | "s_movrels_b64" => (m0, 0),
        "s_movreld_b32" | "s_movreld_b64" => (0, m0),
        _ => (m0 & 0x3ff, m0 >> 16 & 0x3ff),
    };
    let pair = u32::from(inst.op.dst == Some(Ty::U64));
    let to = u32::from(inst.dst).saturating_add(to);
    let from_number = u32::from(inst.src[0]).saturating_add(from);
    let is_register = inst.src[0] < 106;
    if to + pair > 105 || (is_register && from_number + pair > 105) {
        return exec.fail(inst, Kind::OutOfBounds, 0, None, format!("an SGPR number with M0's {m0:#x} added is beyond s105"));
    }
    let number = if is_register { from_number as u16 } else { inst.src[0] };
    let value = exec.wave.scalar(number, if pair == 1 { Ty::U64 } else { Ty::U32 }, inst.literal);
    exec.wave.set_s(to as usize, value as u32);
    if pair == 1 {
        exec.wave.set_s(to as usize + 1, (value >> 32) as u32);
    }
    Flow::Next
}

/// `s_sendmsg_rtn_*`: the real-time counter is the count of executed instructions; other messages have no answer here.
pub(crate) fn message(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    const GET_REALTIME: u32 = 131;
    if inst.literal != GET_REALTIME {
        return exec.fail(inst, Kind::Unsupported, 0, None, "a message that needs an answer other than the time");
    }
    let clock = exec.clock;
    exec.wave.set_s(inst.dst.into(), clock as u32);
    if inst.op.dst == Some(Ty::U64) {
        exec.wave.set_s(usize::from(inst.dst) + 1, (clock >> 32) as u32);
    }
    Flow::Next
}

const MODE: u32 = 1;

/// `s_getreg_b32`: MODE, and the clock of SHADER_CYCLES; where a wave runs is always the first place.
pub(crate) fn get_register(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let (id, offset, width) = field(inst.literal);
    let value = match id {
        MODE => exec.wave.mode,
        2 => u32::from(exec.wave.scc),
        23 | 24 => exec.wave.number,
        29 => exec.clock as u32 & 0xf_ffff,
        _ => return exec.fail(inst, Kind::Unsupported, 0, None, format!("hardware register {id} is not modelled")),
    };
    exec.wave.set_s(inst.dst.into(), value >> offset & width);
    Flow::Next
}

/// `s_setreg_b32`, `s_setreg_imm32_b32` of MODE.
pub(crate) fn set_register(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let immediate = inst.op.name == "s_setreg_imm32_b32";
    let (id, offset, width) = field(if immediate { inst.offset as u32 } else { inst.literal });
    if id != MODE {
        return exec.fail(inst, Kind::Unsupported, 0, None, format!("hardware register {id} cannot be written here"));
    }
    let value = if immediate { inst.literal } else { exec.wave.s[usize::from(inst.dst) & 127] };
    let mode = exec.wave.mode & !(width << offset) | (value & width) << offset;
    exec.wave.set_mode(mode);
    Flow::Next
}

/// Register, offset and mask of a field.
fn field(constant: u32) -> (u32, u32, u32) {
    let bits = (constant >> 11 & 31) + 1;
    (constant & 63, constant >> 6 & 31, ((1u64 << bits) - 1) as u32)
}

/// `s_round_mode`, `s_denorm_mode`.
pub(crate) fn set_mode(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let mode = exec.wave.mode;
    let bits = inst.literal & 15;
    exec.wave.set_mode(if inst.op.name == "s_round_mode" { mode & !15 | bits } else { mode & !0xf0 | bits << 4 });
    Flow::Next
}
