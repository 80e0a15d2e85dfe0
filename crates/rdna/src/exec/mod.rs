//! Execution of decoded instructions by waves.

pub(crate) mod exchange;
pub(crate) mod flow;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod scalar;
pub(crate) mod vector;
mod wave;

pub(crate) use flow::TURN;
pub(crate) use wave::{PRIVATE_APERTURE, SHARED_APERTURE, Wave, constant as inline_constant};

use crate::{
    check::{Access, Checker},
    decode::Inst,
    fault::{Fault, Kind},
    isa::{Encoding, Isa, Run, cloned},
    memory::Memory,
    program::Program,
    stats::Counts,
};

/// What follows an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The next one.
    Next,
    /// The one at this index of the program.
    Jump(usize),
    /// The wave waits for its group.
    Barrier,
    /// Others should run first.
    Sleep,
    /// The wave is done.
    End,
    /// The wave cannot go on; [`Exec::fault`] says why.
    Fault,
}

/// Executes an instruction.
pub(crate) type Step = fn(&mut Exec<'_>, &Inst) -> Flow;

/// A wave with all that it works on.
pub(crate) struct Exec<'a> {
    pub(crate) wave: &'a mut Wave,
    /// The workgroup's local memory.
    pub(crate) lds: &'a mut [u8],
    pub(crate) memory: &'a Memory,
    pub(crate) program: &'a Program,
    pub(crate) isa: &'static Isa,
    pub(crate) checker: Option<&'a mut Checker>,
    pub(crate) fault: Option<Box<Fault>>,
    /// Which allocation the last access was in.
    pub(crate) near: usize,
    /// Instructions that the wave has executed, as a clock.
    pub(crate) clock: u64,
}

impl Exec<'_> {
    /// Notes that the wave cannot go on.
    pub(crate) fn fail(&mut self, inst: &Inst, kind: Kind, lanes: u32, address: Option<u64>, detail: impl Into<String>) -> Flow {
        if self.fault.is_none() {
            self.fault = Some(Box::new(Fault {
                kind,
                kernel: self.program.kernel.clone(),
                pc: inst.pc,
                text: inst.to_string(),
                workgroup: self.wave.workgroup,
                wave: self.wave.number,
                lanes,
                address,
                detail: detail.into(),
            }));
        }
        Flow::Fault
    }

    /// Tells the checker, if there is one, of an access; false if that found a fault.
    pub(crate) fn checked(&mut self, inst: &Inst, access: Access<'_>) -> bool {
        let Some(checker) = self.checker.as_deref_mut() else { return true };
        let Err(found) = checker.access(self.wave, &access) else { return true };
        self.fail(inst, found.kind, found.lanes, Some(found.address), found.detail);
        false
    }
}

/// The steps in which kernels spend their time, compiled for the host's level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    simple: Step,
    lanes: Step,
    pair: Step,
    wide: Step,
    carry: Step,
    memory: Step,
    local: Step,
    pub(crate) turn: Turn,
}

/// Runs a wave until it waits, ends, or its turn is over; gives the instructions executed as well.
pub(crate) type Turn = fn(&mut Exec<'_>, &mut Counts) -> (Flow, u64);

cloned! {
    /// The steps of a level.
    pub(crate) fn steps() -> Steps {
        Steps {
            simple: |exec, inst| vector::simple(exec, inst),
            lanes: |exec, inst| vector::lanes(exec, inst),
            pair: |exec, inst| vector::pair(exec, inst),
            wide: |exec, inst| vector::wide(exec, inst),
            carry: |exec, inst| vector::carry(exec, inst),
            memory: |exec, inst| memory::lanes(exec, inst),
            local: |exec, inst| memory::local(exec, inst),
            turn: |exec, counts| flow::turn(exec, counts),
        }
    }
}

/// The function that executes an instruction.
pub(crate) fn step_of(steps: &Steps, inst: &Inst) -> Step {
    match inst.op.run {
        Run::Step(step) => step,
        Run::Scalar(_) => scalar::compute,
        Run::Lanes(_) if inst.encoding == Encoding::Vopd => steps.pair,
        Run::Lanes(_) if vector::is_simple(inst) => steps.simple,
        Run::Lanes(_) => steps.lanes,
        Run::Wide(_) => steps.wide,
        Run::Carry(_) => steps.carry,
        Run::Memory(_) => match inst.encoding {
            Encoding::Smem => memory::scalar_load,
            Encoding::Ds => steps.local,
            _ => steps.memory,
        },
    }
}
