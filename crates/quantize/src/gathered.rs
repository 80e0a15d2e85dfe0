//! Importance in the making: sums of squares of what matrices are multiplied with, and the two forms of files that hold them.

use crate::{Error, Result};
use onebit_formats::{Meta, Texts, gguf::Writer, write_file};
use onebit_quants::F32;
use std::{collections::BTreeMap, path::Path};

/// The sums of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Sums of squares, `[experts, inputs]`; one expert for a matrix of its own.
    pub squares: Vec<f64>,
    /// Rows that were added, `[experts]`.
    pub counts: Vec<u64>,
}

/// What was gathered of a model over a text.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// By the tensors' names in GGUF files.
    pub tensors: BTreeMap<String, Sums>,
    /// Where the text came from.
    pub text: String,
    /// Windows that were read.
    pub windows: usize,
    /// Tokens in a window.
    pub window: usize,
}

/// How the file is written; [`Importance::read`](crate::Importance::read) takes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// GGUF with `NAME.in_sum2` and `NAME.counts`, as llama.cpp writes it since 2025.
    #[default]
    Gguf,
    /// The binary format that came before it, and that most published files have.
    Dat,
}

impl Gathered {
    /// Writes the file, which appears when it is complete.
    pub fn write(&self, path: &Path, format: Format) -> Result<()> {
        if self.tensors.is_empty() {
            return Err(Error::Importance { path: path.into(), what: "nothing was gathered that could be written".into() });
        }
        match format {
            Format::Gguf => self.write_gguf(path),
            Format::Dat => Ok(write_file(path, &self.dat())?),
        }
    }

    fn write_gguf(&self, path: &Path) -> Result<()> {
        let mut writer = Writer::new(path);
        let mut texts = Texts::default();
        texts.push(self.text.as_bytes());
        writer.pair("general.type", &Meta::Text("imatrix".into()))?;
        writer.pair("imatrix.datasets", &Meta::Texts(texts))?;
        writer.pair("imatrix.chunk_count", &Meta::Unsigned(self.windows as u64))?;
        writer.pair("imatrix.chunk_size", &Meta::Unsigned(self.window as u64))?;
        for (name, sums) in &self.tensors {
            let experts = sums.counts.len();
            writer.tensor(&format!("{name}.in_sum2"), F32, &[experts, sums.squares.len() / experts.max(1)])?;
            writer.tensor(&format!("{name}.counts"), F32, &[experts, 1])?;
        }
        let bytes = |values: &mut dyn Iterator<Item = f32>| values.flat_map(f32::to_le_bytes).collect::<Vec<_>>();
        let mut data = writer.begin()?;
        for (name, sums) in &self.tensors {
            data.write(&format!("{name}.in_sum2"), &bytes(&mut sums.squares.iter().map(|s| *s as f32)))?;
            data.write(&format!("{name}.counts"), &bytes(&mut sums.counts.iter().map(|c| *c as f32)))?;
        }
        Ok(data.finish()?)
    }

    /// `i32 entries`, then for each `i32 length, name, i32 calls, i32 values, f32[values]`, values being means times calls; then the
    /// number of windows and where the text came from. An expert that was never asked has the importance 1 throughout.
    fn dat(&self) -> Vec<u8> {
        let int = |n: usize| i32::try_from(n).unwrap_or(i32::MAX).to_le_bytes();
        let mut out = int(self.tensors.len()).to_vec();
        for (name, sums) in &self.tensors {
            out.extend(int(name.len()));
            out.extend(name.as_bytes());
            out.extend(int(self.windows));
            out.extend(int(sums.squares.len()));
            let each = sums.squares.len() / sums.counts.len().max(1);
            for (run, count) in sums.squares.chunks(each.max(1)).zip(&sums.counts) {
                let mean = |sum: &f64| if *count > 0 { sum / *count as f64 } else { 1.0 };
                out.extend(run.iter().flat_map(|sum| ((mean(sum) * self.windows as f64) as f32).to_le_bytes()));
            }
        }
        out.extend(int(self.windows));
        out.extend(int(self.text.len()));
        out.extend(self.text.as_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Importance;

    /// Both forms give the means back; the second expert was never asked.
    #[test]
    fn what_is_written_is_read() {
        let sums = |squares: &[f64], counts: &[u64]| Sums { squares: squares.to_vec(), counts: counts.to_vec() };
        let tensors = BTreeMap::from([
            ("blk.0.attn_q.weight".to_string(), sums(&[8.0, 2.0, 0.0, 4.0], &[8])),
            ("blk.0.ffn_up_exps.weight".to_string(), sums(&[3.0, 6.0, 0.0, 0.0], &[3, 0])),
        ]);
        let gathered = Gathered { tensors, text: "some.txt".into(), windows: 5, window: 512 };
        let folder = tempfile::tempdir().unwrap();
        for (format, name) in [(Format::Gguf, "i.gguf"), (Format::Dat, "i.dat")] {
            let path = folder.path().join(name);
            gathered.write(&path, format).unwrap();
            let read = Importance::read(&path).unwrap();
            assert_eq!(read.len(), 2);
            let of = |name: &str, row, columns| read.of(name, row, 4, columns).unwrap().unwrap().to_vec();
            let close = |a: Vec<f32>, b: &[f32]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
            close(of("blk.0.attn_q.weight", 0, 4), &[1.0, 0.25, 0.0, 0.5]);
            close(of("blk.0.ffn_up_exps.weight", 0, 2), &[1.0, 2.0]);
            close(of("blk.0.ffn_up_exps.weight", 2, 2), &[1.0, 1.0]);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(Gathered::default().write(&folder.path().join("x"), Format::Gguf).is_err());
    }
}
