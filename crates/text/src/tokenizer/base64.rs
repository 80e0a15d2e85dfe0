//! Base 64 (RFC 4648, section 4), as files of vocabularies use it.

/// The bytes that a text stands for; `None` where it is not base 64. The end may lack its `=`.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0u32, |bits, &digit| Some(bits << 6 | value(digit)?))? << (6 * (4 - group.len()));
        let count = match group.len() {
            1 => return None,
            n => n - 1,
        };
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 10 of the RFC.
    #[test]
    fn vectors() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob"), ("Zm9vYmE=", "fooba"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode(b"+/9"), Some(vec![0xfb, 0xff]));
        for bad in ["A", "Zm9v!", "Zg===", "Z g="] {
            assert_eq!(decode(bad.as_bytes()), None, "{bad}");
        }
    }
}
