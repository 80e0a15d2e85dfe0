//! The alphabet in which byte-level vocabularies write bytes as visible characters (GPT-2, `bytes_to_unicode`).
//!
//! The printable characters of Latin-1 stand for their own byte; the other 68 bytes take U+0100 onwards in order.

use super::strings::{Index, Strings};
use std::sync::LazyLock;

fn is_own_character(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

struct Alphabet {
    chars: [char; 256],
    /// The byte for each character below U+0144.
    bytes: [Option<u8>; 0x144],
}

static ALPHABET: LazyLock<Alphabet> = LazyLock::new(|| {
    let mut alphabet = Alphabet { chars: ['\0'; 256], bytes: [None; 0x144] };
    let mut next = 0x100;
    for byte in 0..=255u8 {
        let code = if is_own_character(byte) {
            u32::from(byte)
        } else {
            next += 1;
            next - 1
        };
        alphabet.bytes[code as usize] = Some(byte);
        alphabet.chars[byte as usize] = char::from_u32(code).unwrap_or_default();
    }
    alphabet
});

/// The character that stands for a byte.
pub(crate) fn char_of(byte: u8) -> char {
    ALPHABET.chars[byte as usize]
}

/// Text with each byte written as a visible character.
pub(crate) fn encode(text: &str) -> String {
    written(text.as_bytes())
}

/// Bytes, each written as a visible character.
pub(crate) fn written(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char_of(byte)).collect()
}

/// The bytes that a token's text stands for; `None` where a character is not in the alphabet.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let alphabet = &*ALPHABET;
    text.chars().map(|c| alphabet.bytes.get(c as usize).copied().flatten()).collect()
}

/// The byte of a SentencePiece byte token `<0xAB>`; `None` for any other text.
pub(crate) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let upper = |b: &u8| matches!(b, b'0'..=b'9' | b'A'..=b'F');
    if digits.len() != 2 || !digits.as_bytes().iter().all(upper) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Tokens `<0xAB>`, by byte.
#[derive(Debug)]
pub(crate) struct ByteTokens(Box<[u32; 256]>);

/// No token.
const NONE: u32 = u32::MAX;

impl Default for ByteTokens {
    /// No such tokens.
    fn default() -> Self {
        Self(Box::new([NONE; 256]))
    }
}

impl ByteTokens {
    /// Those of a vocabulary.
    pub(crate) fn find(texts: &Strings, index: &Index) -> Self {
        let mut all = Self::default();
        for (byte, id) in all.0.iter_mut().enumerate() {
            *id = index.get(texts, format!("<0x{byte:02X}>").as_bytes()).unwrap_or(NONE);
        }
        all
    }
    /// The tokens of bytes; `None` where one has none.
    #[inline]
    pub(crate) fn of<'a>(&'a self, bytes: &'a [u8]) -> Option<impl DoubleEndedIterator<Item = u32> + 'a> {
        let ids = bytes.iter().map(|&byte| self.0[byte as usize]);
        ids.clone().all(|id| id != NONE).then_some(ids)
    }
    /// The first byte that has none.
    pub(crate) fn missing(&self) -> Option<usize> {
        self.0.iter().position(|&id| id == NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet() {
        assert_eq!(
            [char_of(b' '), char_of(b'\n'), char_of(b'a'), char_of(0xad), char_of(0x7f), char_of(0)],
            ['Ġ', 'Ċ', 'a', 'Ń', 'ġ', 'Ā']
        );
        let all: String = (0..=255).map(char_of).collect();
        assert_eq!(decode(&all).unwrap(), (0..=255).collect::<Vec<u8>>());
        assert_eq!(decode("ń"), None);
        assert_eq!(decode("a b"), None);
    }

    #[test]
    fn byte_tokens() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        assert_eq!(byte_token("<0xFF>"), Some(255));
        for bad in ["<0x-1>", "<0x+1>", "<0xGG>", "<0xa>", "<0x0a>", "<0x100>", "<0x>", "0x0A", "<0xé>"] {
            assert_eq!(byte_token(bad), None, "{bad}");
        }
    }
}
