//! Type 36 of GGUF files is bitnet.cpp's I2_S where the bytes say so, and what mainline withdrew where they do not.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Raw, refusal};
use onebit_formats::Checkpoint;
use std::{fs, path::PathBuf};
use tempfile::TempDir;

const I2_S: u32 = 36;

fn written(raw: Raw) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, raw.0).unwrap();
    (folder, path)
}

/// Two rows of 128 values: value i of a row has its code in bits 6 - 2 (i / 32) of byte i mod 32 (`quantize_i2_s` of bitnet.cpp).
#[test]
fn trits_with_one_scale() {
    let trit = |row: usize, i: usize| (row + i * i / 3) % 3;
    let mut bytes = vec![0; 64 + 32];
    for (row, i) in (0..2).flat_map(|row| (0..128).map(move |i| (row, i))) {
        bytes[row * 32 + i % 32] |= (trit(row, i) << (6 - 2 * (i / 32))) as u8;
    }
    bytes[64..68].copy_from_slice(&0.75f32.to_le_bytes());
    let (_folder, path) = written(Raw::head(1, 0).tensor("x", &[128, 2], I2_S, 0).data(0).bytes(&bytes));
    let file = Checkpoint::open(&path).unwrap();
    let tensor = &file.tensors["x"];
    assert_eq!((tensor.shape(), tensor.scheme(), tensor.rounds_input(), tensor.stored_bytes()), (&[2, 128][..], Some("I2_S"), true, 96));
    let want: Vec<f32> = (0..256).map(|i| (trit(i / 128, i % 128) as f32 - 1.0) * 0.75).collect();
    assert_eq!(tensor.to_f32(), want);
}

#[test]
fn other_sizes_are_what_mainline_withdrew() {
    // 18 bytes for 32 values: IQ4_NL_4_4. Too few bytes, too many, and rows that runs of 128 do not divide.
    for (dims, bytes) in [([128, 2], 18 * 8), ([128, 2], 95), ([128, 2], 128), ([64, 4], 96)] {
        let (_folder, path) = written(Raw::head(1, 0).tensor("x", &dims, I2_S, 0).data(bytes));
        let error = refusal(&path);
        assert!(error.contains("tensor `x`") && error.contains("36") && error.contains("withdrawn"), "{dims:?}, {bytes}: {error}");
    }
    for id in [37, 38] {
        let (_folder, path) = written(Raw::head(1, 0).tensor("x", &[128, 2], id, 0).data(96));
        let error = refusal(&path);
        assert!(error.contains("bitnet.cpp"), "{error}");
    }
}
