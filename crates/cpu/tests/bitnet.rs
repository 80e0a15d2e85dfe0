//! One BitNet model in four files, and a llama with BitNet's layers, against the logits of transformers
//! (`tests/oracles/bitnet_models.py`).

use onebit_cpu::Cpu;
use onebit_formats::Checkpoint;
use onebit_models::load;
use onebit_plan::{ActivationKind, Device, Limits, Op};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use std::{
    error::Error,
    path::{Path, PathBuf},
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A number that lies between two of the 255 steps to which inputs are rounded falls to either side by a small error, and is a step
/// apart then. So logits agree with exact arithmetic only in exact arithmetic.
const STEP: f64 = 0.05;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bitnet").join(name)
}

fn expected(file: &Path, logits: &str) -> Outcome<Expected> {
    let values = Checkpoint::open(file)?;
    let find = |name: &str| values.tensor(name).map(|t| t.to_f32()).ok_or_else(|| format!("no `{name}`"));
    let long: Vec<u32> = find("ids")?.iter().map(|id| *id as u32).collect();
    let long_logits = find(logits)?;
    let (few, vocabulary) = (3, long_logits.len() / long.len());
    let (short, short_logits) = (long[..few].to_vec(), long_logits[..few * vocabulary].to_vec());
    Ok(Expected { short, short_logits, long, long_logits, greedy: vec![], margin: vec![], sources: None })
}

/// All logits of the prompt in one step.
fn logits(device: &dyn Device, path: &Path, ids: &[u32], limits: &Limits) -> Outcome<Vec<f32>> {
    let mut exe = device.load(load(&Checkpoint::open(path)?)?, limits, &mut |_| {})?;
    let span = onebit_plan::Span { len: ids.len(), start: 0, pages: &[1, 0], slot: 0, outputs: ids.len() };
    Ok(exe.step(&onebit_plan::Batch::text(ids, &[span]))?.to_vec())
}

const FILES: [&str; 4] = ["packed", "i2_s.gguf", "tq1_0.gguf", "tq2_0.gguf"];

#[test]
fn one_model_in_four_files() -> Outcome {
    let expected = expected(&data("expected.safetensors"), "logits")?;
    let cpu = Cpu::new(Some(2));
    let exact = check::limits();
    let rounded = Limits { activations: ActivationKind::Int16, ..exact.clone() };
    for (device, limits, bar) in [(&Reference as &dyn Device, &exact, check::BAR), (&cpu, &exact, check::BAR), (&cpu, &rounded, STEP)] {
        let first = logits(device, &data(FILES[0]), &expected.long, limits)?;
        for name in FILES {
            let model = load(&Checkpoint::open(data(name))?)?;
            let roundings = model.plan.ops.iter().filter(|op| matches!(op, Op::RoundRows(_))).count();
            assert_eq!(roundings, 4, "{name}: one for queries, keys and values, one for gate and up, and two");
            let report = check::fixture(device, model, &expected, limits)?;
            eprintln!("{name}, {}: {:.1e}", device.name(), report.worst());
            report.hold(bar)?;
            let same = logits(device, &data(name), &expected.long, limits)?;
            assert!(same.iter().zip(&first).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}, {}: not the same bits", device.name());
        }
    }
    Ok(())
}

/// The roundings matter: without them, logits are others.
#[test]
fn inputs_are_rounded() -> Outcome {
    let file = data("expected.safetensors");
    let (rounded, plain) = (expected(&file, "logits")?, expected(&file, "plain")?);
    let worst = rounded.long_logits.iter().zip(&plain.long_logits).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    assert!(worst / rounded.deviation() > 100.0 * check::BAR, "{worst}");
    Ok(())
}

/// `quant_method` `bitnet` rounds inputs in any architecture.
#[test]
fn a_llama_with_layers_of_bitnet() -> Outcome {
    let folder = data("llama");
    let expected = expected(&folder.join("expected.safetensors"), "logits")?;
    for device in [&Reference as &dyn Device, &Cpu::new(Some(2))] {
        let report = check::fixture(device, load(&Checkpoint::open(&folder)?)?, &expected, &check::limits())?;
        eprintln!("llama, {}: {:.1e}", device.name(), report.worst());
        report.hold(check::BAR)?;
    }
    Ok(())
}

/// Converted, the packed model is the same.
#[test]
fn a_packed_model_becomes_gguf() -> Outcome {
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    onebit_models::convert(&Checkpoint::open(data("packed"))?, &file, &onebit_models::Options::default(), &mut |_| {})?;
    let made = Checkpoint::open(&file)?;
    assert_eq!(made.tensors["blk.0.ffn_down.weight"].ty(), onebit_quants::TQ2_0);
    let ids = expected(&data("expected.safetensors"), "logits")?.long;
    let [packed, made] = [data("packed"), file].map(|path| logits(&Reference, &path, &ids, &check::limits()));
    assert_eq!(packed?, made?);
    Ok(())
}
