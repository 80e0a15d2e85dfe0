//! Tells what a file is that is not what it should be, by its first bytes.

/// Says what `start`, the first bytes of a file, most likely is, and what to do about it. `None` for bytes that match nothing known.
pub(crate) fn mistaken(start: &[u8]) -> Option<&'static str> {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"\x1f\x8b", "is gzip-compressed; unpack it first (gunzip)"),
        (b"\x28\xb5\x2f\xfd", "is zstd-compressed; unpack it first (unzstd)"),
        (b"\xfd7zXZ\0", "is xz-compressed; unpack it first (unxz)"),
        (b"BZh", "is bzip2-compressed; unpack it first (bunzip2)"),
        (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; unpack it first"),
        (b"PK\x03\x04", "is a zip archive, or a pickled PyTorch checkpoint; unpack it, or convert to safetensors"),
        (b"version https://git-lfs", "is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder, or download the file"),
        (b"ggml", "is a GGML file from before GGUF; convert the original model again"),
        (b"lmgg", "is a GGML file from before GGUF; convert the original model again"),
        (b"fmgg", "is a GGMF file from before GGUF; convert the original model again"),
        (b"tjgg", "is a GGJT file from before GGUF; convert the original model again"),
        (b"\x7fELF", "is an executable"),
    ];
    if let Some(known) = KNOWN.iter().find(|k| start.starts_with(k.0)) {
        return Some(known.1);
    }
    if matches!(start, [0x80, 2..=5, ..]) {
        return Some("is a pickled Python object, which could run code when read; convert to safetensors");
    }
    let text = start.trim_ascii_start();
    if text.len() >= 5 && (text[..5].eq_ignore_ascii_case(b"<html") || text[..5].eq_ignore_ascii_case(b"<!doc")) {
        return Some("is an HTML page, most likely an error or login page saved in place of the file; download it again");
    }
    if text.starts_with(b"<?xml") {
        return Some("is an XML document, most likely a server's error message; download the file again");
    }
    None
}
