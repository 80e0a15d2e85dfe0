//! What moves values between lanes or names registers indirectly, and pairs of operations: against loops over lanes.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::needless_range_loop)] // helpers outside of #[test] functions; lanes

mod common;

use common::{
    Random,
    harness::{Operands, Outcome, State, run},
    oracle::{In, oracle},
    packed::float_dot,
    soft::ROUNDS,
};
use rdna::isa::{Encoding, Isa, Level, Op, Ty};

const V: u32 = 256;
/// `s_mov_b32 exec_lo, LITERAL`
const MOV_EXEC: u32 = 0xbe80_00ff | 126 << 16;

fn operands(r: &mut Random) -> Vec<Operands> {
    let mut any = || u64::from(r.word()) << 32 | u64::from(r.word());
    (0..32).map(|_| Operands { a: any(), b: any(), c: any(), old: [any() as u32, any() as u32, 0, 0] }).collect()
}

/// Runs words with EXEC set.
fn masked(exec: u32, words: &[u32], operands: &[Operands]) -> Vec<Outcome> {
    run(Level::detect(), &[&[MOV_EXEC, exec], words].concat(), operands, State::default())
}

fn exec(r: &mut Random) -> u32 {
    match r.below(3) {
        0 => u32::MAX,
        1 => r.word() | r.word(),
        _ => r.word(),
    }
}

/// How a DPP word moves lanes: the lane that lane `l` reads, `None` beyond the row.
fn dpp_source(control: u32, l: usize) -> Option<usize> {
    let (row, at, n) = (l / 16 * 16, l % 16, control as usize % 16);
    let to = match control >> 4 {
        0..=0xf => return Some(l / 4 * 4 + (control as usize >> (2 * (l % 4)) & 3)),
        0x10 => at as isize + n as isize,
        0x11 => at as isize - n as isize,
        0x12 => ((at + 16 - n) % 16) as isize,
        0x14 if n == 0 => 15 - at as isize,
        0x14 => (at / 8 * 8 + 7 - at % 8) as isize,
        0x15 => n as isize,
        _ => (at ^ n) as isize,
    };
    (0..16).contains(&to).then(|| row + to as usize)
}

/// A move, a sum of numbers, a carry and a comparison, each with its first source rearranged.
#[test]
fn data_parallel_primitives() {
    let mut r = Random(common::seed());
    let mut tested = 0;
    for _ in 0..common::rounds(400, 8_000) {
        let o = operands(&mut r);
        let exec = exec(&mut r);
        let eight = r.below(3) == 0;
        let (bound, inactive) = (r.below(2) == 1, r.below(2) == 1);
        let (rows, banks) = if r.below(2) == 0 { (15, 15) } else { (r.below(16), r.below(16)) };
        let control = match r.below(7) {
            0 => r.below(256),
            n @ 1..=3 => 0x100 + 0x10 * (n - 1) + 1 + r.below(15),
            4 => 0x140 + r.below(2),
            n => 0x150 + 0x10 * (n - 5) + r.below(16),
        };
        let select = r.word() >> 8;
        let (marker, dpp) = if eight {
            (233 + u32::from(inactive), select << 8 | 2)
        } else {
            (250, rows << 28 | banks << 24 | u32::from(bound) << 19 | u32::from(inactive) << 18 | control << 8 | 2)
        };
        let forms = [
            0x7e00_0000 | 8 << 17 | 1 << 9 | marker,
            3 << 25 | 8 << 17 | 4 << 9 | marker,
            0x20 << 25 | 8 << 17 | 4 << 9 | marker,
            0x7c00_0000 | 0x4c << 17 | 4 << 9 | marker,
        ];
        let form = r.below(4) as usize;
        let got = masked(exec, &[forms[form], dpp], &o);
        let vcc = State::default().vcc;
        for l in 0..32 {
            let source = if eight { Some(l / 8 * 8 + (select as usize >> (3 * (l % 8)) & 7)) } else { dpp_source(control, l) };
            let source = source.filter(|&s| inactive || exec >> s & 1 == 1);
            let enabled = eight || rows >> (l / 16) & 1 == 1 && banks >> (l % 16 / 4) & 1 == 1;
            let written = exec >> l & 1 == 1 && enabled && (source.is_some() || bound || eight);
            let a = source.map_or(0, |s| o[s].a as u32);
            let b = o[l].b as u32;
            let bit = vcc >> l & 1 == 1;
            let input = In { a: a.into(), b: b.into(), c: 0, bit, lane: l as u32, rounds: [ROUNDS[0]; 2] };
            let (value, mask) = match form {
                0 => (a.into(), false),
                1 => oracle("v_add_f32").unwrap()(&input),
                2 => {
                    let sum = u64::from(a) + u64::from(b) + u64::from(bit);
                    (sum & 0xffff_ffff, sum >> 32 == 1)
                }
                _ => (0, a > b),
            };
            let place = format!("form {form} control {control:#x} eight {eight} bound {bound} inactive {inactive} exec {exec:#x} lane {l}");
            if form < 3 {
                let want = if written { value as u32 } else { o[l].old[0] };
                let nan = form == 1 && f32::from_bits(want).is_nan() && f32::from_bits(got[l].v[0]).is_nan();
                assert!(got[l].v[0] == want || nan, "{place}: got {:#x}, want {want:#x}", got[l].v[0]);
            }
            if form >= 2 {
                assert_eq!(got[l].vcc >> l & 1 == 1, written && mask, "{place}");
            }
            tested += 1;
        }
    }
    println!("{tested} lanes");
}

/// VOPD gives what its halves give alone, both of which read before either writes.
#[test]
fn pairs() {
    let isa = Isa::of(Level::detect());
    let codes: Vec<u32> = [0..13, 0x10..0x13].into_iter().flatten().collect();
    let names = [
        "fmac_f32",
        "fmaak_f32",
        "fmamk_f32",
        "mul_f32",
        "add_f32",
        "sub_f32",
        "subrev_f32",
        "mul_dx9_zero_f32",
        "mov_b32",
        "cndmask_b32",
        "max_f32",
        "min_f32",
        "dot2acc_f32_f16",
        "add_nc_u32",
        "lshlrev_b32",
        "and_b32",
    ];
    assert_eq!(isa.operations(Encoding::Vopd).count(), codes.len());
    let mut r = Random(common::seed());
    for (x, &code_x) in codes.iter().enumerate().take(13) {
        for (y, &code_y) in codes.iter().enumerate() {
            let o: Vec<Operands> = (0..32).map(|_| near_one(&mut r)).collect();
            let literal = (r.below(4000) as f32 / 256.0).to_bits();
            // X: v2, v4 to v8. Y: v8 (X's destination), v5 to v9.
            let first = 0xc800_0000 | code_x << 22 | code_y << 17 | 4 << 9 | (V + 2);
            let second = 8 << 24 | (9 >> 1) << 17 | 5 << 9 | (V + 8);
            let exec = exec(&mut r);
            let with_literal = [names[x], names[y]].iter().any(|name| name.contains("aak") || name.contains("amk"));
            let words = if with_literal { vec![first, second, literal] } else { vec![first, second] };
            let got = masked(exec, &words, &o);
            for l in 0..32 {
                let [old_x, old_y] = [o[l].old[0], o[l].old[1]];
                let bit = State::default().vcc >> l & 1 == 1;
                let want_x = half(names[x], o[l].a as u32, o[l].b as u32, old_x, literal, bit);
                let want_y = half(names[y], old_x, (o[l].b >> 32) as u32, old_y, literal, bit);
                let active = exec >> l & 1 == 1;
                for (name, got, want, old) in [(names[x], got[l].v[0], want_x, old_x), (names[y], got[l].v[1], want_y, old_y)] {
                    let want = if active { want } else { old };
                    let close = name.contains("dot2") && (f32::from_bits(got) - f32::from_bits(want)).abs() < 1e-3;
                    assert!(got == want || close, "{} :: {}: {name} lane {l}: {got:#x}, want {want:#x}", names[x], names[y]);
                }
            }
        }
    }
}

/// Registers that are numbers in each format, so that no sum is a NaN.
fn near_one(r: &mut Random) -> Operands {
    let mut word = || r.word() & 0x803f_83ff | 0x3f80_3800;
    let mut any = || u64::from(word()) << 32 | u64::from(word());
    Operands { a: any(), b: any(), c: any(), old: [any() as u32, any() as u32, 0, 0] }
}

fn half(name: &str, a: u32, b: u32, old: u32, literal: u32, bit: bool) -> u32 {
    let vector = |name: &str, a: u32, b: u32, c: u32| {
        oracle(name).unwrap()(&In { a: a.into(), b: b.into(), c: c.into(), bit, lane: 0, rounds: [ROUNDS[0]; 2] }).0 as u32
    };
    match name {
        "fmac_f32" => vector("v_fma_f32", a, b, old),
        "fmaak_f32" => vector("v_fma_f32", a, b, literal),
        "fmamk_f32" => vector("v_fma_f32", a, literal, b),
        "cndmask_b32" => {
            if bit {
                b
            } else {
                a
            }
        }
        "dot2acc_f32_f16" => {
            let input = In { a: a.into(), b: b.into(), c: old.into(), bit, lane: 0, rounds: [ROUNDS[0]; 2] };
            (float_dot("v_dot2acc_f32_f16", &input).unwrap().0 as f32).to_bits()
        }
        _ => vector(&format!("v_{name}"), a, b, 0),
    }
}

#[test]
fn lanes_read_and_written_by_number() {
    let mut r = Random(common::seed());
    for _ in 0..common::rounds(50, 2_000) {
        let o = operands(&mut r);
        let exec = exec(&mut r);
        // v_readlane_b32 s24, v2, s22; v_readfirstlane_b32 s24, v2.
        let got = masked(exec, &[0xd400_0000 | 0x360 << 16 | 24, 22 << 9 | (V + 2)], &o)[0];
        assert_eq!(got.s[0], o[o[0].b as usize % 32].a as u32);
        let got = masked(exec, &[0x7e00_0000 | 24 << 17 | 2 << 9 | (V + 2)], &o)[0];
        let first = if exec == 0 { 0 } else { (0..32).find(|l| exec >> l & 1 == 1).unwrap() };
        assert_eq!(got.s[0], o[first].a as u32);
        // v_writelane_b32 v8, s20, s22, whatever EXEC is.
        let got = masked(exec, &[0xd400_0000 | 0x361 << 16 | 8, 22 << 9 | 20], &o);
        for l in 0..32 {
            let want = if l == o[0].b as usize % 32 { o[0].a as u32 } else { o[l].old[0] };
            assert_eq!(got[l].v[0], want);
        }
    }
}

#[test]
fn permutations_of_rows() {
    let mut r = Random(common::seed());
    for _ in 0..common::rounds(100, 4_000) {
        let o = operands(&mut r);
        let exec = exec(&mut r);
        let (inactive, bound) = (r.below(2), r.below(2));
        for (code, other) in [(0x25b, 0), (0x25c, 16)] {
            // Lane selects in s22 and s23.
            let words = [0xd400_0000 | code << 16 | inactive << 11 | bound << 12 | 8, 23 << 18 | 22 << 9 | (V + 2)];
            let got = masked(exec, &words, &o);
            for l in 0..32usize {
                let from = (l & 16 ^ other) + (o[0].b >> (4 * (l % 16)) & 15) as usize;
                let readable = inactive == 1 || exec >> from & 1 == 1;
                let want = match (exec >> l & 1 == 1, readable, bound == 1) {
                    (true, true, _) => o[from].a as u32,
                    (true, false, true) => 0,
                    _ => o[l].old[0],
                };
                assert_eq!(got[l].v[0], want, "{code:#x} lane {l} exec {exec:#x} inactive {inactive} bound {bound}");
            }
        }
        // v_permlane64_b32 does nothing where a wave has 32 lanes; v_nop and v_pipeflush never do.
        for code in [0x67, 0, 0x1b] {
            let got = masked(u32::MAX, &[0x7e00_0000 | code << 9 | if code == 0x67 { 8 << 17 | (V + 2) } else { 0 }], &o);
            assert!((0..32).all(|l| got[l].v[0] == o[l].old[0]), "{code:#x}");
        }
    }
}

#[test]
fn swaps_and_registers_named_by_m0() {
    let mut r = Random(common::seed());
    let one = |code: u32, src: u32, dst: u32| 0x7e00_0000 | dst << 17 | code << 9 | (V + src);
    for _ in 0..common::rounds(20, 500) {
        let mut o = operands(&mut r);
        let exec = exec(&mut r);
        // v_swap_b32 v8, v9.
        let got = masked(exec, &[one(0x65, 9, 8)], &o);
        for l in 0..32 {
            let [x, y] = [o[l].old[0], o[l].old[1]];
            assert_eq!(got[l].v[..2], if exec >> l & 1 == 1 { [y, x] } else { [x, y] });
        }
        // M0: source 2 and destination 1 further.
        o[0].c = 2 | 1 << 16;
        let got = masked(exec, &[one(0x68, 7, 7)], &o);
        for l in 0..32 {
            let [x, y] = [o[l].old[0], o[l].old[1]];
            assert_eq!(got[l].v[..2], if exec >> l & 1 == 1 { [y, x] } else { [x, y] }, "v_swaprel_b32");
        }
        let got = masked(exec, &[one(0x48, 2, 7)], &o);
        assert!((0..32).all(|l| got[l].v[0] == if exec >> l & 1 == 1 { o[l].b as u32 } else { o[l].old[0] }), "v_movrelsd_2_b32");
        o[0].c = 2;
        let got = masked(exec, &[one(0x43, 2, 8)], &o);
        assert!((0..32).all(|l| got[l].v[0] == if exec >> l & 1 == 1 { o[l].b as u32 } else { o[l].old[0] }), "v_movrels_b32");
        let got = masked(exec, &[one(0x42, 2, 6)], &o);
        assert!((0..32).all(|l| got[l].v[0] == if exec >> l & 1 == 1 { o[l].a as u32 } else { o[l].old[0] }), "v_movreld_b32");
        let got = masked(exec, &[one(0x44, 2, 6)], &o);
        assert!((0..32).all(|l| got[l].v[0] == if exec >> l & 1 == 1 { o[l].b as u32 } else { o[l].old[0] }), "v_movrelsd_b32");
    }
}

/// Each vector operation leaves inactive lanes as they were, and masks without their bits.
#[test]
fn inactive_lanes_stay() {
    let isa = Isa::of(Level::detect());
    let mut r = Random(common::seed());
    let mut tested = 0;
    for op in isa.operations(Encoding::Vop3).filter(|op| oracle(op.name).is_some()) {
        let exec = r.word();
        let o = operands(&mut r);
        let got = masked(exec, &plain(op), &o);
        for l in (0..32).filter(|l| exec >> l & 1 == 0) {
            match op.dst {
                Some(Ty::Mask) => {
                    let mask = if op.name.starts_with("v_cmpx") { got[l].exec } else { got[l].s[0] };
                    assert!(mask >> l & 1 == 0, "{}", op.name);
                }
                _ => assert_eq!(got[l].v, o[l].old, "{}", op.name),
            }
        }
        tested += 1;
    }
    assert!(tested > 300, "{tested}");
}

fn plain(op: &Op) -> Vec<u32> {
    let dst = match op.dst {
        Some(Ty::Mask) => {
            if op.name.starts_with("v_cmpx") {
                126
            } else {
                24
            }
        }
        _ => 8,
    };
    let third = match op.src.get(2) {
        Some(Ty::Mask) => 26,
        Some(_) if !op.name.contains("fmac") => V + 6,
        _ => 0,
    };
    let carries = op.name.contains("_co_") || op.name.starts_with("v_mad_u64") || op.name.starts_with("v_mad_i64");
    let second = if op.src.len() > 1 { V + 4 } else { 0 };
    vec![0xd400_0000 | u32::from(op.code) << 16 | if carries { 30 << 8 } else { 0 } | dst, third << 18 | second << 9 | (V + 2)]
}
