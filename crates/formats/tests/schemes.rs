//! Every scheme against the values that its own package decodes (`tests/oracles/scheme_references.py`), and what is refused.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::data;
use onebit_formats::{Checkpoint, Tensor, safetensors::Writer};
use onebit_quants::WeightType;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fs, path::Path};
use tempfile::TempDir;

/// Name of the folder, and a bound on the error relative to the largest value. Zero where the package computes in f32 as we do.
const CASES: &[(&str, f32)] = &[
    ("auto-round-awq", HALF),
    ("auto-round-gptq", HALF),
    ("awq", HALF),
    ("bitnet", ROUNDING),
    ("bitnet-auto", 0.0),
    ("bnb-fp4", 0.0),
    ("bnb-int8", HALF),
    ("bnb-nf4", 0.0),
    ("bnb-nf4-nested", ROUNDING),
    ("ct-fp8", 0.0),
    ("ct-fp8-block", 0.0),
    ("ct-fp8-row", 0.0),
    ("ct-int8", 0.0),
    ("ct-int8-asym", ROUNDING),
    ("ct-mxfp4", 0.0),
    ("ct-mxfp8", 0.0),
    ("ct-nvfp4", BRAIN),
    ("ct-w3-asym", ROUNDING),
    ("ct-w4", 0.0),
    ("ct-w4-asym", ROUNDING),
    ("ct-w5-asym", ROUNDING),
    ("ct-w8", 0.0),
    ("fp8-block", 0.0),
    ("fp8-experts", 0.0),
    ("fp8-fbgemm", 0.0),
    ("fp8-ragged", 0.0),
    ("fp8-tensor", 0.0),
    ("gptq-2-32-asym-v2", HALF),
    ("gptq-3-32-act-v1", HALF),
    ("gptq-3-32-asym-v2", HALF),
    ("gptq-4-16-asym-v1", HALF),
    ("gptq-4-32-asym-act-v2", HALF),
    ("gptq-4-32-v1", HALF),
    ("gptq-4-row-v2", HALF),
    ("gptq-8-64-v1", HALF),
    ("gptq-8-row-v1", HALF),
    ("hqq-1-axis1", ROUNDING),
    ("hqq-2-axis1", ROUNDING),
    ("hqq-3-axis0", 0.0),
    ("hqq-3-axis1", ROUNDING),
    ("hqq-4-axis0", 0.0),
    ("hqq-4-axis1", ROUNDING),
    ("hqq-8-axis1", ROUNDING),
    ("metal", ROUNDING),
    ("mlx-2-32", ROUNDING),
    ("mlx-2-64", ROUNDING),
    ("mlx-3-32", ROUNDING),
    ("mlx-3-64", ROUNDING),
    ("mlx-4-32", ROUNDING),
    ("mlx-5-32", ROUNDING),
    ("mlx-6-32", ROUNDING),
    ("mlx-6-64", ROUNDING),
    ("mlx-8-32", ROUNDING),
    ("mlx-own", ROUNDING),
    ("modelopt-fp8", 0.0),
    ("modelopt-nvfp4", ROUNDING),
    ("mxfp4", 0.0),
    ("torchao-fp8-row", 0.0),
    ("torchao-fp8-tensor", 0.0),
    ("torchao-int4", ROUNDING),
    ("torchao-int8-group", ROUNDING),
    ("torchao-int8-row", ROUNDING),
    ("torchao-int8-tensor", ROUNDING),
    ("torchao-intx", ROUNDING),
];

/// The package rounds its result to binary16.
const HALF: f32 = 1.0 / 1024.0;
/// The package rounds to bfloat16 on the way.
const BRAIN: f32 = 1.0 / 128.0;
/// Another order of f32 operations.
const ROUNDING: f32 = 4e-7;

fn folder(name: &str) -> std::path::PathBuf {
    data("schemes").join(name)
}

#[test]
fn every_scheme_decodes_as_its_package_does() {
    let values = Checkpoint::open(data("schemes/values.safetensors")).unwrap();
    let mut seen = vec![];
    for (name, bound) in CASES {
        let checkpoint = Checkpoint::open(folder(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let [tensor] = &checkpoint.tensors.values().collect::<Vec<_>>()[..] else { panic!("{name}: {:?}", checkpoint.tensors.keys()) };
        let want = values.tensor(&format!("{name}/{}", tensor.name())).unwrap_or_else(|| panic!("{name}: {}", tensor.name()));
        assert_eq!(tensor.shape(), want.shape(), "{name}");
        let (got, want) = (tensor.to_f32(), want.to_f32());
        let largest = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let (at, worst) =
            got.iter().zip(&want).map(|(a, b)| (a - b).abs()).enumerate().fold((0, 0.0), |m, e| if e.1 <= m.1 { m } else { e });
        assert!(worst <= bound * largest, "{name}: value {at} is {}, not {} (largest {largest})", got[at], want[at]);
        assert!(got.iter().all(|v| v.is_finite()), "{name}");
        assert!(!tensor.scheme().unwrap().is_empty());
        seen.push(*name);
    }
    // No folder is forgotten.
    let mut all: Vec<String> = fs::read_dir(data("schemes"))
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().is_dir())
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    all.sort();
    assert_eq!(all, seen);
}

/// Rows by themselves are those of the whole, and few bytes are stored for them.
#[test]
fn rows_are_put_together_one_by_one() {
    for (name, _) in CASES {
        let checkpoint = Checkpoint::open(folder(name)).unwrap();
        for t in checkpoint.tensors.values() {
            let all = t.bytes();
            let (n, mut room) = (all.len() / t.rows(), vec![]);
            for row in (0..t.rows()).rev() {
                assert_eq!(t.row(row, &mut room), &all[row * n..][..n], "{name}, row {row}");
            }
            assert!(t.in_file().is_none() && t.stored_bytes() > 0 && t.stored_names().len() > 1);
            t.release();
        }
    }
}

/// A tensor that a test may change.
struct Raw {
    ty: WeightType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// The tensors of a file, as they are stored.
fn stored(folder: &Path) -> BTreeMap<String, Raw> {
    // Without its configuration, a file holds what it holds.
    let alone = tempfile::tempdir().unwrap();
    let path = alone.path().join("model.safetensors");
    fs::copy(folder.join("model.safetensors"), &path).unwrap();
    let raw = |t: &Tensor| Raw { ty: t.ty(), shape: t.shape().to_vec(), bytes: t.bytes().into_owned() };
    Checkpoint::open(&path).unwrap().tensors.iter().map(|(name, t)| (name.clone(), raw(t))).collect()
}

/// A copy of a case with changed settings and tensors.
fn changed(name: &str, change: impl FnOnce(&mut Map<String, Value>, &mut BTreeMap<String, Raw>)) -> TempDir {
    let mut config: Value = serde_json::from_str(&fs::read_to_string(folder(name).join("config.json")).unwrap()).unwrap();
    let key = if config.get("quantization").is_some() { "quantization" } else { "quantization_config" };
    let mut tensors = stored(&folder(name));
    change(config[key].as_object_mut().unwrap(), &mut tensors);
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("config.json"), config.to_string()).unwrap();
    let mut writer = Writer::new(out.path().join("model.safetensors"));
    let mut order: Vec<_> = tensors.iter().collect();
    order.sort_by_key(|(_, t)| std::cmp::Reverse(t.ty.block_bytes()));
    order.iter().for_each(|(name, t)| writer.tensor(name, t.ty, &t.shape).unwrap());
    let mut data = writer.begin().unwrap();
    order.iter().for_each(|(name, t)| data.write(name, &t.bytes).unwrap());
    data.finish().unwrap();
    out
}

/// What the folder is told.
fn refused(folder: &TempDir) -> String {
    match Checkpoint::open(folder.path()) {
        Ok(_) => panic!("it was accepted"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn values_of_fields_that_are_not_known_are_refused_by_name() {
    let cases = [
        ("gptq-4-32-v1", "quant_method", json!("quip"), "`quip`"),
        ("gptq-4-32-v1", "quant_method", json!(7), "should be a string"),
        ("gptq-4-32-v1", "quant_method", Value::Null, "is missing"),
        ("gptq-4-32-v1", "bits", json!(5), "is 5; known are 2, 3, 4, 8"),
        ("gptq-4-32-v1", "bits", json!("4"), "should be a whole number"),
        ("gptq-4-32-v1", "group_size", json!(0), "is 0"),
        ("gptq-4-32-v1", "group_size", json!(-2), "is -2"),
        ("gptq-4-32-v1", "checkpoint_format", json!("marlin"), "`marlin`"),
        ("gptq-4-32-v1", "checkpoint_format", json!("gptq_p"), "`gptq_p`"),
        ("gptq-4-32-v1", "pack_dtype", json!("int16"), "`int16`"),
        ("gptq-4-32-v1", "is_marlin_format", json!(true), "true"),
        ("awq", "version", json!("gemv"), "`gemv`"),
        ("awq", "bits", json!(3), "is 3"),
        ("auto-round-gptq", "packing_format", json!("auto_round:new"), "`auto_round:new`"),
        ("auto-round-gptq", "data_type", json!("mx_fp"), "`mx_fp`"),
        ("bitnet", "linear_class", json!("trilinear"), "`trilinear`"),
        ("bitnet", "quantization_mode", json!("online"), "`online`"),
        ("bitnet", "use_rms_norm", json!(true), "true"),
        ("bnb-nf4", "bnb_4bit_quant_type", json!("nf5"), "`nf5`"),
        ("bnb-nf4", "load_in_8bit", json!(true), "alike"),
        ("bnb-nf4", "bnb_4bit_quant_storage", json!("bfloat16"), "`bfloat16`"),
        ("ct-w4", "format", json!("marlin-24"), "`marlin-24`"),
        ("ct-w4", "transform_config", json!({"config_groups": {"R1": {}}}), "transform_config"),
        ("ct-w4", "sparsity_config", json!({"format": "sparse-24-bitmask"}), "`sparse-24-bitmask`"),
        ("ct-w4", "config_groups", json!({}), "quantizes no weights"),
        ("ct-w4", "config_groups", json!([1]), "should be an object"),
        ("fp8-block", "fmt", json!("e3m4"), "`e3m4`"),
        ("fp8-block", "weight_block_size", json!([128]), "should be two positive numbers"),
        ("fp8-block", "scale_fmt", json!("log"), "`log`"),
        ("mlx-4-32", "mode", json!("mxfp4"), "`mxfp4`"),
        ("mlx-4-32", "bits", json!(7), "is 7"),
        ("modelopt-nvfp4", "quant_algo", json!("W4A8_AWQ"), "`W4A8_AWQ`"),
        ("modelopt-nvfp4", "quant_algo", Value::Null, "is missing"),
    ];
    for (name, key, value, why) in cases {
        let error = refused(&changed(name, |settings, _| {
            settings.insert(key.into(), value.clone());
        }));
        assert!(error.contains("config.json") && error.contains(why), "{name}, {key} = {value}: {error}");
    }
    // One level down.
    for (name, key, value, why) in [
        ("ct-w4", "num_bits", json!(9), "is 9"),
        ("ct-w4", "type", json!("complex"), "`complex`"),
        ("ct-w4", "strategy", json!("attn_head"), "`attn_head`"),
        ("ct-w4", "dynamic", json!(true), "true"),
        ("ct-w4", "actorder", json!("random"), "`random`"),
        ("ct-w4", "group_size", json!(16), "no group of"),
        ("ct-fp8-block", "block_structure", Value::Null, "is missing"),
    ] {
        let error = refused(&changed(name, |settings, _| settings["config_groups"]["group_0"]["weights"][key] = value.clone()));
        assert!(error.contains(why), "{name}, {key} = {value}: {error}");
    }
}

/// Each tensor of each case is left out, has a row too many, and is of another type: an error that names it or what needs it, or
/// (where the tensor says nothing of the weights) no change.
#[test]
fn missing_and_misshapen_tensors_are_refused() {
    const IDLE: &[&str] = &[
        "input_scale",
        "weight_format",
        "compute_dtype",
        "offload_meta",
        "encoded_state_dict",
        "stores_quant_config",
        "channel_wise",
        "optimize",
        "round_zero",
        "unpack_view_dtype",
        "bias",
    ]; // fmt: skip
    for (name, _) in CASES.iter().filter(|(name, _)| !name.starts_with("torchao")) {
        let names: Vec<String> = stored(&folder(name)).into_keys().collect();
        let whole = Checkpoint::open(folder(name)).unwrap();
        for part in &names {
            let last = part.rsplit('.').next().unwrap();
            let idle = IDLE.contains(&last);
            let missing = changed(name, |_, tensors| {
                tensors.remove(part);
            });
            let tall = changed(name, |_, tensors| {
                let t = tensors.get_mut(part).unwrap();
                match t.shape.first_mut() {
                    Some(n) => {
                        let row = t.bytes.len() / *n;
                        *n += 1;
                        t.bytes.extend_from_within(..row);
                    }
                    None => {
                        t.shape = vec![2];
                        t.bytes.extend_from_within(..);
                    }
                }
            });
            let typed = changed(name, |_, tensors| {
                let t = tensors.get_mut(part).unwrap();
                t.ty = onebit_quants::BOOL;
                t.shape.push(t.bytes.len() / t.shape.iter().product::<usize>().max(1));
            });
            for (what, folder) in [("missing", missing), ("tall", tall), ("typed", typed)] {
                match Checkpoint::open(folder.path()) {
                    Err(e) => assert!(!idle && e.to_string().contains("m."), "{name}, {part} {what}: {e}"),
                    Ok(opened) => {
                        // What stands for the scheme's tensors is not there, is as it was, or has another shape, which is for the
                        // model to refuse.
                        let made: Vec<_> = opened.tensors.values().filter(|t| t.scheme().is_some()).collect();
                        let other = |t: &&Tensor| whole.tensor(t.name()).is_some_and(|w| w.shape() != t.shape());
                        let same = |t: &&Tensor| whole.tensor(t.name()).is_some_and(|w| w.bytes() == t.bytes());
                        let harmless = idle || last == "g_idx" && what == "missing";
                        assert!(made.iter().all(|t| other(t) || harmless && same(t)), "{name}, {part} {what}");
                    }
                }
            }
        }
    }
}

/// Codes and settings at random: rows are read without a panic, or the file is refused.
#[test]
fn random_bytes_do_no_harm() {
    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below.max(1)
    };
    for (name, _) in CASES {
        for _ in 0..8 {
            let out = changed(name, |_, tensors| {
                let pick = random(tensors.len());
                let t = tensors.values_mut().nth(pick).unwrap();
                for _ in 0..4 {
                    let at = random(t.bytes.len());
                    if let Some(b) = t.bytes.get_mut(at) {
                        *b = random(256) as u8;
                    }
                }
            });
            if let Ok(checkpoint) = Checkpoint::open(out.path()) {
                checkpoint.tensors.values().for_each(|t| assert_eq!(t.to_f32().len(), t.values()));
            }
        }
    }
}
