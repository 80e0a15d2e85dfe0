//! What encoders make of rows that are odd.

#![allow(clippy::unwrap_used)]

use onebit_quants::{ALL, F32, Q4_K, Q8_0, TQ1_0, WeightType};
use proptest::prelude::*;

/// Rows of this many values suit every block type.
const COLUMNS: usize = 256;

fn block_types() -> impl Iterator<Item = WeightType> {
    ALL.iter().copied().filter(|t| t.info().encode.is_some() && t.info().codes.is_some())
}

fn round_trip(t: WeightType, row: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let mut blocks = vec![0; t.row_bytes(row.len()).unwrap()];
    t.encode(row, importance, &mut blocks).unwrap();
    let mut back = vec![f32::NAN; row.len()];
    t.decode(&blocks, &mut back);
    back
}

/// Any bits: zeros, subnormal numbers, infinities and NaNs among them.
fn any_float() -> impl Strategy<Value = f32> {
    prop_oneof![any::<u32>().prop_map(f32::from_bits), -1.0f32..1.0, Just(0.0), Just(f32::NAN), Just(f32::INFINITY)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_row_gives_blocks_that_decode_to_finite_values(
        row in prop::collection::vec(any_float(), COLUMNS),
        importance in prop::collection::vec(any_float(), COLUMNS),
    ) {
        for t in block_types() {
            for importance in [None, Some(importance.as_slice())] {
                let back = round_trip(t, &row, importance);
                prop_assert!(back.iter().all(|v| v.is_finite()), "{t}");
            }
        }
    }

    /// Encoding scales with the values: the search knows no favourite size, within what a binary16 scale can hold.
    #[test]
    fn a_row_twice_as_large_has_twice_the_values(row in prop::collection::vec(-1.0f32..1.0, COLUMNS)) {
        let twice: Vec<f32> = row.iter().map(|v| v * 2.0).collect();
        // NVFP4's scales are too coarse near zero for that.
        for t in block_types().filter(|t| t.name() != "NVFP4") {
            let (once, twice) = (round_trip(t, &row, None), round_trip(t, &twice, None));
            for (a, b) in once.iter().zip(&twice) {
                prop_assert!((2.0 * a - b).abs() <= 1e-6 * b.abs(), "{t}: {a} and {b}");
            }
        }
    }
}

#[test]
fn zeros_stay_zeros() {
    for t in block_types() {
        assert!(round_trip(t, &[0.0; COLUMNS], None).iter().all(|v| v.abs() < 1e-37), "{t}");
    }
}

#[test]
fn rows_without_known_importance_are_encoded_as_if_none_was_given() {
    let row: Vec<f32> = (0..COLUMNS).map(|i| (i as f32 * 0.37).sin()).collect();
    for t in block_types() {
        assert_eq!(round_trip(t, &row, Some(&[0.0; COLUMNS])), round_trip(t, &row, None), "{t}");
        assert_eq!(round_trip(t, &row, Some(&[3.0; COLUMNS])).len(), COLUMNS, "{t}");
    }
}

#[test]
fn values_without_importance_are_stored_all_the_same() {
    let row: Vec<f32> = (0..COLUMNS).map(|i| (i as f32 * 0.37).sin()).collect();
    let importance: Vec<f32> = (0..COLUMNS).map(|i| (i % 2) as f32).collect();
    let back = round_trip(Q8_0, &row, Some(&importance));
    for (a, b) in row.iter().zip(&back) {
        assert!((a - b).abs() < 0.01, "{a} became {b}");
    }
}

#[test]
fn importance_moves_the_error_to_where_it_matters_least() {
    let row: Vec<f32> = (0..COLUMNS).map(|i| (i as f32 * 0.37).sin() + (i as f32 * 1.7).cos()).collect();
    let importance: Vec<f32> = (0..COLUMNS).map(|i| if i % 8 == 0 { 1.0 } else { 1e-3 }).collect();
    let error = |back: &[f32]| row.iter().zip(back).zip(&importance).map(|((a, b), w)| w * (a - b).powi(2)).sum::<f32>();
    // Q1_0's one scale leaves almost nothing to move.
    for t in block_types().filter(|t| t.name() != "Q1_0") {
        let (plain, weighted) = (error(&round_trip(t, &row, None)), error(&round_trip(t, &row, Some(&importance))));
        assert!(weighted < plain, "{t}: {weighted} is not below {plain}");
    }
}

#[test]
fn what_is_beyond_the_range_is_cut_off() {
    let mut row = [1.0; COLUMNS];
    row[3] = 3e38;
    row[4] = -3e38;
    let back = round_trip(Q8_0, &row, None);
    assert!(back[3] > 8e6 && back[4] < -8e6, "{} {}", back[3], back[4]);
}

#[test]
fn values_of_a_ternary_row_come_back_exactly() {
    let row: Vec<f32> = (0..COLUMNS).map(|i| [0.0, 0.75, -0.75][i * i % 7 % 3]).collect();
    assert_eq!(round_trip(TQ1_0, &row, None), row);
}

#[test]
fn types_that_are_not_written_say_so() {
    let i8 = WeightType::by_name("I8").unwrap();
    assert_eq!(i8.encode(&[1.0], None, &mut [0]), None);
    assert_eq!(F32.encode(&[1.5], None, &mut [0; 4]), Some(()));
}

#[test]
#[should_panic(expected = "Q4_K: block count")]
fn a_row_that_is_no_whole_number_of_blocks_is_a_bug_of_the_caller() {
    let _ = Q4_K.encode(&[0.0; 128], None, &mut [0; 72]);
}
