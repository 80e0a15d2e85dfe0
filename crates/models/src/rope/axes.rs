//! Positions of several axes: time, height and width of what a model sees (multimodal rotation, mRoPE), rows and columns (2D).

use super::RopeKeys;
use crate::{Result, settings::Settings};
use onebit_formats::Meta;

/// How the axes of a position share the pairs of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// A run of pairs for each (Qwen2-VL, Wang et al. 2024, arXiv:2409.12191).
    Runs,
    /// In turns: pair `3i + a` belongs to axis `a` as long as that has pairs left, the others to the first (Qwen3-VL, Bai et al. 2025,
    /// arXiv:2511.21631). The counts, where the settings leave them out.
    Turns(&'static [usize]),
}

/// Axes that a position has at most: llama.cpp's files count four.
const MOST: usize = 4;

/// How many pairs belong to each axis, in GGUF files.
pub(crate) const SECTIONS: &str = "rope.dimension_sections";

impl Settings<'_> {
    /// Whether it is stated how many pairs belong to each axis.
    pub(crate) fn states_axes(&self) -> bool {
        self.integers(SECTIONS).is_some() || !self.is_gguf() && self.json(&RopeKeys::FULL.key("mrope_section")).is_some()
    }

    /// The axis that turns each of the `pairs`; none where there is one only. For text all axes are at the same position.
    pub(super) fn axes(&self, keys: &RopeKeys, implied: Axes, pairs: usize) -> Result<Vec<u8>> {
        let key = keys.key("mrope_section") + "|" + &keys.key("xdrope_section");
        let stated = match self.is_gguf() {
            true => self.integers(SECTIONS).map(|list| list.iter().map(|n| usize::try_from(*n).ok()).collect()),
            false => {
                let count = |n: &serde_json::Value| n.as_u64().and_then(|n| usize::try_from(n).ok());
                self.json(&key).map(|v| v.as_array().and_then(|list| list.iter().map(count).collect::<Option<Vec<_>>>()))
            }
        };
        let sections = match (stated, implied) {
            (Some(stated), _) => stated
                .filter(|list| list.len() <= MOST)
                .ok_or_else(|| self.wrong(&key, SECTIONS, format!("should be a list of up to {MOST} counts")))?,
            (None, Axes::Turns(usual)) => usual.to_vec(),
            (None, Axes::Runs) => return Ok(vec![]),
        };
        let usual = implied != Axes::Runs;
        let in_turns = usual || self.implied(&keys.key("mrope_interleaved"), false)?;
        self.hf_only(in_turns != usual, "the axes of its positions take turns, where GGUF files of its architecture mean runs");
        let axes = if in_turns { turns(&sections, pairs) } else { runs(&sections) };
        if axes.len() != pairs {
            return Err(self.wrong(&key, SECTIONS, format!("has {} pairs in all, but {pairs} turn", axes.len())));
        }
        // Who takes turns has no use for more than its share; llama.cpp refuses sections beyond the head.
        let most = if in_turns { pairs.div_ceil(sections.len().max(1)) } else { pairs };
        let mut noted: Vec<i64> = sections.iter().map(|n| (*n).min(most) as i64).collect();
        noted.resize(MOST, 0);
        self.note(SECTIONS, Meta::Integers(noted));
        Ok(if axes.iter().all(|axis| *axis == 0) { vec![] } else { axes })
    }
}

/// A run of pairs for each axis.
fn runs(sections: &[usize]) -> Vec<u8> {
    (0..).zip(sections).flat_map(|(axis, n)| std::iter::repeat_n(axis, *n)).collect()
}

/// The axes in turns. The first takes what the others leave.
fn turns(sections: &[usize], pairs: usize) -> Vec<u8> {
    let axes = sections.iter().rposition(|n| *n > 0).map_or(1, |last| last + 1);
    let one = |pair: usize| if pair / axes < sections[pair % axes] { (pair % axes) as u8 } else { 0 };
    (0..pairs).map(|pair| if sections.is_empty() { 0 } else { one(pair) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen2-VL's, as `recomposition_frequencies` of transformers' `modeling_qwen2_vl.py` chooses them, and Qwen3.5's, by
    /// `modeling_qwen3_5.py` (positions of 0, 1 and 2 in place of angles).
    #[test]
    fn shares() {
        assert_eq!(runs(&[2, 3, 3]), [0, 0, 1, 1, 1, 2, 2, 2]);
        assert_eq!(turns(&[3, 3, 2], 8), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(turns(&[4, 2, 2], 8), [0, 1, 2, 0, 1, 2, 0, 0]);
        assert_eq!(turns(&[11, 11, 10, 0], 32).iter().map(|a| usize::from(*a)).sum::<usize>(), 11 + 20);
        assert_eq!(turns(&[], 2), [0, 0]);
    }
}
