//! Matrix instructions, the matrix-vector kernel and a sum through LDS, against plain loops.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{
    Random, kernels,
    soft::{BF16, F16, F32, Format, Round, product, sum},
};
use rdna::{Arg, Checks, CodeObject, Device, Launch, Options, isa::Level};

fn device(level: Level) -> Device {
    Device::new(Options { level, checks: Checks::ALL, ..Options::default() })
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Runs a kernel of `wmma.co` on one wave; buffers hold each lane's registers one after another.
fn run(level: Level, kernel: &str, inputs: &[&[u32]], results: usize, number: Option<u32>) -> Vec<u32> {
    let mut device = device(level);
    let module = device.load(CodeObject::read(kernels::WMMA).unwrap()).unwrap();
    let mut args: Vec<Arg> = inputs.iter().map(|words| Arg::Pointer(device.upload(&bytes(words), "input").unwrap())).collect();
    let out = device.allocate(results as u64 * 4, "out").unwrap();
    args.push(Arg::Pointer(out));
    args.extend(number.map(Arg::U32));
    device.launch(&module, kernel, &Launch { grid: [1; 3], block: [32, 1, 1], args: &args, dynamic_lds: 0 }).unwrap();
    device.read_words(out, results).unwrap()
}

type Matrix = [[u32; 16]; 16];

fn random_matrix(r: &mut Random, element: impl Fn(&mut Random) -> u32) -> Matrix {
    std::array::from_fn(|_| std::array::from_fn(|_| element(r)))
}

/// Rows of `m` as lanes hold them: lanes l and l + 16 have row l, packed into words.
fn rows_of(m: &Matrix, bits: u32) -> Vec<u32> {
    let per_word = 32 / bits as usize;
    let pack = |row: &[u32; 16]| -> Vec<u32> {
        row.chunks(per_word).map(|c| c.iter().enumerate().fold(0, |w, (i, &e)| w | (e & ((1 << bits) - 1)) << (i as u32 * bits))).collect()
    };
    (0..32).flat_map(|lane| pack(&m[lane % 16])).collect()
}

fn transposed(m: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

/// A 32-bit C or D: register i of lane l is row 2 i + l / 16, column l % 16.
fn accumulators(m: &Matrix) -> Vec<u32> {
    (0..32).flat_map(|lane| (0..8).map(move |i| m[2 * i + lane / 16][lane % 16])).collect()
}

fn from_accumulators(words: &[u32]) -> Matrix {
    std::array::from_fn(|row| std::array::from_fn(|column| words[(row % 2 * 16 + column) * 8 + row / 2]))
}

fn real(format: Format, bits: u32) -> f64 {
    f64::from(f32::from_bits(F32.write(format.read(bits.into()), Round::Nearest) as u32))
}

/// Small values, so that no sum overflows.
fn small(format: Format, r: &mut Random) -> u32 {
    let value = (r.below(2001) as f32 - 1000.0) / 256.0;
    format.write(F32.read(value.to_bits().into()), Round::Nearest) as u32
}

/// The sum of products along k, rounded to f32 at each step, as the documentation of this crate says.
fn fused_sum(format: Format, a: &[u32; 16], b: [u32; 16], c: u32) -> u32 {
    let step = |sum_: u32, (x, y): (u32, u32)| {
        let exact = product(format.read(x.into()), format.read(y.into()));
        F32.write(sum(exact, F32.read(sum_.into()), Round::Nearest), Round::Nearest) as u32
    };
    a.iter().copied().zip(b).fold(c, step)
}

#[test]
fn f32_products() {
    for level in Level::available() {
        let mut r = Random(common::seed());
        for (kernel, format) in [("wmma_f32_f16", F16), ("wmma_f32_bf16", BF16)] {
            let (a, b) = (random_matrix(&mut r, |r| small(format, r)), random_matrix(&mut r, |r| small(format, r)));
            let c = random_matrix(&mut r, |r| small(F32, r));
            let words = run(level, kernel, &[&rows_of(&a, 16), &rows_of(&transposed(&b), 16), &accumulators(&c)], 256, None);
            let d = from_accumulators(&words);
            for i in 0..16 {
                for j in 0..16 {
                    let column = std::array::from_fn(|k| b[k][j]);
                    assert_eq!(d[i][j], fused_sum(format, &a[i], column, c[i][j]), "{kernel} {i} {j}");
                    // And that is near the exact sum.
                    let exact = (0..16).fold(real(F32, c[i][j]), |s, k| s + real(format, a[i][k]) * real(format, b[k][j]));
                    assert!((real(F32, d[i][j]) - exact).abs() < 1e-4, "{kernel} {i} {j}");
                }
            }
        }
    }
}

#[test]
fn half_products_use_the_half_that_is_asked_for() {
    let mut r = Random(common::seed());
    for (kernel, format) in [("wmma_f16_f16", F16), ("wmma_bf16_bf16", BF16)] {
        for high in [0, 1] {
            let (a, b) = (random_matrix(&mut r, |r| small(format, r)), random_matrix(&mut r, |r| small(format, r)));
            let c = random_matrix(&mut r, |r| small(format, r) | small(format, r) << 16);
            let words =
                run(Level::detect(), kernel, &[&rows_of(&a, 16), &rows_of(&transposed(&b), 16), &accumulators(&c)], 256, Some(high));
            let d = from_accumulators(&words);
            for i in 0..16 {
                for j in 0..16 {
                    let shift = 16 * high;
                    let addend = F32.write(format.read((c[i][j] >> shift & 0xffff).into()), Round::Nearest) as u32;
                    let wide = fused_sum(format, &a[i], std::array::from_fn(|k| b[k][j]), addend);
                    let want = format.write(F32.read(wide.into()), Round::Nearest) as u32;
                    assert_eq!(d[i][j] >> shift & 0xffff, want, "{kernel} {high} {i} {j}");
                }
            }
        }
    }
}

#[test]
fn integer_products_are_exact_with_all_signs_and_clamp() {
    let mut r = Random(common::seed());
    for (kernel, bits) in [("wmma_i32_iu8", 8), ("wmma_i32_iu4", 4)] {
        for which in 0..5u32 {
            let (a, b) = (random_matrix(&mut r, Random::word), random_matrix(&mut r, Random::word));
            let edge = |r: &mut Random| [r.word(), 0x7fff_ffff, 0x8000_0000, 5][r.below(4) as usize];
            let c = random_matrix(&mut r, edge);
            let words =
                run(Level::detect(), kernel, &[&rows_of(&a, bits), &rows_of(&transposed(&b), bits), &accumulators(&c)], 256, Some(which));
            let d = from_accumulators(&words);
            let signed = [which & 1 == 1 || which == 4, which & 2 == 2 || which == 4];
            let element = |x: u32, signed: bool| {
                let raw = i64::from(x & ((1 << bits) - 1));
                if signed && raw >> (bits - 1) == 1 { raw - (1 << bits) } else { raw }
            };
            for i in 0..16 {
                for j in 0..16 {
                    let sum: i64 = (0..16).map(|k| element(a[i][k], signed[0]) * element(b[k][j], signed[1])).sum();
                    let sum = sum + i64::from(c[i][j] as i32);
                    let want = if which == 4 { sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32 } else { sum as i32 };
                    assert_eq!(d[i][j] as i32, want, "{kernel} {which} {i} {j}");
                }
            }
        }
    }
}

#[test]
fn a_sum_through_local_memory() {
    for threads in [1, 2] {
        let checks = if threads == 1 { Checks::ALL } else { Checks::NONE };
        let mut device = Device::new(Options { threads, checks, ..Options::default() });
        let module = device.load(CodeObject::read(kernels::WMMA).unwrap()).unwrap();
        let input: Vec<u32> = (0..2048u32).map(|i| i * i).collect();
        let x = device.upload(&bytes(&input), "in").unwrap();
        let out = device.allocate(32, "out").unwrap();
        let args = [Arg::Pointer(x), Arg::Pointer(out)];
        let stats =
            device.launch(&module, "tree_sum", &Launch { grid: [8, 1, 1], block: [256, 1, 1], args: &args, dynamic_lds: 0 }).unwrap();
        let want: Vec<u32> = input.chunks(256).map(|c| c.iter().sum()).collect();
        assert_eq!(device.read_words(out, 8).unwrap(), want);
        // 8 barriers of 8 waves in 8 workgroups; each element is read once.
        assert_eq!(stats.classes["barrier"], 512);
        assert_eq!((stats.bytes.global_read, stats.bytes.global_written), (8192, 32));
        assert_eq!((stats.workgroups, stats.waves_per_workgroup), (8, 8));
    }
}

#[test]
fn matrix_vector_product() {
    let (rows, blocks) = (8usize, 40usize);
    let mut r = Random(common::seed());
    let codes: Vec<u32> = (0..rows * blocks * 4).map(|_| r.word()).collect();
    let scales: Vec<u32> = (0..rows * blocks).map(|_| small(F16, &mut r)).collect();
    let x: Vec<i32> = (0..blocks * 32).map(|_| r.below(255) as i32 - 127).collect();
    let x_scale: Vec<f32> = (0..blocks).map(|_| r.below(100) as f32 / 64.0).collect();
    let mut device = device(Level::detect());
    let module = device.load(CodeObject::read(kernels::MATVEC).unwrap()).unwrap();
    let halves: Vec<u8> = scales.iter().flat_map(|&s| (s as u16).to_le_bytes()).collect();
    let pairs: Vec<u32> =
        (0..blocks).flat_map(|b| [x_scale[b], x_scale[b] * x[b * 32..][..32].iter().sum::<i32>() as f32].map(f32::to_bits)).collect();
    let x_bytes: Vec<u8> = x.iter().map(|&v| v as u8).collect();
    let args = [
        Arg::Pointer(device.upload(&bytes(&codes), "codes").unwrap()),
        Arg::Pointer(device.upload(&halves, "scales").unwrap()),
        Arg::Pointer(device.upload(&x_bytes, "x").unwrap()),
        Arg::Pointer(device.upload(&bytes(&pairs), "x scales").unwrap()),
        Arg::Pointer(device.allocate(rows as u64 * 4, "y").unwrap()),
        Arg::U32(blocks as u32),
    ];
    let launch = Launch { grid: [2, 1, 1], block: [128, 1, 1], args: &args, dynamic_lds: 0 };
    let stats = device.launch(&module, "matvec_q4_0", &launch).unwrap();
    let Arg::Pointer(y) = args[4] else { unreachable!() };
    for (row, bits) in device.read_words(y, rows).unwrap().into_iter().enumerate() {
        let mut want = 0.0;
        for b in 0..blocks {
            let nibble = |i: usize| (codes[(row * blocks + b) * 4 + i % 16 / 4] >> (8 * (i % 4) + 4 * (i / 16)) & 15) as i32 - 8;
            let dot: i32 = (0..32).map(|i| nibble(i) * x[b * 32 + i]).sum();
            want += real(F16, scales[row * blocks + b]) * f64::from(x_scale[b]) * f64::from(dot);
        }
        let got = f64::from(f32::from_bits(bits));
        assert!((got - want).abs() < 1e-5 * want.abs() + 0.05, "row {row}: {got}, want {want}");
    }
    // Each lane that has a block makes eight products of four.
    assert_eq!(stats.dot_products, (rows * blocks * 8) as u64);
}
