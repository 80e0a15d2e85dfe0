//! The wire format of protocol buffers, as far as vocabularies need it.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
}

/// The fields of a message in order, each with its number; an error says what is wrong, and is the last.
pub(crate) struct Fields<'a>(&'a [u8]);

pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields(message)
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("ends within a number")?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("has a number of more than ten bytes".into())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("ends within a number")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), String> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.take()?),
            2 => {
                let length = self.varint()?;
                let left = self.0.len();
                let length = usize::try_from(length).ok().filter(|&length| length <= left);
                let length = length.ok_or_else(|| format!("has a field that is longer than the {left} bytes left"))?;
                let (bytes, rest) = self.0.split_at(length);
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(self.take()?),
            kind => return Err(format!("has a field of the unknown kind {kind}")),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the format's documentation (protobuf.dev, "Encoding").
    #[test]
    fn examples() {
        let all = |bytes: &[u8]| fields(bytes).map(|f| f.map(|(n, v)| format!("{n} {v:?}"))).collect::<Result<Vec<_>, _>>();
        assert_eq!(all(&[0x08, 0x96, 0x01]).unwrap(), ["1 Varint(150)"]);
        assert_eq!(all(b"\x12\x07testing").unwrap(), ["2 Bytes([116, 101, 115, 116, 105, 110, 103])"]);
        assert_eq!(all(&[0x1d, 0, 0, 0x80, 0x3f]).unwrap(), ["3 Fixed32([0, 0, 128, 63])"]);
        for (bad, what) in [
            (&[0x08][..], "within a number"),
            (&[0x08, 0x80], "within a number"),
            (&[0xff; 11], "more than ten bytes"),
            (&[0x12, 0x07, b't'], "longer than the 1 bytes left"),
            (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "longer than the 0 bytes left"),
            (&[0x0b], "unknown kind 3"),
            (&[0x1d, 0], "within a number"),
        ] {
            assert!(all(bad).unwrap_err().contains(what), "{bad:?}");
        }
    }
}
