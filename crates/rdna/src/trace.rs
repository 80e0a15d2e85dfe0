//! Executed instructions, shown with what they wrote.

use crate::{exec::Wave, program::Code};
use std::io::Write;

/// One line to standard error: place, mask, instruction, registers written (of VGPRs the first active lane).
pub(crate) fn show(wave: &Wave, code: &Code) {
    let [x, y, z] = wave.workgroup;
    let lane = wave.exec().trailing_zeros().min(31) as usize;
    let mut line = format!("({x},{y},{z}) wave {} {:#07x} exec {:08x}  {}", wave.number, code.inst.pc, wave.exec(), code.inst);
    for (register, _) in code.uses.vectors_written().take(4) {
        line.push_str(&format!("  v{register}[{lane}]={:#x}", wave.v[register][lane]));
    }
    for register in code.uses.scalars_written().take(4) {
        line.push_str(&format!("  s{register}={:#x}", wave.s[register]));
    }
    // Nothing is to be done about a closed standard error.
    let _ = writeln!(std::io::stderr(), "{line}");
}
