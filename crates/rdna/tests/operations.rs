//! Each vector operation alone, on random and special operands, against plain oracles.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{
    Random,
    harness::{Operands, Outcome, State, mode, run},
    oracle::{In, format, oracle},
    soft::{F16, F32, F64, Format, ROUNDS, Round},
};
use rdna::isa::{Encoding, Isa, Level, Op, Ty};

/// Values at which things go wrong.
const SPECIAL_32: &[u32] = &[
    0,
    1,
    2,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffa0_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x4f00_0000,
    0xcf00_0000,
    0x4f80_0000,
    0x3f00_0000,
    0x4b00_0001,
    0x3380_0000,
    0x477f_e000,
    0x477f_f000,
    0x3880_0000,
    0x387f_f000,
    0x3300_0000,
    0x8000_0001,
    0x4780_0000,
    0xc700_0000,
    0x3eff_ffff,
];
const SPECIAL_16: &[u16] =
    &[0, 1, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7d01, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x3800, 0x7fff, 0xffff, 0x5bff, 0x7800];
const SPECIAL_64: &[u64] = &[
    0,
    1,
    1 << 63,
    u64::MAX,
    i64::MAX as u64,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x41df_ffff_ffc0_0000,
    0x41ef_ffff_ffe0_0000,
    0x47ef_ffff_e000_0000,
    0x36a0_0000_0000_0000,
    0x3810_0000_0000_0000,
];

/// A random operand of a type.
fn operand(ty: Ty, r: &mut Random) -> u64 {
    let any = u64::from(r.word()) << 32 | u64::from(r.word());
    let pick = |r: &mut Random, n: usize| r.below(n as u32) as usize;
    // Exponents near each other, so that sums and products are not all infinite or equal to one operand.
    let near = |format: Format, r: &mut Random| {
        let bias = (1u64 << (format.exponent - 1)) - 1;
        let exponent = bias + u64::from(r.below(13)) - 6;
        any & (1 << (format.bits() - 1)) | exponent << format.mantissa | any & ((1 << format.mantissa) - 1)
    };
    let class = r.below(4);
    let half = |r: &mut Random| match class {
        0 => SPECIAL_16[pick(r, SPECIAL_16.len())].into(),
        1 => near(F16, r),
        _ => u64::from(r.word() & 0xffff),
    };
    match ty {
        Ty::F32 | Ty::U32 | Ty::I32 if class == 0 => SPECIAL_32[pick(r, SPECIAL_32.len())].into(),
        Ty::F32 if class == 1 => near(F32, r),
        Ty::U32 | Ty::I32 if class == 1 => u64::from(r.below(40)),
        Ty::F64 | Ty::U64 | Ty::I64 if class == 0 => SPECIAL_64[pick(r, SPECIAL_64.len())],
        Ty::F64 if class == 1 => near(F64, r),
        Ty::U64 | Ty::I64 | Ty::F64 => any,
        Ty::F16 | Ty::Bf16 | Ty::PkF16 | Ty::PkBf16 => u64::from(r.word() & 0xffff) << 16 | half(r),
        _ => any & 0xffff_ffff,
    }
}

fn is_16(ty: Ty) -> bool {
    matches!(ty, Ty::B16 | Ty::I16 | Ty::U16 | Ty::F16 | Ty::Bf16)
}

/// An instruction with its modifiers.
#[derive(Default, Clone, Copy)]
struct Modifiers {
    neg: u32,
    abs: u32,
    op_sel: u32,
    clamp: bool,
    omod: u32,
}

const V: u32 = 256;

/// The shorter encoding: a in v2, b in v4, the destination in v8.
fn short(encoding: Encoding, op: &Op) -> Vec<u32> {
    let code = u32::from(op.code);
    match encoding {
        Encoding::Vop1 => vec![0x7e00_0000 | 8 << 17 | code << 9 | (V + 2)],
        Encoding::Vop2 => vec![code << 25 | 8 << 17 | 4 << 9 | (V + 2)],
        _ => vec![0x7c00_0000 | code << 17 | 4 << 9 | (V + 2)],
    }
}

/// VOP3: a in v2, b in v4, c in v6 (a mask in s26); masks go to s24.
fn long(op: &Op, m: Modifiers) -> Vec<u32> {
    let carry = carries(op);
    let third = match op.src.get(2) {
        Some(Ty::Mask) => 26,
        Some(_) if !accumulates(op) => V + 6,
        _ => 0,
    };
    let second = if op.src.len() > 1 { V + 4 } else { 0 };
    let dst = if op.dst == Some(Ty::Mask) { if op.name.starts_with("v_cmpx") { 126 } else { 24 } } else { 8 };
    let middle = if carry { 24 << 8 } else { m.op_sel << 11 | m.abs << 8 };
    let first = 0xd400_0000 | u32::from(op.code) << 16 | u32::from(m.clamp) << 15 | middle | dst;
    vec![first, m.neg << 29 | m.omod << 27 | third << 18 | second << 9 | (V + 2)]
}

fn carries(op: &Op) -> bool {
    op.name.contains("_co_") || op.name.starts_with("v_mad_u64") || op.name.starts_with("v_mad_i64") || op.name.starts_with("v_div_scale")
}

fn accumulates(op: &Op) -> bool {
    op.name.contains("fmac")
}

/// Operands after modifiers, flushed as MODE says.
fn modified(bits: u64, ty: Ty, i: u32, m: Modifiers, denormals: u32) -> u64 {
    let bits = if is_16(ty) && m.op_sel >> i & 1 == 1 { bits >> 16 } else { bits };
    let bits = if is_16(ty) { bits & 0xffff } else { bits };
    let Some(f) = format(ty) else { return bits };
    let sign = 1 << (f.bits() - 1);
    let bits = if m.abs >> i & 1 == 1 { bits & !sign } else { bits };
    let bits = if m.neg >> i & 1 == 1 { bits ^ sign } else { bits };
    let keep = if f == F32 { denormals & 1 } else { denormals >> 2 & 1 };
    if keep == 1 { bits } else { f.flush(bits) }
}

fn finished(bits: u64, ty: Ty, m: Modifiers, denormals: u32) -> u64 {
    let Some(f) = format(ty) else { return bits };
    let keep = if f == F32 { denormals >> 1 & 1 } else { denormals >> 3 & 1 } == 1;
    let mut bits = if keep { bits } else { f.flush(bits) };
    if m.omod != 0 && !keep {
        let factor = [1.0, 2.0, 4.0, 0.5][m.omod as usize];
        let value = f64::from_bits(F64.write(f.read(bits), Round::Nearest)) * factor;
        bits = f.write(F64.read(value.to_bits()), Round::Nearest);
    }
    if m.clamp {
        let value = f64::from_bits(F64.write(f.read(bits), Round::Nearest));
        let clamped = if value.is_nan() || value <= 0.0 { 0.0 } else { value.min(1.0) };
        bits = f.write(F64.read(clamped.to_bits()), Round::Nearest);
    }
    bits
}

/// Whether a result is the expected one; any NaN is as good as another.
fn same(got: u64, want: u64, ty: Ty) -> bool {
    let halves = |f: Format| {
        (0..2).all(|h| {
            let (g, w) = (got >> (16 * h) & 0xffff, want >> (16 * h) & 0xffff);
            g == w || (f.is_nan(g) && f.is_nan(w))
        })
    };
    match format(ty) {
        Some(f) => got == want || (f.is_nan(got) && f.is_nan(want)),
        None if ty == Ty::PkF16 => halves(F16),
        None => got == want,
    }
}

struct Case<'a> {
    op: &'a Op,
    words: Vec<u32>,
    m: Modifiers,
    state: State,
    is_short: bool,
}

/// Runs a case on so many workgroups' worth of operands; gives the first mismatch.
fn check(level: Level, case: &Case<'_>, groups: u32, r: &mut Random) -> Result<u64, String> {
    let op = case.op;
    let Some(oracle) = oracle(op.name) else { return Ok(0) };
    let ty = |i: usize| op.src.get(i).copied().unwrap_or(Ty::U32);
    let operands: Vec<Operands> = (0..groups * 32)
        .map(|_| {
            let old = operand(op.dst.unwrap_or(Ty::U32), r);
            Operands {
                a: operand(ty(0), r),
                b: operand(ty(1), r),
                c: operand(ty(2), r),
                old: [old as u32, (old >> 32) as u32, r.word(), r.word()],
            }
        })
        .collect();
    let outcomes = run(level, &case.words, &operands, case.state);
    let denormals = case.state.mode >> 4 & 15;
    let rounds = [ROUNDS[case.state.mode as usize & 3], ROUNDS[case.state.mode as usize >> 2 & 3]];
    let dst = op.dst.unwrap();
    for (index, (o, got)) in operands.iter().zip(&outcomes).enumerate() {
        let lane = index as u32 % 32;
        let bit = case.state.vcc >> lane & 1 == 1;
        let old = u64::from(o.old[0]) | u64::from(o.old[1]) << 32;
        let third = if accumulates(op) { old & if is_16(dst) { 0xffff } else { u64::MAX } } else { o.c };
        let source = |bits, i: usize| modified(bits, ty(i), i as u32, case.m, denormals);
        let input = In { a: source(o.a, 0), b: source(o.b, 1), c: source(third, 2), bit, lane, rounds };
        let (value, mask) = oracle(&input);
        let problem = |got: u64, want: u64| {
            format!("{} {:08x?} mode {:#x} lane {lane}: {o:x?}: got {got:#x}, want {want:#x}", op.name, case.words, case.state.mode)
        };
        if dst == Ty::Mask {
            let register = mask_register(op, got, case.is_short);
            if (register >> lane & 1 == 1) != mask {
                return Err(problem(u64::from(register >> lane & 1), mask.into()));
            }
            continue;
        }
        let want = finished(value, dst, case.m, denormals);
        let low = u64::from(got.v[0]) | u64::from(got.v[1]) << 32;
        let (result, rest_same) = if is_16(dst) {
            let high = case.m.op_sel >> 3 & 1 == 1;
            let (half, other) = if high { (low >> 16 & 0xffff, (low ^ old) & 0xffff) } else { (low & 0xffff, (low ^ old) >> 16 & 0xffff) };
            (half, other == 0)
        } else if dst.registers() == 1 {
            (low & 0xffff_ffff, got.v[1] == o.old[1])
        } else {
            (low, got.v[2] == o.old[2])
        };
        if !same(result, want, dst) || !rest_same {
            return Err(problem(low, want));
        }
        if carries(op) {
            let register = if case.is_short { got.vcc } else { got.s[0] };
            if (register >> lane & 1 == 1) != mask {
                return Err(problem(u64::from(register >> lane & 1), mask.into()));
            }
        }
    }
    Ok(operands.len() as u64)
}

fn mask_register(op: &Op, got: &Outcome, is_short: bool) -> u32 {
    match (op.name.starts_with("v_cmpx"), is_short) {
        (true, _) => got.exec,
        (_, true) => got.vcc,
        _ => got.s[0],
    }
}

/// Runs `each` on the operations of the vector encodings; all failures in one report.
fn for_operations(each: impl Fn(Encoding, &Op) -> Result<u64, String>) {
    let isa = Isa::of(Level::detect());
    let (mut failures, mut operands, mut tested) = (Vec::new(), 0, 0);
    for encoding in [Encoding::Vop1, Encoding::Vop2, Encoding::Vopc, Encoding::Vop3] {
        for op in isa.operations(encoding) {
            match each(encoding, op) {
                Ok(0) => {}
                Ok(n) => {
                    operands += n;
                    tested += 1;
                }
                Err(why) => failures.push(why),
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    println!("{tested} operations on {operands} operands");
    assert!(tested > 100);
}

fn has_literal(op: &Op) -> bool {
    op.name.contains("fmamk") || op.name.contains("fmaak")
}

#[test]
fn plain_results() {
    let groups = common::rounds(8, 30_000);
    for_operations(|encoding, op| {
        let mut r = Random(common::seed() ^ u64::from(op.code) << 32);
        if has_literal(op) || op.name.starts_with("v_pk_") {
            return Ok(0);
        }
        let is_short = encoding != Encoding::Vop3;
        let words = if is_short { short(encoding, op) } else { long(op, Modifiers::default()) };
        let case = Case { op, words, m: Modifiers::default(), state: State { vcc: r.word(), ..State::default() }, is_short };
        check(Level::detect(), &case, groups, &mut r)
    });
}

/// The same with the loops compiled for other instruction sets.
#[test]
fn levels_agree() {
    for level in Level::available() {
        for_operations(|encoding, op| {
            let mut r = Random(common::seed() ^ u64::from(op.code) << 32);
            if encoding != Encoding::Vop3 {
                return Ok(0);
            }
            let case = Case {
                op,
                words: long(op, Modifiers::default()),
                m: Modifiers::default(),
                state: State { vcc: r.word(), ..State::default() },
                is_short: false,
            };
            check(level, &case, 2, &mut r)
        });
    }
}

/// Each rounding mode and each setting of denormals.
#[test]
fn modes() {
    let groups = common::rounds(2, 2_000);
    for_operations(|encoding, op| {
        let floats = op.src.iter().chain(&op.dst).any(|&ty| format(ty).is_some());
        if encoding != Encoding::Vop3
            || !floats
            || op.name.starts_with("v_cvt_pk_norm")
            || op.name.starts_with("v_cvt_norm")
            || op.name.starts_with("v_cube")
        {
            return Ok(0);
        }
        let mut r = Random(common::seed() ^ u64::from(op.code));
        let mut tested = 0;
        for round in 0..16 {
            for denormals in [0, 5, 10, 15] {
                // Functions and legacy operations round as they like.
                if round != 0 && (op.name.contains("dx9") || op.name.contains("mullit") || op.name.contains("fract")) {
                    continue;
                }
                let state = State { mode: mode(round, denormals), ..State::default() };
                let case = Case { op, words: long(op, Modifiers::default()), m: Modifiers::default(), state, is_short: false };
                tested += check(Level::detect(), &case, groups, &mut r)?;
            }
        }
        Ok(tested)
    });
}

/// Signs, halves, output modifier and clamp of float operations; halves of 16-bit ones.
#[test]
fn modifiers() {
    let rounds = common::rounds(12, 3_000);
    for_operations(|encoding, op| {
        let floats = op.dst.is_some_and(|ty| format(ty).is_some()) && op.src.iter().all(|&ty| format(ty).is_some());
        let halves = op.src.iter().chain(&op.dst).any(|&ty| is_16(ty));
        if encoding != Encoding::Vop3 || !(floats || halves) || op.name == "v_mov_b16" {
            return Ok(0);
        }
        let mut r = Random(common::seed() ^ u64::from(op.code));
        let mut tested = 0;
        for _ in 0..rounds {
            let mut m = Modifiers::default();
            if floats && !carries(op) {
                m = Modifiers { neg: r.below(8), abs: r.below(8), clamp: r.below(2) == 1, omod: r.below(4), op_sel: 0 };
                let sources = if accumulates(op) { 2 } else { op.src.len() };
                m.neg &= (1 << sources) - 1;
                m.abs &= (1 << sources) - 1;
            }
            if halves {
                m.op_sel = r.below(16);
                if accumulates(op) {
                    // The accumulator's half is the destination's.
                    m.op_sel &= 3;
                }
                if !op.dst.is_some_and(is_16) {
                    m.op_sel &= 7;
                }
            }
            let denormals = if r.below(2) == 0 { 15 } else { 0 };
            let state = State { mode: mode(0, denormals), ..State::default() };
            tested += check(Level::detect(), &Case { op, words: long(op, m), m, state, is_short: false }, 1, &mut r)?;
        }
        Ok(tested)
    });
}

/// What no test of this crate executes would be a hole.
#[test]
fn operations_without_an_oracle_are_named() {
    let isa = Isa::of(Level::detect());
    let mut without = Vec::new();
    for encoding in [Encoding::Vop1, Encoding::Vop2, Encoding::Vopc, Encoding::Vop3] {
        without.extend(isa.operations(encoding).filter(|op| oracle(op.name).is_none()).map(|op| op.name));
    }
    without.sort_unstable();
    without.dedup();
    println!("{}", without.join(" "));
    assert!(without.len() < 80, "{}: {without:?}", without.len());
}
