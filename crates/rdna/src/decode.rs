//! From words of code to instructions (ISA guide, chapter 15: microcode formats).

use crate::isa::{Encoding, Isa, Op, Ty, flag};
use std::sync::Arc;

/// How a source's lanes are taken from other lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dpp {
    /// Lanes as they are.
    None,
    /// A pattern within rows of 16.
    Row {
        /// `DPP_CTRL`.
        control: u16,
        /// Rows that are written.
        row_mask: u8,
        /// Groups of four lanes in each row that are written.
        bank_mask: u8,
        /// Lanes without a source read 0 instead of not being written.
        bound: bool,
        /// Disabled lanes may be read.
        inactive: bool,
    },
    /// For each lane of eight the lane of the eight that it reads, three bits each.
    Eight {
        /// The selectors.
        select: u32,
        /// Disabled lanes may be read.
        inactive: bool,
    },
}

/// Numbers of source operands (ISA guide, 15.2, table "SSRC and SRC").
#[allow(missing_docs)]
pub mod operand {
    pub const VCC_LO: u16 = 106;
    pub const NULL: u16 = 124;
    pub const M0: u16 = 125;
    pub const EXEC_LO: u16 = 126;
    pub const EXEC_HI: u16 = 127;
    pub const SHARED_BASE: u16 = 235;
    pub const VCCZ: u16 = 251;
    pub const EXECZ: u16 = 252;
    pub const SCC: u16 = 253;
    pub const LITERAL: u16 = 255;
    pub const VGPR: u16 = 256;
}

/// A decoded instruction.
#[derive(Debug, Clone)]
pub struct Inst {
    /// Address within the code object.
    pub pc: u64,
    /// 32-bit words that it takes.
    pub words: u8,
    /// Its encoding.
    pub encoding: Encoding,
    /// Its operation.
    pub op: &'static Op,
    /// Name within a VOPD pair, else the operation's.
    pub name: &'static str,
    /// Destination: the number of an SGPR or a VGPR, as the operation says.
    pub dst: u8,
    /// VOP3: where the mask goes.
    pub sdst: u8,
    /// Sources as numbered by the guide: below 128 SGPRs, from 256 on VGPRs. In memory instructions: address, data, second data.
    pub src: [u16; 3],
    /// Count of sources that the encoding holds.
    pub sources: u8,
    /// NEG; in VOP3P of the low halves.
    pub neg: u8,
    /// ABS; in VOP3P NEG of the high halves.
    pub abs: u8,
    /// OP_SEL.
    pub op_sel: u8,
    /// OP_SEL_HI.
    pub op_sel_hi: u8,
    /// Output modifier: 1, 2, 3 are times 2, times 4, by 2.
    pub omod: u8,
    /// Clamp.
    pub clamp: bool,
    /// Cross-lane pattern of the first source.
    pub dpp: Dpp,
    /// Literal, or the 16-bit constant of SOPK and SOPP.
    pub literal: u32,
    /// Byte offset of memory instructions.
    pub offset: i32,
    /// SGPR with (part of) the address; 124 is none.
    pub saddr: u8,
    /// Scratch: whether a VGPR holds part of the address.
    pub vaddr: bool,
    /// GLC, SLC, DLC; of DS bit 0 is GDS.
    pub cache: u8,
    /// The second of a VOPD pair.
    pub second: Option<Arc<Inst>>,
}

/// Why words are no instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecodable {
    /// The code ends within it.
    Truncated,
    /// The encoding, or the code within it, is unknown.
    Unknown,
}

/// Bits `high..=low` of a word.
fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((2u64 << (high - low)) - 1) as u32
}

impl Inst {
    fn new(pc: u64, encoding: Encoding, op: &'static Op, words: u8) -> Self {
        Self {
            pc,
            words,
            encoding,
            op,
            name: op.name,
            dst: 0,
            sdst: operand::NULL as u8,
            src: [operand::NULL; 3],
            sources: op.src.len() as u8,
            neg: 0,
            abs: 0,
            op_sel: 0,
            op_sel_hi: 0,
            omod: 0,
            clamp: false,
            dpp: Dpp::None,
            literal: 0,
            offset: 0,
            saddr: operand::NULL as u8,
            vaddr: true,
            cache: 0,
            second: None,
        }
    }

    /// Stands for a word that is no instruction.
    pub(crate) fn unknown(pc: u64, op: &'static Op) -> Self {
        Self::new(pc, Encoding::Sopp, op, 1)
    }

    /// Whether a source is the literal.
    fn wants_literal(&self) -> bool {
        self.src[..usize::from(self.sources)].contains(&operand::LITERAL) || self.op.is(flag::K_SECOND | flag::K_THIRD)
    }
}

struct Decoder<'a> {
    isa: &'static Isa,
    pc: u64,
    code: &'a [u32],
}

/// Decodes the instruction at the start of `code`, which lies at `pc`.
///
/// # Errors
/// If the words are no instruction that the tables know.
pub fn decode(isa: &'static Isa, pc: u64, code: &[u32]) -> Result<Inst, Undecodable> {
    let decoder = Decoder { isa, pc, code };
    let word = decoder.word(0)?;
    match word >> 26 {
        0b11_0101 => decoder.vop3(word),
        0b11_0010 => decoder.vopd(word),
        0b11_0110 => decoder.ds(word),
        0b11_0111 => decoder.flat(word),
        0b11_1101 => decoder.smem(word),
        0b11_1000 => decoder.mubuf(word),
        0b11_0011 if word >> 24 == 0b1100_1100 => decoder.vop3p(word),
        _ if word >> 31 == 0 => decoder.vop(word),
        _ if word >> 30 == 0b10 => decoder.sop(word),
        _ => Err(Undecodable::Unknown),
    }
}

impl Decoder<'_> {
    fn word(&self, index: usize) -> Result<u32, Undecodable> {
        self.code.get(index).copied().ok_or(Undecodable::Truncated)
    }

    fn op(&self, encoding: Encoding, code: u32) -> Result<&'static Op, Undecodable> {
        self.isa.op(encoding, code).ok_or(Undecodable::Unknown)
    }

    fn start(&self, encoding: Encoding, code: u32, words: u8) -> Result<Inst, Undecodable> {
        Ok(Inst::new(self.pc, encoding, self.op(encoding, code)?, words))
    }

    /// Reads the literal if a source asks for it.
    fn with_literal(&self, mut inst: Inst) -> Result<Inst, Undecodable> {
        align_scalars(&mut inst);
        if inst.wants_literal() {
            inst.literal = self.word(inst.words.into())?;
            inst.words += 1;
        }
        // DPP's numbers are only sources where a DPP word follows.
        let unknown = |s: &u16| matches!(*s, 209..=234 | 249 | 250 | 254) || (*s == operand::EXECZ || *s == operand::VCCZ);
        if inst.src[..usize::from(inst.sources)].iter().any(unknown) {
            return Err(Undecodable::Unknown);
        }
        Ok(inst)
    }

    fn sop(&self, word: u32) -> Result<Inst, Undecodable> {
        let (first, second) = (bits(word, 7, 0) as u16, bits(word, 15, 8) as u16);
        let dst = bits(word, 22, 16) as u8;
        match word >> 23 {
            0b1_0111_1101 => {
                let mut inst = self.start(Encoding::Sop1, second.into(), 1)?;
                (inst.dst, inst.src[0]) = (dst, first);
                if inst.op.name.starts_with("s_sendmsg_rtn") {
                    inst.literal = first.into();
                    inst.sources = 0;
                }
                self.with_literal(inst)
            }
            0b1_0111_1110 => {
                let mut inst = self.start(Encoding::Sopc, dst.into(), 1)?;
                inst.src = [first, second, operand::NULL];
                self.with_literal(inst)
            }
            0b1_0111_1111 => {
                let mut inst = self.start(Encoding::Sopp, dst.into(), 1)?;
                inst.literal = word & 0xffff;
                Ok(inst)
            }
            prefix if prefix >> 5 == 0b1011 => {
                let mut inst = self.start(Encoding::Sopk, bits(word, 27, 23), 1)?;
                inst.dst = dst;
                inst.sources = 0;
                inst.literal = word & 0xffff;
                if inst.op.name == "s_setreg_imm32_b32" {
                    // The constant says which register; the literal is the value.
                    inst.offset = inst.literal as i32;
                    inst.literal = self.word(1)?;
                    inst.words = 2;
                }
                align_scalars(&mut inst);
                Ok(inst)
            }
            _ => {
                let mut inst = self.start(Encoding::Sop2, bits(word, 29, 23), 1)?;
                inst.dst = dst;
                inst.src = [first, second, operand::NULL];
                self.with_literal(inst)
            }
        }
    }

    /// VOP1, VOP2 and VOPC, with their DPP words.
    fn vop(&self, word: u32) -> Result<Inst, Undecodable> {
        let (first, second, dst) = (bits(word, 8, 0) as u16, operand::VGPR + bits(word, 16, 9) as u16, bits(word, 24, 17) as u8);
        let mut inst = match word >> 25 {
            0b011_1111 => {
                let mut inst = self.start(Encoding::Vop1, bits(word, 16, 9), 1)?;
                inst.dst = dst;
                inst
            }
            0b011_1110 => {
                let mut inst = self.start(Encoding::Vopc, dst.into(), 1)?;
                inst.dst = if inst.op.is(flag::EXEC_DST) { operand::EXEC_LO } else { operand::VCC_LO } as u8;
                inst.src[1] = second;
                inst
            }
            _ => {
                let mut inst = self.start(Encoding::Vop2, bits(word, 30, 25), 1)?;
                inst.dst = dst;
                inst.src[1] = second;
                inst.sdst = operand::VCC_LO as u8;
                self.implied_third(&mut inst);
                inst
            }
        };
        if inst.sources > 0 {
            inst.src[0] = first;
            self.dpp(&mut inst)?;
        }
        halves_of_numbers(&mut inst);
        self.with_literal(inst)
    }

    /// The third source of VOP2 operations: VCC, the destination, or the literal.
    fn implied_third(&self, inst: &mut Inst) {
        if inst.op.is(flag::VCC_SRC) {
            inst.src[2] = operand::VCC_LO;
        } else if inst.op.is(flag::ACC) {
            inst.src[2] = operand::VGPR + u16::from(inst.dst);
        } else if inst.op.is(flag::K_THIRD) {
            inst.src[2] = operand::LITERAL;
        } else if inst.op.is(flag::K_SECOND) {
            inst.src[2] = inst.src[1];
            inst.src[1] = operand::LITERAL;
        }
    }

    /// Replaces a first source that stands for a DPP word by what the word says.
    fn dpp(&self, inst: &mut Inst) -> Result<(), Undecodable> {
        let marker = inst.src[0];
        if !matches!(marker, 233 | 234 | 250) {
            return Ok(());
        }
        let word = self.word(inst.words.into())?;
        inst.words += 1;
        inst.src[0] = operand::VGPR + bits(word, 7, 0) as u16;
        if marker == 250 {
            if matches!(inst.encoding, Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc) {
                inst.neg = (bits(word, 20, 20) | bits(word, 22, 22) << 1) as u8;
                inst.abs = (bits(word, 21, 21) | bits(word, 23, 23) << 1) as u8;
            }
            inst.dpp = Dpp::Row {
                control: bits(word, 16, 8) as u16,
                row_mask: bits(word, 31, 28) as u8,
                bank_mask: bits(word, 27, 24) as u8,
                bound: bits(word, 19, 19) == 1,
                inactive: bits(word, 18, 18) == 1,
            };
        } else {
            inst.dpp = Dpp::Eight { select: word >> 8, inactive: marker == 234 };
        }
        Ok(())
    }

    /// What both forms of three sources have alike, and their second word.
    fn three_sources(&self, encoding: Encoding, code: u32, word: u32) -> Result<(Inst, u32), Undecodable> {
        let mut inst = self.start(encoding, code, 2)?;
        let second = self.word(1)?;
        inst.dst = bits(word, 7, 0) as u8;
        inst.clamp = bits(word, 15, 15) == 1;
        inst.src = [bits(second, 8, 0) as u16, bits(second, 17, 9) as u16, bits(second, 26, 18) as u16];
        inst.neg = bits(second, 31, 29) as u8;
        Ok((inst, second))
    }

    fn vop3(&self, word: u32) -> Result<Inst, Undecodable> {
        let (mut inst, second) = self.three_sources(Encoding::Vop3, bits(word, 25, 16), word)?;
        inst.omod = bits(second, 28, 27) as u8;
        if inst.op.is(flag::CARRY_OUT) {
            inst.sdst = bits(word, 14, 8) as u8;
        } else {
            inst.abs = bits(word, 10, 8) as u8;
            inst.op_sel = bits(word, 14, 11) as u8;
        }
        // Comparisons that write EXEC have no other destination, whatever the field says.
        if inst.op.is(flag::EXEC_DST) {
            inst.dst = operand::EXEC_LO as u8;
        }
        if inst.op.is(flag::ACC) {
            inst.sources = 2;
        }
        self.dpp(&mut inst)?;
        let mut inst = self.with_literal(inst)?;
        if inst.op.is(flag::ACC) {
            inst.src[2] = operand::VGPR + u16::from(inst.dst);
            inst.sources = 3;
        }
        Ok(inst)
    }

    fn vop3p(&self, word: u32) -> Result<Inst, Undecodable> {
        let (mut inst, second) = self.three_sources(Encoding::Vop3p, bits(word, 22, 16), word)?;
        inst.abs = bits(word, 10, 8) as u8;
        inst.op_sel = bits(word, 13, 11) as u8;
        inst.op_sel_hi = (bits(second, 28, 27) | bits(word, 14, 14) << 2) as u8;
        self.dpp(&mut inst)?;
        self.with_literal(inst)
    }

    fn vopd(&self, word: u32) -> Result<Inst, Undecodable> {
        let second = self.word(1)?;
        let (dst_x, dst_y) = (bits(second, 31, 24) as u8, bits(second, 23, 17) as u8);
        // The second destination's lowest bit is the opposite of the first's.
        let dst_y = dst_y << 1 | (!dst_x & 1);
        let half = |code, dst, first: u32, next: u32, is_second| -> Result<Inst, Undecodable> {
            let (name, op) = self.isa.paired(code, is_second).ok_or(Undecodable::Unknown)?;
            let mut inst = Inst::new(self.pc, Encoding::Vopd, op, 2);
            (inst.name, inst.dst) = (name, dst);
            inst.src = [first as u16, operand::VGPR + next as u16, operand::NULL];
            self.implied_third(&mut inst);
            Ok(inst)
        };
        let mut x = half(bits(word, 25, 22), dst_x, bits(word, 8, 0), bits(word, 16, 9), false)?;
        let mut y = half(bits(word, 21, 17), dst_y, bits(second, 8, 0), bits(second, 16, 9), true)?;
        if x.wants_literal() || y.wants_literal() {
            let literal = self.word(2)?;
            (x.literal, y.literal) = (literal, literal);
            (x.words, y.words) = (3, 3);
        }
        x.second = Some(Arc::new(y));
        Ok(x)
    }

    fn smem(&self, word: u32) -> Result<Inst, Undecodable> {
        let mut inst = self.start(Encoding::Smem, bits(word, 25, 18), 2)?;
        let second = self.word(1)?;
        inst.dst = aligned(bits(word, 12, 6) as u16, inst.op.dst.map_or(1, Ty::registers)) as u8;
        inst.src[0] = (bits(word, 5, 0) << 1) as u16;
        inst.cache = (bits(word, 14, 14) | bits(word, 13, 13) << 2) as u8;
        inst.offset = (second << 11) as i32 >> 11;
        inst.saddr = bits(second, 31, 25) as u8;
        Ok(inst)
    }

    fn mubuf(&self, word: u32) -> Result<Inst, Undecodable> {
        self.word(1)?;
        self.start(Encoding::Mubuf, bits(word, 25, 18), 2)
    }

    fn ds(&self, word: u32) -> Result<Inst, Undecodable> {
        let mut inst = self.start(Encoding::Ds, bits(word, 25, 18), 2)?;
        let second = self.word(1)?;
        inst.offset = (word & 0xffff) as i32;
        inst.cache = bits(word, 17, 17) as u8;
        if inst.cache != 0 {
            return Err(Undecodable::Unknown);
        }
        inst.dst = bits(second, 31, 24) as u8;
        inst.src = [bits(second, 7, 0), bits(second, 15, 8), bits(second, 23, 16)].map(|v| operand::VGPR + v as u16);
        Ok(inst)
    }

    fn flat(&self, word: u32) -> Result<Inst, Undecodable> {
        let encoding = [Encoding::Flat, Encoding::Scratch, Encoding::Global, Encoding::Flat][bits(word, 17, 16) as usize];
        if bits(word, 17, 16) == 3 {
            return Err(Undecodable::Unknown);
        }
        let mut inst = self.start(encoding, bits(word, 24, 18), 2)?;
        let second = self.word(1)?;
        inst.offset = (word << 19) as i32 >> 19;
        inst.cache = (bits(word, 14, 14) | bits(word, 15, 15) << 1 | bits(word, 13, 13) << 2) as u8;
        inst.saddr = if encoding == Encoding::Flat { operand::NULL as u8 } else { bits(second, 22, 16) as u8 };
        inst.vaddr = encoding != Encoding::Scratch || bits(second, 23, 23) == 1;
        inst.dst = bits(second, 31, 24) as u8;
        inst.src = [bits(second, 7, 0), bits(second, 15, 8), 0].map(|v| operand::VGPR + v as u16);
        Ok(inst)
    }
}

/// In VOP1, VOP2 and VOPC bit 7 of the number of a 16-bit VGPR says that its upper half is meant.
fn halves_of_numbers(inst: &mut Inst) {
    if inst.op.is(flag::PACKED) {
        return;
    }
    for (i, ty) in inst.op.src.iter().enumerate().take(3) {
        if ty.is_16() && inst.src[i] >= operand::VGPR && inst.src[i] & 128 != 0 {
            inst.src[i] &= !128;
            inst.op_sel |= 1 << i;
        }
    }
    if inst.op.dst.is_some_and(Ty::is_16) && inst.dst & 128 != 0 {
        inst.dst &= !128;
        inst.op_sel |= 8;
    }
}

/// Pairs of SGPRs start at even numbers, larger groups at multiples of four; the low bits are ignored.
fn aligned(number: u16, registers: u32) -> u16 {
    match registers {
        _ if number >= 124 => number,
        1 => number,
        2 => number & !1,
        _ => number & !3,
    }
}

fn align_scalars(inst: &mut Inst) {
    for (number, ty) in inst.src.iter_mut().zip(&inst.op.src) {
        *number = aligned(*number, ty.registers());
    }
    let scalar = matches!(inst.encoding, Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopk);
    if let Some(ty) = inst.op.dst.filter(|_| scalar) {
        inst.dst = aligned(inst.dst.into(), ty.registers()) as u8;
    }
}
