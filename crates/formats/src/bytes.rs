//! Reading numbers from untrusted bytes: every read names the field it was for and fails when the bytes end.

use crate::{Error, Result};
use std::{
    fmt::{self, Display, Write},
    path::Path,
};

/// A position in the bytes of a file.
pub(crate) struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    /// What to say when the bytes end.
    end: &'static str,
}

impl<'a> Cursor<'a> {
    /// Starts at the first of `bytes`; `end` tells what their end is, in a message ("the end of the file").
    pub(crate) fn new(path: &'a Path, bytes: &'a [u8], end: &'static str) -> Self {
        Self { path, bytes, at: 0, end }
    }
    /// The offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
    /// Bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
    /// An error in this file.
    pub(crate) fn error(&self, what: impl Into<String>) -> Error {
        Error::invalid(self.path, what)
    }
    /// The next `n` bytes, which hold `what`.
    pub(crate) fn take(&mut self, n: u64, what: impl Display) -> Result<&'a [u8]> {
        let left = self.left();
        match usize::try_from(n) {
            Ok(n) if n <= left => {
                let bytes = &self.bytes[self.at..self.at + n];
                self.at += n;
                Ok(bytes)
            }
            _ => Err(self.error(format!("{what} at byte {} takes {n} bytes, but {} is {left} bytes further", self.at, self.end))),
        }
    }
    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, what: impl Display) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }
    /// A little-endian u32.
    pub(crate) fn u32(&mut self, what: impl Display) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }
    /// A little-endian u64.
    pub(crate) fn u64(&mut self, what: impl Display) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }
    /// A count of things that take at least `each` bytes; refused when the bytes left cannot hold so many, or above `limit`.
    pub(crate) fn count(&mut self, each: usize, limit: usize, what: impl Display) -> Result<usize> {
        let n = self.u64(&what)?;
        self.check_count(n, each, limit, what)
    }
    /// See [`Self::count`].
    pub(crate) fn check_count(&self, n: u64, each: usize, limit: usize, what: impl Display) -> Result<usize> {
        let most = self.left() / each.max(1);
        match usize::try_from(n) {
            Ok(count) if count > limit => Err(self.error(format!("{what} is {count}; the limit is {limit}"))),
            Ok(count) if count <= most => Ok(count),
            _ => Err(self.error(format!("{what} is {n}, but the {} bytes up to {} can hold at most {most}", self.left(), self.end))),
        }
    }
}

/// `text` for a message, made when the message is: at most 60 characters, control characters escaped.
pub(crate) fn quote(text: &[u8]) -> impl Display + '_ {
    Quoted(text)
}

struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 61 characters have at most 244 bytes.
        let start = String::from_utf8_lossy(&self.0[..self.0.len().min(244)]);
        f.write_char('`')?;
        for c in start.chars().take(60).flat_map(char::escape_debug) {
            f.write_char(c)?;
        }
        f.write_str(if start.chars().nth(60).is_some() { "…`" } else { "`" })
    }
}
