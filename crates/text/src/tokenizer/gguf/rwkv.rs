//! RWKV's kind (`rwkv`): tokens are bytes, written as Python writes them (`\n`, `\x80`), and the longest is always taken.

use super::{Around, File, kind};
use crate::{
    Result,
    tokenizer::{Tokenizer, greedy::Greedy, model::Model},
};

pub(super) fn read(file: &File<'_>) -> Result<Tokenizer> {
    let all = file.vocabulary(|_, text| Some(unescape(text)))?;
    let kinds = file.kinds()?;
    let text = |id: u32| !matches!(kinds(id), kind::CONTROL | kind::UNKNOWN | kind::USER_DEFINED);
    let unknown = file.id("unknown", all.texts.len())?;
    let model = Greedy::new((0u32..).zip(all.output.bytes.iter()).filter(|&(id, _)| text(id)).map(|(id, token)| (token, id)), unknown);
    file.assemble(all, Vec::new(), Vec::new(), Model::Greedy(model), Around::default())
}

/// The bytes that a token's text stands for. What follows a backslash and has no meaning stands for itself.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let Some((&escaped, after)) = rest.split_first().filter(|_| byte == b'\\') else {
            out.push(byte);
            continue;
        };
        let hex = after.split_first_chunk::<2>().filter(|_| escaped == b'x');
        let hex = hex.and_then(|(digits, after)| Some((u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?, after)));
        let (value, after) = hex.unwrap_or(match escaped {
            b't' => (b'\t', after),
            b'n' => (b'\n', after),
            b'r' => (b'\r', after),
            other => (other, after),
        });
        out.push(value);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Literals of Python (`rwkv_vocab_v20230424.txt`), and broken ones.
    #[test]
    fn escapes() {
        for (text, want) in [
            (r"a\n\t\r\\", &b"a\n\t\r\\"[..]),
            (r"\x00\xff\xE4", b"\x00\xff\xe4"),
            (r"\'\q", b"'q"),
            (r"\x4", b"x4"),
            (r"\xzz", b"xzz"),
            ("é\\", "é\\".as_bytes()),
        ] {
            assert_eq!(unescape(text), want, "{text}");
        }
    }
}
