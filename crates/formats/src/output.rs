//! Files that appear whole or not at all, and the data part that the writers of both formats share.

use crate::{Error, Result, bytes::quote};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{BufWriter, ErrorKind, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A file that gets its name when it is complete. Dropped before, or with its process killed, it leaves nothing behind.
///
/// A pipe or device that is at `path` already (`/dev/stdout`) is written directly.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    place: Place,
    file: Option<BufWriter<File>>,
}

/// Files with names that are not whole yet.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files that this process has begun to write and that are not whole: for whoever ends it from outside, by a signal, so that
/// nothing is dropped. No file gets its name after that.
pub fn remove_unfinished() {
    let unfinished = unfinished();
    for partial in unfinished.iter() {
        let _ = fs::remove_file(partial);
    }
    // Held for ever: what is removed must not be renamed, and the process is about to end.
    std::mem::forget(unfinished);
}

/// Where the bytes are until [`Output::finish`].
#[derive(Debug)]
enum Place {
    /// At the path itself.
    Direct,
    /// On the disk of this file, in a file that has no name yet (`O_TMPFILE`): the kernel takes it away when nobody holds it.
    Unnamed(PathBuf),
    /// In this file, where the file system has no unnamed ones. A killed process leaves it there.
    Named(PathBuf),
}

impl Output {
    /// Starts a file that will have `size` bytes, which are reserved on the disk where its file system can.
    pub(crate) fn create(path: &Path, size: u64) -> Result<Self> {
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(Error::invalid(path, "is a folder; a file is to be written here")),
            Ok(meta) if !meta.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(Error::io(path))?;
                return Ok(Self { path: path.to_path_buf(), place: Place::Direct, file: Some(buffered(file)) });
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
        let (place, file) = match unnamed(&real) {
            Some(file) => (Place::Unnamed(partial), file),
            None => {
                let file = claim(&partial)?;
                unfinished().push(partial.clone());
                (Place::Named(partial), file)
            }
        };
        let out = Self { path: real, place, file: Some(buffered(file)) };
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
        let file = file.into_inner().map_err(|e| self.fault(e.into_error(), 0))?;
        let partial = match &self.place {
            Place::Direct => return Ok(()),
            Place::Unnamed(partial) | Place::Named(partial) => partial,
        };
        file.sync_all().map_err(|e| self.fault(e, 0))?;
        if let Place::Unnamed(partial) = &self.place {
            name(&file, partial)?;
        }
        // Under the lock, so that an interrupt does not take the file away between its two names.
        let mut unfinished = unfinished();
        fs::rename(partial, &self.path).map_err(Error::io(&self.path))?;
        unfinished.retain(|other| other != partial);
        drop(unfinished);
        self.place = Place::Direct;
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
        if let Place::Named(partial) = &self.place {
            // Nothing to do about a failure: the file is hidden and named as partial.
            let _ = fs::remove_file(partial);
            unfinished().retain(|other| other != partial);
        }
    }
}

/// A file without a name on the disk of `near`; `None` where its file system, or its folder, has none.
fn unnamed(near: &Path) -> Option<File> {
    let folder = near.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(folder).ok()?;
    // Without /proc it could not be named later.
    fs::symlink_metadata(link_of(&file)).is_ok().then_some(file)
}

/// Gives a file without a name the name `path`, which a killed process may have left there.
fn name(file: &File, path: &Path) -> Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io(path)(e)),
        _ => {}
    }
    linkat(CWD, link_of(file), CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(|e| Error::io(path)(e.into()))
}

fn link_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn a_file_has_no_name_until_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        let mut out = Output::create(&path, 5).expect("room");
        if !matches!(out.place, Place::Unnamed(_)) {
            panic!("{} has no unnamed files: TMPDIR has to lie on a disk that has", folder.path().display());
        }
        out.write(b"whole").expect("room");
        assert_eq!(names(folder.path()), [""; 0]);
        // What a killed process left on another file system, or with an older kernel.
        fs::write(folder.path().join(".x.partial"), "old").expect("room");
        out.finish().expect("room");
        assert_eq!(names(folder.path()), ["x"]);
        assert_eq!(fs::read(&path).expect("a file"), b"whole");
    }

    #[test]
    fn a_named_partial_file_is_for_one_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let partial = folder.path().join(".x.partial");
        fs::write(&partial, [7; 5000]).expect("room");
        let file = claim(&partial).expect("nobody has it");
        assert_eq!(file.metadata().expect("a file").len(), 0, "what a killed process left is overwritten");
        let text = claim(&partial).expect_err("it is held").to_string();
        assert!(text.contains(".x.partial: is being written by another process"), "{text}");
        let mut out = Output { path: folder.path().join("x"), place: Place::Named(partial.clone()), file: Some(buffered(file)) };
        out.write(b"whole").expect("room");
        out.finish().expect("room");
        assert_eq!(names(folder.path()), ["x"]);
        let file = claim(&partial).expect("nobody has it");
        drop(Output { path: folder.path().join("x"), place: Place::Named(partial), file: Some(buffered(file)) });
        assert_eq!(names(folder.path()), ["x"], "dropped, it leaves nothing behind");
    }

    /// In a process of its own, as it ends the writing of files for good.
    #[test]
    fn an_interrupt_takes_away_what_has_a_name_and_is_not_whole() {
        const CHILD: &str = "ONEBIT_TEST_INTERRUPTED_IN";
        let Ok(folder) = std::env::var(CHILD) else {
            let folder = tempfile::tempdir().expect("a folder");
            let name = "output::tests::an_interrupt_takes_away_what_has_a_name_and_is_not_whole";
            let mut child = std::process::Command::new(std::env::current_exe().expect("this test"));
            let output = child.args(["--exact", name]).env(CHILD, folder.path()).output().expect("it runs");
            assert!(output.status.success(), "{output:?}");
            assert_eq!(names(folder.path()), ["whole"]);
            return;
        };
        let at = |name: &str| Path::new(&folder).join(name);
        let named = |name: &str| {
            let partial = at(&format!(".{name}.partial"));
            let file = claim(&partial).expect("nobody has it");
            unfinished().push(partial.clone());
            Output { path: at(name), place: Place::Named(partial), file: Some(buffered(file)) }
        };
        let (mut whole, mut half) = (named("whole"), named("half"));
        whole.write(b"whole").expect("room");
        half.write(b"half").expect("room");
        whole.finish().expect("room");
        remove_unfinished();
        assert_eq!(names(Path::new(&folder)), ["whole"]);
        // Dropping it would wait for the lock that is held until the process ends.
        std::mem::forget(half);
    }
}
