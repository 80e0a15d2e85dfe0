//! Files that appear whole or not at all, and the data part that the writers of both formats share.

use crate::{Error, Result, bytes::quote};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufWriter, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A file that is written beside its final place and moved there when complete. Dropped before, it leaves nothing behind.
///
/// A pipe or device that is at `path` already (`/dev/stdout`) is written directly.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// Where the bytes go until [`Self::finish`]; `None` when `path` is written directly.
    partial: Option<PathBuf>,
    file: Option<BufWriter<File>>,
}

impl Output {
    /// Starts a file that will have `size` bytes, which are reserved on the disk where its file system can.
    pub(crate) fn create(path: &Path, size: u64) -> Result<Self> {
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(Error::invalid(path, "is a folder; a file is to be written here")),
            Ok(meta) if !meta.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(Error::io(path))?;
                return Ok(Self { path: path.to_path_buf(), partial: None, file: Some(buffered(file)) });
            }
            _ => {}
        }
        // What a link points to is replaced, not the link.
        let real = if path.is_symlink() { path.canonicalize().map_err(Error::io(path))? } else { path.to_path_buf() };
        let Some(name) = real.file_name() else { return Err(Error::invalid(path, "names no file")) };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let partial = real.with_file_name(hidden);
        let file = claim(&partial)?;
        let out = Self { path: real, partial: Some(partial), file: Some(buffered(file)) };
        out.reserve(size)?;
        Ok(out)
    }

    fn reserve(&self, size: u64) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| size > 0) else { return Ok(()) };
        match rustix::fs::fallocate(file.get_ref(), rustix::fs::FallocateFlags::empty(), 0, size) {
            Err(e) if e == rustix::io::Errno::NOSPC || e == rustix::io::Errno::FBIG || e == rustix::io::Errno::DQUOT => {
                Err(self.fault(std::io::Error::from(e), size))
            }
            // Other refusals mean that the file system cannot reserve; writing will tell.
            _ => Ok(()),
        }
    }

    fn fault(&self, e: std::io::Error, size: u64) -> Error {
        match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Error::invalid(
                &self.path,
                format!("cannot be written: {size} bytes are needed ({e}); free some space or choose another disk"),
            ),
            _ => Error::io(&self.path)(e),
        }
    }

    /// The final place.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self.file.as_mut().map(|f| f.write_all(bytes)) {
            Some(Err(e)) => Err(self.fault(e, bytes.len() as u64)),
            _ => Ok(()),
        }
    }

    /// Makes the file durable and moves it to its place.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let direct = self.partial.is_none();
        let done = file.into_inner().map_err(|e| e.into_error()).and_then(|f| if direct { Ok(()) } else { f.sync_all() });
        done.map_err(|e| self.fault(e, 0))?;
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.path).map_err(Error::io(&self.path))?;
            self.partial = None;
        }
        Ok(())
    }
}

/// Writes `bytes` to the file `path`, which appears whole or not at all; a pipe or device is written to.
///
/// # Errors
/// When the folder, the disk or the file cannot take them.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut out = Output::create(path, bytes.len() as u64)?;
    out.write(bytes)?;
    out.finish()
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // Nothing to do about a failure: the file is hidden and named as partial.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Opens `partial`, empty, and for this process alone. What a killed process left there is overwritten.
fn claim(partial: &Path) -> Result<File> {
    loop {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(partial).map_err(Error::io(partial))?;
        match file.try_lock() {
            Ok(()) => {}
            // Some network file systems have no locks.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid(partial, "is being written by another process; wait for it, or choose another name"));
            }
            Err(TryLockError::Error(e)) => return Err(Error::io(partial)(e)),
        }
        // Between opening and locking, another process may have moved the file to its place: then it is not ours to empty.
        let ours = file.metadata().map_err(Error::io(partial))?;
        if fs::symlink_metadata(partial).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            file.set_len(0).map_err(Error::io(partial))?;
            return Ok(file);
        }
    }
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(1 << 20, file)
}

/// The data of a file whose header is written: takes each tensor's bytes, in the order of declaration.
#[derive(Debug)]
pub struct DataWriter {
    out: Output,
    /// Names and bytes of the tensors that are to come, last first.
    todo: Vec<(String, usize)>,
    /// Bytes of the current tensor that are written.
    written: usize,
    alignment: usize,
}

impl DataWriter {
    /// Writes `header`, which is followed by `tensors` (name, bytes), each padded with zeros to `alignment`.
    pub(crate) fn create(path: &Path, header: &[u8], mut tensors: Vec<(String, usize)>, alignment: usize) -> Result<Self> {
        let size = tensors.iter().fold(header.len() as u64, |a, t| a.saturating_add(t.1.next_multiple_of(alignment) as u64));
        let mut out = Output::create(path, size)?;
        out.write(header)?;
        tensors.reverse();
        let mut writer = Self { out, todo: tensors, written: 0, alignment };
        writer.advance()?;
        Ok(writer)
    }
    /// The tensor whose bytes come next; `None` when all are written.
    pub fn pending(&self) -> Option<&str> {
        self.todo.last().map(|t| t.0.as_str())
    }
    /// Appends `bytes` to the tensor `name`, which must be the [`pending`](Self::pending) one. A tensor may come in as many pieces as one likes.
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let fault = |what: String| Error::invalid(self.out.path(), what);
        let Some((next, len)) = self.todo.last() else {
            return Err(fault(format!("all tensors are written, but more data came, for {}", quote(name.as_bytes()))));
        };
        if name != next {
            return Err(fault(format!("data came for tensor {}, but `{next}` is next", quote(name.as_bytes()))));
        }
        if bytes.len() > len - self.written {
            let total = self.written.saturating_add(bytes.len());
            return Err(fault(format!("tensor `{next}` has {len} bytes, but {total} came")));
        }
        self.out.write(bytes)?;
        self.written += bytes.len();
        self.advance()
    }
    /// Goes to the next tensor while the current one is complete.
    fn advance(&mut self) -> Result<()> {
        while let Some((_, len)) = self.todo.last().filter(|t| t.1 == self.written) {
            let padding = len.next_multiple_of(self.alignment) - len;
            self.out.write(&[0; 64][..padding])?;
            self.todo.pop();
            self.written = 0;
        }
        Ok(())
    }
    /// Makes the file durable and moves it to its place. Fails, leaving no file, when a tensor's bytes are missing.
    pub fn finish(self) -> Result<()> {
        if let Some((name, len)) = self.todo.last() {
            let text = format!("tensor `{name}` has {len} bytes, but only {} came", self.written);
            return Err(Error::invalid(self.out.path(), text));
        }
        self.out.finish()
    }
}
