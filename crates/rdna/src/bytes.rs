//! Little-endian reads that name what they wanted when the bytes end too soon.

use crate::LoadError;

/// `bytes[at .. at + length]`, or an error that says what lies there.
pub(crate) fn slice<'a>(bytes: &'a [u8], at: u64, length: u64, what: &str) -> Result<&'a [u8], LoadError> {
    let end = at.checked_add(length).filter(|&end| end <= bytes.len() as u64);
    match end {
        Some(end) => Ok(&bytes[at as usize..end as usize]),
        None => Err(LoadError::Truncated { what: what.to_string(), at, length, size: bytes.len() as u64 }),
    }
}

fn array<const N: usize>(bytes: &[u8], at: u64, what: &str) -> Result<[u8; N], LoadError> {
    let mut a = [0; N];
    a.copy_from_slice(slice(bytes, at, N as u64, what)?);
    Ok(a)
}

pub(crate) fn u16(bytes: &[u8], at: u64, what: &str) -> Result<u16, LoadError> {
    array(bytes, at, what).map(u16::from_le_bytes)
}

pub(crate) fn u32(bytes: &[u8], at: u64, what: &str) -> Result<u32, LoadError> {
    array(bytes, at, what).map(u32::from_le_bytes)
}

pub(crate) fn u64(bytes: &[u8], at: u64, what: &str) -> Result<u64, LoadError> {
    array(bytes, at, what).map(u64::from_le_bytes)
}

/// The text from `at` to the next NUL.
pub(crate) fn text<'a>(bytes: &'a [u8], at: u64, what: &str) -> Result<&'a str, LoadError> {
    let rest = slice(bytes, at, (bytes.len() as u64).saturating_sub(at), what)?;
    let end = rest.iter().position(|&b| b == 0).ok_or_else(|| LoadError::Malformed(format!("{what} has no end")))?;
    std::str::from_utf8(&rest[..end]).map_err(|_| LoadError::Malformed(format!("{what} is not UTF-8")))
}
