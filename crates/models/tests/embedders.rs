//! Models that write text, as embedders: what they end in before the output matrix are the hidden states of which embeddings are made.

mod common;

use common::Outcome;
use onebit_formats::Checkpoint;
use onebit_models::load;
use onebit_plan::{Batch, Device, Span};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};

/// The output matrix makes of the hidden states the logits that transformers computed.
fn agrees(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let (checkpoint, expected) = (Checkpoint::open(&folder)?, Expected::open(&folder)?);
    let model = load(&checkpoint)?.up_to_hidden()?;
    assert!(model.plan.gives_hidden() && !model.plan.looks_ahead());
    let width = model.plan.width();
    let matrix = ["lm_head.weight", "model.embed_tokens.weight"].into_iter().find_map(|name| checkpoint.tensor(name));
    let matrix = matrix.ok_or("no output matrix")?.to_f32();
    let mut exe = Reference.load(model, &check::limits(), &mut |_| {})?;
    assert_eq!((exe.width(), matrix.len()), (width, width * exe.vocabulary()));
    let pages: Vec<u32> = (0..8).collect();
    let n = expected.long.len();
    let states = exe.step(&Batch::text(&expected.long, &[Span { len: n, start: 0, pages: &pages, slot: 0, outputs: n }]))?;
    let product = |state: &[f32], row: &[f32]| state.iter().zip(row).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32;
    let logits: Vec<f32> = states.chunks(width).flat_map(|state| matrix.chunks(width).map(move |row| product(state, row))).collect();
    let worst = check::difference(&logits, &expected.long_logits) / expected.deviation();
    assert!(worst < check::BAR, "{name}: {worst}");
    Ok(())
}

#[test]
fn llama() -> Outcome {
    agrees("llama")
}

#[test]
fn qwen3() -> Outcome {
    agrees("qwen3")
}

#[test]
fn qwen3_moe() -> Outcome {
    agrees("qwen3_moe")
}

#[test]
fn qwen3_5() -> Outcome {
    agrees("qwen3_5_text")
}
