//! Every instruction set, form and number of columns against the definitions, bit by bit.

use super::{
    activations::{BASE, Block},
    codes::BLOCK,
    *,
};
use crate::{
    isa::{Isa, Level},
    pool::Pool,
};
use onebit_plan::{Edit, Weight};
use onebit_quants::{Codes, WeightType};
use proptest::prelude::*;

/// The levels that this machine has; says which it has not.
fn levels() -> Vec<Isa> {
    let best = Isa::detect();
    let (have, lack): (Vec<_>, Vec<_>) = Level::ALL.into_iter().partition(|l| *l <= best.level());
    for level in lack {
        eprintln!("SKIPPED: {level} kernels: this machine, or ONEBIT_ISA, does not allow them");
    }
    have.into_iter().map(|l| best.at_most(l)).collect()
}

/// Numbers that look random, the same on every run (Steele et al. 2014, SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// From -1 to 1.
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    /// A row of activations with a few outliers.
    fn column(&mut self, width: usize) -> Vec<f32> {
        (0..width).map(|_| if self.next().is_multiple_of(50) { 30.0 * self.float() } else { self.float() }).collect()
    }
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
    /// A row of a type: any bytes that decode to finite numbers whose products f32 can hold.
    fn row(&mut self, ty: WeightType, blocks: usize) -> Vec<u8> {
        let mut values = vec![0.0; ty.block_values()];
        let mut fits = |row: &[u8]| {
            ty.decode(row, &mut values);
            values.iter().all(|v| v.is_finite() && v.abs() < 1e20)
        };
        let mut out = vec![];
        while out.len() < ty.header_bytes() {
            let header = self.bytes(ty.header_bytes());
            let trials: Vec<_> = (0..8).map(|_| [&header[..], &self.bytes(ty.block_bytes())].concat()).collect();
            if trials.iter().all(|row| fits(row)) {
                out = header;
            }
        }
        let header = out.clone();
        for _ in 0..blocks {
            loop {
                let block = self.bytes(ty.block_bytes());
                if fits(&[&header[..], &block].concat()) {
                    out.extend(block);
                    break;
                }
            }
        }
        out
    }
}

/// Stored rows of one type.
struct Weights {
    ty: WeightType,
    columns: usize,
    rows: usize,
    bytes: Vec<u8>,
}

impl Weights {
    fn random(ty: WeightType, rows: usize, blocks: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let bytes = (0..rows).flat_map(|_| random.row(ty, blocks)).collect();
        Self { ty, columns: blocks * ty.block_values(), rows, bytes }
    }
    fn row(&self, row: usize) -> &[u8] {
        let n = self.bytes.len() / self.rows;
        &self.bytes[row * n..][..n]
    }
    fn decoded(&self, row: usize) -> Vec<f32> {
        let mut out = vec![0.0; self.columns];
        self.ty.decode(self.row(row), &mut out);
        out
    }
    fn pack(&self, isa: Isa, kind: ActivationKind, pool: &Pool) -> Matrix {
        Matrix::from_bytes(self.ty, self.columns, &self.bytes, &isa, kind, pool).unwrap()
    }
    /// The product of a row with a column of whole numbers, by its definition.
    fn integer(&self, row: usize, x: &[(f32, Vec<i32>)]) -> f32 {
        let (mut sum, mut codes) = (0.0f32, Codes::default());
        let per_block = self.ty.block_values() / BLOCK;
        let (header, blocks) = self.row(row).split_at(self.ty.header_bytes());
        for (i, bytes) in blocks.chunks(self.ty.block_bytes()).enumerate() {
            (self.ty.info().codes.unwrap())(header, bytes, &mut codes);
            let group = codes.group.min(BLOCK);
            for start in (0..self.ty.block_values()).step_by(group) {
                let (step, numbers) = &x[i * per_block + start / BLOCK];
                let scale = codes.scales[start / codes.group];
                let xs = &numbers[start % BLOCK..][..group];
                let dot: i32 = codes.codes[start..].iter().zip(xs).map(|(q, x)| i32::from(*q) * x).sum();
                sum = (dot as f32).mul_add(scale * step, sum);
                let total: i32 = xs.iter().sum();
                sum = codes.offsets[start / codes.group].mul_add(step * total as f32, sum);
            }
        }
        sum
    }
    /// The product of a row with an f32 column, by its definition.
    fn exact(&self, row: usize, x: &[f32]) -> f32 {
        let mut sum = 0.0f32;
        for (w, x) in self.decoded(row).chunks(BLOCK).zip(x.chunks(BLOCK)) {
            let mut parts = [0.0f32; 2];
            for (i, (w, x)) in w.iter().zip(x).enumerate() {
                parts[i % 2] = w.mul_add(*x, parts[i % 2]);
            }
            sum += parts[0] + parts[1];
        }
        sum
    }
}

const ROUNDED: [ActivationKind; 2] = [ActivationKind::Int8, ActivationKind::Int16];

/// The largest number of a kind of columns.
fn largest(kind: ActivationKind) -> i32 {
    if kind == ActivationKind::Int8 { 127 } else { 127 * BASE }
}

/// A column's steps and whole numbers, block by block, by definition.
fn quantized(kind: ActivationKind, x: &[f32]) -> Vec<(f32, Vec<i32>)> {
    let block = |x: &[f32]| {
        let top = x.iter().fold(0.0f32, |m, v| if m.is_nan() || v.is_nan() { f32::NAN } else { m.max(v.abs()) });
        if !top.is_finite() || top < 1e-30 {
            return (if top.is_finite() { 0.0 } else { f32::NAN }, vec![0; BLOCK]);
        }
        let inverse = largest(kind) as f32 / top;
        let mut numbers: Vec<i32> = x.iter().map(|v| (v * inverse).round_ties_even() as i32).collect();
        numbers.resize(BLOCK, 0);
        (top / largest(kind) as f32, numbers)
    };
    x.chunks(BLOCK).map(block).collect()
}

/// The numbers that a block's planes stand for, its codes being in range and its sums right.
fn numbers<const PLANES: usize>(block: &Block<PLANES>) -> Vec<i32> {
    assert!(block.codes.as_flattened().iter().all(|q| *q != i8::MIN));
    for (plane, codes) in block.codes.iter().enumerate() {
        let halves = [0, 16].map(|at| codes[at..at + 16].iter().map(|q| i32::from(*q)).sum::<i32>());
        assert_eq!((block.sums[plane], block.sum[plane]), (halves, halves[0] + halves[1]));
    }
    let numbers: Vec<i32> = (0..BLOCK).map(|i| block.codes.iter().fold(0, |above, plane| above * BASE + i32::from(plane[i]))).collect();
    let weighted = |of: &[i32]| (block.scale * of.iter().sum::<i32>() as f32).to_bits();
    let floats = [block.weighted, block.weighteds[0], block.weighteds[1]].map(f32::to_bits);
    assert!(block.scale.is_nan() || floats == [&numbers[..], &numbers[..16], &numbers[16..]].map(weighted));
    numbers
}

/// All products of a matrix, rows divided into `parts`, columns taken `batch` at a time.
fn product(matrix: &Matrix, x: &Activations, parts: usize, batch: usize) -> Vec<Vec<f32>> {
    let stride = matrix.rows() + 3;
    let mut y = vec![f32::MAX; x.columns() * stride];
    // SAFETY: `y` is that large, lives on, and is used by one thread.
    let rows = unsafe { SharedRows::new(y.as_mut_ptr(), x.columns(), matrix.rows(), stride) };
    for part in 0..parts {
        let part = crate::pool::part(matrix.rows(), matrix.row_step(), part, parts);
        for start in (0..x.columns()).step_by(batch) {
            matmul(matrix, x, start..(start + batch).min(x.columns()), part.clone(), &rows);
        }
    }
    assert!(y.chunks(stride).all(|c| c[matrix.rows()..].iter().all(|v| *v == f32::MAX)), "written beyond the rows");
    y.chunks(stride).map(|c| c[..matrix.rows()].to_vec()).collect()
}

fn bits(v: &[Vec<f32>]) -> Vec<Vec<u32>> {
    v.iter().map(|v| v.iter().map(|v| v.to_bits()).collect()).collect()
}

fn activations(kind: ActivationKind, columns: &[Vec<f32>], isa: Isa) -> Activations {
    let mut x = Activations::new(kind, columns.len(), columns[0].len(), isa).unwrap();
    for (i, column) in columns.iter().enumerate() {
        x.set(i, column);
    }
    x
}

/// Checks all ways to multiply `weights` with `count` columns.
fn check(weights: &Weights, kind: ActivationKind, count: usize, want: &dyn Fn(usize, &[f32]) -> f32) {
    let (pool, mut random) = (Pool::new(2), Random(weights.columns as u64));
    let columns: Vec<Vec<f32>> = (0..count).map(|_| random.column(weights.columns)).collect();
    let want: Vec<Vec<f32>> = columns.iter().map(|x| (0..weights.rows).map(|r| want(r, x)).collect()).collect();
    for isa in levels() {
        let matrix = weights.pack(isa, kind, &pool);
        let x = activations(matrix.activation(), &columns, isa);
        for (parts, batch) in [(1, count), (1, 1), (3, 2), (2, 3), (1, 7), (2, 8)] {
            let got = product(&matrix, &x, parts, batch);
            let ty = weights.ty;
            assert_eq!(bits(&got), bits(&want), "{ty}, {}, {kind:?}, {parts} parts, {batch} columns", isa.level());
        }
    }
}

fn types(codes: bool) -> impl Iterator<Item = WeightType> {
    onebit_quants::ALL.iter().copied().filter(move |t| t.info().codes.is_some() == codes)
}

#[test]
fn integer_products_are_as_defined() {
    for ty in types(true) {
        for (rows, values) in [(37, 576), (16, 32), (1, 768)] {
            let weights = Weights::random(ty, rows, values / ty.block_values().min(values), rows as u64);
            for kind in ROUNDED {
                // One wide tile of each size, and what is left.
                let count = if rows == 37 { 64 + 16 + 3 } else { 19 };
                check(&weights, kind, count, &|row, x| weights.integer(row, &quantized(kind, x)));
            }
        }
    }
}

#[test]
fn exact_products_are_as_defined() {
    for ty in types(true) {
        let weights = Weights::random(ty, 37, 576 / ty.block_values().min(576), 3);
        check(&weights, ActivationKind::F32, 11, &|row, x| weights.exact(row, x));
    }
}

#[test]
fn products_of_floats_are_as_defined() {
    for ty in types(false) {
        for (rows, columns) in [(37, 576), (3, 7), (16, 33)] {
            let weights = Weights::random(ty, rows, columns, 5);
            for kind in [ActivationKind::F32, ActivationKind::Int8] {
                check(&weights, kind, 11, &|row, x| weights.exact(row, x));
            }
        }
    }
}

#[test]
fn rows_decode_exactly() {
    let pool = Pool::new(2);
    for ty in onebit_quants::ALL.iter().copied() {
        let weights = Weights::random(ty, 21, 512 / ty.block_values(), 7);
        for isa in levels() {
            let matrix = weights.pack(isa, ActivationKind::Int8, &pool);
            for row in [0, 15, 16, 20] {
                let mut got = vec![0.0; weights.columns];
                matrix.row_f32(row, &mut got);
                assert_eq!(bits(&[got]), bits(&[weights.decoded(row)]), "{ty}, {}, row {row}", isa.level());
            }
        }
    }
}

/// Rounding activations moves each by at most half a step, so that a product moves by at most `Σ |w| * step / 2`.
#[test]
fn integer_products_are_near_exact_ones() {
    let (pool, isa) = (Pool::new(2), Isa::detect());
    for (ty, kind) in types(true).flat_map(|ty| ROUNDED.map(|kind| (ty, kind))) {
        let weights = Weights::random(ty, 33, 1536 / ty.block_values(), 11);
        let columns = vec![Random(1).column(weights.columns)];
        let steps: Vec<f64> = quantized(kind, &columns[0]).iter().map(|b| f64::from(b.0)).collect();
        let matrix = weights.pack(isa, kind, &pool);
        let got = product(&matrix, &activations(kind, &columns, isa), 1, 1);
        for (row, got) in got[0].iter().enumerate() {
            let w: Vec<f64> = weights.decoded(row).into_iter().map(f64::from).collect();
            let want: f64 = w.iter().zip(&columns[0]).map(|(w, x)| w * f64::from(*x)).sum();
            let size: f64 = w.iter().zip(&columns[0]).map(|(w, x)| (w * f64::from(*x)).abs()).sum();
            let bound: f64 = w.iter().enumerate().map(|(k, w)| w.abs() * steps[k / BLOCK] * 0.5001).sum();
            // Types with offsets add large numbers that cancel; f32 rounds those.
            let offsets = 16.0 * size.max(w.iter().map(|w| w.abs()).sum::<f64>()) * 1e-6;
            assert!((f64::from(*got) - want).abs() <= bound + offsets, "{ty} row {row}: {got} for {want}");
        }
    }
}

#[test]
fn numbers_that_are_none_stay_in_their_column() {
    let pool = Pool::new(1);
    for ty in [onebit_quants::Q4_0, onebit_quants::Q4_1, onebit_quants::Q8_0, onebit_quants::F16] {
        let weights = Weights::random(ty, 19, 96 / ty.block_values(), 13);
        for isa in levels() {
            for kind in [ActivationKind::F32, ActivationKind::Int16, ActivationKind::Int8] {
                let exact = kind == ActivationKind::F32;
                let matrix = weights.pack(isa, kind, &pool);
                let mut columns = vec![Random(2).column(96); 9];
                let clean = product(&matrix, &activations(matrix.activation(), &columns, isa), 1, 9);
                columns[2][40] = f32::NAN;
                columns[5][95] = f32::INFINITY;
                columns[6].fill(1e-38);
                let got = product(&matrix, &activations(matrix.activation(), &columns, isa), 1, 9);
                assert!(got[2].iter().all(|v| v.is_nan()), "{ty}");
                assert!(got[5].iter().all(|v| !v.is_finite()) || exact || ty.block_values() == 1, "{ty}");
                assert!(got[6].iter().all(|v| v.abs() < 1e-30), "{ty}");
                for c in [0, 1, 3, 4, 7, 8] {
                    assert_eq!(bits(&got[c..=c]), bits(&clean[c..=c]), "{ty}");
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (pool, isa) = (Pool::new(1), Isa::detect());
    let weights = Weights::random(onebit_quants::Q8_0, 20, 2, 1);
    let matrix = weights.pack(isa, ActivationKind::Int8, &pool);
    let refused = |x: &Activations, columns, rows| {
        let mut y = vec![0.0; 2 * 20];
        // SAFETY: `y` is that large, and lives on.
        let y = unsafe { SharedRows::new(y.as_mut_ptr(), 2, 20, 20) };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| matmul(&matrix, x, columns, rows, &y))).is_err()
    };
    let x = activations(ActivationKind::Int8, &[vec![0.0; 64], vec![0.0; 64], vec![0.0; 64]], isa);
    assert!(!refused(&x, 0..2, 0..20));
    assert!(refused(&x, 0..3, 0..20));
    assert!(refused(&x, 0..2, 0..21));
    assert!(refused(&x, 0..2, 8..20));
    assert!(refused(&x, 0..2, 0..10));
    assert!(refused(&activations(ActivationKind::F32, &[vec![0.0; 64]], isa), 0..1, 0..20));
    assert!(refused(&activations(ActivationKind::Int8, &[vec![0.0; 96]], isa), 0..1, 0..20));
}

#[test]
fn blocks_quantize_as_defined() {
    let mut x = [0.0f32; BLOCK];
    (x[0], x[1], x[2], x[3], x[16], x[31]) = (-254.0, 5.0, 7.0, -1.0, 126.9, 0.9);
    // Steps of 2; halves go to the even neighbour.
    let mut codes = [0; BLOCK];
    (codes[0], codes[1], codes[2], codes[3], codes[16], codes[31]) = (-127, 2, 4, 0, 63, 0);
    let want = Block { codes: [codes], scale: 2.0, sum: [-58], sums: [[-121, 63]], weighted: -116.0, weighteds: [-242.0, 126.0] };
    assert_eq!(Block::quantize(&x), want);

    // Steps of 1/127, so that numbers are 127 times the values: 7 is 889, or 4 * 254 - 127 (a tie that goes to the even 4).
    let mut codes = [[0; BLOCK]; 2];
    for (i, high, low) in [(0, -127, 0), (1, 2, 127), (2, 4, -127), (3, 0, -127), (16, 63, 114), (31, 0, 114)] {
        (codes[0][i], codes[1][i]) = (high, low);
    }
    let got = Block::quantize(&x);
    assert_eq!(got.codes, codes);
    assert_eq!((got.scale, got.sums), (254.0 / 32258.0, [[-121, 63], [-127, 228]]));
}

fn any_float() -> impl Strategy<Value = f32> {
    prop_oneof![20 => -10.0f32..10.0, 2 => any::<f32>(), 1 => Just(0.0), 1 => Just(f32::NAN), 1 => Just(f32::MAX), 1 => Just(1e-30f32)]
}

proptest! {
    #[test]
    fn quantizers_agree(x in proptest::collection::vec(any_float(), 1..200)) {
        for isa in levels() {
            let same = |(scale, got): (f32, Vec<i32>), want: &(f32, Vec<i32>)| {
                got == want.1 && (scale == want.0 || scale.is_nan() && want.0.is_nan())
            };
            let column = std::slice::from_ref(&x);
            let mut eight = activations(ActivationKind::Int8, column, isa);
            for (got, want) in eight.blocks::<1>(0).iter().zip(quantized(ActivationKind::Int8, &x)) {
                prop_assert!(same((got.scale, numbers(got)), &want), "{}: {got:?} for {want:?}", isa.level());
            }
            let mut sixteen = activations(ActivationKind::Int16, column, isa);
            for (got, want) in sixteen.blocks::<2>(0).iter().zip(quantized(ActivationKind::Int16, &x)) {
                prop_assert!(same((got.scale, numbers(got)), &want), "{}: {got:?} for {want:?}", isa.level());
            }
        }
    }
}

#[test]
fn general_forms_are_as_small_as_codes_allow() {
    let (pool, isa) = (Pool::new(2), Isa::detect());
    for (ty, bits) in [
        (onebit_quants::TQ2_0, 2.2),
        (onebit_quants::PTQ1_0, 2.3),
        (onebit_quants::IQ4_NL, 5.0),
        (onebit_quants::MXFP4, 5.0),
        (onebit_quants::NVFP4, 6.0),
        (onebit_quants::IQ3_XXS, 5.0),
        (onebit_quants::IQ2_XXS, 5.0),
        (onebit_quants::Q3_K, 6.0),
    ] {
        let weights = Weights::random(ty, 32, 1536 / ty.block_values(), 17);
        let matrix = weights.pack(isa, ActivationKind::Int8, &pool);
        let got = matrix.resident_bytes() as f64 * 8.0 / (32 * 1536) as f64;
        assert!(got <= bits + 0.05, "{ty}: {got} bits");
    }
}

/// Of every type that a GGUF file can hold, those whose rows have headers too.
#[test]
fn what_a_packed_row_takes_is_known_before() {
    let (pool, isa, folder) = (Pool::new(2), Isa::detect(), tempfile::tempdir().unwrap());
    for ty in onebit_quants::ALL.iter().copied().filter(|t| t.info().ggml_id.is_some()) {
        let rows = Weights::random(ty, 40, 512 / ty.block_values(), 19);
        let path = folder.path().join(ty.name());
        let mut writer = onebit_formats::gguf::Writer::new(&path);
        writer.tensor("w", ty, &[rows.rows, rows.columns]).unwrap();
        let mut data = writer.begin().unwrap();
        data.write("w", &rows.bytes).unwrap();
        data.finish().unwrap();
        let file = onebit_formats::Checkpoint::open(&path).unwrap();
        let weight = Weight::whole("w", &file.tensors["w"], vec![rows.rows, rows.columns], Edit::None).unwrap();
        let matrix = Matrix::pack(&weight, 0..rows.rows, &isa, ActivationKind::Int8, &pool).unwrap();
        let (guess, got) = (48 * Matrix::packed_row(&weight), matrix.resident_bytes());
        assert!(guess.abs_diff(got) <= got / 100, "{ty}: {guess}, not {got}");
        let mut values = vec![0.0; rows.columns];
        matrix.row_f32(33, &mut values);
        assert_eq!(bits(&[values]), bits(&[rows.decoded(33)]), "{ty}");
    }
}
