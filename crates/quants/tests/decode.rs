//! Decoding against values made by other programs.

#![allow(clippy::unwrap_used)]

mod common;

use common::Vectors;
use onebit_quants::{ALL, Codes, WeightType, from_ggml_id};

/// A type of the vectors, with stored rows and their values.
struct Case {
    t: WeightType,
    raw: Vec<u8>,
    want: Vec<f32>,
    columns: usize,
}

impl Case {
    /// Stored rows with their values.
    fn rows(&self) -> impl Iterator<Item = (&[u8], &[f32])> {
        self.raw.chunks_exact(self.t.row_bytes(self.columns).unwrap()).zip(self.want.chunks_exact(self.columns))
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for file in ["quants.safetensors", "floats8.safetensors", "forks.safetensors"] {
        let vectors = Vectors::open(file);
        for name in vectors.types() {
            let t = WeightType::by_name(&name).unwrap_or_else(|| panic!("{name} is missing"));
            let (raw, values) = (format!("{name}.raw"), format!("{name}.f32"));
            let (raw, want) = (vectors.bytes(&raw).to_vec(), vectors.floats(&values).unwrap());
            let columns = if t.header_bytes() > 0 { vectors.shape(&format!("{name}.f32"))[1] } else { want.len() };
            assert_eq!(t.row_bytes(columns).unwrap() * (want.len() / columns), raw.len(), "{t}");
            cases.push(Case { t, raw, want, columns });
        }
    }
    assert_eq!(cases.len(), 53);
    cases
}

#[test]
fn every_type_decodes_to_the_very_bits() {
    for case in cases() {
        let t = case.t;
        for (row, want) in case.rows() {
            let mut got = vec![f32::NAN; want.len()];
            t.decode(row, &mut got);
            for (i, (got, want)) in got.iter().zip(want).enumerate() {
                // Codes have one zero: IQ3_KT's own decoder makes two of it.
                let zeros = t.name() == "IQ3_KT" && *got == 0.0 && *want == 0.0;
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan() || zeros;
                assert!(same, "{t}, value {i}: {got:e}, not {want:e}");
            }
        }
    }
}

#[test]
fn codes_and_scales_give_the_decoded_values() {
    let mut split_types = 0;
    for case in cases() {
        let t = case.t;
        let Some(split) = t.info().codes else { continue };
        split_types += 1;
        // What another type left behind must not leak into the result.
        let mut c = Codes { group: 7, codes: [99; 256], scales: [99.0; 32], offsets: [99.0; 32] };
        let blocks = case.rows().flat_map(|(row, want)| {
            let (header, blocks) = row.split_at(t.header_bytes());
            let blocks = blocks.chunks_exact(t.block_bytes()).zip(want.chunks_exact(t.block_values()));
            blocks.map(move |(block, want)| (header, block, want))
        });
        for (header, block, want) in blocks {
            split(header, block, &mut c);
            assert!(t.block_values().is_multiple_of(c.group), "{t}: groups of {}", c.group);
            for (i, want) in want.iter().enumerate() {
                let (scale, offset) = (f64::from(c.scales[i / c.group]), f64::from(c.offsets[i / c.group]));
                let product = f64::from(c.codes[i]) * scale;
                let bound = f64::from(f32::EPSILON) * product.abs().max(offset.abs());
                assert!((product + offset - f64::from(*want)).abs() <= bound, "{t}, value {i}: {product} + {offset}, not {want}");
            }
        }
    }
    assert_eq!(split_types, 49);
}

#[test]
fn plain_numbers_decode() {
    let decode = |name: &str, bytes: &[u8]| {
        let t = WeightType::by_name(name).unwrap();
        let mut out = vec![0.0; bytes.len() / t.block_bytes()];
        t.decode(bytes, &mut out);
        out
    };
    assert_eq!(decode("F32", &(-1.5f32).to_le_bytes()), [-1.5]);
    assert_eq!(decode("F64", &0.1f64.to_le_bytes()), [0.1]);
    assert_eq!(decode("I8", &[0x80, 0x7f]), [-128.0, 127.0]);
    assert_eq!(decode("I16", &(-12345i16).to_le_bytes()), [-12345.0]);
    assert_eq!(decode("I32", &i32::MIN.to_le_bytes()), [-2147483648.0]);
    assert_eq!(decode("I64", &(-1i64 << 40).to_le_bytes()), [-1099511627776.0]);
}

#[test]
fn any_bytes_decode_without_a_panic() {
    for t in ALL {
        for fill in [0x00, 0xff, 0x7f, 0x80, 0xa5] {
            let mut out = vec![0.0; t.block_values() * 2];
            t.decode(&vec![fill; t.header_bytes() + t.block_bytes() * 2], &mut out);
            if let Some(split) = t.info().codes {
                split(&vec![fill; t.header_bytes()], &vec![fill; t.block_bytes()], &mut Codes::default());
            }
        }
    }
}

/// Sizes as ggml states them (`GGML_QUANT_SIZES` in gguf-py, and of forks): id, values, bytes.
const SIZES: &[(u32, &str, usize, usize)] = &[
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
    (142, "PQ2_0", 128, 34),
    (143, "PTQ1_0", 128, 28),
    (64, "IQ1_XS", 256, 46),
    (65, "IQ1_XXS", 256, 42),
    (66, "IQ1_XXXS", 256, 38),
    (133, "Q6_0", 32, 26),
    (134, "IQ1_BN", 64, 13),
    (135, "IQ2_BN", 64, 16),
    (137, "IQ2_K", 256, 76),
    (138, "IQ3_K", 256, 110),
    (139, "IQ4_K", 256, 144),
    (140, "IQ5_K", 256, 176),
    (141, "IQ6_K", 256, 212),
    (144, "IQ4_KS", 256, 136),
    (145, "IQ2_KS", 256, 70),
    (146, "IQ4_KSS", 256, 128),
    (151, "Q8_KV", 32, 32),
    (152, "IQ5_KS", 256, 168),
    (153, "IQ2_KT", 256, 68),
    (154, "IQ3_KT", 256, 100),
    (155, "IQ4_KT", 256, 128),
    (156, "IQ3_KS", 256, 102),
    (157, "IQ2_KL", 256, 86),
    (158, "IQ1_KT", 256, 56),
];

/// Bytes that rows begin with (`row_meta_size` in ik_llama.cpp's `ggml.c`).
const HEADERS: &[(usize, &[&str])] = &[
    (2, &["IQ1_BN", "IQ2_KS", "IQ3_KS", "IQ2_KL"]),
    (4, &["IQ2_BN", "IQ4_KS", "IQ5_KS", "IQ4_KSS", "IQ1_KT", "IQ2_KT", "IQ3_KT", "IQ4_KT"]),
    (8, &["Q8_KV"]),
];

#[test]
fn ids_and_sizes_are_those_of_ggml() {
    for (id, name, values, bytes) in SIZES {
        let t = from_ggml_id(*id).unwrap();
        assert_eq!((t.name(), t.block_values(), t.block_bytes()), (*name, *values, *bytes));
    }
    for t in ALL {
        let header = HEADERS.iter().find(|h| h.1.contains(&t.name())).map_or(0, |h| h.0);
        assert_eq!(t.header_bytes(), header, "{t}");
        let (row, rows) = (header + 3 * t.block_bytes(), [2, 5, 3 * t.block_values()]);
        assert_eq!((t.row_bytes(rows[2]), t.bytes_for(&rows)), (Some(row), Some(10 * row)), "{t}");
    }
    assert_eq!(ALL.iter().filter(|t| t.info().ggml_id.is_some()).count(), SIZES.len());
}
