//! Branches, barriers and ends.

use super::{Exec, Flow};
use crate::{decode::Inst, fault::Kind, isa::Ty, stats::Counts};

pub(crate) fn nop(_: &mut Exec<'_>, _: &Inst) -> Flow {
    Flow::Next
}

pub(crate) fn unsupported(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    exec.fail(inst, Kind::Unsupported, 0, None, "this operation is decoded but not executed")
}

pub(crate) fn sleep(_: &mut Exec<'_>, _: &Inst) -> Flow {
    Flow::Sleep
}

pub(crate) fn end(_: &mut Exec<'_>, _: &Inst) -> Flow {
    Flow::End
}

pub(crate) fn barrier(_: &mut Exec<'_>, _: &Inst) -> Flow {
    Flow::Barrier
}

pub(crate) fn trap(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    exec.fail(inst, Kind::Trap, exec.wave.exec(), None, format!("the kernel called trap {}", inst.literal))
}

/// Giving back registers before the end is a hint; other messages go to nobody.
pub(crate) fn message(_: &mut Exec<'_>, _: &Inst) -> Flow {
    Flow::Next
}

/// `s_branch` and `s_cbranch_*`.
pub(crate) fn branch(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let wave = &*exec.wave;
    let taken = match inst.op.name {
        "s_branch" => true,
        "s_cbranch_scc0" => !wave.scc,
        "s_cbranch_scc1" => wave.scc,
        "s_cbranch_vccz" => wave.vcc() == 0,
        "s_cbranch_vccnz" => wave.vcc() != 0,
        "s_cbranch_execz" => wave.exec() == 0,
        _ => wave.exec() != 0,
    };
    if taken { jump(exec, inst, relative(inst)) } else { Flow::Next }
}

/// Where a branch leads: words from the next instruction.
pub(crate) fn relative(inst: &Inst) -> u64 {
    inst.pc.wrapping_add(4).wrapping_add_signed(i64::from(inst.literal as u16 as i16) * 4)
}

/// To an address of the code object.
fn jump(exec: &mut Exec<'_>, inst: &Inst, pc: u64) -> Flow {
    match exec.program.index_of(pc) {
        Some(index) => Flow::Jump(index),
        None => exec.fail(inst, Kind::Unsupported, 0, Some(pc), "no instruction starts where this leads"),
    }
}

fn put_pc(exec: &mut Exec<'_>, inst: &Inst) {
    let pc = exec.program.base.wrapping_add(inst.pc).wrapping_add(4);
    exec.wave.set_s(inst.dst.into(), pc as u32);
    exec.wave.set_s(usize::from(inst.dst) + 1, (pc >> 32) as u32);
}

pub(crate) fn get_pc(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    put_pc(exec, inst);
    Flow::Next
}

pub(crate) fn set_pc(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let target = exec.wave.scalar(inst.src[0], Ty::U64, inst.literal);
    jump(exec, inst, target.wrapping_sub(exec.program.base))
}

pub(crate) fn swap_pc(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    let target = exec.wave.scalar(inst.src[0], Ty::U64, inst.literal);
    put_pc(exec, inst);
    jump(exec, inst, target.wrapping_sub(exec.program.base))
}

pub(crate) fn call(exec: &mut Exec<'_>, inst: &Inst) -> Flow {
    put_pc(exec, inst);
    jump(exec, inst, relative(inst))
}

/// Instructions that a wave runs before the next wave of its workgroup has its turn.
pub(crate) const TURN: u64 = 20_000;

/// Runs a wave for a while. Compiled for each level: see [`super::steps`].
#[inline(always)]
pub(crate) fn turn(exec: &mut Exec<'_>, counts: &mut Counts) -> (Flow, u64) {
    let program = exec.program;
    let start = exec.clock;
    let mut at = exec.wave.at;
    let flow = loop {
        let Some(code) = program.codes.get(at) else { break Flow::End };
        counts.executed[at] += 1;
        counts.lanes[at] += u64::from(exec.wave.exec().count_ones());
        exec.clock += 1;
        match (code.step)(exec, &code.inst) {
            Flow::Next => at += 1,
            Flow::Jump(to) => at = to,
            stop => {
                at += usize::from(matches!(stop, Flow::Barrier | Flow::Sleep));
                break stop;
            }
        }
        if exec.clock - start >= TURN {
            break Flow::Sleep;
        }
    };
    exec.wave.at = at;
    (flow, exec.clock - start)
}
