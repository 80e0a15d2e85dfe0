//! Products with matrices of every weight type, and their rows as numbers, against `onebit-quants` and plain sums.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, random_rows, rounded};
use onebit_gpu::{Form, PackError, pack, packed_bytes};
use onebit_quants::{self as quants, WeightType};
use rdna::Checks;

/// Types that split into codes.
fn types() -> Vec<WeightType> {
    quants::ALL.iter().copied().filter(|ty| ty.info().codes.is_some()).collect()
}

/// A matrix of a type on a device, with its values.
struct Case {
    gpu: Gpu,
    ty: WeightType,
    weights: u64,
    values: Vec<f32>,
    rows: usize,
    width: usize,
}

impl Case {
    fn new(ty: WeightType, rows: usize, width: usize, checks: Checks) -> Self {
        let mut r = Random(7 + ty.block_bytes() as u64);
        let (bytes, values) = random_rows(ty, rows, width, &mut r);
        let packed = pack(ty, &bytes, rows, width).unwrap();
        assert_eq!(Some(packed.bytes.len()), packed_bytes(ty, rows, width));
        let mut gpu = Gpu::new(checks);
        let weights = gpu.upload(&packed.bytes);
        Self { gpu, ty, weights, values, rows, width }
    }

    fn object(&self) -> &'static str {
        Form::of(self.ty).unwrap().object
    }

    /// y of `columns` columns by a kernel, with something added as `flags` says.
    fn product(&mut self, kernel: &str, x: &[f32], columns: usize, add: &[f32], flags: u32) -> Vec<f32> {
        let (codes, steps, _) = rounded(x);
        let (codes, steps, add) = (self.gpu.upload(&codes), self.gpu.upload(&steps), self.gpu.floats(add));
        let y = self.gpu.room(4 * columns * self.rows);
        let grid = match kernel {
            "matmul" => [self.rows.div_ceil(64) as u32, columns.div_ceil(64) as u32, 1],
            _ => [self.rows.div_ceil(8) as u32, 1, 1],
        };
        let numbers = [self.rows as u32, self.width as u32, columns as u32, flags];
        self.gpu.launch(self.object(), kernel, grid, &[self.weights, codes, steps, add, y], &numbers);
        self.gpu.read_floats(y, columns * self.rows)
    }

    /// The product in f64, and the sum of the magnitudes of its terms.
    fn expected(&self, x: &[f32], columns: usize) -> (Vec<f64>, Vec<f64>) {
        let (_, _, x) = rounded(x);
        let terms = |c: usize, r: usize| {
            let (w, x) = (&self.values[r * self.width..][..self.width], &x[c * self.width..][..self.width]);
            w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).collect::<Vec<f64>>()
        };
        (0..columns)
            .flat_map(|c| (0..self.rows).map(move |r| (c, r)))
            .map(|(c, r)| {
                let terms = terms(c, r);
                (terms.iter().sum::<f64>(), terms.iter().map(|t| t.abs()).sum::<f64>())
            })
            .unzip()
    }
}

/// The smallest width that blocks divide and that gives some lanes two units and others one.
fn width(ty: WeightType) -> usize {
    1280usize.next_multiple_of(ty.block_values())
}

#[test]
fn rows_are_what_the_type_decodes_to() {
    for ty in types() {
        let Some(form) = Form::of(ty) else { panic!("{ty} has no form") };
        let mut case = Case::new(ty, 5, width(ty), Checks::ALL);
        let ids = case.gpu.words(&[3, 0, 4, 4]);
        let y = case.gpu.room(4 * 4 * case.width);
        case.gpu.launch(form.object, "embed", [4, 1, 1], &[case.weights, ids, y], &[5, case.width as u32]);
        let got = case.gpu.read_floats(y, 4 * case.width);
        for (t, row) in [3, 0, 4, 4].into_iter().enumerate() {
            for k in 0..case.width {
                let want = case.values[row * case.width + k];
                assert_eq!(got[t * case.width + k], want, "{ty}: row {row}, column {k}");
            }
        }
    }
}

#[test]
fn matrix_vector_products_of_all_types() {
    for ty in types() {
        let width = width(ty);
        let mut case = Case::new(ty, 11, width, Checks::ALL);
        let x = Random(99).numbers(2 * width);
        let y = case.product("matvec_2", &x, 2, &[], 0);
        let (want, size) = case.expected(&x, 2);
        assert_near(ty.name(), &y, &want, |i| 2e-6 * size[i] + 1e-6);
    }
}

/// What a column gives depends neither on how many there are nor on which kernel takes them.
#[test]
fn columns_do_not_depend_on_each_other() {
    for ty in [quants::Q4_K, quants::Q6_K, quants::Q8_0, quants::IQ2_XS, quants::PQ2_0] {
        let width = width(ty);
        let mut case = Case::new(ty, 9, width, Checks::NONE);
        let x = Random(5).numbers(8 * width);
        let all = case.product("matvec_8", &x, 8, &[], 0);
        for (kernel, columns) in [("matvec_1", 1), ("matvec_2", 2), ("matvec_4", 3), ("matvec_4", 4), ("matvec_8", 5)] {
            let some = case.product(kernel, &x[..columns * width], columns, &[], 0);
            assert_eq!(some, all[..columns * 9], "{ty} {kernel}");
        }
    }
}

#[test]
fn matrix_products_of_all_types() {
    for ty in types() {
        let width = 512usize.next_multiple_of(ty.block_values());
        // Two tiles of rows, one and a bit of columns; the last of each is not full.
        let mut case = Case::new(ty, 70, width, Checks::NONE);
        let x = Random(31).numbers(67 * width);
        let y = case.product("matmul", &x, 67, &[], 0);
        let (want, size) = case.expected(&x, 67);
        assert_near(ty.name(), &y, &want, |i| 2e-6 * size[i] + 1e-6);
    }
}

#[test]
fn checks_find_nothing_in_matrix_products() {
    for ty in [quants::Q4_K, quants::Q6_K] {
        let mut case = Case::new(ty, 16, 256, Checks::ALL);
        let x = Random(31).numbers(3 * 256);
        let y = case.product("matmul", &x, 3, &[], 0);
        let (want, size) = case.expected(&x, 3);
        assert_near(ty.name(), &y, &want, |i| 2e-6 * size[i] + 1e-6);
    }
}

#[test]
fn biases_and_residuals_are_added() {
    let mut case = Case::new(quants::Q4_0, 9, 64, Checks::ALL);
    let x = Random(3).numbers(3 * 64);
    let (want, _) = case.expected(&x, 3);
    let rows: Vec<f32> = (0..9).map(|i| i as f32).collect();
    let all: Vec<f32> = (0..27).map(|i| 100.0 + i as f32).collect();
    for kernel in ["matvec_4", "matmul"] {
        let with_bias: Vec<f64> = want.iter().enumerate().map(|(i, w)| w + f64::from(rows[i % 9])).collect();
        let y = case.product(kernel, &x, 3, &rows, 1);
        assert_near(kernel, &y, &with_bias, |_| 1e-3);
        let with_all: Vec<f64> = want.iter().zip(&all).map(|(w, a)| w + f64::from(*a)).collect();
        let y = case.product(kernel, &x, 3, &all, 2);
        assert_near(kernel, &y, &with_all, |_| 1e-3);
    }
}

/// Types with a layout of their own are no larger than in the file, but for trits, which get 2 bits each.
#[test]
fn planes_are_as_small_as_blocks() {
    for ty in types() {
        let form = Form::of(ty).unwrap();
        let own = !form.object.contains("codes");
        let trits = [quants::TQ1_0, quants::PTQ1_0].contains(&ty);
        println!("{ty}: {:.4} bits in the file, {:.4} on the device ({})", ty.bits_per_value(), form.bits_per_weight(), form.object);
        assert!(!own || trits || form.bits_per_weight() <= ty.bits_per_value(), "{ty}");
        assert!(!trits || form.bits_per_weight() < 2.13);
    }
}

#[test]
fn what_cannot_be_packed_is_refused() {
    assert_eq!(pack(quants::F16, &[0; 64], 1, 32), Err(PackError::Type(quants::F16)));
    let wrong = |bytes, rows, columns| pack(quants::Q4_0, &vec![0; bytes], rows, columns).unwrap_err().to_string();
    assert_eq!(wrong(17, 1, 32), "17 bytes are not 1 rows of 32 weights (Q4_0)");
    assert!(wrong(18, 1, 31).contains("31 weights"));
    assert!(wrong(18, usize::MAX, 32).contains("rows"));
    assert_eq!(packed_bytes(quants::Q4_0, usize::MAX, 64), None);
    assert_eq!(packed_bytes(quants::Q4_K, 1, 0), None);
}
