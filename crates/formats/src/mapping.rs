use crate::{Error, Result, sigbus};
use rustix::mm::Advice;
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// What an empty file is told.
pub(crate) const EMPTY: &str = "is empty; copy or download it again";

/// A file mapped read-only into memory, shared by the tensors that lie in it.
#[derive(Debug)]
pub struct Mapping {
    path: PathBuf,
    map: memmap2::Mmap,
    /// Keeps the range known to the SIGBUS handler while it is mapped.
    _watched: Option<sigbus::Watched>,
}

impl Mapping {
    /// Maps the whole of `path`, which must be a regular file and not empty.
    pub fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        // SAFETY: the mapping is read-only. Another process may still change or shorten the file; bytes are
        // only ever read as plain numbers, checked before use, and a shortened file raises SIGBUS (see `sigbus`).
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(Error::io(path))?;
        if map.is_empty() {
            return Err(Error::invalid(path, EMPTY));
        }
        let _watched = sigbus::watch(map.as_ptr() as usize, map.len(), path);
        Ok(Self { path: path.to_path_buf(), map, _watched })
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
    /// a later read brings them back from the file. Only whole pages within the range go; a range beyond the file is cut.
    pub fn release(&self, offset: usize, len: usize) {
        let page = rustix::param::page_size();
        let end = offset.saturating_add(len).min(self.map.len());
        // The last page of the file holds nothing else, even where the file does not fill it.
        let end = if end == self.map.len() { end.next_multiple_of(page) } else { end / page * page };
        self.advise(offset.min(self.map.len()).next_multiple_of(page), end, Advice::LinuxDontNeed);
    }
    /// Tells the kernel that these bytes will be read soon and in order: it reads ahead further, and starts now.
    pub fn advise_sequential(&self, offset: usize, len: usize) {
        let (start, end) = self.pages(offset, len);
        self.advise(start, end, Advice::Sequential);
        self.advise(start, end, Advice::WillNeed);
    }
    /// Brings these bytes' pages in now (`MADV_POPULATE_READ`), so that no later read waits for a page fault.
    /// Blocks until they are there; where the kernel is older than 5.14 it only starts to read ahead.
    pub fn populate(&self, offset: usize, len: usize) {
        let (start, end) = self.pages(offset, len);
        if !self.advise(start, end, Advice::LinuxPopulateRead) {
            self.advise(start, end, Advice::WillNeed);
        }
    }
    /// Asks for huge pages behind the mapping, which some file systems (tmpfs, and others with the kernel's support for
    /// read-only files) can give: fewer TLB misses when weights are read in place. A hint; nothing follows from a refusal.
    pub fn advise_huge_pages(&self) {
        self.advise(0, self.map.len(), Advice::LinuxHugepage);
    }
    /// The range from the page of its first byte to its end, cut to the file.
    fn pages(&self, offset: usize, len: usize) -> (usize, usize) {
        let page = rustix::param::page_size();
        (offset / page * page, offset.saturating_add(len).min(self.map.len()))
    }
    /// Advises on the bytes `start..end`, `start` being on a page. Whether the kernel took the advice.
    fn advise(&self, start: usize, end: usize, advice: Advice) -> bool {
        if start >= end {
            return true;
        }
        // SAFETY: `start..end` lies within the pages of this mapping (callers cut it). None of the advice used changes what
        // a read gives: the mapping is read-only and backed by the file, so that pages dropped come back from it.
        unsafe { rustix::mm::madvise(self.map.as_ptr().add(start).cast_mut().cast(), end - start, advice) }.is_ok()
    }
    /// Installs the process's handler for SIGBUS, which the system raises when a mapped file was shortened by another
    /// process: one line to stderr that names the file, and exit code 74. A SIGBUS from elsewhere goes to the handler that
    /// was there before. Call once, early; later calls do nothing.
    pub fn install_sigbus_message() {
        sigbus::install();
    }
}

/// Opens `path` for reading if it is a regular file. Never waits, as opening a FIFO would.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let refuse = |kind: std::fs::FileType| {
        use std::os::unix::fs::FileTypeExt;
        let what = match () {
            () if kind.is_dir() => "is a folder; a file is needed here",
            () if kind.is_fifo() => "is a FIFO; models are mapped into memory, which needs a regular file",
            () if kind.is_socket() => "is a socket; models are mapped into memory, which needs a regular file",
            () => "is a device; models are mapped into memory, which needs a regular file",
        };
        Error::invalid(path, what)
    };
    let kind = std::fs::metadata(path).map_err(Error::io(path))?.file_type();
    if !kind.is_file() {
        return Err(refuse(kind));
    }
    // Should the path have become a FIFO since, O_NONBLOCK keeps the open from waiting for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(Error::io(path))?;
    let kind = file.metadata().map_err(Error::io(path))?.file_type();
    if kind.is_file() { Ok(file) } else { Err(refuse(kind)) }
}
