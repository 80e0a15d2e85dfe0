//! How much each input of a matrix matters: the mean square of the activations that it was multiplied with, as
//! llama.cpp's `llama-imatrix` gathers it. Both of its formats are read.

use crate::{Error, Result};
use onebit_formats::Checkpoint;
use std::{collections::BTreeMap, path::Path};

/// Importance of inputs, by tensor.
#[derive(Clone, Debug, Default)]
pub struct Importance {
    /// For each tensor one number for each input, for a stack of experts one such run for each expert.
    tensors: BTreeMap<String, Vec<f32>>,
}

/// The most bytes of a file in the old format.
const MOST: u64 = 4 << 30;

impl Importance {
    /// Reads a file: GGUF (`NAME.in_sum2`, `NAME.counts`), or the binary format that came before it.
    pub fn read(path: &Path) -> Result<Self> {
        let io = |e| Error::File(onebit_formats::Error::io(path)(e));
        let mut head = [0; 4];
        let mut file = std::fs::File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        std::io::Read::read_exact(&mut file, &mut head).map_err(io)?;
        if head == *b"GGUF" {
            return Self::from_gguf(path);
        }
        if size > MOST {
            return Err(Error::Importance {
                path: path.into(),
                what: format!("{size} bytes are too many for a file of importance; the limit is {MOST}"),
            });
        }
        Self::from_old(&std::fs::read(path).map_err(io)?).map_err(|what| Error::Importance { path: path.into(), what })
    }

    fn from_gguf(path: &Path) -> Result<Self> {
        let fail = |what: String| Error::Importance { path: path.into(), what };
        let file = Checkpoint::open(path)?;
        let mut tensors = BTreeMap::new();
        for (name, sums) in &file.tensors {
            let Some(name) = name.strip_suffix(".in_sum2") else { continue };
            let counts = file.tensor(&format!("{name}.counts")).ok_or_else(|| fail(format!("`{name}.counts` is missing")))?.to_f32();
            let mut values = sums.to_f32();
            if counts.is_empty() || !values.len().is_multiple_of(counts.len()) || values.is_empty() {
                return Err(fail(format!("`{name}` has {} sums for {} counts", values.len(), counts.len())));
            }
            let each = values.len() / counts.len();
            for (run, count) in values.chunks_exact_mut(each).zip(&counts) {
                // An expert that was never asked says nothing.
                let by = if *count > 0.0 { 1.0 / count } else { 0.0 };
                run.iter_mut().for_each(|v| *v = if by > 0.0 { *v * by } else { 1.0 });
            }
            tensors.insert(name.to_string(), values);
        }
        Self::checked(tensors).map_err(fail)
    }

    /// `i32 entries`, then for each: `i32 length, name, i32 calls, i32 values, f32[values]`; what follows is about the data.
    fn from_old(bytes: &[u8]) -> Result<Self, String> {
        fn int(rest: &mut &[u8]) -> Result<i32, String> {
            let (head, tail) = rest.split_first_chunk::<4>().ok_or("it ends in the middle")?;
            *rest = tail;
            Ok(i32::from_le_bytes(*head))
        }
        fn take<'a>(rest: &mut &'a [u8], count: i32, size: usize, what: &str) -> Result<&'a [u8], String> {
            let bytes = usize::try_from(count).ok().and_then(|n| n.checked_mul(size)).filter(|n| *n <= rest.len());
            let n = bytes.ok_or_else(|| format!("{what} of {count}, with {} bytes left: this is no file of importance", rest.len()))?;
            let (head, tail) = rest.split_at(n);
            *rest = tail;
            Ok(head)
        }
        let mut rest = bytes;
        let entries = int(&mut rest)?;
        let mut tensors = BTreeMap::new();
        for _ in 0..entries {
            let length = int(&mut rest)?;
            let name = String::from_utf8(take(&mut rest, length, 1, "a name")?.to_vec()).map_err(|_| "a name is not UTF-8")?;
            let calls = int(&mut rest)?.max(1) as f32;
            let count = int(&mut rest)?;
            let values = take(&mut rest, count, 4, "a list")?;
            let values = values.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b) / calls).collect();
            tensors.insert(name, values);
        }
        Self::checked(tensors)
    }

    fn checked(tensors: BTreeMap<String, Vec<f32>>) -> Result<Self, String> {
        if tensors.is_empty() {
            return Err("it holds the importance of no tensor".into());
        }
        match tensors.iter().find(|t| t.1.iter().any(|v| !v.is_finite() || *v < 0.0)) {
            Some((name, _)) => Err(format!("the importance of `{name}` holds a number that is negative or none")),
            None => Ok(Self { tensors }),
        }
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether it knows no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The importance for row `row` of a tensor of `rows` rows and `columns` columns; `None` where nothing is known of it.
    pub(crate) fn of(&self, name: &str, row: usize, rows: usize, columns: usize) -> Result<Option<&[f32]>> {
        let Some(all) = self.tensors.get(name) else { return Ok(None) };
        let runs = all.len() / columns.max(1);
        if runs == 0 || !all.len().is_multiple_of(columns) || !rows.is_multiple_of(runs) {
            let what = format!("importance is known of {} inputs, but it has {columns}: it was gathered from another model", all.len());
            return Err(Error::Tensor { tensor: name.into(), what });
        }
        let run = row / (rows / runs);
        Ok(Some(&all[run * columns..(run + 1) * columns]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(entries: i32, body: &[&[u8]]) -> Vec<u8> {
        [&entries.to_le_bytes()[..], &body.concat()].concat()
    }

    #[test]
    fn the_old_format() {
        let int = |v: i32| v.to_le_bytes();
        let values: Vec<u8> = [2.0f32, 4.0, 6.0, 8.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let file = old(1, &[&int(3), b"a.w", &int(2), &int(4), &values, b"rest"]);
        let i = Importance::from_old(&file).unwrap();
        assert_eq!(i.of("a.w", 0, 6, 4).unwrap().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        // Two experts of three rows each.
        assert_eq!(i.of("a.w", 2, 6, 2).unwrap().unwrap(), [1.0, 2.0]);
        assert_eq!(i.of("a.w", 3, 6, 2).unwrap().unwrap(), [3.0, 4.0]);
        assert!(i.of("b.w", 0, 6, 4).unwrap().is_none());
        assert!(i.of("a.w", 0, 6, 3).unwrap_err().to_string().contains("another model"));
        for cut in 0..file.len() - 4 {
            assert!(Importance::from_old(&file[..cut]).is_err(), "cut at {cut}");
        }
        for bad in [
            old(0, &[]),
            old(1, &[&int(-1)]),
            old(i32::MAX, &[&int(i32::MAX)]),
            old(1, &[&int(1), b"x", &int(1), &int(1), &f32::NAN.to_le_bytes()]),
        ] {
            assert!(Importance::from_old(&bad).is_err());
        }
    }
}
