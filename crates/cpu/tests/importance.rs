//! Sums of what weights are multiplied with: against the reference, and against a calculation from embedding and norm.

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_plan::{Batch, Device, InputSums, Limits, Model, Span};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use std::{collections::BTreeMap, error::Error};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Sums after reading `tokens` in chunks, by the weights' names.
fn sums(device: &dyn Device, model: &Model, tokens: &[u32], chunk: usize) -> Outcome<BTreeMap<String, InputSums>> {
    let limits = Limits { outputs: chunk, batch: chunk, ..check::limits() };
    let mut exe = device.load(model.clone(), &limits, &mut |_| {})?;
    let pages: Vec<u32> = (0..limits.pages as u32).collect();
    let mut start = 0;
    for part in tokens.chunks(chunk) {
        exe.step(&Batch::text(part, &[Span { len: part.len(), start, pages: &pages, slot: 0, outputs: part.len() }]))?;
        start += part.len();
    }
    Ok(exe.input_sums().into_iter().map(|s| (model.plan.weight(s.weight).name.clone(), s)).collect())
}

#[test]
fn agrees_with_the_reference_whatever_the_chunks_and_threads() -> Outcome {
    for name in ["llama", "qwen3_moe", "qwen3_5_text", "jetmoe"] {
        let Some(folder) = check::folder(name) else { return Ok(()) };
        let model = onebit_models::load(&Checkpoint::open(&folder)?)?;
        let tokens = Expected::open(&folder)?.long;
        let reference = sums(&Reference, &model, &tokens, tokens.len())?;
        let ours = sums(&Cpu::new(Some(3)).watching(), &model, &tokens, tokens.len())?;
        assert_eq!(sums(&Cpu::new(Some(1)).watching(), &model, &tokens, 5)?, ours, "{name}");
        assert_eq!(ours.keys().collect::<Vec<_>>(), reference.keys().collect::<Vec<_>>());
        let matrices = model.plan.ops.iter().filter(|op| ["linear", "chosen_linear", "experts"].contains(&op.name())).count();
        assert!(ours.len() >= matrices, "{name}: {} of {matrices}", ours.len());
        for (weight, a) in &ours {
            let b = &reference[weight];
            assert_eq!(a.counts, b.counts, "{name} {weight}");
            let largest = b.squares.iter().copied().fold(0.0, f64::max);
            let worst = a.squares.iter().zip(&b.squares).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst <= 1e-4 * largest, "{name} {weight}: {worst} of {largest}");
        }
        assert!(sums(&Cpu::new(Some(2)), &model, &tokens, tokens.len())?.is_empty(), "nobody asked");
    }
    Ok(())
}

/// The first layer's attention reads normalised rows of the embedding: `x / sqrt(mean(x^2) + eps) * weight`.
#[test]
fn of_the_first_layer_by_hand() -> Outcome {
    let Some(folder) = check::folder("llama") else { return Ok(()) };
    let checkpoint = Checkpoint::open(&folder)?;
    let model = onebit_models::load(&checkpoint)?;
    let tokens = [3u32, 250, 3, 77];
    let (table, norm) =
        (checkpoint.tensors["model.embed_tokens.weight"].to_f32(), checkpoint.tensors["model.layers.0.input_layernorm.weight"].to_f32());
    let eps = checkpoint.config["rms_norm_eps"].as_f64().ok_or("no epsilon")?;
    let mut expected = vec![0.0f64; norm.len()];
    for token in tokens {
        let row = &table[token as usize * norm.len()..][..norm.len()];
        let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / row.len() as f64;
        for ((sum, x), w) in expected.iter_mut().zip(row).zip(&norm) {
            *sum += (f64::from(*x) / (mean + eps).sqrt() * f64::from(*w)).powi(2);
        }
    }
    let found = sums(&Cpu::new(Some(2)).watching(), &model, &tokens, 3)?;
    for name in ["attn_q", "attn_k", "attn_v"] {
        let it = &found[&format!("blk.0.{name}.weight")];
        assert_eq!(it.counts, [4]);
        assert!(it.squares.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5 * b.max(1.0)), "{name}");
    }
    Ok(())
}
