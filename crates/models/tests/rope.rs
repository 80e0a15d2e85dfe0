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

/// `llama` with these parameters, for contexts of 512 tokens.
fn of_512(parameters: Value) -> Outcome<tempfile::TempDir> {
    folder("llama", |config, _| {
        config.insert("max_position_embeddings".into(), 512.into());
        config.insert("rope_parameters".into(), parameters);
    })
}

/// The rotation for contexts of up to `context` tokens.
fn rope_for(checkpoint: &Checkpoint, context: usize) -> Outcome<Rope> {
    let mut model = load(checkpoint)?;
    model.plan.fit_context(context);
    Ok(rope(&model))
}

#[test]
fn dynamic() -> Outcome {
    let folder = of_512(json!({ "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0 }))?;
    let checkpoint = Checkpoint::open(folder.path())?;
    let short = [1.0, 0.31622776, 0.1, 0.031622779, 0.0099999998, 0.0031622779, 0.001, 0.00031622779];
    close(&rope(&load(&checkpoint)?), &short, 1.0);
    close(&rope_for(&checkpoint, 512)?, &short, 1.0);
    let long = [1.0, 0.25127375, 0.063138507, 0.015865048, 0.0039864704, 0.0010016954, 0.00025169979, 6.3245549e-05];
    close(&rope_for(&checkpoint, 1024)?, &long, 1.0);
    Ok(())
}

/// With `alpha`, as transformers' `modeling_hunyuan_v1_dense.py` has it: the same for all lengths.
#[test]
fn fixed_growth() -> Outcome {
    let parameters = json!({ "rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0 });
    let expected = [1.0, 0.11787686, 0.013894955, 0.0016378937, 0.00019306978, 2.2758459e-05, 2.6826958e-06, 3.1622776e-07];
    check(parameters, &expected, 1.0, true)
}

#[test]
fn proportional() -> Outcome {
    let parameters = json!({ "rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "factor": 2.0 });
    let folder = of_512(parameters)?;
    let mut expected = [0.0; 8];
    expected[..2].copy_from_slice(&[0.5, 0.15811388]);
    close(&rope(&load(&Checkpoint::open(folder.path())?)?), &expected, 1.0);
    Ok(())
}

/// Short contexts and long ones, from the folder and after a conversion to GGUF.
#[test]
fn longrope() -> Outcome {
    let folder = of_512(json!({ "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 128,
        "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5], "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0] }))?;
    let checkpoint = Checkpoint::open(folder.path())?;
    let file = folder.path().join("model.gguf");
    convert(&checkpoint, &file, &Options::default(), &mut |_| {})?;
    for checkpoint in [checkpoint, Checkpoint::open(&file)?] {
        let short = [1.0, 0.28747976, 0.083333336, 0.02108185, 0.0049999999, 0.0012649111, 0.00033333333, 9.035079e-05];
        close(&rope_for(&checkpoint, 128)?, &short, 1.1338934190276817);
        let long = [1.0, 0.2108185, 0.050000001, 0.0079056947, 0.00125, 0.00019764237, 4.1666666e-05, 9.8821183e-06];
        close(&rope_for(&checkpoint, 129)?, &long, 1.1338934190276817);
    }
    Ok(())
}

/// A list that is too short, or holds no numbers, is refused by name.
#[test]
fn wrong_factors() -> Outcome {
    for factors in [json!([1.0, 2.0]), json!("long"), json!([1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, -3.5])] {
        let folder = of_512(json!({ "rope_type": "longrope", "short_factor": factors, "long_factor": factors }))?;
        let error = load(&Checkpoint::open(folder.path())?).map(|_| ()).map_err(|e| e.to_string());
        assert!(error.as_ref().is_err_and(|e| e.contains("short_factor") && e.contains("8 positive numbers")), "{error:?}");
    }
    Ok(())
}
