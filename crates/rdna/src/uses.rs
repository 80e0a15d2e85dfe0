//! Which registers an instruction reads and writes.

use crate::{
    decode::{Dpp, Inst, operand},
    isa::{Encoding, Memory, Run, Ty, flag},
};

/// A run of registers: first, count.
type Registers = Vec<(u16, u8)>;

/// Registers that an instruction reads in active lanes, and those that it writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uses {
    vector_reads: Registers,
    vector_writes: Registers,
    scalar_reads: Registers,
    scalar_writes: Registers,
    /// Writes lanes whether they are active or not.
    pub(crate) all_lanes: bool,
    /// Undefined sources would change more than the result.
    pub(crate) decides: bool,
    /// The result is undefined where a source is.
    pub(crate) keeps_definedness: bool,
    /// The low half of a result does not depend on the high half of the last source.
    low_from_low: bool,
}

fn each(registers: &Registers, limit: usize) -> impl Iterator<Item = usize> + '_ {
    registers.iter().flat_map(|&(first, count)| (0..count).map(move |i| usize::from(first) + usize::from(i))).filter(move |&r| r < limit)
}

impl Uses {
    /// Registers, and whether only the high half of the result depends on them.
    pub(crate) fn vectors_read(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        let last = self.vector_reads.last().filter(|_| self.low_from_low).map(|&(first, _)| usize::from(first) + 1);
        each(&self.vector_reads, 256).map(move |register| (register, last == Some(register)))
    }

    /// Registers, and whether they are beyond the first.
    pub(crate) fn vectors_written(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        let first = self.vector_writes.first().map_or(0, |&(first, _)| usize::from(first));
        each(&self.vector_writes, 256).map(move |register| (register, register != first))
    }

    pub(crate) fn scalars_read(&self) -> impl Iterator<Item = usize> + '_ {
        each(&self.scalar_reads, 128)
    }

    pub(crate) fn scalars_written(&self) -> impl Iterator<Item = usize> + '_ {
        each(&self.scalar_writes, 128)
    }

    pub(crate) fn of(inst: &Inst) -> Self {
        let mut uses = Self::default();
        match inst.encoding {
            Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc | Encoding::Sopk | Encoding::Sopp => uses.scalar(inst),
            Encoding::Smem => uses.scalar_memory(inst),
            Encoding::Ds => uses.local(inst),
            Encoding::Flat | Encoding::Scratch | Encoding::Global => uses.lanes(inst),
            _ => {
                uses.vector(inst);
                if let Some(second) = &inst.second {
                    uses.vector(second);
                }
            }
        }
        uses
    }

    fn source(&mut self, number: u16, count: u32) {
        if number >= operand::VGPR {
            self.vector_reads.push((number - operand::VGPR, count as u8));
        } else if number < 128 && number != operand::NULL {
            self.scalar_reads.push((number, count as u8));
        }
    }

    fn scalar(&mut self, inst: &Inst) {
        // What is selected by M0 is not known beforehand.
        if inst.op.name.contains("movrel") {
            self.scalar_writes.push((0, 106));
            return;
        }
        for i in 0..usize::from(inst.sources) {
            self.source(inst.src[i], inst.op.src[i].registers());
        }
        let reads_dst = (inst.encoding == Encoding::Sopk
            && inst.op.dst.is_some()
            && !["s_movk_i32", "s_getreg_b32", "s_call_b64"].contains(&inst.op.name))
            || inst.op.name.starts_with("s_fmac")
            || inst.op.name.starts_with("s_bitset")
            || inst.op.name == "s_setreg_b32";
        let count = inst.op.dst.map_or(1, Ty::registers);
        if reads_dst {
            self.source(inst.dst.into(), count);
        }
        if inst.op.dst.is_some() && !inst.op.is(flag::NO_DST) {
            self.scalar_writes.push((inst.dst.into(), count as u8));
        }
    }

    fn scalar_memory(&mut self, inst: &Inst) {
        if let Some(ty) = inst.op.dst {
            self.source(inst.src[0], 2);
            self.source(inst.saddr.into(), 1);
            self.scalar_writes.push((inst.dst.into(), ty.registers() as u8));
        }
    }

    fn vector(&mut self, inst: &Inst) {
        let name = inst.op.name;
        self.decides = inst.op.dst == Some(Ty::Mask) || inst.op.is(flag::SGPR_DST);
        self.keeps_definedness = true;
        self.low_from_low = matches!(name, "v_mad_u64_u32" | "v_mad_i64_i32" | "v_lshlrev_b64");
        // These read lanes that are not active, or registers that M0 selects.
        let other_lanes =
            name.starts_with("v_permlane") || name.contains("lane_b32") || name.contains("readfirstlane") || name.contains("rel");
        for (i, ty) in inst.op.src.iter().enumerate().take(inst.sources.into()) {
            let moved = (i == 0 && inst.dpp != Dpp::None) || other_lanes;
            if !moved || inst.src[i] < operand::VGPR {
                self.source(inst.src[i], ty.registers());
            }
        }
        if inst.op.is(flag::VCC_READ) {
            self.source(operand::VCC_LO, 1);
        }
        self.all_lanes = name == "v_writelane_b32" || inst.op.is(flag::MATRIX);
        if inst.op.is(flag::CARRY_OUT) {
            self.scalar_writes.push((inst.sdst.into(), 1));
        }
        match inst.op.dst {
            Some(Ty::Mask) => self.scalar_writes.push((inst.dst.into(), 1)),
            Some(ty) if inst.op.is(flag::SGPR_DST) => self.scalar_writes.push((inst.dst.into(), ty.registers() as u8)),
            Some(ty) => self.vector_writes.push((inst.dst.into(), ty.registers() as u8)),
            None => {}
        }
        if name.starts_with("v_swap") {
            self.source(operand::VGPR + u16::from(inst.dst), 1);
            self.vector_writes.push((inst.src[0].wrapping_sub(operand::VGPR), 1));
        }
    }

    fn local(&mut self, inst: &Inst) {
        self.decides = true;
        let addressed = !name_without_address(inst.op.name);
        if addressed {
            self.source(inst.src[0], 1);
        }
        for (i, ty) in inst.op.src.iter().enumerate() {
            self.source(inst.src[1 + i], ty.registers());
        }
        if let Some(ty) = inst.op.dst {
            self.vector_writes.push((inst.dst.into(), ty.registers() as u8));
        }
    }

    fn lanes(&mut self, inst: &Inst) {
        self.decides = inst.encoding != Encoding::Scratch;
        let scalar = u16::from(inst.saddr) != operand::NULL;
        if !inst.op.name.contains("addtid") && inst.vaddr {
            self.source(inst.src[0], if scalar || inst.encoding == Encoding::Scratch { 1 } else { 2 });
        }
        self.source(inst.saddr.into(), if inst.encoding == Encoding::Scratch { 1 } else { 2 });
        for ty in &inst.op.src {
            self.source(inst.src[1], ty.registers());
        }
        let returns = !matches!(inst.op.run, Run::Memory(Memory::Atomic { .. })) || inst.cache & 1 == 1;
        if let Some(ty) = inst.op.dst.filter(|_| returns) {
            self.vector_writes.push((inst.dst.into(), ty.registers() as u8));
        }
    }
}

/// DS operations whose address is M0's or none.
pub(crate) fn name_without_address(name: &str) -> bool {
    ["ds_nop", "ds_consume", "ds_append", "ds_load_addtid_b32", "ds_store_addtid_b32"].contains(&name)
}
