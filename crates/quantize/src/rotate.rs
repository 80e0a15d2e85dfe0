//! Rotating weights before they are encoded (Ashkboos et al. 2024, arXiv:2404.00456), as PrismML's files have it: each row `w`
//! of a matrix becomes `H (signs * w) / sqrt(block)` in blocks, `H` being Sylvester's Hadamard matrix. Large values spread over
//! their block, so that few bits lose less; whoever runs the file turns the inputs in the same way.

use crate::{Error, Result, recipe::is_weight};
use onebit_formats::{Checkpoint, Meta, Tensor, Texts};
use std::collections::BTreeMap;

/// The largest block, which PrismML's files have; larger ones bring little.
const LARGEST: usize = 1024;

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

/// What llama.cpp's forks turn inputs for, by the last part of a tensor's name.
const MATRICES: [&str; 19] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_gate",
    "attn_output",
    "ssm_out",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_exps",
    "ffn_up_exps",
    "ffn_down_exps",
    "ffn_gate_up_exps",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "output",
    "token_embd",
];

/// The rotation of a file's weights.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    block: usize,
    /// Signs by width.
    signs: BTreeMap<usize, Vec<f32>>,
    names: Vec<String>,
    tied: bool,
}

impl Rotation {
    /// A rotation of all matrices of `checkpoint` that products or look-ups read. `block`: numbers that are mixed, at most; by default
    /// as many as all widths allow, up to 1024.
    pub(crate) fn of(checkpoint: &Checkpoint, block: Option<usize>) -> Result<Self> {
        let path = checkpoint.path.display();
        if let Some(key) = checkpoint.metadata.pairs.keys().find(|k| is_rotation(k)) {
            return Err(Error::Asked(format!("{path} is rotated already, as `{key}` says")));
        }
        let tensors: Vec<&Tensor> = checkpoint.tensors.values().filter(|t| turns(t)).collect();
        if let Some(t) = tensors.iter().find(|t| t.ty().info().codes.is_some()) {
            let what = format!("it is stored as {}: rotating needs an original in F32, F16 or BF16", t.ty());
            return Err(Error::Tensor { tensor: t.name().into(), what });
        }
        let most = tensors.iter().map(|t| 1 << t.columns().trailing_zeros()).min().unwrap_or(0).min(LARGEST);
        if most < 2 {
            return Err(Error::Asked(format!("{path} holds no matrices of even width that could be rotated")));
        }
        let block = block.unwrap_or(most);
        if !block.is_power_of_two() || block < 2 {
            return Err(Error::Asked(format!("--rotate={block}: a block is a power of two, 2 or more")));
        }
        if let Some(t) = tensors.iter().find(|t| !t.columns().is_multiple_of(block)) {
            let what = format!("its rows of {} are not divided by blocks of {block}; --rotate={most} fits all", t.columns());
            return Err(Error::Tensor { tensor: t.name().into(), what });
        }
        let signs = tensors.iter().map(|t| (t.columns(), signs(t.columns()))).collect();
        let names = tensors.iter().map(|t| t.name().to_string()).collect();
        Ok(Self { block, signs, names, tied: checkpoint.tensor(OUTPUT).is_none() })
    }

    /// What the file says of it.
    pub(crate) fn pairs(&self) -> Vec<(String, Meta)> {
        let text = |s: &str| Meta::Text(s.into());
        let list = |names: &mut dyn Iterator<Item = &String>| {
            let mut texts = Texts::default();
            names.for_each(|n| texts.push(n.as_bytes()));
            Meta::Texts(texts)
        };
        let embedding = |n: &&String| *n == EMBEDDING;
        // Version 2 is version 1 with an output matrix that is the embedding.
        let shared = self.tied && self.names.iter().any(|n| n == EMBEDDING);
        let mut pairs = vec![
            ("version", Meta::Unsigned(if shared { 2 } else { 1 })),
            ("transform", text("normalized-sylvester-walsh-hadamard")),
            ("axis", text("input-last-dimension")),
            ("block_size", Meta::Unsigned(self.block as u64)),
            ("sign_mode", text("explicit")),
            ("sign_widths", Meta::Integers(self.signs.keys().map(|w| *w as i64).collect())),
            ("sign_values", Meta::Integers(self.signs.values().flatten().map(|s| *s as i64).collect())),
            ("weight_names", list(&mut self.names.iter().filter(|n| !embedding(n)))),
            ("inverse_weight_names", list(&mut self.names.iter().filter(embedding))),
        ];
        if shared {
            pairs.push(("tied_output", Meta::Bool(true)));
        }
        pairs.into_iter().map(|(k, v)| (format!("prism.hadamard.{k}"), v)).collect()
    }

    /// Whether the tensor is rotated.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }

    /// Turns a row.
    pub(crate) fn turn(&self, row: &mut [f32]) {
        let scale = (1.0 / (self.block as f64).sqrt()) as f32;
        if let Some(signs) = self.signs.get(&row.len()) {
            row.iter_mut().zip(signs).for_each(|(x, s)| *x *= s * scale);
        }
        let mut step = 1;
        while step < self.block {
            for pair in row.chunks_exact_mut(2 * step) {
                let (low, high) = pair.split_at_mut(step);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            step *= 2;
        }
    }

    /// The importance of turned inputs. Each is a sum of all inputs of its block with factors of the same size, so that where those
    /// are independent, its mean square is the mean of theirs.
    pub(crate) fn spread(&self, importance: &[f32]) -> Vec<f32> {
        let mean = |block: &[f32]| (block.iter().map(|v| f64::from(*v)).sum::<f64>() / block.len() as f64) as f32;
        importance.chunks(self.block).flat_map(|block| std::iter::repeat_n(mean(block), block.len())).collect()
    }
}

/// Whether a key says that weights are rotated.
fn is_rotation(key: &str) -> bool {
    key.starts_with("prism.hadamard.") || key.starts_with("onebit.hadamard")
}

/// Whether a tensor is a matrix that products or look-ups read.
fn turns(tensor: &Tensor) -> bool {
    let name = tensor.name().strip_suffix(".weight").and_then(|n| n.rsplit('.').next());
    is_weight(tensor.name(), tensor.shape()) && name.is_some_and(|n| MATRICES.contains(&n))
}

/// Signs for a width, drawn by SplitMix64 (Steele et al. 2014) from the width, so that every file of a width has the same.
fn signs(width: usize) -> Vec<f32> {
    let mut state = width as u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        if (z ^ (z >> 31)) >> 63 == 1 { -1.0 } else { 1.0 }
    };
    (0..width).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: H_4 of (1, -2, 3, 4), halved.
    #[test]
    fn rows_and_importance() {
        let rotation = Rotation { block: 4, signs: [(4, vec![1.0, -1.0, 1.0, 1.0])].into(), names: vec![], tied: false };
        let mut row = [1.0, 2.0, 3.0, 4.0];
        rotation.turn(&mut row);
        assert_eq!(row, [3.0, 1.0, -4.0, 2.0]);
        assert_eq!(rotation.spread(&[1.0, 2.0, 3.0, 6.0, 0.0, 0.0, 4.0, 0.0]), [3.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn signs_are_mixed() {
        let s = signs(1024);
        let sum: f32 = s.iter().sum();
        assert!(s.iter().all(|s| s.abs() == 1.0) && sum.abs() < 100.0 && s == signs(1024) && s[..64] != signs(64)[..]);
    }
}
