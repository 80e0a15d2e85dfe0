//! VOP3P without the matrices, float dot products, and multiply-adds with a literal, each alone against `common::packed`.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{
    Random,
    harness::{Operands, State, mode, run},
    oracle::{In, oracle},
    packed::{Modifiers, float_dot, integer_dot, mixed, packed, real},
    soft::{F16, F32, ROUNDS},
};
use rdna::isa::{Encoding, Isa, Level, Op};

const V: u32 = 256;

fn operand(r: &mut Random) -> u64 {
    let half = |r: &mut Random| match r.below(3) {
        0 => [0, 0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7e00, 1, 0x7bff, 0xffff, 0x7fff][r.below(10) as usize],
        1 => r.word() & 0x83ff | (12 + r.below(7)) << 10,
        _ => r.word() & 0xffff,
    };
    let single = |r: &mut Random| r.word() & 0x807f_ffff | (124 + r.below(7)) << 23;
    u64::from(match r.below(4) {
        0 => single(r),
        _ => half(r) | half(r) << 16,
    })
}

fn vop3p(op: &Op, m: Modifiers) -> Vec<u32> {
    let first =
        0xcc00_0000 | u32::from(op.code) << 16 | u32::from(m.clamp) << 15 | (m.op_sel_hi >> 2) << 14 | m.op_sel << 11 | m.neg_hi << 8 | 8;
    let sources = [V + 2, V + 4, if op.src.len() > 2 { V + 6 } else { 0 }];
    vec![first, m.neg_lo << 29 | (m.op_sel_hi & 3) << 27 | sources[2] << 18 | sources[1] << 9 | sources[0]]
}

fn equal(name: &str, got: u64, want: u64) -> bool {
    let halves = |shift: u32| {
        let (g, w) = (got >> shift & 0xffff, want >> shift & 0xffff);
        g == w || F16.is_nan(g) && F16.is_nan(w)
    };
    if name.starts_with("v_pk_") && name.ends_with("f16") {
        return halves(0) && halves(16);
    }
    got == want
        || name == "v_fma_mix_f32" && F32.is_nan(got) && F32.is_nan(want)
        || name.contains("_mix") && name.ends_with("f16") && halves(0)
}

#[test]
fn packed_operations_dots_and_mixes() {
    let rounds = common::rounds(40, 5_000);
    let isa = Isa::of(Level::detect());
    let (mut failures, mut tested, mut operations) = (Vec::new(), 0u64, 0);
    for op in isa.operations(Encoding::Vop3p).filter(|op| !op.name.contains("wmma") && !op.name.contains("dot2")) {
        operations += 1;
        let mut r = Random(common::seed() ^ u64::from(op.code));
        let sources = (1 << op.src.len()) - 1;
        for round in 0..rounds {
            let mut m = Modifiers {
                op_sel: r.below(8) & sources,
                op_sel_hi: r.below(8) & sources,
                neg_lo: r.below(8) & sources,
                neg_hi: r.below(8) & sources,
                clamp: r.below(2) == 1,
            };
            if op.name.contains("dot") {
                m = Modifiers {
                    op_sel_hi: 7,
                    neg_lo: if op.name.contains("i32") { m.neg_lo & 3 } else { 0 },
                    clamp: m.clamp,
                    ..Modifiers::default()
                };
            }
            if !op.name.ends_with("f16") && op.name.starts_with("v_pk_") {
                (m.neg_lo, m.neg_hi) = (0, 0);
            }
            if round == 0 {
                m = Modifiers { op_sel_hi: if op.name.contains("_mix") { 0 } else { sources }, ..Modifiers::default() };
            }
            let denormals = if r.below(2) == 0 { 15 } else { 0 };
            let rounding = if r.below(2) == 0 { 0 } else { r.below(16) };
            let state = State { mode: mode(rounding, denormals), ..State::default() };
            let operands: Vec<Operands> = (0..32)
                .map(|_| Operands { a: operand(&mut r), b: operand(&mut r), c: operand(&mut r), old: [r.word(), 0, 0, 0] })
                .collect();
            let outcomes = run(Level::detect(), &vop3p(op, m), &operands, state);
            for (lane, (o, got)) in operands.iter().zip(&outcomes).enumerate() {
                let rounds = [ROUNDS[rounding as usize & 3], ROUNDS[rounding as usize >> 2 & 3]];
                let input = In { a: o.a, b: o.b, c: o.c, bit: false, lane: lane as u32, rounds };
                let flush = denormals == 0;
                let want = packed(op.name, &input, m, flush)
                    .or_else(|| integer_dot(op.name, &input, m))
                    .or_else(|| mixed(op.name, &input, m, flush));
                let want = want.unwrap_or_else(|| panic!("{} has no oracle", op.name));
                let (result, kept) = match op.name {
                    "v_fma_mixlo_f16" => (got.v[0] & 0xffff, got.v[0] >> 16 == o.old[0] >> 16),
                    "v_fma_mixhi_f16" => (got.v[0] >> 16, got.v[0] & 0xffff == o.old[0] & 0xffff),
                    _ => (got.v[0], true),
                };
                if !equal(op.name, result.into(), want) || !kept {
                    failures.push(format!("{} {m:x?} mode {:#x} {o:x?}: got {:#x}, want {want:#x}", op.name, state.mode, got.v[0]));
                }
                tested += 1;
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
    println!("{operations} operations on {tested} operands");
    assert_eq!(operations, 26);
}

/// The order in which these are rounded is not documented: they are within what any order may lose.
#[test]
fn float_dots_are_near_the_exact_sum() {
    let isa = Isa::of(Level::detect());
    let mut r = Random(common::seed());
    for (encoding, op) in
        [Encoding::Vop2, Encoding::Vop3, Encoding::Vop3p].into_iter().flat_map(|e| isa.operations(e).map(move |op| (e, op)))
    {
        if !op.name.contains("dot2") {
            continue;
        }
        let words = match encoding {
            Encoding::Vop2 => vec![u32::from(op.code) << 25 | 8 << 17 | 4 << 9 | (V + 2)],
            Encoding::Vop3p => vop3p(op, Modifiers { op_sel_hi: 7, ..Modifiers::default() }),
            _ => vec![0xd400_0000 | u32::from(op.code) << 16 | 8, (V + 6) << 18 | (V + 4) << 9 | (V + 2)],
        };
        let small = |r: &mut Random| {
            let element = |r: &mut Random| {
                let format = if op.name.contains("bf16") { common::soft::BF16 } else { F16 };
                let value = (r.below(4001) as f32 - 2000.0) / 512.0;
                format.write(F32.read(value.to_bits().into()), ROUNDS[0])
            };
            element(r) | element(r) << 16
        };
        let single = |r: &mut Random| u64::from(((r.below(4001) as f32 - 2000.0) / 100.0).to_bits());
        let wide = op.name.contains("f32");
        let operands: Vec<Operands> = (0..64 * 32)
            .map(|_| {
                let c = if wide { single(&mut r) } else { small(&mut r) };
                Operands { a: small(&mut r), b: small(&mut r), c, old: [c as u32, 0, 0, 0] }
            })
            .collect();
        let outcomes = run(Level::detect(), &words, &operands, State::default());
        for (o, got) in operands.iter().zip(&outcomes) {
            let input = In { a: o.a, b: o.b, c: o.c, bit: false, lane: 0, rounds: [ROUNDS[0]; 2] };
            let (exact, size, format) = float_dot(op.name, &input).unwrap();
            let result = real(format, u64::from(got.v[0]) & ((1 << format.bits()) - 1));
            let bound = size * 2f64.powi(-(format.mantissa as i32));
            assert!((result - exact).abs() <= bound, "{} {o:x?}: got {result}, exact {exact}", op.name);
        }
    }
}

/// `v_fmaak`, `v_fmamk`, `v_pk_fmac_f16`: the forms of a multiply-add that have no VOP3.
#[test]
fn multiply_adds_with_a_literal_or_the_destination() {
    let mut r = Random(common::seed());
    let isa = Isa::of(Level::detect());
    let by_name = |name: &str| isa.operations(Encoding::Vop2).find(|op| op.name == name).unwrap();
    for (name, of) in
        [("v_fmaak_f32", "v_fma_f32"), ("v_fmamk_f32", "v_fma_f32"), ("v_fmaak_f16", "v_fma_f16"), ("v_fmamk_f16", "v_fma_f16")]
    {
        let (format, bits) = if name.ends_with("f32") { (F32, 0xffff_ffff) } else { (F16, 0xffff) };
        for _ in 0..common::rounds(20, 2_000) {
            let k = operand(&mut r) & bits;
            let operands: Vec<Operands> = (0..32)
                .map(|_| Operands { a: operand(&mut r), b: operand(&mut r), old: [r.word(), 0, 0, 0], ..Operands::default() })
                .collect();
            let words = [u32::from(by_name(name).code) << 25 | 8 << 17 | 4 << 9 | (V + 2), k as u32];
            for (o, got) in operands.iter().zip(run(Level::detect(), &words, &operands, State::default())) {
                let (a, b) = (o.a & bits, o.b & bits);
                let (b, c) = if name.contains("fmaak") { (b, k) } else { (k, b) };
                let want = oracle(of).unwrap()(&In { a, b, c, bit: false, lane: 0, rounds: [ROUNDS[0]; 2] }).0;
                let result = u64::from(got.v[0]) & bits;
                assert!(
                    result == want || format.is_nan(result) && format.is_nan(want),
                    "{name} {k:#x} {o:x?}: {result:#x}, want {want:#x}"
                );
                assert!(bits != 0xffff || got.v[0] >> 16 == o.old[0] >> 16, "{name}: the other half was changed");
            }
        }
    }
    for _ in 0..common::rounds(20, 2_000) {
        let operands: Vec<Operands> = (0..32)
            .map(|_| Operands { a: operand(&mut r), b: operand(&mut r), old: [operand(&mut r) as u32, 0, 0, 0], ..Operands::default() })
            .collect();
        let words = [u32::from(by_name("v_pk_fmac_f16").code) << 25 | 8 << 17 | 4 << 9 | (V + 2)];
        for (o, got) in operands.iter().zip(run(Level::detect(), &words, &operands, State::default())) {
            let input = In { a: o.a, b: o.b, c: o.old[0].into(), bit: false, lane: 0, rounds: [ROUNDS[0]; 2] };
            let want = packed("v_pk_fma_f16", &input, Modifiers { op_sel_hi: 7, ..Modifiers::default() }, false).unwrap();
            assert!(equal("v_pk_fma_f16", got.v[0].into(), want), "{o:x?}: {:#x}, want {want:#x}", got.v[0]);
        }
    }
}
