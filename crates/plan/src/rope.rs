use serde::Serialize;

/// Which dimensions of a head a rotation pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RopeStyle {
    /// Dimension `i` with `i + dims / 2` (GPT-NeoX; Hugging Face's `rotate_half`).
    Halves,
    /// Dimension `2i` with `2i + 1` (GPT-J; GGUF files of `llama`).
    Pairs,
}

/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) on the first `2 * frequencies.len()` dimensions of each head.
///
/// Pair `i` of a head at position `p` is rotated by the angle `p * frequencies[i]` and multiplied by `scale`.
/// All ways to stretch a context (linear, Llama 3, YaRN, ...) end in the frequencies and the scale, so devices know only this.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rope {
    /// The pairing.
    pub style: RopeStyle,
    /// Radians per position, one for each pair.
    pub frequencies: Vec<f32>,
    /// Factor on the rotated dimensions (YaRN's attention factor); 1 for most.
    pub scale: f32,
}

impl Rope {
    /// Dimensions of a head that turn; those after them pass unchanged.
    pub fn dims(&self) -> usize {
        self.frequencies.len() * 2
    }
    /// `1 / theta^(2i / dims)`, in f32 as the reference implementations compute it.
    pub fn frequencies(theta: f32, dims: usize) -> Vec<f32> {
        (0..dims / 2).map(|i| 1.0 / theta.powf((2 * i) as f32 / dims as f32)).collect()
    }
}
