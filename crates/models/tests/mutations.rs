//! Changes settings and tensors of small models at random, and loads them: the outcome is an error or a plan that runs, within a
//! second, and never a panic.
//!
//! `ONEBIT_MUTATION_SECONDS` sets how long (2 by default), `ONEBIT_MUTATION_SEED` where the random numbers start; a failure
//! prints the seed, the round and what was changed.

mod common;
#[path = "../../../tests/random.rs"]
mod random;

use common::{Outcome, data, gguf_file};
use onebit_formats::{Checkpoint, Meta, Source};
use onebit_plan::{Batch, Device, Span};
use onebit_reference::{Reference, check};
use random::Random;
use serde_json::{Value, json};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// Numbers at which checks tend to go wrong, and those that small models have.
fn number(r: &mut Random) -> i64 {
    const EDGES: [i64; 22] =
        [-1, 0, 1, 2, 3, 4, 5, 6, 8, 15, 16, 17, 32, 64, 128, 256, 1 << 16, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 40, i64::MAX];
    *r.pick(&EDGES)
}

fn any_json(r: &mut Random) -> Value {
    match r.below(9) {
        0 => Value::Null,
        1 => json!(r.below(2) == 0),
        2 => json!(number(r) as f64 / 16.0),
        3 => json!(*r.pick(&["", "silu", "yarn", "llama3", "linear", "qwen3", "llama"])),
        4 => json!(vec![number(r); r.below(5)]),
        5 => json!({ "rope_type": "yarn", "factor": number(r), "original_max_position_embeddings": number(r) }),
        _ => json!(number(r)),
    }
}

fn any_meta(r: &mut Random) -> Meta {
    match r.below(7) {
        0 => Meta::Bool(r.below(2) == 0),
        1 => Meta::Float(*r.pick(&[f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-30, 1e30, 10_000.0])),
        2 => Meta::Text((*r.pick(&["", "none", "yarn", "linear", "qwen3"])).into()),
        3 => Meta::Integers(vec![number(r); r.below(5)]),
        4 => Meta::Signed(number(r)),
        _ => Meta::Unsigned(number(r) as u64),
    }
}

/// Changes one thing, and says what.
fn change(r: &mut Random, c: &mut Checkpoint) -> String {
    let names: Vec<String> = c.tensors.keys().cloned().collect();
    let name = names[r.below(names.len())].clone();
    match (r.below(8), c.source) {
        (0, _) => {
            c.tensors.remove(&name);
            format!("without {name}")
        }
        (1, _) => {
            // As if the tensor had the shape of another.
            let other = &names[r.below(names.len())];
            let Some(tensor) = c.tensors.get(other).cloned() else { return String::new() };
            c.tensors.insert(name.clone(), tensor);
            format!("{name} is {other}")
        }
        (_, Source::Gguf) => {
            let keys: Vec<String> = c.metadata.pairs.keys().cloned().collect();
            let more = ["rope.scaling.type", "rope.scaling.factor", "nextn_predict_layers", "attention.value_length"];
            let i = r.below(keys.len() + more.len());
            let prefix = keys.iter().find_map(|k| k.strip_suffix("block_count")).unwrap_or_default().to_string();
            let key = keys.get(i).cloned().unwrap_or_else(|| format!("{prefix}{}", more[i - keys.len()]));
            let value = any_meta(r);
            let text = format!("{key} = {value:?}");
            c.metadata.pairs.insert(key, value);
            text
        }
        (_, Source::HuggingFace) => {
            let keys: Vec<String> = c.config.keys().cloned().collect();
            let more = ["sliding_window", "mlp_only_layers", "full_attention_interval", "text_config", "layer_types", "no_rope_layers"];
            let i = r.below(keys.len() + more.len());
            let key = keys.get(i).cloned().unwrap_or_else(|| more[i - keys.len()].to_string());
            let value = any_json(r);
            let text = format!("{key} = {value}");
            c.config.insert(key, value);
            text
        }
    }
}

/// Loads the checkpoint, and runs two tokens where that works.
fn try_out(checkpoint: &Checkpoint) -> Outcome {
    let Ok(model) = onebit_models::load(checkpoint) else { return Ok(()) };
    let limits = check::limits();
    let mut exe = Reference.load(model, &limits, &mut |_| {})?;
    let spans = [Span { len: 2, start: 0, pages: &[3], slot: 1, outputs: 1 }];
    exe.step(&Batch::text(&[5, 6], &spans))?;
    Ok(())
}

#[test]
fn mutations() -> Outcome {
    let (time, seed) = (random::time(), random::seed());
    let mut folders = vec![];
    let mut files = vec![];
    for name in ["llama", "qwen3_moe", "qwen3_5_text"] {
        files.push(data(name));
        let folder = gguf_file(name, |_, _| {})?;
        files.push(folder.path().join("model.gguf"));
        folders.push(folder);
    }
    let (start, mut round) = (Instant::now(), 0);
    while start.elapsed() < time {
        let mut r = Random(seed.wrapping_add(round));
        let mut checkpoint = Checkpoint::open(&files[r.below(files.len())])?;
        let changes: Vec<String> = (0..1 + r.below(3)).map(|_| change(&mut r, &mut checkpoint)).collect();
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| try_out(&checkpoint).map_err(|e| e.to_string())));
        let took = begun.elapsed();
        let good = matches!(outcome, Ok(Ok(()))) && took < Duration::from_secs(1);
        assert!(good, "seed {}: {}, {changes:?}: {outcome:?} in {took:?}", seed.wrapping_add(round), checkpoint.path.display());
        round += 1;
    }
    eprintln!("{round} rounds");
    Ok(())
}
