//! Writes NumPy's `.npy` files (version 1.0 of the format, described in `numpy.lib.format`).

use crate::{Error, Result, layout::product, output::Output};
use std::path::Path;

/// An array of f32 in the making: its shape is known, its values come in C order, in pieces of any size (rows, say).
///
/// ```
/// # fn main() -> onebit_formats::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("x.npy");
/// let mut npy = onebit_formats::npy::Writer::create(&path, &[2, 3])?;
/// npy.write(&[1.0, 2.0, 3.0])?;
/// npy.write(&[4.0, 5.0, 6.0])?;
/// npy.finish()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Writer {
    out: Output,
    left: usize,
    shape: Vec<usize>,
}

impl Writer {
    /// Starts a file that appears at `path` with [`finish`](Self::finish). An existing pipe or device is written directly.
    pub fn create(path: impl AsRef<Path>, shape: &[usize]) -> Result<Self> {
        let path = path.as_ref();
        let left = product(shape).filter(|n| *n <= isize::MAX as usize / 4);
        let left = left.ok_or_else(|| Error::invalid(path, format!("cannot hold shape {shape:?}: it has too many values")))?;
        let header = header(shape);
        let mut out = Output::create(path, (header.len() + left * 4) as u64)?;
        out.write(&header)?;
        Ok(Self { out, left, shape: shape.to_vec() })
    }
    /// Appends values.
    pub fn write(&mut self, values: &[f32]) -> Result<()> {
        let Some(left) = self.left.checked_sub(values.len()) else {
            return Err(Error::invalid(self.out.path(), format!("more values came than shape {:?} holds", self.shape)));
        };
        self.left = left;
        // In pieces, so that the bytes need no buffer of the array's size.
        let mut bytes = [0u8; 4096];
        for some in values.chunks(bytes.len() / 4) {
            for (to, from) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(some) {
                *to = from.to_le_bytes();
            }
            self.out.write(&bytes[..some.len() * 4])?;
        }
        Ok(())
    }
    /// Makes the file durable and moves it to its place. Fails, leaving no file, when values are missing.
    pub fn finish(self) -> Result<()> {
        if self.left > 0 {
            return Err(Error::invalid(self.out.path(), format!("{} values of shape {:?} are missing", self.left, self.shape)));
        }
        self.out.finish()
    }
}

/// Magic, version, and a Python dictionary padded so that the data lies on a multiple of 64.
fn header(shape: &[usize]) -> Vec<u8> {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    // As Python prints a tuple: one of one element has a comma.
    let comma = if dims.len() == 1 { "," } else { "" };
    let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{comma}), }}", dims.join(", "));
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    let len = (out.len() + 2 + dict.len() + 1).next_multiple_of(64) - out.len() - 2;
    out.extend((len as u16).to_le_bytes());
    out.extend(dict.as_bytes());
    out.resize(out.len() + len - dict.len() - 1, b' ');
    out.push(b'\n');
    out
}
