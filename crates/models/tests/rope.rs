//! Rotary frequencies against transformers 5.24 (`tools/oracles/rope.py` made `data/rope/settings.json`), and through GGUF.

mod common;

use common::{Outcome, changed, folder};
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert, load};
use onebit_plan::{Batch, Device, Model, Op, Rope, RopeStyle, Span};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use serde_json::{Value, json};

fn rope(model: &Model) -> Rope {
    let of = |op: &Op| if let Op::ApplyRope(a) = op { Some(a.rope.clone()) } else { None };
    model.plan.ops.iter().find_map(of).expect("the plan turns queries")
}

fn close(found: &Rope, frequencies: &[f64], scale: f64, of: &dyn std::fmt::Display) {
    assert_eq!(found.frequencies.len(), frequencies.len(), "{of}");
    for (a, b) in found.frequencies.iter().zip(frequencies) {
        assert!((f64::from(*a) - b).abs() <= b * 1e-6 + 1e-28, "{a} is not {b}: {of}");
    }
    assert!((f64::from(found.scale) - scale).abs() < 1e-6, "{} is not {scale}: {of}", found.scale);
}

/// The parameters give the frequencies and the scale, also after a conversion to GGUF where `gguf`.
fn check(parameters: Value, frequencies: &[f64], scale: f64, gguf: bool) -> Outcome {
    let folder = folder("llama", |config, _| {
        config.insert("rope_parameters".into(), parameters);
    })?;
    let checkpoint = Checkpoint::open(folder.path())?;
    let found = rope(&load(&checkpoint)?);
    close(&found, frequencies, scale, &"as written");
    assert_eq!(found.style, RopeStyle::Halves);
    let file = folder.path().join("model.gguf");
    let made = convert(&checkpoint, &file, &Options::default(), &mut |_| {});
    if !gguf {
        assert!(made.is_err_and(|e| e.to_string().contains("YaRN")));
        return Ok(());
    }
    made?;
    let found = rope(&load(&Checkpoint::open(&file)?)?);
    close(&found, frequencies, scale, &"as written");
    assert_eq!(found.style, RopeStyle::Pairs);
    Ok(())
}

/// Settings with what transformers makes of them.
fn settings() -> Outcome<Value> {
    Ok(serde_json::from_slice(&std::fs::read(common::data("rope").join("settings.json"))?)?)
}

/// A folder of a Llama for contexts of 512 tokens, whose settings of the rotation are `config`.
fn turning_as(config: &Value) -> Outcome<tempfile::TempDir> {
    folder("llama", |own, _| {
        own.insert("max_position_embeddings".into(), 512.into());
        own.remove("rope_parameters");
        own.extend(config.as_object().cloned().unwrap_or_default());
    })
}

/// Every kind with every field, in the new form (`rope_parameters`) and in the old one (`rope_scaling`, `rope_theta`), also after a
/// conversion.
#[test]
fn every_setting() -> Outcome {
    let all = settings()?;
    let (mut converted, mut refused) = (0, 0);
    for case in all["frequencies"].as_array().ok_or("no list")? {
        let folder = turning_as(&case["config"])?;
        let checkpoint = Checkpoint::open(folder.path())?;
        let file = folder.path().join("model.gguf");
        let mut forms = vec![checkpoint];
        match convert(&forms[0], &file, &Options::default(), &mut |_| {}) {
            Ok(_) => forms.push(Checkpoint::open(&file)?),
            Err(e) => {
                let text = e.to_string();
                assert!(text.contains("YaRN rounds") && case["config"].to_string().contains("truncate\":false"), "{case}: {text}");
                refused += 1;
            }
        }
        for (i, checkpoint) in forms.iter().enumerate() {
            for at in case["at"].as_array().ok_or("no list")? {
                let context = at["context"].as_u64().ok_or("no number")? as usize;
                // GGUF files have no way to say that the base grows.
                if i == 1 && context > 512 {
                    continue;
                }
                converted += i;
                let expected: Vec<f64> = at["frequencies"].as_array().ok_or("no list")?.iter().filter_map(Value::as_f64).collect();
                let found = rope_for(checkpoint, context)?;
                close(&found, &expected, at["scale"].as_f64().ok_or("no number")?, &case["config"]);
                assert_eq!(found.style, [RopeStyle::Halves, RopeStyle::Pairs][i]);
            }
        }
    }
    assert!(converted > 100 && refused > 3, "{converted} conversions, {refused} refusals");
    Ok(())
}

/// The axis that turns each pair, also after a conversion.
#[test]
fn axes_of_positions() -> Outcome {
    for case in settings()?["axes"].as_array().ok_or("no list")? {
        let sections = &case["sections"];
        let own = json!({ "mrope_section": sections, "mrope_interleaved": case["interleaved"] });
        let folder = turning_as(&json!({ "rope_scaling": own, "rope_theta": 1e4 }))?;
        let checkpoint = Checkpoint::open(folder.path())?;
        assert_eq!(json!(rope(&load(&checkpoint)?).axes), case["axes"], "{case}");
        let file = folder.path().join("model.gguf");
        match convert(&checkpoint, &file, &Options::default(), &mut |_| {}) {
            Ok(_) => assert_eq!(json!(rope(&load(&Checkpoint::open(&file)?)?).axes), case["axes"], "{case}"),
            Err(e) => assert!(case["interleaved"] == true && e.to_string().contains("take turns"), "{e}"),
        }
    }
    Ok(())
}

/// A whole model with each kind computes what transformers does.
#[test]
fn logits_of_each_kind() -> Outcome {
    let expected = Expected::open(&common::data("llama"))?;
    for case in settings()?["logits"].as_array().ok_or("no list")? {
        let folder = turning_as(&case["config"])?;
        let mut model = load(&Checkpoint::open(folder.path())?)?;
        model.plan.fit_context(case["context"].as_u64().ok_or("no number")? as usize);
        let mut exe = Reference.load(model, &check::limits(), &mut |_| {})?;
        let (pages, len) = ((0..8).collect::<Vec<u32>>(), expected.long.len());
        let spans = [Span { len, start: 0, pages: &pages, slot: 0, outputs: 1 }];
        let found = exe.step(&Batch::text(&expected.long, &spans))?;
        let logits: Vec<f64> = case["logits"].as_array().ok_or("no list")?.iter().filter_map(Value::as_f64).collect();
        assert_eq!(found.len(), logits.len());
        let worst = found.iter().zip(&logits).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        assert!(worst <= check::BAR * expected.deviation(), "{worst:.1e}: {}", case["config"]);
    }
    Ok(())
}

/// Sections that are no counts, or do not make up the pairs, are refused by name.
#[test]
fn wrong_sections() -> Outcome {
    for (sections, what) in
        [(json!([2, 3, 4]), "has 9 pairs in all, but 8 turn"), (json!("all"), "up to 4 counts"), (json!([1, -1]), "up to 4 counts")]
    {
        let folder = turning_as(&json!({ "rope_parameters": { "rope_type": "default", "mrope_section": sections } }))?;
        let error = common::refusal(folder.path())?;
        assert!(error.contains("mrope_section") && error.contains(what), "{error}");
    }
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
        let Some(source) = check::folder(name) else { continue };
        let folder = changed(&source, |config, _| {
            config.remove("rope_parameters");
        })?;
        let checkpoint = Checkpoint::open(folder.path())?;
        let file = folder.path().join("model.gguf");
        convert(&checkpoint, &file, &Options::default(), &mut |_| {})?;
        for (checkpoint, style) in [(checkpoint, hf), (Checkpoint::open(&file)?, gguf)] {
            let found = rope(&load(&checkpoint)?);
            close(&found, &frequencies, 1.0, &"as written");
            assert_eq!(found.style, style, "{name}");
        }
    }
    Ok(())
}

#[test]
fn yarn_with_fractional_range() -> Outcome {
    let parameters = json!({ "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": false, "original_max_position_embeddings": 4096 });
    let expected = [1.0, 0.225418, 0.050813273, 0.0067949593, 0.00045648392, 1.8188337e-05, 4.0999785e-06, 9.2420896e-07];
    check(parameters, &expected, 1.3465736, false)
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

/// With `alpha`, as transformers' `modeling_hunyuan_v1_dense.py` has it: the same for all lengths.
#[test]
fn fixed_growth() -> Outcome {
    let parameters = json!({ "rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0 });
    let expected = [1.0, 0.11787686, 0.013894955, 0.0016378937, 0.00019306978, 2.2758459e-05, 2.6826958e-06, 3.1622776e-07];
    check(parameters, &expected, 1.0, true)
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
        close(&rope_for(&checkpoint, 128)?, &short, 1.1338934190276817, &"as written");
        let long = [1.0, 0.2108185, 0.050000001, 0.0079056947, 0.00125, 0.00019764237, 4.1666666e-05, 9.8821183e-06];
        close(&rope_for(&checkpoint, 129)?, &long, 1.1338934190276817, &"as written");
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
