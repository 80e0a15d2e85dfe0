//! Rotary frequencies against transformers 5.24 (`ROPE_INIT_FUNCTIONS` with a head of 16), and through GGUF.

mod common;

use common::{Outcome, changed, folder};
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert, load};
use onebit_plan::{Model, Op, Rope, RopeStyle};
use serde_json::{Value, json};

fn rope(model: &Model) -> Rope {
    let of = |op: &Op| if let Op::ApplyRope(a) = op { Some(a.rope.clone()) } else { None };
    model.plan.ops.iter().find_map(of).expect("the plan turns queries")
}

fn close(a: &Rope, frequencies: &[f64], scale: f64) {
    assert_eq!(a.frequencies.len(), frequencies.len());
    for (a, b) in a.frequencies.iter().zip(frequencies) {
        assert!((f64::from(*a) - b).abs() <= b * 1e-6, "{a} is not {b}");
    }
    assert!((f64::from(a.scale) - scale).abs() < 1e-6, "{} is not {scale}", a.scale);
}

/// The parameters give the frequencies and the scale, also after a conversion to GGUF where `gguf`.
fn check(parameters: Value, frequencies: &[f64], scale: f64, gguf: bool) -> Outcome {
    let folder = folder("llama", |config, _| {
        config.insert("rope_parameters".into(), parameters);
    })?;
    let checkpoint = Checkpoint::open(folder.path())?;
    let found = rope(&load(&checkpoint)?);
    close(&found, frequencies, scale);
    assert_eq!(found.style, RopeStyle::Halves);
    let file = folder.path().join("model.gguf");
    let made = convert(&checkpoint, &file, &Options::default(), &mut |_| {});
    if !gguf {
        assert!(made.is_err_and(|e| e.to_string().contains("YaRN")));
        return Ok(());
    }
    made?;
    let found = rope(&load(&Checkpoint::open(&file)?)?);
    close(&found, frequencies, scale);
    assert_eq!(found.style, RopeStyle::Pairs);
    Ok(())
}

/// What configurations leave out is not the same for all: the defaults of transformers 5.24's `CohereConfig` and `StableLmConfig`.
#[test]
fn defaults() -> Outcome {
    let base = |base: f64, dims: i32| (0..dims / 2).map(|i| base.powf(f64::from(-2 * i) / f64::from(dims))).collect::<Vec<_>>();
    for (name, frequencies, hf, gguf) in [
        ("cohere", base(500_000.0, 16), RopeStyle::Pairs, RopeStyle::Pairs),
        ("stablelm", base(10_000.0, 4), RopeStyle::Halves, RopeStyle::Halves),
        ("olmo", base(10_000.0, 16), RopeStyle::Halves, RopeStyle::Pairs),
    ] {
        let Some(source) = onebit_reference::check::folder(name) else { continue };
        let folder = changed(&source, |config, _| {
            config.remove("rope_parameters");
        })?;
        let checkpoint = Checkpoint::open(folder.path())?;
        let file = folder.path().join("model.gguf");
        convert(&checkpoint, &file, &Options::default(), &mut |_| {})?;
        for (checkpoint, style) in [(checkpoint, hf), (Checkpoint::open(&file)?, gguf)] {
            let found = rope(&load(&checkpoint)?);
            close(&found, &frequencies, 1.0);
            assert_eq!(found.style, style, "{name}");
        }
    }
    Ok(())
}

#[test]
fn linear() -> Outcome {
    let parameters = json!({ "rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0 });
    check(parameters, &[0.25, 0.079056941, 0.025, 0.0079056947, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05], 1.0, true)
}

#[test]
fn llama3() -> Outcome {
    let parameters = json!({ "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64 });
    let expected = [1.0, 0.079403013, 0.0047007538, 0.00091158313, 0.00017677668, 3.4281024e-05, 6.6478697e-06, 1.2891732e-06];
    check(parameters, &expected, 1.0, true)
}

#[test]
fn yarn() -> Outcome {
    let parameters = json!({ "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128 });
    let expected = [1.0, 0.23717082, 0.049999997, 0.0079056947, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05];
    check(parameters, &expected, 1.1386294, true)
}

#[test]
fn yarn_with_fractional_range() -> Outcome {
    let parameters = json!({ "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": false, "original_max_position_embeddings": 4096 });
    let expected = [1.0, 0.225418, 0.050813273, 0.0067949593, 0.00045648392, 1.8188337e-05, 4.0999785e-06, 9.2420896e-07];
    check(parameters, &expected, 1.3465736, false)
}

#[test]
fn yarn_with_magnitudes_on_half_a_head() -> Outcome {
    let parameters = json!({ "rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.5,
        "original_max_position_embeddings": 128, "partial_rotary_factor": 0.5 });
    check(parameters, &[1.0, 0.05125, 0.00025, 2.5e-05], 1.1557220, true)
}
