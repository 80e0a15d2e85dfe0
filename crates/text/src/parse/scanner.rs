//! JSON as it arrives: how far a text is the beginning of an object.

use super::DEPTH;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All of the text is a part of the object, but for a word that may go on.
    More,
    /// The object ends.
    End,
    /// The text is no JSON from here.
    Flaw,
}

/// Where in the object the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the object.
    Begin,
    /// A value, or what closes an array that has none.
    Value {
        may_close: bool,
    },
    /// A key, or what closes an object that has none.
    Key {
        may_close: bool,
    },
    Colon,
    /// A comma, or what closes the innermost list or object.
    After,
    /// In a string, after a backslash, or with so many hexadecimal digits to come.
    Text {
        is_key: bool,
        escaped: bool,
        digits: u8,
    },
}

/// Follows one object, byte by byte.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    at: At,
    /// What closes each open list and object.
    open: Vec<u8>,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { at: At::Begin, open: Vec::new() }
    }

    /// Takes from a text that goes on where the last one was taken to. Gives how many bytes are sure to be a part of the object.
    pub(super) fn take(&mut self, text: &str) -> (usize, Found) {
        let bytes = text.as_bytes();
        let mut i = 0;
        while let Some(byte) = bytes.get(i).copied() {
            let is_text = matches!(self.at, At::Text { .. });
            if !is_text && matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                i += 1;
                continue;
            }
            if matches!(self.at, At::Value { .. }) && !matches!(byte, b'"' | b'{' | b'[' | b']') {
                // A number, `true`, `false` or `null`: sure when something follows.
                let len = bytes[i..].iter().position(|b| !(b.is_ascii_alphanumeric() || b"+-.".contains(b)));
                let Some(len) = len else { return (i, Found::More) };
                if serde_json::from_str::<serde_json::Value>(&text[i..i + len]).is_err() {
                    return (i, Found::Flaw);
                }
                i += len;
                self.at = At::After;
                continue;
            }
            if self.step(byte).is_none() {
                return (i, Found::Flaw);
            }
            i += 1;
            if self.open.is_empty() {
                return (i, Found::End);
            }
        }
        (i, Found::More)
    }

    fn step(&mut self, byte: u8) -> Option<()> {
        self.at = match (self.at, byte) {
            (At::Begin, b'{') => self.opened(b'}')?,
            (At::Value { .. }, b'{') => self.opened(b'}')?,
            (At::Value { .. }, b'[') => self.opened(b']')?,
            (At::Value { .. }, b'"') => At::Text { is_key: false, escaped: false, digits: 0 },
            (At::Key { .. }, b'"') => At::Text { is_key: true, escaped: false, digits: 0 },
            (At::Value { may_close: true } | At::Key { may_close: true } | At::After, b']' | b'}') => {
                if self.open.pop() != Some(byte) {
                    return None;
                }
                At::After
            }
            (At::After, b',') if self.open.last() == Some(&b'}') => At::Key { may_close: false },
            (At::After, b',') => At::Value { may_close: false },
            (At::Colon, b':') => At::Value { may_close: false },
            (At::Text { is_key, escaped: false, digits: 0 }, b'"') => {
                if is_key {
                    At::Colon
                } else {
                    At::After
                }
            }
            (At::Text { is_key, escaped: false, digits: 0 }, b'\\') => At::Text { is_key, escaped: true, digits: 0 },
            // Control characters have to be escaped.
            (At::Text { escaped: false, digits: 0, .. }, byte) if byte >= b' ' => self.at,
            (At::Text { is_key, escaped: true, .. }, b'u') => At::Text { is_key, escaped: false, digits: 4 },
            (At::Text { is_key, escaped: true, .. }, byte) if b"\"\\/bfnrt".contains(&byte) => {
                At::Text { is_key, escaped: false, digits: 0 }
            }
            (At::Text { is_key, escaped: false, digits }, byte) if digits > 0 && byte.is_ascii_hexdigit() => {
                At::Text { is_key, escaped: false, digits: digits - 1 }
            }
            _ => return None,
        };
        Some(())
    }

    fn opened(&mut self, close: u8) -> Option<At> {
        self.open.push(close);
        let at = if close == b'}' { At::Key { may_close: true } } else { At::Value { may_close: true } };
        (self.open.len() <= DEPTH).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What `serde_json` reads is followed to its end, and of what it does not the part that can still become JSON.
    #[test]
    fn objects_are_followed_to_their_end() {
        for text in [
            "{}",
            " { } ",
            r#"{"a": [1, -2.5e+3, {}, [], true, null], "b\"\u00e9": "x\n{}"}"#,
            "{\"é\":\"｜\"}x",
            r#"{"a":{"b":[[{}]]}}, {"#,
        ] {
            let object = serde_json::Deserializer::from_str(text).into_iter::<Value>().next().unwrap().unwrap();
            for size in [1, 3, 100] {
                let (mut scanner, mut given, mut end, mut found) = (Scanner::new(), 0, 0, Found::More);
                while found == Found::More {
                    end = (end + size).min(text.len());
                    let piece = text.get(given..end);
                    let Some(piece) = piece else { continue };
                    let (used, now) = scanner.take(piece);
                    (given, found) = (given + used, now);
                }
                assert_eq!(found, Found::End, "{text}");
                assert_eq!(serde_json::from_str::<Value>(&text[..given]).unwrap(), object);
            }
        }
        for (text, sure, found) in [
            (r#"{"a": tru"#, 6, Found::More),
            (r#"{"a": truth}"#, 6, Found::Flaw),
            (r#"{"a": 01}"#, 6, Found::Flaw),
            (r#"{"a" 1}"#, 5, Found::Flaw),
            (r#"{"a": 1,}"#, 8, Found::Flaw),
            (r#"{"a": [1,]}"#, 9, Found::Flaw),
            (r#"{"a": [1}"#, 8, Found::Flaw),
            ("{\"a\nb\"", 3, Found::Flaw),
            (r#"{"\x"#, 3, Found::Flaw),
            (r#"{"\u12g"#, 6, Found::Flaw),
            (r#"{"a": "b"#, 8, Found::More),
            ("x", 0, Found::Flaw),
        ] {
            assert_eq!(Scanner::new().take(text), (sure, found), "{text}");
        }
        assert_eq!(Scanner::new().take(&"{\"a\":".repeat(100)).1, Found::Flaw);
    }
}
