//! Transcendental functions within the bounds that the ISA guide states, against f64; and the few operations with a form of their own.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{
    Random,
    harness::{Operands, Outcome, State, run},
    packed::real,
    soft::{F16, F32, F64, Format},
};
use rdna::isa::{Encoding, Isa, Level};

const V: u32 = 256;

/// Name, the function, its bound in units in the last place, and the exponents of two between which arguments lie.
type Row = (&'static str, fn(f64) -> f64, f64, [i32; 2]);

const FUNCTIONS: [Row; 18] = [
    ("v_exp_f32", f64::exp2, 1.0, [-20, 6]),
    ("v_log_f32", f64::log2, 1.0, [-100, 100]),
    ("v_rcp_f32", f64::recip, 1.0, [-100, 100]),
    ("v_rcp_iflag_f32", f64::recip, 1.0, [-100, 100]),
    ("v_rsq_f32", |x| 1.0 / x.sqrt(), 1.0, [-100, 100]),
    ("v_sqrt_f32", f64::sqrt, 1.0, [-100, 100]),
    ("v_exp_f16", f64::exp2, 1.0, [-8, 3]),
    ("v_log_f16", f64::log2, 1.0, [-14, 15]),
    ("v_rcp_f16", f64::recip, 1.0, [-14, 13]),
    ("v_rsq_f16", |x| 1.0 / x.sqrt(), 1.0, [-14, 15]),
    ("v_sqrt_f16", f64::sqrt, 1.0, [-14, 15]),
    ("v_rcp_f64", f64::recip, 1e8, [-500, 500]),
    ("v_rsq_f64", |x| 1.0 / x.sqrt(), 1e8, [-500, 500]),
    ("v_sqrt_f64", f64::sqrt, 1e8, [-500, 500]),
    // The argument counts turns; what is lost in large ones is not bounded, so that the bound below is absolute for these four.
    ("v_sin_f32", |x| (x.fract() * std::f64::consts::TAU).sin(), 0.0, [-10, 7]),
    ("v_cos_f32", |x| (x.fract() * std::f64::consts::TAU).cos(), 0.0, [-10, 7]),
    ("v_sin_f16", |x| (x.fract() * std::f64::consts::TAU).sin(), 0.0, [-8, 5]),
    ("v_cos_f16", |x| (x.fract() * std::f64::consts::TAU).cos(), 0.0, [-8, 5]),
];

fn format_of(name: &str) -> Format {
    match &name[name.len() - 3..] {
        "f16" => F16,
        "f32" => F32,
        _ => F64,
    }
}

fn vop1(name: &str, operands: &[Operands]) -> Vec<Outcome> {
    let isa = Isa::of(Level::detect());
    let code = u32::from(isa.operations(Encoding::Vop1).find(|op| op.name == name).unwrap().code);
    run(Level::detect(), &[0x7e00_0000 | 8 << 17 | code << 9 | (V + 2)], operands, State::default())
}

fn value(format: Format, got: &Outcome) -> f64 {
    real(format, (u64::from(got.v[0]) | u64::from(got.v[1]) << 32) & (u64::MAX >> (64 - format.bits())))
}

#[test]
fn functions_are_within_their_bounds() {
    let mut r = Random(common::seed());
    for (name, function, ulps, [low, high]) in FUNCTIONS {
        let format = format_of(name);
        let bias = (1 << (format.exponent - 1)) - 1;
        let signed = ulps == 0.0 || name.contains("exp") || name.contains("rcp");
        let operands: Vec<Operands> = (0..common::rounds(64, 20_000) * 32)
            .map(|_| {
                let exponent = (low + r.below((high - low + 1) as u32) as i32 + bias) as u64;
                let mantissa = (u64::from(r.word()) << 32 | u64::from(r.word())) & ((1 << format.mantissa) - 1);
                let sign = if signed { u64::from(r.below(2)) << (format.bits() - 1) } else { 0 };
                Operands { a: sign | exponent << format.mantissa | mantissa, ..Operands::default() }
            })
            .collect();
        let mut worst = 0f64;
        for (o, got) in operands.iter().zip(vop1(name, &operands)) {
            let x = real(format, o.a);
            let want = function(x);
            let got = value(format, &got);
            // Results of f32 functions below the normal numbers are flushed.
            if format == F32 && want.abs() < f64::from(f32::MIN_POSITIVE) && got == 0.0 {
                continue;
            }
            let smallest = f64::from(2 - bias - 1 - format.mantissa as i32).exp2();
            let place = if want == 0.0 { smallest } else { (want.abs().log2().floor() - f64::from(format.mantissa)).exp2().max(smallest) };
            let bound = if ulps == 0.0 { (3 - format.mantissa as i32) as f64 } else { 0.0 };
            let bound = if ulps == 0.0 { bound.exp2() } else { ulps * place };
            assert!((got - want).abs() <= bound, "{name}({x}): got {got}, want {want}");
            worst = worst.max((got - want).abs() / place);
        }
        println!("{name}: at most {worst:.2} units in the last place");
    }
}

#[test]
fn functions_at_their_edges() {
    let at = |name: &str, x: f64| {
        let format = format_of(name);
        let a = format.write(F64.read(x.to_bits()), common::soft::Round::Nearest);
        value(format, &vop1(name, &[Operands { a, ..Operands::default() }; 32])[0])
    };
    let infinity = f64::INFINITY;
    for kind in ["f16", "f32", "f64"] {
        let name = |function: &str| format!("v_{function}_{kind}");
        assert_eq!(at(&name("rcp"), 0.0), infinity);
        assert_eq!(at(&name("rcp"), -0.0), -infinity);
        assert_eq!(at(&name("rcp"), infinity), 0.0);
        assert_eq!(at(&name("rsq"), 0.0), infinity);
        assert_eq!(at(&name("rsq"), infinity), 0.0);
        assert!(at(&name("rsq"), -1.0).is_nan());
        assert!(at(&name("sqrt"), -1.0).is_nan());
        assert_eq!(at(&name("sqrt"), infinity), infinity);
        if kind != "f64" {
            assert_eq!(at(&name("exp"), -infinity), 0.0);
            assert_eq!(at(&name("exp"), infinity), infinity);
            assert_eq!(at(&name("exp"), 3.0), 8.0);
            assert_eq!(at(&name("log"), 0.0), -infinity);
            assert_eq!(at(&name("log"), 8.0), 3.0);
            assert!(at(&name("log"), -1.0).is_nan());
            assert!(at(&name("sin"), infinity).is_nan());
            assert_eq!(at(&name("cos"), 0.0), 1.0);
        }
    }
    // Subnormal arguments of f32 functions count as zero (ISA guide, V_RCP_F32 and the like flush in any mode).
    assert_eq!(at("v_rcp_f32", 1e-40), infinity);
}

#[test]
fn fraction_of_f64() {
    let mut r = Random(common::seed());
    let operands: Vec<Operands> = (0..1024)
        .map(|_| Operands {
            a: u64::from(r.word() & 0x800f_ffff | (1000 + r.below(80)) << 20) << 32 | u64::from(r.word()),
            ..Operands::default()
        })
        .collect();
    for (o, got) in operands.iter().zip(vop1("v_fract_f64", &operands)) {
        let x = f64::from_bits(o.a);
        assert_eq!(value(F64, &got), (x - x.floor()).min(1.0 - f64::EPSILON / 2.0), "{x}");
    }
}

/// Bits of 2 / pi, here from a series: 53 of them from bit 53 * segment on.
#[test]
fn bits_of_two_over_pi() {
    let operands: Vec<Operands> = (0..32u64).map(|i| Operands { a: 1.5f64.to_bits(), b: i % 3, ..Operands::default() }).collect();
    let words = [0xd400_0000 | 0x32f << 16 | 8, (V + 4) << 9 | (V + 2)];
    for (o, got) in operands.iter().zip(run(Level::detect(), &words, &operands, State::default())) {
        let shift = 53 * o.b as i32;
        // 2 / pi to 160 bits in hexadecimal: 0.A2F9836E 4E441529 FC2757D1 F534DDC0 DB629599 (OEIS A060294).
        let digits = [0xa2f9_836eu32, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599];
        let bits = (shift..shift + 53).fold(0u64, |n, i| n << 1 | u64::from(digits[i as usize / 32] >> (31 - i % 32) & 1));
        assert_eq!(value(F64, &got), bits as f64 * f64::from(-53 - shift).exp2());
    }
}

/// Sums of absolute differences of four bytes at four offsets, where the reference is not 0, added to four words.
#[test]
fn masked_quad_sum_of_differences() {
    let mut r = Random(common::seed());
    let mut word = || r.word();
    let operands: Vec<Operands> = (0..256)
        .map(|_| Operands {
            a: u64::from(word()) << 32 | u64::from(word()),
            b: u64::from(word() & if word() % 2 == 0 { 0xff00_ffff } else { u32::MAX }),
            c: 0,
            old: [word(), word(), word(), word()],
        })
        .collect();
    // v_mqsad_u32_u8 v[8:11], v[2:3], v4, v[8:11]
    let words = [0xd400_0000 | 0x23d << 16 | 8, (V + 8) << 18 | (V + 4) << 9 | (V + 2)];
    for (o, got) in operands.iter().zip(run(Level::detect(), &words, &operands, State::default())) {
        for k in 0..4 {
            let byte = |x: u64, i: u32| (x >> (8 * i) & 255) as i32;
            let sum: i32 = (0..4).filter(|&i| byte(o.b, i) != 0).map(|i| (byte(o.a, i + k) - byte(o.b, i)).abs()).sum();
            assert_eq!(got.v[k as usize], o.old[k as usize].wrapping_add(sum as u32), "{o:x?}");
        }
    }
}
