//! Text of files on a terminal: names in a model file are a stranger's, and must not move the cursor or change colours.

use std::{
    borrow::Cow,
    io::{self, Write},
};

/// `text` with its control characters escaped, but for line breaks and tabs.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let unsafe_char = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(unsafe_char) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if unsafe_char(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Writes [`plain`] text. Each write must end where a character ends, as those of `write!` do.
pub(crate) struct Plain<W>(pub(crate) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(plain(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_told_and_not_done() {
        assert_eq!(plain("a\tb\nç 日本 😀"), "a\tb\nç 日本 😀");
        assert_eq!(plain("\x1b[31m\r\u{7f}\u{9b}5A"), "\\u{1b}[31m\\r\\u{7f}\\u{9b}5A");
        let mut out = Plain(Vec::new());
        let bell = '\x07';
        write!(out, "é{bell} 1").unwrap();
        assert_eq!(out.0, "é\\u{7} 1".as_bytes());
    }
}
