//! From the hidden states of a text's tokens to one vector that stands for the text.

use crate::Function;

/// Which states the vector is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// All, each a vector of its own.
    None,
    /// Their mean.
    Mean,
    /// That of the first token, which BERT's vocabularies call `[CLS]`.
    Cls,
    /// That of the last token.
    Last,
    /// The largest of each number.
    Max,
    /// Their sum divided by the root of their count.
    MeanSqrtLen,
    /// Their mean, the first with weight 1, the second with 2, and so on (Muennighoff 2022, arXiv:2202.08904).
    WeightedMean,
}

impl Pool {
    /// All, by the names that sentence-transformers gives them.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("none", Self::None),
        ("mean", Self::Mean),
        ("cls", Self::Cls),
        ("last", Self::Last),
        ("max", Self::Max),
        ("mean_sqrt_len_tokens", Self::MeanSqrtLen),
        ("weightedmean", Self::WeightedMean),
    ];

    /// Of a step with `len` tokens from `start` on, of a text of `total` tokens: of how many of its last tokens states are needed.
    pub fn outputs(self, start: usize, len: usize, total: usize) -> usize {
        match self {
            Self::Last => usize::from(start + len == total),
            Self::Cls if start > 0 => 0,
            _ => len,
        }
    }
}

/// A layer behind the pooling: `norm(f(weight x + bias))`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// `[out, in]`.
    pub weight: Vec<f32>,
    /// `[out]`.
    pub bias: Option<Vec<f32>>,
    /// Numbers that go in.
    pub inputs: usize,
    /// The function, where there is one.
    pub f: Option<Function>,
    /// The norm, where there is one.
    pub norm: Option<LayerNorm>,
}

/// LayerNorm (Ba et al. 2016, arXiv:1607.06450) of a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// Factors.
    pub weight: Vec<f32>,
    /// What is added.
    pub bias: Option<Vec<f32>>,
    /// Added to the variance.
    pub eps: f32,
}

impl LayerNorm {
    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let n = x.len() as f64;
        let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
        let factor = 1.0 / (variance + f64::from(self.eps)).sqrt();
        let bias = |i: usize| self.bias.as_ref().map_or(0.0, |bias| bias[i]);
        let norm = |(i, (x, w)): (usize, (&f32, &f32))| ((f64::from(*x) - mean) * factor) as f32 * w + bias(i);
        x.iter().zip(&self.weight).enumerate().map(norm).collect()
    }
}

impl Dense {
    /// Numbers that come out.
    pub fn outputs(&self) -> usize {
        self.weight.len() / self.inputs.max(1)
    }

    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let product = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>();
        let bias = |i: usize| self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]));
        let sums = self.weight.chunks_exact(self.inputs).enumerate().map(|(i, row)| (product(row) + bias(i)) as f32);
        let out: Vec<f32> = sums.map(|y| self.f.map_or(y, |f| f.apply(y))).collect();
        self.norm.as_ref().map(|norm| norm.apply(&out)).unwrap_or(out)
    }
}

/// How embeddings are made of hidden states.
#[derive(Clone, Debug, PartialEq)]
pub struct Pooling {
    /// Which states are taken.
    pub pool: Pool,
    /// What follows, each behind the one before.
    pub dense: Vec<Dense>,
}

impl From<Pool> for Pooling {
    fn from(pool: Pool) -> Self {
        Self { pool, dense: vec![] }
    }
}

impl Pooling {
    /// Numbers of a vector that is made of states of `width` numbers.
    pub fn width(&self, width: usize) -> usize {
        self.dense.last().map_or(width, Dense::outputs)
    }

    /// What is wrong with the layers, where they do not fit each other, and states of `width` numbers.
    pub fn fault(&self, width: usize) -> Option<String> {
        let mut width = width;
        for (i, dense) in self.dense.iter().enumerate() {
            if dense.inputs != width {
                return Some(format!("layer {i} behind the pooling takes {} numbers, but is given {width}", dense.inputs));
            }
            width = dense.outputs();
        }
        None
    }

    /// The vectors of a text whose states were gathered: one, or one for each token.
    pub fn finish(&self, gathered: &Gathered) -> Vec<Vec<f32>> {
        let rows = gathered.rows(self.pool);
        rows.into_iter().map(|row| self.dense.iter().fold(row, |x, dense| dense.apply(&x))).collect()
    }

    /// Brings vectors into a form. Where each token has one, they are not divided, as llama-server has it.
    pub fn form(&self, vectors: &mut [Vec<f32>], form: Form) {
        for vector in vectors {
            vector.truncate(form.dimensions.unwrap_or(vector.len()));
            if self.pool != Pool::None {
                form.norm.apply(vector);
            }
        }
    }
}

/// How vectors are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Numbers that are kept, the first of each (Kusupati et al. 2022, arXiv:2205.13147); all where absent.
    pub dimensions: Option<usize>,
    /// What they are divided by then.
    pub norm: Norm,
}

/// What is known of a text, some of whose states have come.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Of a row.
    width: usize,
    /// Rows that have come.
    count: usize,
    /// Of numbers over all rows; or all rows. Sums are in f64, in the order of the tokens, so that it does not matter in which parts they
    /// come.
    values: Vec<f64>,
}

impl Gathered {
    /// Adds the rows that come next of those that are [needed](Pool::outputs), `width` numbers each.
    pub fn add(&mut self, pool: Pool, rows: &[f32], width: usize) {
        self.width = width;
        for row in rows.chunks_exact(width) {
            let weight = if pool == Pool::WeightedMean { (self.count + 1) as f64 } else { 1.0 };
            let weighted = || row.iter().map(|x| weight * f64::from(*x));
            match pool {
                Pool::None => self.values.extend(weighted()),
                Pool::Cls if self.count > 0 => {}
                Pool::Last => self.values = weighted().collect(),
                _ if self.count == 0 => self.values = weighted().collect(),
                Pool::Max => self.values.iter_mut().zip(weighted()).for_each(|(most, x)| *most = most.max(x)),
                _ => self.values.iter_mut().zip(weighted()).for_each(|(sum, x)| *sum += x),
            }
            self.count += 1;
        }
    }

    fn rows(&self, pool: Pool) -> Vec<Vec<f32>> {
        let count = self.count as f64;
        let divisor = match pool {
            Pool::Mean => count,
            Pool::MeanSqrtLen => count.sqrt(),
            Pool::WeightedMean => count * (count + 1.0) / 2.0,
            _ => 1.0,
        };
        self.values.chunks(self.width.max(1)).map(|row| row.iter().map(|x| (x / divisor) as f32).collect()).collect()
    }
}

/// How long a vector is taken to be when it is divided by its length: llama-server's `embd_normalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// It is not divided.
    None,
    /// So that the number that is farthest from zero becomes 32760.
    MaxInt16,
    /// The root of this degree of the sum of the numbers' powers: 1 taxicab, 2 Euclidean.
    P(u32),
}

impl Norm {
    /// As llama-server numbers them: -1 none, 0 for int16, else the degree.
    pub fn numbered(n: i64) -> Option<Self> {
        match n {
            -1 => Some(Self::None),
            0 => Some(Self::MaxInt16),
            n => u32::try_from(n).ok().map(Self::P),
        }
    }

    /// Divides a vector, unless its length is zero.
    pub fn apply(self, vector: &mut [f32]) {
        let sizes = || vector.iter().map(|x| f64::from(*x).abs());
        let length = match self {
            Self::None => return,
            Self::MaxInt16 => sizes().fold(0.0, f64::max) / 32760.0,
            Self::P(2) => sizes().map(|x| x * x).sum::<f64>().sqrt(),
            Self::P(p) => sizes().map(|x| x.powf(f64::from(p))).sum::<f64>().powf(1.0 / f64::from(p)),
        };
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand; three rows of two.
    const STATES: [f32; 6] = [1.0, -2.0, 3.0, 4.0, 8.0, 1.0];

    fn gathered(pool: Pool, parts: &[usize]) -> Gathered {
        let mut gathered = Gathered::default();
        let mut rest = &STATES[..];
        for rows in parts {
            let (part, others) = rest.split_at(rows * 2);
            gathered.add(pool, part, 2);
            rest = others;
        }
        gathered
    }

    #[test]
    fn vectors() {
        let cases: [(Pool, [f32; 2]); 6] = [
            (Pool::Mean, [4.0, 1.0]),
            (Pool::Cls, [1.0, -2.0]),
            (Pool::Last, [8.0, 1.0]),
            (Pool::Max, [8.0, 4.0]),
            (Pool::WeightedMean, [31.0 / 6.0, 9.0 / 6.0]),
            (Pool::MeanSqrtLen, [12.0 / 3f64.sqrt(), 3.0 / 3f64.sqrt()].map(|x| x as f32)),
        ];
        for (pool, expected) in cases {
            for parts in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
                assert_eq!(Pooling::from(pool).finish(&gathered(pool, parts)), [expected], "{pool:?} in {parts:?}");
            }
        }
        assert_eq!(Pooling::from(Pool::None).finish(&gathered(Pool::None, &[2, 1])), [[1.0, -2.0], [3.0, 4.0], [8.0, 1.0]]);
    }

    #[test]
    fn layers_behind() {
        let first = Dense { weight: vec![1.0, 0.0, 0.0, 2.0, -1.0, 0.0], bias: Some(vec![0.5, 1.0, 0.0]), inputs: 2, f: None, norm: None };
        let second = Dense { weight: vec![1.0, 1.0, 1.0, -1.0, 0.0, 0.0], bias: None, inputs: 3, f: Some(Function::Relu), norm: None };
        let pooling = Pooling { pool: Pool::Mean, dense: vec![first, second] };
        // 4.5, 3, -4; then their sum, and nothing below zero.
        assert_eq!(pooling.finish(&gathered(Pool::Mean, &[3])), [[3.5, 0.0]]);
        assert_eq!((pooling.width(2), pooling.fault(2)), (2, None));
        let norm = LayerNorm { weight: vec![2.0, 1.0], bias: Some(vec![0.0, 5.0]), eps: 0.0 };
        let normed = Dense { weight: vec![1.0, 0.0, 0.0, 1.0], bias: None, inputs: 2, f: None, norm: Some(norm) };
        assert_eq!(Pooling { pool: Pool::Mean, dense: vec![normed] }.finish(&gathered(Pool::Mean, &[3])), [[2.0, 4.0]]);
        assert_eq!(pooling.fault(4).as_deref(), Some("layer 0 behind the pooling takes 2 numbers, but is given 4"));
    }

    #[test]
    fn forms() {
        let of = |pool: Pool, dimensions| {
            let mut vectors = vec![vec![3.0, -4.0, 12.0]];
            Pooling::from(pool).form(&mut vectors, Form { dimensions, norm: Norm::P(2) });
            vectors.remove(0)
        };
        assert_eq!(of(Pool::Mean, None), [3.0 / 13.0, -4.0 / 13.0, 12.0 / 13.0]);
        assert_eq!(of(Pool::Mean, Some(2)), [0.6, -0.8]);
        assert_eq!(of(Pool::None, Some(2)), [3.0, -4.0]);
    }

    #[test]
    fn needed_states() {
        let of = |pool: Pool| [(0, 4), (4, 6)].map(|(start, len)| pool.outputs(start, len, 10));
        assert_eq!([of(Pool::Last), of(Pool::Cls), of(Pool::Mean), of(Pool::None)], [[0, 1], [4, 0], [4, 6], [4, 6]]);
    }

    #[test]
    fn norms() {
        let of = |n: i64, mut vector: [f32; 2]| {
            Norm::numbered(n).expect("a norm").apply(&mut vector);
            vector
        };
        let vector = [3.0, -4.0];
        assert_eq!(of(-1, vector), vector);
        assert_eq!(of(0, vector), [24570.0, -32760.0]);
        assert_eq!(of(1, vector), [3.0 / 7.0, -4.0 / 7.0]);
        assert_eq!(of(2, vector), [0.6, -0.8]);
        assert_eq!(of(3, vector), [3.0, -4.0].map(|x: f64| (x / 91f64.powf(1.0 / 3.0)) as f32));
        assert_eq!(of(2, [0.0; 2]), [0.0; 2]);
        assert_eq!((Norm::numbered(-2), Norm::numbered(1 << 40)), (None, None));
    }
}
