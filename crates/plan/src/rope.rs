use serde::Serialize;

/// Axes that a position may have: time, height, width and one more.
pub const AXES: usize = 4;

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
    /// The axis of the token's position that turns each pair, where positions have several (2D, mRoPE); empty where they have one.
    pub axes: Vec<u8>,
    /// What changes where sequences may get longer than the model was first made for. Devices need not look:
    /// [`Plan::fit_context`](crate::Plan::fit_context) settles it before loading.
    pub longer: Option<Longer>,
}

/// A rotation that depends on how long sequences may get.
///
/// Reference implementations look at each sequence's length anew, though its keys were turned when it was shorter. Here the longest
/// context that an executable is made for decides once, so that all keys and queries of a sequence are turned alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Longer {
    /// Tokens up to which nothing changes.
    pub beyond: usize,
    /// What changes.
    pub stretch: Stretch,
}

/// How a rotation changes for longer contexts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Stretch {
    /// Other frequencies and another scale (LongRoPE, Ding et al. 2024, arXiv:2402.13753).
    Other {
        /// Radians per position, one for each pair.
        frequencies: Vec<f32>,
        /// Factor on the rotated dimensions.
        scale: f32,
    },
    /// A base that grows with the context: `base * (factor * context / beyond - factor + 1)^(dims / (dims - 2))` (dynamic NTK, as
    /// transformers' `modeling_rope_utils.py` has it).
    Base {
        /// The base up to `beyond`.
        base: f32,
        /// The growth.
        factor: f32,
    },
}

impl Rope {
    /// Becomes what it is for contexts of up to `context` tokens.
    pub fn fit_context(&mut self, context: usize) {
        let Some(longer) = self.longer.take_if(|longer| context > longer.beyond) else { return };
        match longer.stretch {
            Stretch::Other { frequencies, scale } => (self.frequencies, self.scale) = (frequencies, scale),
            Stretch::Base { base, factor } => {
                let (dims, factor) = (self.dims() as f64, f64::from(factor));
                let growth = factor * context as f64 / longer.beyond as f64 - (factor - 1.0);
                let base = f64::from(base) * growth.powf(dims / (dims - 2.0));
                self.frequencies = Self::frequencies(base as f32, self.dims());
            }
        }
    }

    /// The rotation by one position, without a stretch.
    pub fn new(style: RopeStyle, frequencies: Vec<f32>) -> Self {
        Self { style, frequencies, scale: 1.0, axes: vec![], longer: None }
    }

    /// The angle of each pair at a position of so many axes, in f32 as the reference implementations have it: its rounding is part of
    /// the model.
    pub fn angles(&self, position: [i64; AXES]) -> impl Iterator<Item = f32> + '_ {
        let axis = move |pair: usize| self.axes.get(pair).map_or(0, |axis| usize::from(*axis));
        self.frequencies.iter().enumerate().map(move |(pair, f)| position[axis(pair)] as f32 * f)
    }

    /// Dimensions of a head that turn; those after them pass unchanged.
    pub fn dims(&self) -> usize {
        self.frequencies.len() * 2
    }
    /// `1 / theta^(2i / dims)`, in f32 as the reference implementations compute it; one more where `dims` is odd, as they have it.
    pub fn frequencies(theta: f32, dims: usize) -> Vec<f32> {
        (0..dims.div_ceil(2)).map(|i| 1.0 / theta.powf((2 * i) as f32 / dims as f32)).collect()
    }
}
