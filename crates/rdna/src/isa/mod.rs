//! The instruction set as tables: one file per encoding, each row an operation with its types and what it does to a lane.

mod ds;
mod flat;
mod rows;
mod smem;
mod sop;
mod value;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vopc;
mod vopd;

pub(crate) use rows::cloned;
pub use value::Ty;
pub(crate) use vop3::masked_quad_sad;

use crate::{
    exec::Step,
    float::{self, Round},
};
use std::sync::OnceLock;

/// Lanes of a wave.
pub const LANES: usize = 32;
/// A register of 32 lanes, or an operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub struct Lanes(pub [u32; LANES]);
/// The same with 64 bits a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub struct Wide(pub [u64; LANES]);

macro_rules! indexed {
    ($t:ty, $element:ty) => {
        impl std::ops::Index<usize> for $t {
            type Output = $element;
            #[inline(always)]
            fn index(&self, lane: usize) -> &$element {
                &self.0[lane]
            }
        }
        impl std::ops::IndexMut<usize> for $t {
            #[inline(always)]
            fn index_mut(&mut self, lane: usize) -> &mut $element {
                &mut self.0[lane]
            }
        }
    };
}

indexed!(Lanes, u32);
indexed!(Wide, u64);

/// What an operation depends on besides its operands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Env {
    /// Rounding of f32.
    pub(crate) round32: Round,
    /// Rounding of f16 and f64.
    pub(crate) round16: Round,
    /// Whether subnormal f32 are kept, at the input and at the output.
    pub(crate) keep32: [bool; 2],
    /// The same of f16 and f64.
    pub(crate) keep16: [bool; 2],
    /// IEEE mode: signalling NaNs are quieted.
    pub(crate) ieee: bool,
    /// A NaN is clamped to 0.
    pub(crate) dx10_clamp: bool,
    /// Whether all of the above is as kernels usually have it, so that the plain functions do.
    pub(crate) plain: bool,
    /// VCC.
    pub(crate) vcc: u32,
    /// Signedness of the operands of integer dot products (their NEG bits).
    pub(crate) signed: u32,
}

impl Env {
    /// From the MODE register (ISA guide, 3.3.3): rounding 3:0, denormals 7:4, DX10 clamp 8, IEEE 9.
    pub(crate) fn from_mode(mode: u32) -> Self {
        let bit = |at: u32| mode >> at & 1 != 0;
        Self {
            round32: Round::from_bits(mode),
            round16: Round::from_bits(mode >> 2),
            keep32: [bit(4), bit(5)],
            keep16: [bit(6), bit(7)],
            dx10_clamp: bit(8),
            ieee: bit(9),
            plain: mode & 0x2ff == 0x2f0,
            vcc: 0,
            signed: 0,
        }
    }

    /// A sum of two f64 rounded to f16, once.
    pub(crate) fn sum16(&self, a: f64, b: f64) -> f32 {
        self.f16(self.round16.sum(a, b))
    }

    /// An f64 rounded to f16, as the f32 that the tables hold f16 in.
    pub(crate) fn f16(&self, x: f64) -> f32 {
        float::from_f16(self.round16.to_f16(x))
    }
}

/// Result, three sources, circumstances.
pub(crate) type LaneFn = fn(&mut Lanes, &Lanes, &Lanes, &Lanes, &Env);
/// Result, mask, three sources, circumstances.
pub(crate) type WideFn = fn(&mut Wide, &mut Lanes, &Wide, &Wide, &Wide, &Env);
/// Result, mask, three sources.
pub(crate) type CarryFn = fn(&mut Lanes, &mut Lanes, &Lanes, &Lanes, &Lanes);
/// What a scalar operation may read and write besides its operands.
pub(crate) struct Scalar<'a> {
    pub(crate) scc: bool,
    pub(crate) exec: u32,
    /// The destination's old value.
    pub(crate) old: u64,
    pub(crate) env: &'a Env,
}
/// State, two sources.
pub(crate) type ScalarFn = fn(&mut Scalar<'_>, u64, u64) -> u64;

/// Functions of an operation on 32-bit lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanewise {
    pub(crate) plain: LaneFn,
    pub(crate) modal: Option<LaneFn>,
    pub(crate) clamped: Option<LaneFn>,
}

/// Functions of an operation on 64-bit lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widewise {
    pub(crate) plain: WideFn,
    pub(crate) modal: Option<WideFn>,
}

/// Which half of a register a 16-bit load or store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// The whole register is written.
    Whole,
    Low,
    High,
}

/// The new value at an address: old value, operand, second operand.
pub(crate) type AtomicFn = fn(u64, u64, u64) -> u64;

/// What an operation does to memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Memory {
    Load {
        bytes: u8,
        signed: bool,
        half: Half,
    },
    Store {
        bytes: u8,
        half: Half,
    },
    Atomic {
        bytes: u8,
        update: AtomicFn,
        operands: u8,
        returns: bool,
    },
    /// Two values at offsets counted in elements (times 64 if strided); LDS only.
    Load2 {
        bytes: u8,
        stride: u32,
    },
    Store2 {
        bytes: u8,
        stride: u32,
    },
    Exchange2 {
        bytes: u8,
        stride: u32,
    },
    /// Addressed by the lane's number.
    LoadLane,
    StoreLane,
}

/// How an operation is executed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Lanes(Lanewise),
    Wide(Widewise),
    Carry(CarryFn),
    Scalar(ScalarFn),
    Memory(Memory),
    Step(Step),
}

/// Properties of operations.
pub(crate) mod flag {
    /// Has no VOP3 form, so its name has no `_e32`.
    pub(crate) const E32_ONLY: u32 = 1;
    /// The destination is also the third source.
    pub(crate) const ACC: u32 = 1 << 1;
    /// A mask comes out as well.
    pub(crate) const CARRY_OUT: u32 = 1 << 2;
    /// In VOP2 the third source is VCC.
    pub(crate) const VCC_SRC: u32 = 1 << 3;
    /// The literal is the second source.
    pub(crate) const K_SECOND: u32 = 1 << 4;
    /// The literal is the third source.
    pub(crate) const K_THIRD: u32 = 1 << 5;
    /// Half of a register is chosen by OP_SEL.
    pub(crate) const OP_SEL: u32 = 1 << 6;
    /// Done to both halves of a register.
    pub(crate) const PACKED: u32 = 1 << 7;
    /// Destination is an SGPR.
    pub(crate) const SGPR_DST: u32 = 1 << 8;
    /// VOP3 with an SGPR for the mask.
    pub(crate) const SCALAR_DST: u32 = 1 << 9;
    /// A comparison that writes EXEC.
    pub(crate) const EXEC_DST: u32 = 1 << 10;
    /// Reads VCC unasked.
    pub(crate) const VCC_READ: u32 = 1 << 11;
    /// Sources are f32 or half of an f16 pair.
    pub(crate) const MIX: u32 = 1 << 12;
    /// Writes the upper half.
    pub(crate) const HIGH_DST: u32 = 1 << 13;
    /// NEG says whether operands are signed.
    pub(crate) const SIGNED: u32 = 1 << 14;
    /// A dot product.
    pub(crate) const DOT: u32 = 1 << 15;
    /// A matrix product.
    pub(crate) const MATRIX: u32 = 1 << 16;
    /// Scalar: SCC says whether the result is not zero.
    pub(crate) const SCC_NZ: u32 = 1 << 17;
    /// Scalar: no result.
    pub(crate) const NO_DST: u32 = 1 << 18;
    /// A comparison with a set of classes.
    pub(crate) const CLASS: u32 = 1 << 19;
    /// A 16-bit operand names its half also without VOP3.
    pub(crate) const TRUE16: u32 = 1 << 20;
    /// Has sign modifiers although it is no float.
    pub(crate) const FLOAT_MODS: u32 = 1 << 21;
    /// Scalar: EXEC is written.
    pub(crate) const WRITES_EXEC: u32 = 1 << 22;
    /// Ends or leaves straight code.
    pub(crate) const BRANCH: u32 = 1 << 23;
}

/// An operation of an encoding.
#[derive(Debug, Clone)]
pub struct Op {
    /// Its number within the encoding.
    pub code: u16,
    /// Its name, without `_e32` and the like.
    pub name: &'static str,
    /// Type of the destination.
    pub dst: Option<Ty>,
    /// Types of the sources.
    pub src: Vec<Ty>,
    pub(crate) flags: u32,
    pub(crate) run: Run,
}

impl Op {
    pub(crate) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// An encoding of the ISA guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in the guide
pub enum Encoding {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Vopd,
    Ds,
    Flat,
    Scratch,
    Global,
    Mubuf,
}

/// All encodings, in the order of their numbers here.
pub const ENCODINGS: [Encoding; 17] = [
    Encoding::Sop1,
    Encoding::Sop2,
    Encoding::Sopc,
    Encoding::Sopk,
    Encoding::Sopp,
    Encoding::Smem,
    Encoding::Vop1,
    Encoding::Vop2,
    Encoding::Vopc,
    Encoding::Vop3,
    Encoding::Vop3p,
    Encoding::Vopd,
    Encoding::Ds,
    Encoding::Flat,
    Encoding::Scratch,
    Encoding::Global,
    Encoding::Mubuf,
];

/// Shows that a level was detected; only [`Level::detect`] makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detected(());

/// Instruction-set level of the host that the tables' loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What the target always has.
    Base,
    /// AVX2 and FMA.
    Avx2(Detected),
    /// AVX-512 F, BW, DQ, VL.
    Avx512(Detected),
}

impl Level {
    /// The levels that this host has, best first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("lzcnt");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512cd");
            if avx2 && avx512 {
                levels.push(Self::Avx512(Detected(())));
            }
            if avx2 {
                levels.push(Self::Avx2(Detected(())));
            }
        }
        levels.push(Self::Base);
        levels
    }

    /// The best level of this host.
    #[must_use]
    pub fn detect() -> Self {
        Self::available()[0]
    }

    fn index(self) -> usize {
        match self {
            Self::Base => 0,
            Self::Avx2(_) => 1,
            Self::Avx512(_) => 2,
        }
    }
}

/// The operations of all encodings.
#[derive(Debug)]
pub struct Isa {
    /// For each encoding its operations by code.
    tables: Vec<Vec<Option<Op>>>,
    /// VOPD's operations by code: name within a pair, operation.
    paired: Vec<Option<(&'static str, Op)>>,
    pub(crate) matrix: crate::exec::matrix::Kernels,
    pub(crate) steps: crate::exec::Steps,
}

impl Isa {
    /// The tables of a level, made once.
    #[must_use]
    pub fn of(level: Level) -> &'static Self {
        static TABLES: [OnceLock<Isa>; 3] = [const { OnceLock::new() }; 3];
        TABLES[level.index()].get_or_init(|| Self::build(level))
    }

    /// The operation `code` of an encoding.
    #[must_use]
    pub fn op(&self, encoding: Encoding, code: u32) -> Option<&Op> {
        self.tables[encoding as usize].get(code as usize)?.as_ref()
    }

    pub(crate) fn paired(&self, code: u32, second: bool) -> Option<(&'static str, &Op)> {
        if !second && code >= u32::from(vopd::SECOND_ONLY) {
            return None;
        }
        self.paired.get(code as usize)?.as_ref().map(|(name, op)| (*name, op))
    }

    /// The operations of an encoding. VOPD's are those that may be paired, under their own names.
    pub fn operations(&self, encoding: Encoding) -> Box<dyn Iterator<Item = &Op> + '_> {
        match encoding {
            Encoding::Vopd => Box::new(self.paired.iter().flatten().map(|(_, op)| op)),
            _ => Box::new(self.tables[encoding as usize].iter().flatten()),
        }
    }

    fn build(level: Level) -> Self {
        let with_special = |mut ops: Vec<Op>, special: Vec<Op>| {
            ops.extend(special);
            ops
        };
        let vop1 = with_special(vop1::table(level), vop1::special());
        let vop2 = vop2::table(level);
        let mut vopc = vopc::table(level);
        let exec_writing: Vec<Op> = vopc.iter().map(writing_exec).collect();
        vopc.extend(exec_writing);
        let mut vop3 = with_special(vop3::table(level), vop3::special());
        for (ops, base) in [(&vopc, 0), (&vop2, 0x100), (&vop1, 0x180)] {
            let shared = ops.iter().filter(|op| !op.is(flag::E32_ONLY));
            vop3.extend(shared.map(|op| Op { code: op.code + base, flags: op.flags | in_vop3(op), ..op.clone() }));
        }
        let paired = vopd::PAIRED.iter().filter_map(|&(code, name, of)| {
            let op = vop2.iter().chain(&vop1).find(|op| op.name == of)?;
            Some((usize::from(code), (name, op.clone())))
        });
        let paired = by_code(paired.collect());
        let [flat, scratch, global] = flat::tables();
        let tables = [
            sop::sop1(),
            sop::sop2(),
            sop::sopc(),
            sop::sopk(),
            sop::sopp(),
            smem::table(),
            vop1,
            vop2,
            vopc,
            vop3,
            with_special(vop3p::table(level), vop3p::special()),
            Vec::new(),
            ds::table(),
            flat,
            scratch,
            global,
            smem::cache_control(),
        ];
        let tables = tables.into_iter().map(|ops| by_code(ops.into_iter().map(|op| (usize::from(op.code), op)).collect()));
        Self { tables: tables.collect(), paired, matrix: crate::exec::matrix::kernels(level), steps: crate::exec::steps(level) }
    }
}

fn by_code<T>(items: Vec<(usize, T)>) -> Vec<Option<T>> {
    let mut slots: Vec<Option<T>> = Vec::new();
    for (code, item) in items {
        if slots.len() <= code {
            slots.resize_with(code + 1, || None);
        }
        assert!(slots[code].is_none(), "two operations with code {code:#x}");
        slots[code] = Some(item);
    }
    slots
}

/// Operations on 16 bits choose halves in VOP3.
fn in_vop3(op: &Op) -> u32 {
    let halves = op.src.iter().chain(&op.dst).any(|ty| ty.is_16());
    if halves { flag::OP_SEL } else { 0 }
}

/// `v_cmpx_*` of a `v_cmp_*`.
fn writing_exec(op: &Op) -> Op {
    let name = format!("v_cmpx_{}", op.name.trim_start_matches("v_cmp_"));
    Op { code: op.code | 0x80, name: name.leak(), flags: op.flags | flag::EXEC_DST, ..op.clone() }
}

/// Gives the comparisons of a type their codes and full names.
fn name_compares(ops: &mut [Op], base: u16, prefix: &str, ty: &str) {
    for op in ops {
        op.code += base;
        op.name = format!("{prefix}_{}_{ty}", op.name).leak();
    }
}
