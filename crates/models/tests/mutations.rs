//! Changes settings and tensors of small models at random, and loads them: the outcome is an error or a plan that runs, within a
//! second, and never a panic.
//!
//! `ONEBIT_MUTATION_SECONDS` sets how long (2 by default), `ONEBIT_MUTATION_SEED` where the random numbers start; a failure
//! prints the seed, the round and what was changed.

mod common;

use common::{Outcome, data, gguf_file};
use onebit_formats::{Checkpoint, Meta, Source};
use onebit_plan::{Batch, Device, Span};
use onebit_reference::{Reference, check};
use serde_json::{Value, json};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Numbers at which checks tend to go wrong, and those that small models have.
    fn number(&mut self) -> i64 {
        const EDGES: [i64; 22] =
            [-1, 0, 1, 2, 3, 4, 5, 6, 8, 15, 16, 17, 32, 64, 128, 256, 1 << 16, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 40, i64::MAX];
        EDGES[self.below(EDGES.len())]
    }
    fn json(&mut self) -> Value {
        match self.below(9) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.number() as f64 / 16.0),
            3 => json!(["", "silu", "yarn", "llama3", "linear", "qwen3", "llama"][self.below(7)]),
            4 => json!(vec![self.number(); self.below(5)]),
            5 => json!({ "rope_type": "yarn", "factor": self.number(), "original_max_position_embeddings": self.number() }),
            _ => json!(self.number()),
        }
    }
    fn meta(&mut self) -> Meta {
        match self.below(7) {
            0 => Meta::Bool(self.below(2) == 0),
            1 => Meta::Float([f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-30, 1e30, 10_000.0][self.below(7)]),
            2 => Meta::Text(["", "none", "yarn", "linear", "qwen3"][self.below(5)].into()),
            3 => Meta::Integers(vec![self.number(); self.below(5)]),
            4 => Meta::Signed(self.number()),
            _ => Meta::Unsigned(self.number() as u64),
        }
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
            let value = r.meta();
            let text = format!("{key} = {value:?}");
            c.metadata.pairs.insert(key, value);
            text
        }
        (_, Source::HuggingFace) => {
            let keys: Vec<String> = c.config.keys().cloned().collect();
            let more = ["sliding_window", "mlp_only_layers", "full_attention_interval", "text_config", "layer_types", "no_rope_layers"];
            let i = r.below(keys.len() + more.len());
            let key = keys.get(i).cloned().unwrap_or_else(|| more[i - keys.len()].to_string());
            let value = r.json();
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
    exe.step(&Batch { tokens: &[5, 6], spans: &spans })?;
    Ok(())
}

#[test]
fn mutations() -> Outcome {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default);
    let time = Duration::from_secs(number("ONEBIT_MUTATION_SECONDS", 2));
    let seed = number("ONEBIT_MUTATION_SEED", 1);
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
