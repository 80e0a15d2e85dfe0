//! Positions relative to each other.

use onebit_formats::{Rows, Tensor};
use onebit_plan::{Edit, Weight};
use std::sync::{Arc, OnceLock};

/// The bucket of each distance from `-reach` to `reach`.
pub(crate) fn distances(reach: usize, bucket: impl Fn(i64) -> u32) -> Vec<u32> {
    let reach = reach as i64;
    (-reach..=reach).map(bucket).collect()
}

/// T5's bucket, of `count`, for a key that is `distance` behind the query: one for each small distance, then wider ones up to the distance
/// `farthest`, with half of them for keys ahead where `both_ways` (Raffel et al. 2020, arXiv:1910.10683). In f32, as the reference has it.
pub(crate) fn t5_bucket(distance: i64, both_ways: bool, count: usize, farthest: usize) -> u32 {
    let (count, first) = match both_ways {
        true if distance < 0 => (count / 2, count / 2),
        true => (count / 2, 0),
        false => (count, 0),
    };
    let distance = if both_ways { distance.unsigned_abs() as usize } else { distance.max(0) as usize };
    let exact = count / 2;
    let far = || {
        let turns = (distance as f32 / exact as f32).ln() / (farthest as f32 / exact as f32).ln();
        (exact + (turns * (count - exact) as f32) as usize).min(count - 1)
    };
    (first + if distance < exact { distance } else { far() }) as u32
}

/// What a projection makes of a table of positions, computed when a device reads it: `matrix norm(table[p]) + bias`.
pub(crate) struct Projected {
    /// `[positions, width]`.
    pub(crate) table: Weight,
    /// Weight and bias of a LayerNorm, and its epsilon.
    pub(crate) norm: Option<([Weight; 2], f32)>,
    /// `[heads * head, width]`, and its bias.
    pub(crate) matrix: Weight,
    pub(crate) bias: Weight,
    /// Numbers of a head.
    pub(crate) head: usize,
}

impl Projected {
    /// As a weight: for each head a matrix `[positions, head]`. `None` where the projection has no tensor behind it.
    pub(crate) fn weight(self, name: &str) -> Option<Weight> {
        let shape = vec![self.matrix.rows() / self.head.max(1), self.table.rows(), self.head];
        let stored = [self.matrix.parts.first()?.tensor.clone()];
        let rows = ProjectedRows { of: self, stored, numbers: OnceLock::new() };
        let tensor = Tensor::made(rows.stored[0].name().to_string(), onebit_quants::F32, shape.clone(), Arc::new(rows));
        Weight::whole(name, &tensor, shape, Edit::None).ok()
    }
}

struct ProjectedRows {
    of: Projected,
    stored: [Tensor; 1],
    numbers: OnceLock<Numbers>,
}

/// What is read once.
struct Numbers {
    /// Normalised.
    table: Vec<f32>,
    matrix: Vec<f32>,
    bias: Vec<f32>,
}

impl ProjectedRows {
    fn read(&self) -> Numbers {
        let (of, width) = (&self.of, self.of.table.columns());
        let mut table = of.table.to_f32();
        if let Some(([weight, bias], eps)) = &of.norm {
            let (weight, bias) = (weight.to_f32(), bias.to_f32());
            for row in table.chunks_exact_mut(width) {
                let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64;
                let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / width as f64;
                let factor = 1.0 / (variance + f64::from(*eps)).sqrt();
                let norm = |(x, (w, b)): (&mut f32, (&f32, &f32))| *x = ((f64::from(*x) - mean) * factor) as f32 * w + b;
                row.iter_mut().zip(weight.iter().zip(&bias)).for_each(norm);
            }
        }
        Numbers { table, matrix: of.matrix.to_f32(), bias: of.bias.to_f32() }
    }
}

impl std::fmt::Debug for ProjectedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "positions through `{}`", self.of.matrix.name)
    }
}

impl Rows for ProjectedRows {
    fn row(&self, row: usize, out: &mut [u8]) {
        let numbers = self.numbers.get_or_init(|| self.read());
        let (width, positions) = (self.of.table.columns(), self.of.table.rows());
        let (first, position) = (row / positions * self.of.head, row % positions);
        let x = &numbers.table[position * width..][..width];
        for (i, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let of_row = &numbers.matrix[(first + i) * width..][..width];
            // Sixteen sums that can be made at once.
            let mut sums = [0.0f32; 16];
            for (a, b) in x.chunks(16).zip(of_row.chunks(16)) {
                sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
            }
            *out = (sums.iter().sum::<f32>() + numbers.bias[first + i]).to_le_bytes();
        }
    }
    fn stored(&self) -> &[Tensor] {
        &self.stored
    }
    fn scheme(&self) -> &str {
        "made of positions"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `_relative_position_bucket` of transformers 5.24 (`MPNetEncoder`, `T5Attention`), for keys behind and ahead.
    #[test]
    fn buckets() {
        let both = |d| t5_bucket(d, true, 32, 128);
        assert_eq!([0, 1, 7, 8, 11, 12, 16, 23, 32, 64, 100, 127, 128, 500].map(both), [0, 1, 7, 8, 8, 9, 10, 11, 12, 14, 15, 15, 15, 15]);
        assert_eq!([1, 7, 8, 32, 500].map(|d| both(-d)), [17, 23, 24, 28, 31]);
        let behind = |d| t5_bucket(d, false, 32, 128);
        assert_eq!(
            [-5, 0, 1, 15, 16, 17, 20, 31, 32, 64, 100, 127, 128, 500].map(behind),
            [0, 0, 1, 15, 16, 16, 17, 21, 21, 26, 30, 31, 31, 31]
        );
        assert_eq!([0, 1, 3, 4, 5, 9, 15, 19, 20, 30].map(|d| t5_bucket(d, false, 8, 20)), [0, 1, 3, 4, 4, 6, 7, 7, 7, 7]);
        assert_eq!([-19, -9, -3, -2, -1, 0, 1, 2, 3, 9, 19].map(|d| t5_bucket(d, true, 8, 20)), [7, 7, 6, 6, 5, 0, 1, 2, 2, 3, 3]);
    }
}
