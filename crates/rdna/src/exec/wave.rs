//! The registers of a wave and how operands are read from them.

use crate::{
    decode::operand,
    float,
    isa::{Env, LANES, Lanes, Ty, Wide},
};

/// Upper halves of the addresses at which FLAT sees local and private memory.
pub(crate) const SHARED_APERTURE: u32 = 0x0001_0000;
pub(crate) const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// Registers and place of a wave.
#[derive(Debug)]
pub(crate) struct Wave {
    /// SGPRs, VCC (106), null (124), M0 (125) and EXEC (126) by their operand numbers.
    pub(crate) s: [u32; 128],
    pub(crate) v: Box<[Lanes; 256]>,
    pub(crate) scc: bool,
    pub(crate) mode: u32,
    pub(crate) env: Env,
    /// Index of the next instruction.
    pub(crate) at: usize,
    pub(crate) ended: bool,
    pub(crate) waits: bool,
    pub(crate) workgroup: [u32; 3],
    /// Number within the workgroup, and within the dispatch.
    pub(crate) number: u32,
    pub(crate) global: u32,
    /// Private memory: lane by lane.
    pub(crate) scratch: Vec<u8>,
    pub(crate) scratch_lane: u32,
}

impl Wave {
    pub(crate) fn new(mode: u32, scratch_lane: u32) -> Self {
        Self {
            s: [0; 128],
            v: vec![Lanes([0; LANES]); 256].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("256 registers")),
            scc: false,
            mode,
            env: Env::from_mode(mode),
            at: 0,
            ended: false,
            waits: false,
            workgroup: [0; 3],
            number: 0,
            global: 0,
            scratch: vec![0; scratch_lane as usize * LANES],
            scratch_lane,
        }
    }

    pub(crate) fn exec(&self) -> u32 {
        self.s[usize::from(operand::EXEC_LO)]
    }

    pub(crate) fn set_exec(&mut self, mask: u32) {
        self.s[usize::from(operand::EXEC_LO)] = mask;
    }

    pub(crate) fn vcc(&self) -> u32 {
        self.s[usize::from(operand::VCC_LO)]
    }

    pub(crate) fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        self.env = Env::from_mode(mode);
    }

    /// Writes an SGPR; what is written to null is lost.
    pub(crate) fn set_s(&mut self, number: usize, value: u32) {
        self.s[number & 127] = value;
        self.s[usize::from(operand::NULL)] = 0;
    }

    pub(crate) fn s64(&self, number: usize) -> u64 {
        u64::from(self.s[number & 127]) | u64::from(self.s[(number + 1) & 127]) << 32
    }

    /// A scalar source as so many bits as its type has. Null is 0 also as a pair.
    pub(crate) fn scalar(&self, number: u16, ty: Ty, literal: u32) -> u64 {
        match number {
            operand::NULL => 0,
            0..=127 if ty.registers() == 2 => self.s64(number.into()),
            0..=127 => self.s[usize::from(number)].into(),
            operand::SCC => self.scc.into(),
            operand::LITERAL => match ty {
                Ty::F64 => u64::from(literal) << 32,
                Ty::I64 => i64::from(literal as i32) as u64,
                _ => literal.into(),
            },
            operand::SHARED_BASE => aperture(SHARED_APERTURE, ty),
            237 => aperture(PRIVATE_APERTURE, ty),
            236 | 238 => aperture(PRIVATE_APERTURE, ty) | 0xffff_ffff,
            _ => constant(number, ty),
        }
    }

    /// A VGPR's or scalar's 32 bits in each lane; `spare` holds what is no VGPR.
    #[inline(always)]
    pub(crate) fn lanes<'a>(&'a self, number: u16, ty: Ty, literal: u32, spare: &'a mut Lanes) -> &'a Lanes {
        if number >= operand::VGPR {
            return &self.v[usize::from(number - operand::VGPR) & 255];
        }
        let value = self.scalar(number, ty, literal) as u32;
        if ty == Ty::Mask {
            for l in 0..LANES {
                spare[l] = value >> l & 1;
            }
        } else {
            *spare = Lanes([value; LANES]);
        }
        spare
    }

    /// A source of one or two registers a lane, zero-extended to 64 bits.
    #[inline(always)]
    pub(crate) fn wide(&self, number: u16, ty: Ty, literal: u32) -> Wide {
        let mut wide = Wide([0; LANES]);
        if number >= operand::VGPR {
            let first = usize::from(number - operand::VGPR);
            let low = &self.v[first & 255];
            if ty.registers() == 2 {
                let high = &self.v[(first + 1) & 255];
                for l in 0..LANES {
                    wide[l] = u64::from(low[l]) | u64::from(high[l]) << 32;
                }
            } else {
                for l in 0..LANES {
                    wide[l] = low[l].into();
                }
            }
        } else {
            let value = self.scalar(number, ty, literal);
            for l in 0..LANES {
                wide[l] = if ty == Ty::Mask { value >> l & 1 } else { value };
            }
        }
        wide
    }

    /// Writes the lanes of a VGPR that are in `mask`.
    #[inline(always)]
    pub(crate) fn set_v(&mut self, number: usize, value: &Lanes, mask: u32) {
        let register = &mut self.v[number & 255];
        if mask == u32::MAX {
            *register = *value;
            return;
        }
        for l in 0..LANES {
            register[l] = if mask >> l & 1 != 0 { value[l] } else { register[l] };
        }
    }
}

fn aperture(high: u32, ty: Ty) -> u64 {
    if ty.registers() == 2 { u64::from(high) << 32 } else { high.into() }
}

/// An inline constant. Floats take the format of a float operand; for integers they are the bits of the f32, or of the f64.
pub(crate) fn constant(number: u16, ty: Ty) -> u64 {
    const FLOATS: [f64; 9] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.159_154_943_091_895_33];
    let integer = |value: i64| if ty.registers() == 2 { value as u64 } else { u64::from(value as u32) };
    match number {
        128..=192 => integer(i64::from(number) - 128),
        193..=208 => integer(192 - i64::from(number)),
        240..=248 => {
            let value = FLOATS[usize::from(number - 240)];
            match ty {
                Ty::F16 | Ty::PkF16 if number == 248 => 0x3118,
                Ty::F16 | Ty::PkF16 => u64::from(float::to_f16(value as f32)),
                Ty::Bf16 | Ty::PkBf16 => u64::from(float::to_bf16(value as f32)),
                _ if ty.registers() == 2 => value.to_bits(),
                _ => u64::from((value as f32).to_bits()),
            }
        }
        _ => 0,
    }
}
