//! Ids that are refused or shared.

#![allow(clippy::unwrap_used)]

use onebit_quants::{PQ2_0, Q2_0, Q4_0, UnknownType, from_ggml_id, from_ggml_id_sized};

fn refusal(id: u32) -> String {
    from_ggml_id(id).unwrap_err().to_string()
}

#[test]
fn withdrawn_types_are_refused_by_name() {
    for (id, name) in
        [(4, "Q4_2"), (5, "Q4_3"), (31, "Q4_0_4_4"), (32, "Q4_0_4_8"), (33, "Q4_0_8_8"), (36, "IQ4_NL_4_4"), (38, "IQ4_NL_8_8")]
    {
        let text = refusal(id);
        assert!(text.contains(name) && text.contains("withdrawn") && text.contains("convert the file again"), "{text}");
    }
}

#[test]
fn types_of_forks_are_refused_with_what_they_are() {
    assert!(refusal(150).contains("ik_llama.cpp"));
    assert!(matches!(from_ggml_id(202), Err(UnknownType::Interleaved { id: 202 })));
    assert!(matches!(from_ggml_id(399), Err(UnknownType::Interleaved { id: 399 })));
    for id in [9, 15, 43, 99_999, u32::MAX] {
        assert!(from_ggml_id(id).is_err(), "{id}");
    }
    assert!(matches!(from_ggml_id(u32::MAX), Err(UnknownType::Unknown { .. })));
}

#[test]
fn a_tensors_size_decides_between_layouts_that_share_an_id() {
    let values = 128 * 10;
    assert_eq!(from_ggml_id_sized(42, &[values], 18 * 20, 32), Ok(Q2_0));
    assert_eq!(from_ggml_id_sized(42, &[values], 34 * 10, 32), Ok(PQ2_0));
    // Padded to the alignment, as every tensor but the last is.
    assert_eq!(from_ggml_id_sized(42, &[values], (34usize * 10).next_multiple_of(32), 32), Ok(PQ2_0));
    let error = from_ggml_id_sized(42, &[values], values, 32).unwrap_err();
    assert!(error.to_string().contains("8.0000 bits"), "{error}");
    // One layout: the reader's bounds check speaks, not this.
    assert_eq!(from_ggml_id_sized(2, &[32], 5, 32), Ok(Q4_0));
}
