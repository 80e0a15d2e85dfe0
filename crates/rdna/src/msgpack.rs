//! MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>), read into JSON values: what kernel metadata is written in.

use crate::LoadError;
use serde_json::{Map, Number, Value};

/// Deeper nesting than any metadata has; keeps a hostile file from exhausting the stack.
const MAX_DEPTH: usize = 32;

/// Reads one value; what follows it is ignored (notes are padded).
pub(crate) fn read(bytes: &[u8]) -> Result<Value, LoadError> {
    Reader { bytes, at: 0 }.value(0)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], LoadError> {
        let taken = crate::bytes::slice(self.bytes, self.at as u64, length as u64, "metadata")?;
        self.at += length;
        Ok(taken)
    }

    /// An unsigned big-endian number of `length` bytes.
    fn number(&mut self, length: usize) -> Result<u64, LoadError> {
        Ok(self.take(length)?.iter().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    fn text(&mut self, length: usize) -> Result<Value, LoadError> {
        let text = std::str::from_utf8(self.take(length)?);
        text.map(|t| Value::String(t.to_string())).map_err(|_| LoadError::Malformed("metadata: a string is not UTF-8".into()))
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, LoadError> {
        (0..length).map(|_| self.value(depth + 1)).collect::<Result<_, _>>().map(Value::Array)
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, LoadError> {
        let mut map = Map::new();
        for _ in 0..length {
            let Value::String(key) = self.value(depth + 1)? else {
                return Err(LoadError::Malformed("metadata: a map's key is not a string".into()));
            };
            map.insert(key, self.value(depth + 1)?);
        }
        Ok(Value::Object(map))
    }

    fn value(&mut self, depth: usize) -> Result<Value, LoadError> {
        if depth > MAX_DEPTH {
            return Err(LoadError::Malformed(format!("metadata: nested deeper than {MAX_DEPTH}")));
        }
        let tag = self.take(1)?[0];
        let small = usize::from(tag);
        Ok(match tag {
            0x00..=0x7f => Value::from(tag),
            0x80..=0x8f => self.map(small & 15, depth)?,
            0x90..=0x9f => self.array(small & 15, depth)?,
            0xa0..=0xbf => self.text(small & 31)?,
            0xc0 => Value::Null,
            0xc2 | 0xc3 => Value::Bool(tag == 0xc3),
            0xca => float(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Value::from(self.number(1 << (tag - 0xcc))?),
            0xd0 => Value::from(self.number(1)? as i8),
            0xd1 => Value::from(self.number(2)? as i16),
            0xd2 => Value::from(self.number(4)? as i32),
            0xd3 => Value::from(self.number(8)? as i64),
            0xd9..=0xdb => {
                let length = self.number(1 << (tag - 0xd9))? as usize;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.number(2 << (tag - 0xdc))? as usize;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.number(2 << (tag - 0xde))? as usize;
                self.map(length, depth)?
            }
            0xe0..=0xff => Value::from(tag as i8),
            _ => return Err(LoadError::Malformed(format!("metadata: no value begins with {tag:#04x} here"))),
        })
    }
}

fn float(x: f64) -> Value {
    Number::from_f64(x).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_the_specification_s_example() {
        // The example on msgpack.org: {"compact": true, "schema": 0}.
        let bytes = b"\x82\xa7compact\xc3\xa6schema\x00";
        assert_eq!(read(bytes).unwrap(), json!({ "compact": true, "schema": 0 }));
    }

    #[test]
    fn numbers_of_each_width() {
        let bytes = [0x95, 0xcd, 0x01, 0x00, 0xd1, 0xff, 0x00, 0xff, 0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xce, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read(&bytes).unwrap(), json!([256, -256, -1, 1.5, 4294967295u32]));
    }

    #[test]
    fn hostile_lengths_and_depths_are_errors() {
        assert!(read(&[0xdd, 0xff, 0xff, 0xff, 0xff]).unwrap_err().to_string().contains("metadata"));
        assert!(read(&[0x91; 100]).unwrap_err().to_string().contains("nested deeper than 32"));
        assert!(read(&[0x81, 0x01, 0x02]).unwrap_err().to_string().contains("key"));
    }
}
