//! Instructions as text, in the syntax of LLVM's assembler.

use crate::{
    decode::{Dpp, Inst, operand},
    isa::{Encoding, Ty, flag},
};
use std::fmt::{self, Display, Formatter, Write};

/// Consecutive registers: `v3`, `v[3:4]`.
fn registers(prefix: &str, first: u32, count: u32) -> String {
    if count == 1 { format!("{prefix}{first}") } else { format!("{prefix}[{first}:{}]", first + count - 1) }
}

fn vgpr(number: impl Into<u32>, count: u32) -> String {
    registers("v", number.into(), count)
}

/// A scalar operand below 128.
fn sgpr(number: u32, count: u32) -> String {
    let low = |pair: &str, half: &str| if count == 2 { pair.to_string() } else { format!("{pair}_{half}") };
    match number {
        106 => low("vcc", "lo"),
        107 => "vcc_hi".into(),
        108..=123 => registers("ttmp", number - 108, count),
        124 => "null".into(),
        125 => "m0".into(),
        126 => low("exec", "lo"),
        127 => "exec_hi".into(),
        _ => registers("s", number, count),
    }
}

const FLOATS: [&str; 9] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"];
/// 1 / (2 pi) to the digits that LLVM prints for f64.
const INVERSE_TAU_64: &str = "0.15915494309189532";
const INVERSE_TAU_16: &str = "0.15915494";

/// A source operand of a type.
fn source(number: u16, ty: Ty, literal: u32) -> String {
    match u32::from(number) {
        n @ 0..=127 => sgpr(n, ty.registers()),
        n @ 128..=192 => (n - 128).to_string(),
        n @ 193..=208 => format!("-{}", n - 192),
        235 => "src_shared_base".into(),
        236 => "src_shared_limit".into(),
        237 => "src_private_base".into(),
        238 => "src_private_limit".into(),
        248 if matches!(ty, Ty::Regs(_)) || ty.registers() == 2 => INVERSE_TAU_64.into(),
        248 if ty.is_16() => integer_or(ty, 8, INVERSE_TAU_16),
        n @ 240..=248 => integer_or(ty, n - 240, FLOATS[n as usize - 240]),
        253 => "src_scc".into(),
        255 => literal_text(literal, ty),
        n @ 256.. => vgpr(n - 256, ty.registers()),
        n => format!("<{n}>"),
    }
}

/// A literal that could have been an inline constant is shown like one.
fn literal_text(literal: u32, ty: Ty) -> String {
    let small = (-16..=64).contains(&(literal as i32));
    let float = (240..248u16).find(|&n| crate::exec::inline_constant(n, Ty::F32) == u64::from(literal));
    match float {
        _ if ty.registers() == 2 || ty.is_16() => format!("{literal:#x}"),
        _ if small => (literal as i32).to_string(),
        Some(n) => FLOATS[usize::from(n - 240)].into(),
        None => format!("{literal:#x}"),
    }
}

/// Integers of 16 bits show a float constant by its bits.
fn integer_or(ty: Ty, index: u32, text: &str) -> String {
    const F16: [u32; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];
    if matches!(ty, Ty::I16 | Ty::U16 | Ty::B16) { format!("{:#x}", F16[index as usize]) } else { text.to_string() }
}

/// A signed number as LLVM prints a branch's or SOPK's constant.
fn hex(value: u32) -> String {
    format!("{value:#x}")
}

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut operands = match self.encoding {
            Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc => self.scalar_operands(),
            Encoding::Sopk => self.sopk_operands(),
            Encoding::Sopp => sopp_operands(self.op.name, self.literal),
            Encoding::Smem => self.smem_operands(),
            Encoding::Ds => self.ds_operands(),
            Encoding::Flat | Encoding::Scratch | Encoding::Global => self.flat_operands(),
            _ => self.vector_operands(),
        };
        let name = format!("{}{}", self.name, self.suffix());
        self.modifiers(&mut operands);
        f.write_str(name.trim_end())?;
        if !operands.is_empty() {
            write!(f, " {}", operands.trim())?;
        }
        if let Some(second) = &self.second {
            write!(f, " :: {second}")?;
        }
        Ok(())
    }
}

impl Inst {
    fn suffix(&self) -> &'static str {
        let shared = matches!(self.encoding, Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc);
        let from_shorter = self.encoding == Encoding::Vop3 && self.op.code < 0x200;
        match self.dpp {
            Dpp::None if self.op.src.is_empty() && self.op.dst.is_none() => "",
            Dpp::None if shared && !self.op.is(flag::E32_ONLY) => "_e32",
            Dpp::None if from_shorter => "_e64",
            Dpp::None => "",
            _ if self.encoding == Encoding::Vopc => "",
            _ if shared => "_dpp",
            _ => "_e64_dpp",
        }
    }

    fn source(&self, index: usize) -> String {
        let ty = self.op.src.get(index).copied().unwrap_or(Ty::U32);
        match (ty, self.encoding) {
            // LLVM shows scalar f16 by their bits where they are compared, and their literals with all bits where they stand alone.
            (Ty::F16, Encoding::Sopc) => source(self.src[index], Ty::B16, self.literal & 0xffff),
            (Ty::F16, Encoding::Sop1) => source(self.src[index], ty, self.literal),
            _ if self.op.is(flag::PACKED) => source(self.src[index], Ty::PkF16, self.literal),
            _ if self.op.name == "v_ldexp_f16" => source(self.src[index], Ty::F16, self.literal & 0xffff),
            (Ty::Bf16, _) => source(self.src[index], ty, self.literal),
            // The literal that an operation always has is shown whole.
            _ if ty.is_16() && !(index > 0 && self.op.is(flag::K_SECOND | flag::K_THIRD)) => {
                source(self.src[index], ty, self.literal & 0xffff)
            }
            _ => source(self.src[index], ty, self.literal),
        }
    }

    fn scalar_operands(&self) -> String {
        let mut parts = Vec::new();
        if let Some(ty) = self.op.dst
            && !self.op.is(flag::NO_DST)
        {
            parts.push(sgpr(self.dst.into(), ty.registers()));
        }
        for i in 0..usize::from(self.sources) {
            parts.push(self.source(i));
            if i == 0 && self.op.is(flag::K_SECOND) {
                parts.push(hex(self.literal));
            }
        }
        if self.op.is(flag::K_THIRD) {
            parts.push(hex(self.literal));
        }
        if self.op.name.starts_with("s_sendmsg_rtn") {
            parts.push(message(self.literal));
        }
        parts.join(", ")
    }

    fn sopk_operands(&self) -> String {
        let dst = sgpr(self.dst.into(), self.op.dst.map_or(1, Ty::registers));
        match self.op.name {
            "s_version" => hex(self.literal),
            "s_getreg_b32" => format!("{dst}, {}", hardware_register(self.literal)),
            "s_setreg_b32" => format!("{}, {dst}", hardware_register(self.literal)),
            "s_setreg_imm32_b32" => format!("{}, {:#x}", hardware_register(self.offset as u32), self.literal),
            "s_call_b64" => format!("{dst}, {}", self.literal as i16 as u16),
            _ => format!("{dst}, {}", hex(self.literal)),
        }
    }

    fn smem_operands(&self) -> String {
        let Some(ty) = self.op.dst else { return String::new() };
        let offset = match (u16::from(self.saddr), self.offset) {
            (operand::NULL, 0) => "null".to_string(),
            (operand::NULL, offset) => signed_hex(offset),
            (s, 0) => sgpr(s.into(), 1),
            (s, offset) => format!("{} offset:{}", sgpr(s.into(), 1), signed_hex(offset)),
        };
        format!("{}, {}, {offset}", sgpr(self.dst.into(), ty.registers()), sgpr(self.src[0].into(), 2))
    }

    fn ds_operands(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.op.dst.map(|ty| vgpr(self.dst, ty.registers())));
        if !crate::uses::name_without_address(self.op.name) {
            parts.push(vgpr(self.src[0] - operand::VGPR, 1));
        }
        for (i, ty) in self.op.src.iter().enumerate() {
            parts.push(vgpr(self.src[i + 1] - operand::VGPR, ty.registers()));
        }
        let mut text = parts.join(", ");
        let offset = self.offset as u32;
        if self.op.name == "ds_swizzle_b32" {
            text.push_str(&swizzle(offset));
        } else if self.op.name.contains("2addr") {
            for (name, value) in [("offset0", offset & 255), ("offset1", offset >> 8)] {
                if value != 0 {
                    let _ = write!(text, " {name}:{value}");
                }
            }
        } else if offset != 0 {
            let _ = write!(text, " offset:{offset}");
        }
        text
    }

    fn flat_operands(&self) -> String {
        use crate::isa::{Memory, Run};
        let none = u16::from(self.saddr) == operand::NULL;
        let address = match self.encoding {
            Encoding::Scratch if self.vaddr => vgpr(self.src[0] - operand::VGPR, 1),
            Encoding::Scratch => "off".into(),
            _ => vgpr(self.src[0] - operand::VGPR, if none { 2 } else { 1 }),
        };
        let by_lane = self.op.name.contains("addtid");
        let (reads, writes) = match self.op.run {
            Run::Memory(Memory::Atomic { .. }) => (self.cache & 1 == 1, true),
            Run::Memory(Memory::Load { .. } | Memory::LoadLane) => (true, false),
            _ => (false, true),
        };
        let mut parts = Vec::new();
        if reads {
            parts.extend(self.op.dst.map(|ty| vgpr(self.dst, ty.registers())));
        }
        if !by_lane {
            parts.push(address);
        }
        if writes {
            parts.extend(self.op.src.iter().map(|ty| vgpr(self.src[1] - operand::VGPR, ty.registers())));
        }
        if self.encoding != Encoding::Flat {
            let pair = if self.encoding == Encoding::Scratch { 1 } else { 2 };
            parts.push(if none { "off".into() } else { sgpr(self.saddr.into(), pair) });
        }
        let mut text = parts.join(", ");
        if self.offset != 0 {
            let _ = write!(text, " offset:{}", self.offset);
        }
        text
    }

    fn vector_operands(&self) -> String {
        let mut parts = Vec::new();
        let compare = self.op.dst == Some(Ty::Mask);
        if let Some(ty) = self.op.dst {
            if compare {
                if !self.op.is(flag::EXEC_DST) {
                    parts.push(sgpr(self.dst.into(), 1));
                }
            } else if self.op.is(flag::SGPR_DST) {
                parts.push(sgpr(self.dst.into(), ty.registers()));
            } else {
                parts.push(self.half_named(vgpr(self.dst, ty.registers()), 3));
            }
        }
        if self.op.is(flag::CARRY_OUT) {
            parts.push(sgpr(self.sdst.into(), 1));
        }
        let shown = if self.op.is(flag::ACC) { 2 } else { usize::from(self.sources) };
        for i in 0..shown {
            if i == 2 && self.op.is(flag::VCC_SRC) && self.encoding == Encoding::Vopd {
                continue;
            }
            parts.push(self.vector_source(i));
        }
        parts.join(", ")
    }

    /// `v3.l` where the half of a register is part of its name.
    fn half_named(&self, register: String, at: usize) -> String {
        if self.op.is(flag::TRUE16) && self.encoding == Encoding::Vop1 {
            format!("{register}.{}", if self.op_sel >> at & 1 == 0 { 'l' } else { 'h' })
        } else {
            register
        }
    }

    fn vector_source(&self, i: usize) -> String {
        let mut text = self.source(i);
        if self.src[i] >= operand::VGPR {
            text = self.half_named(text, i);
        }
        if self.encoding == Encoding::Vop3p && !self.op.is(flag::MIX) {
            return text;
        }
        let ty = self.op.src[i];
        if ty == Ty::Mask || !(ty.is_float() || self.op.is(flag::FLOAT_MODS)) {
            return text;
        }
        if self.abs >> i & 1 == 1 {
            text = format!("|{text}|");
        }
        if self.neg >> i & 1 == 1 {
            // Of a constant the sign would read as part of its value.
            let constant = matches!(self.src[i], 128..=248 | operand::LITERAL) && self.abs >> i & 1 == 0;
            text = if constant { format!("neg({text})") } else { format!("-{text}") };
        }
        text
    }

    fn modifiers(&self, text: &mut String) {
        match self.encoding {
            Encoding::Vop3 => self.vop3_modifiers(text),
            Encoding::Vop3p => self.vop3p_modifiers(text),
            Encoding::Smem | Encoding::Flat | Encoding::Scratch | Encoding::Global => {
                for (bit, name) in [(0, " glc"), (1, " slc"), (2, " dlc")] {
                    if self.cache >> bit & 1 == 1 {
                        text.push_str(name);
                    }
                }
            }
            _ => {}
        }
        self.dpp_modifiers(text);
    }

    fn vop3_modifiers(&self, text: &mut String) {
        // Of operations that also exist in shorter encodings LLVM shows the halves of none but v_fmac_f16.
        let shown = self.op.is(flag::OP_SEL) && (self.op.code >= 0x200 || self.op.is(flag::ACC));
        let used = if self.op.name.starts_with("v_permlane") { self.op_sel & 3 } else { self.op_sel };
        if shown && used != 0 {
            let list: Vec<u8> = if self.op.name.starts_with("v_permlane") {
                vec![used & 1, used >> 1]
            } else {
                let sources = (0..self.op.src.len()).filter(|&i| self.op.src[i] != Ty::Mask);
                sources.chain([3]).map(|i| used >> i & 1).collect()
            };
            let _ = write!(text, " op_sel:{}", joined(&list));
        }
        if self.clamp {
            text.push_str(" clamp");
        }
        text.push_str(["", " mul:2", " mul:4", " div:2"][usize::from(self.omod)]);
    }

    fn vop3p_modifiers(&self, text: &mut String) {
        let sources = usize::from(self.sources);
        let list = |mask: u8| joined(&(0..sources).map(|i| mask >> i & 1).collect::<Vec<_>>());
        let all = (1 << sources) - 1;
        let high_default = if self.op.is(flag::MIX) { 0 } else { all };
        let whole = self.op.is(flag::MATRIX) && !self.op.is(flag::OP_SEL);
        for (name, mask, default) in [("op_sel", self.op_sel, 0), ("op_sel_hi", self.op_sel_hi, high_default)] {
            if mask & all != default && !(whole && name == "op_sel_hi") {
                let _ = write!(text, " {name}:{}", list(mask));
            }
        }
        if !self.op.is(flag::MIX) {
            for (name, mask) in [("neg_lo", self.neg), ("neg_hi", self.abs)] {
                if mask & all != 0 {
                    let _ = write!(text, " {name}:{}", list(mask));
                }
            }
        }
        if self.clamp {
            text.push_str(" clamp");
        }
    }

    fn dpp_modifiers(&self, text: &mut String) {
        match self.dpp {
            Dpp::None => {}
            Dpp::Eight { select, inactive } => {
                let lanes: Vec<u8> = (0..8).map(|i| (select >> (3 * i) & 7) as u8).collect();
                let _ = write!(text, " dpp8:{}", joined(&lanes));
                if inactive {
                    text.push_str(" fi:1");
                }
            }
            Dpp::Row { control, row_mask, bank_mask, bound, inactive } => {
                let pattern = match control {
                    0..=0xff => format!("quad_perm:{}", joined(&[0, 2, 4, 6].map(|shift| (control >> shift & 3) as u8))),
                    0x101..=0x10f => format!("row_shl:{}", control & 15),
                    0x111..=0x11f => format!("row_shr:{}", control & 15),
                    0x121..=0x12f => format!("row_ror:{}", control & 15),
                    0x140 => "row_mirror".into(),
                    0x141 => "row_half_mirror".into(),
                    0x150..=0x15f => format!("row_share:{}", control & 15),
                    0x160..=0x16f => format!("row_xmask:{}", control & 15),
                    _ => format!("/* Invalid dpp_ctrl value {control:#x} */"),
                };
                let _ = write!(text, " {pattern} row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}");
                if bound {
                    text.push_str(" bound_ctrl:1");
                }
                if inactive {
                    text.push_str(" fi:1");
                }
            }
        }
    }
}

fn joined(list: &[u8]) -> String {
    let parts: Vec<String> = list.iter().map(u8::to_string).collect();
    format!("[{}]", parts.join(","))
}

fn signed_hex(value: i32) -> String {
    if value < 0 { format!("-{:#x}", value.unsigned_abs()) } else { format!("{value:#x}") }
}

/// `hwreg(HW_REG_MODE, 0, 4)`.
fn hardware_register(constant: u32) -> String {
    const NAMES: [(u32, &str); 15] = [
        (1, "HW_REG_MODE"),
        (2, "HW_REG_STATUS"),
        (3, "HW_REG_TRAPSTS"),
        (5, "HW_REG_GPR_ALLOC"),
        (6, "HW_REG_LDS_ALLOC"),
        (7, "HW_REG_IB_STS"),
        (15, "HW_REG_SH_MEM_BASES"),
        (18, "HW_REG_PERF_SNAPSHOT_PC_LO"),
        (19, "HW_REG_PERF_SNAPSHOT_PC_HI"),
        (20, "HW_REG_FLAT_SCR_LO"),
        (21, "HW_REG_FLAT_SCR_HI"),
        (23, "HW_REG_HW_ID1"),
        (24, "HW_REG_HW_ID2"),
        (27, "HW_REG_PERF_SNAPSHOT_DATA"),
        (29, "HW_REG_SHADER_CYCLES"),
    ];
    let (id, offset, width) = (constant & 63, constant >> 6 & 31, (constant >> 11 & 31) + 1);
    let name = NAMES.iter().find(|(n, _)| *n == id).map_or_else(|| id.to_string(), |(_, name)| (*name).to_string());
    if offset == 0 && width == 32 { format!("hwreg({name})") } else { format!("hwreg({name}, {offset}, {width})") }
}

/// `sendmsg(MSG_...)`.
fn message(constant: u32) -> String {
    const NAMES: [(u32, &str); 11] = [
        (1, "MSG_INTERRUPT"),
        (2, "MSG_HS_TESSFACTOR"),
        (3, "MSG_DEALLOC_VGPRS"),
        (9, "MSG_GS_ALLOC_REQ"),
        (128, "MSG_RTN_GET_DOORBELL"),
        (129, "MSG_RTN_GET_DDID"),
        (130, "MSG_RTN_GET_TMA"),
        (131, "MSG_RTN_GET_REALTIME"),
        (132, "MSG_RTN_SAVE_WAVE"),
        (133, "MSG_RTN_GET_TBA"),
        (u32::MAX, ""),
    ];
    NAMES.iter().find(|(n, _)| *n == constant).map_or_else(
        || format!("sendmsg({}, {}, {})", constant & 255, constant >> 8 & 15, constant >> 12 & 3),
        |(_, name)| format!("sendmsg({name})"),
    )
}

fn sopp_operands(name: &str, k: u32) -> String {
    match name {
        "s_endpgm" if k == 0 => String::new(),
        "s_endpgm" => k.to_string(),
        "s_barrier" | "s_code_end" | "s_wait_idle" | "s_wakeup" | "s_icache_inv" | "s_ttracedata" => String::new(),
        "s_waitcnt" => waits(k),
        "s_waitcnt_depctr" => dependency_counters(k),
        "s_delay_alu" => delays(k),
        "s_sendmsg" => message(k),
        "s_clause" | "s_set_inst_prefetch_distance" | "s_round_mode" | "s_wait_event" | "s_ttracedata_imm" | "s_singleuse_vdst" => hex(k),
        _ if name.starts_with("s_cbranch") || name == "s_branch" => k.to_string(),
        _ if k > 64 => hex(k),
        _ => k.to_string(),
    }
}

/// `vmcnt` 15:10, `lgkmcnt` 9:4, `expcnt` 2:0; those at their maximum wait for nothing.
fn waits(k: u32) -> String {
    let counters = [("vmcnt", k >> 10 & 63, 63), ("expcnt", k & 7, 7), ("lgkmcnt", k >> 4 & 63, 63)];
    let all_idle = counters.iter().all(|(_, value, most)| value == most);
    let shown = counters.iter().filter(|(_, value, most)| value != most || all_idle);
    shown.map(|(name, value, _)| format!("{name}({value})")).collect::<Vec<_>>().join(" ")
}

fn dependency_counters(k: u32) -> String {
    let fields = [
        ("depctr_hold_cnt", k >> 7 & 1, 1),
        ("depctr_sa_sdst", k & 1, 1),
        ("depctr_va_vdst", k >> 12 & 15, 15),
        ("depctr_va_sdst", k >> 9 & 7, 7),
        ("depctr_va_ssrc", k >> 8 & 1, 1),
        ("depctr_va_vcc", k >> 1 & 1, 1),
        ("depctr_vm_vsrc", k >> 2 & 7, 7),
    ];
    let shown: Vec<_> = fields.iter().filter(|(_, value, most)| value != most).map(|(name, value, _)| format!("{name}({value})")).collect();
    if shown.is_empty() || k & 0x60 != 0 { hex(k) } else { shown.join(" ") }
}

fn delays(k: u32) -> String {
    const WHOM: [&str; 12] = [
        "NO_DEP",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIP: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let mut parts = Vec::new();
    for (name, value, names) in [("instid0", k & 15, &WHOM[..]), ("instskip", k >> 4 & 7, &SKIP), ("instid1", k >> 7 & 15, &WHOM)] {
        if value != 0 {
            let text = names.get(value as usize).map_or_else(|| format!("/* invalid {} value */", &name[..6]), |n| (*n).to_string());
            parts.push(format!("{name}({text})"));
        }
    }
    if parts.is_empty() { "0".into() } else { parts.join(" | ") }
}

/// The pattern of `ds_swizzle_b32` by its name (ISA guide, `DS_SWIZZLE_B32`).
fn swizzle(offset: u32) -> String {
    if offset == 0 {
        return String::new();
    }
    let stray = if offset >= 0xe000 { 0x1fe0 } else { 0x381f };
    if offset >= 0xc000 && offset & stray != 0 {
        return format!(" offset:{offset}");
    }
    let pattern = if offset >= 0xe000 {
        format!("FFT,{}", offset & 31)
    } else if offset >= 0xc000 {
        format!("ROTATE,{},{}", offset >> 10 & 1, offset >> 5 & 31)
    } else if offset & 0x8000 != 0 {
        let lanes: Vec<String> = (0..4).map(|i| (offset >> (2 * i) & 3).to_string()).collect();
        format!("QUAD_PERM,{}", lanes.join(","))
    } else {
        let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
        swizzle_by_masks(and, or, xor)
    };
    if (0x8000..0xc000).contains(&offset) && offset & 0x7f00 != 0 {
        return format!(" offset:{offset}");
    }
    format!(" offset:swizzle({pattern})")
}

fn swizzle_by_masks(and: u32, or: u32, xor: u32) -> String {
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return format!("SWAP,{xor}");
    }
    if and == 31 && or == 0 && xor > 1 && (xor + 1).is_power_of_two() {
        return format!("REVERSE,{}", xor + 1);
    }
    let group = 32 - and;
    if xor == 0 && group.is_power_of_two() && group > 1 && or < group {
        return format!("BROADCAST,{group},{or}");
    }
    let bit = |i: u32| match (and >> i & 1, or >> i & 1, xor >> i & 1) {
        (0, 0, 0) => '0',
        (0, 0, 1) => '1',
        (0, 1, 0) => '1',
        (0, 1, 1) => '0',
        (1, 0, 0) => 'p',
        (1, 0, 1) => 'i',
        (1, 1, 0) => '1',
        _ => '0',
    };
    format!("BITMASK_PERM,\"{}\"", (0..5).rev().map(bit).collect::<String>())
}
