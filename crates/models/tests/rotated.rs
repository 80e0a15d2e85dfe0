//! Fixtures whose weights are rotated here, by the dense matrix of the definition, against the logits of the originals.

mod common;

use common::{Outcome, Raw, Tensors, gguf_file, refusal};
use onebit_formats::{Checkpoint, Meta, gguf};
use onebit_plan::{Device, Op};
use onebit_quants::{F32, PQ2_0, PTQ1_0, Q4_0, WeightType};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use std::{collections::BTreeMap, path::Path};

type Pairs = BTreeMap<String, Meta>;

/// Largest difference from the expected logits that turning there and back may add, in standard deviations of the logits.
const CLOSE: f64 = 1e-5;

/// Signs for rows of a width.
fn signs(width: usize) -> Vec<f64> {
    (0..width).map(|i| if (i * i + 3 * i + width) % 7 < 3 { -1.0 } else { 1.0 }).collect()
}

/// Each row `w` becomes `H (s w) / sqrt(block)`, or is turned back; by the definition, `H[i][j] = (-1)^popcount(i & j)`.
fn turn(values: &[f32], width: usize, block: usize, signs: &[f64], back: bool) -> Vec<f32> {
    let one = |(i, _): (usize, &f32)| {
        let (column, row) = (i % width, i - i % width);
        let start = column / block * block;
        let term = |j: usize| {
            let entry = if ((column % block) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
            entry * f64::from(values[row + start + j]) * if back { 1.0 } else { signs[start + j] }
        };
        let sum: f64 = (0..block).map(term).sum();
        (sum / (block as f64).sqrt() * if back { signs[column] } else { 1.0 }) as f32
    };
    values.iter().enumerate().map(one).collect()
}

fn f32s(t: &Raw) -> Vec<f32> {
    let mut out = vec![0.0; t.shape.iter().product()];
    t.ty.decode(&t.bytes, &mut out);
    out
}

fn raw(ty: WeightType, shape: &[usize], values: &[f32]) -> Raw {
    let width = shape[shape.len() - 1];
    let mut bytes = vec![0; ty.row_bytes(values.len()).unwrap_or_default()];
    let each = bytes.len() / (values.len() / width);
    values.chunks(width).zip(bytes.chunks_mut(each)).for_each(|(row, out)| ty.encode(row, None, out).expect("1bit writes it"));
    Raw { ty, shape: shape.to_vec(), bytes }
}

/// Matrices that a product reads.
fn is_matrix(name: &str, t: &Raw) -> bool {
    t.shape.len() > 1 && !["ssm_conv1d", "ffn_gate_inp", "token_embd"].iter().any(|not| name.contains(not))
}

/// What the file says besides names.
fn prism(block: usize, explicit: bool, widths: &[usize]) -> Pairs {
    let text = |s: &str| Meta::Text(s.into());
    let mut pairs = Pairs::from([
        ("version".into(), Meta::Unsigned(1)),
        ("transform".into(), text("normalized-sylvester-walsh-hadamard")),
        ("axis".into(), text("input-last-dimension")),
        ("block_size".into(), Meta::Unsigned(block as u64)),
        ("sign_mode".into(), text(if explicit { "explicit" } else { "identity" })),
    ]);
    if explicit {
        pairs.insert("sign_widths".into(), Meta::Integers(widths.iter().map(|w| *w as i64).collect()));
        pairs.insert("sign_values".into(), Meta::Integers(widths.iter().flat_map(|w| signs(*w)).map(|s| s as i64).collect()));
    }
    pairs.into_iter().map(|(k, v)| (format!("prism.hadamard.{k}"), v)).collect()
}

fn names(list: &[String]) -> Meta {
    let mut texts = onebit_formats::Texts::with_capacity(list.len());
    list.iter().for_each(|name| texts.push(name.as_bytes()));
    Meta::Texts(texts)
}

/// How a fixture is rotated.
#[derive(Clone, Copy)]
struct How {
    block: usize,
    explicit: bool,
    /// Whether the embedding is rotated.
    embedding: bool,
    /// The type of matrices whose rows its blocks divide.
    ty: WeightType,
    /// Key heads, value heads and numbers in a value of DeltaNet layers whose output projection is regrouped.
    grouped: Option<(usize, usize, usize)>,
}

const PLAIN: How = How { block: 32, explicit: true, embedding: true, ty: F32, grouped: None };

/// Rotates the tensors and says so; the original tensors, quantized where the rotated ones are, go to `unrotated`.
fn rotate(how: How, pairs: &mut Pairs, tensors: &mut Tensors, unrotated: &mut Tensors) {
    let mut widths: Vec<usize> = vec![];
    let mut named = vec![];
    let tied = !tensors.contains_key("output.weight");
    for (name, t) in tensors.iter_mut() {
        if !(is_matrix(name, t) || how.embedding && name == "token_embd.weight") {
            continue;
        }
        let width = t.shape[t.shape.len() - 1];
        if !widths.contains(&width) {
            widths.push(width);
        }
        let s = if how.explicit { signs(width) } else { vec![1.0; width] };
        let mut values = f32s(t);
        let order: Vec<usize> = match how.grouped.filter(|_| name.ends_with("ssm_out.weight")) {
            None => (0..width).collect(),
            // Stored value head r * k_heads + k becomes k * repeat + r.
            Some((k_heads, v_heads, dim)) => {
                let repeat = v_heads / k_heads;
                (0..width).map(|i| (i / dim % repeat * k_heads + i / dim / repeat) * dim + i % dim).collect()
            }
        };
        values = values.chunks(width).flat_map(|row| order.iter().map(|i| row[*i]).collect::<Vec<_>>()).collect();
        let ty = if width.is_multiple_of(how.ty.block_values()) { how.ty } else { F32 };
        let stored = raw(ty, &t.shape, &turn(&values, width, how.block, &s, false));
        let back = turn(&f32s(&stored), width, how.block, &s, true);
        let mut original = vec![0.0; back.len()];
        for (from, to) in back.chunks(width).zip(original.chunks_mut(width)) {
            order.iter().zip(from).for_each(|(at, v)| to[*at] = *v);
        }
        unrotated.insert(name.clone(), raw(F32, &t.shape, &original));
        *t = stored;
        if name != "token_embd.weight" {
            named.push(name.clone());
        }
    }
    pairs.extend(prism(how.block, how.explicit, &widths));
    pairs.insert("prism.hadamard.weight_names".into(), names(&named));
    if how.embedding {
        pairs.insert("prism.hadamard.inverse_weight_names".into(), names(&["token_embd.weight".into()]));
    }
    if tied && how.embedding {
        pairs.insert("prism.hadamard.version".into(), Meta::Unsigned(2));
        pairs.insert("prism.hadamard.tied_output".into(), Meta::Bool(true));
    }
    if how.grouped.is_some() {
        pairs.insert("prism.hadamard.gdn_v_grouped".into(), Meta::Bool(true));
    }
}

/// Rotates a fixture and runs it; with F32 against the fixture's logits, else against those of the weights turned back.
fn agrees(name: &str, how: How, change: impl Fn(&mut Pairs, &mut Tensors)) -> Outcome {
    let mut unrotated = Tensors::new();
    let out = gguf_file(name, |pairs, tensors| {
        change(pairs, tensors);
        rotate(how, pairs, tensors, &mut unrotated);
    })?;
    let model = onebit_models::load(&Checkpoint::open(out.path().join("model.gguf"))?)?;
    let turned = model.plan.ops.iter().filter(|op| matches!(op, Op::Hadamard(_))).count();
    assert!(turned > model.plan.layers, "{turned} rotations in {} layers", model.plan.layers);
    let plain = gguf_file(name, |pairs, tensors| {
        change(pairs, tensors);
        if how.ty != F32 {
            tensors.extend(unrotated);
        }
    })?;
    let plain = onebit_models::load(&Checkpoint::open(plain.path().join("model.gguf"))?)?;
    let mut expected = Expected::open(out.path())?;
    expected.greedy.clear();
    (expected.short_logits, expected.long_logits) = (logits(&plain, &expected.short)?, logits(&plain, &expected.long)?);
    let report = check::fixture(&Reference, model, &expected, &check::limits())?;
    Ok(report.hold(CLOSE).map_err(|e| format!("{name}, {}: {e}", how.ty))?)
}

fn logits(model: &onebit_plan::Model, tokens: &[u32]) -> Outcome<Vec<f32>> {
    let limits = check::limits();
    let mut exe = Reference.load(model.clone(), &limits, &mut |_| {})?;
    let pages: Vec<u32> = (0..limits.pages as u32).collect();
    let span = onebit_plan::Span { len: tokens.len(), start: 0, pages: &pages, slot: 0, outputs: tokens.len() };
    Ok(exe.step(&onebit_plan::Batch::text(tokens, &[span]))?.to_vec())
}

#[test]
fn rotated_models_compute_what_the_originals_do() -> Outcome {
    for (block, explicit, embedding) in [(32, true, true), (64, true, false), (64, false, true), (16, false, false), (2, true, true)] {
        agrees("llama", How { block, explicit, embedding, ..PLAIN }, |_, _| {})?;
    }
    agrees("qwen3_moe", PLAIN, |_, _| {})?;
    agrees("qwen3_5_text", PLAIN, |_, _| {})?;
    // Two key heads, four value heads of 16 numbers.
    agrees("qwen3_5_text", How { grouped: Some((2, 4, 16)), ..PLAIN }, |_, _| {})
}

#[test]
fn a_tied_output_is_turned_both_ways() -> Outcome {
    for explicit in [true, false] {
        agrees("llama", How { explicit, ..PLAIN }, |_, tensors| drop(tensors.remove("output.weight")))?;
    }
    Ok(())
}

/// What the rotated weights lose is lost in the same way when they are turned back beforehand.
#[test]
fn rotated_and_quantized() -> Outcome {
    for ty in [Q4_0, PQ2_0, PTQ1_0] {
        agrees("llama", How { ty, block: 64, ..PLAIN }, |_, _| {})?;
        agrees("qwen3_moe", How { ty, ..PLAIN }, |_, _| {})?;
        agrees("qwen3_5_text", How { ty, grouped: Some((2, 4, 16)), ..PLAIN }, |_, _| {})?;
    }
    Ok(())
}

/// Every Q4_0 weight but the embedding, in blocks of 32; those of other types are as they are.
#[test]
fn rotated_by_type() -> Outcome {
    for name in ["llama", "qwen3_moe"] {
        let change = |keep: bool| {
            move |pairs: &mut Pairs, tensors: &mut Tensors| {
                for (name, t) in tensors.iter_mut().filter(|(n, t)| is_matrix(n, t) && !n.contains("attn_v") && *n != "output.weight") {
                    let width = t.shape[t.shape.len() - 1];
                    let stored = raw(Q4_0, &t.shape, &turn(&f32s(t), width, 32, &vec![1.0; width], false));
                    *t = if keep { stored } else { raw(F32, &t.shape, &turn(&f32s(&stored), width, 32, &vec![1.0; width], true)) };
                    assert!(!name.contains("embd"));
                }
                if let Some(t) = tensors.get_mut("token_embd.weight") {
                    *t = raw(Q4_0, &t.shape, &f32s(t));
                }
                if keep {
                    pairs.insert("onebit.hadamard_q4_0".into(), Meta::Signed(32));
                }
            }
        };
        let (rotated, plain) = (gguf_file(name, change(true))?, gguf_file(name, change(false))?);
        let load = |folder: &tempfile::TempDir| -> Outcome<onebit_plan::Model> {
            Ok(onebit_models::load(&Checkpoint::open(folder.path().join("model.gguf"))?)?)
        };
        let tokens = Expected::open(rotated.path())?.long;
        let (a, b) = (logits(&load(&rotated)?, &tokens)?, logits(&load(&plain)?, &tokens)?);
        let worst = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-5, "{name}: {worst}");
    }
    Ok(())
}

/// Writes a rotated fixture with something wrong, and gives the refusal.
fn refused(how: How, change: impl FnOnce(&mut Pairs, &mut Tensors)) -> Outcome<String> {
    let out = gguf_file("llama", |pairs, tensors| {
        rotate(how, pairs, tensors, &mut Tensors::new());
        change(pairs, tensors);
    })?;
    refusal(&out.path().join("model.gguf"))
}

#[test]
fn what_is_not_understood_is_refused_by_name() -> Outcome {
    let set = |key: &str, value: Meta| {
        let key = format!("prism.hadamard.{key}");
        move |pairs: &mut Pairs, _: &mut Tensors| drop(pairs.insert(key, value))
    };
    let text = |s: &str| Meta::Text(s.into());
    let list = |n: &[&str]| names(&n.iter().map(|s| s.to_string()).collect::<Vec<_>>());
    let signs_with = |f: fn(&mut Vec<i64>)| {
        move |pairs: &mut Pairs, _: &mut Tensors| {
            if let Some(Meta::Integers(v)) = pairs.get_mut("prism.hadamard.sign_values") {
                f(v);
            }
        }
    };
    type Change = Box<dyn FnOnce(&mut Pairs, &mut Tensors)>;
    let cases: Vec<(Change, &[&str])> = vec![
        (Box::new(set("version", Meta::Unsigned(3))), &["prism.hadamard.version", "3"]),
        (Box::new(set("version", Meta::Unsigned(2))), &["prism.hadamard.tied_output"]),
        (Box::new(set("version", text("1"))), &["prism.hadamard.version", "string"]),
        (Box::new(|p: &mut Pairs, _: &mut Tensors| drop(p.remove("prism.hadamard.version"))), &["prism.hadamard.version", "missing"]),
        (Box::new(|p: &mut Pairs, _: &mut Tensors| drop(p.remove("prism.hadamard.sign_mode"))), &["prism.hadamard.sign_mode", "missing"]),
        (Box::new(set("tied_output", Meta::Bool(true))), &["prism.hadamard.tied_output"]),
        (Box::new(set("transform", text("haar"))), &["prism.hadamard.transform", "haar", "normalized-sylvester"]),
        (Box::new(set("axis", text("output"))), &["prism.hadamard.axis", "input-last-dimension"]),
        (Box::new(set("block_size", Meta::Unsigned(48))), &["prism.hadamard.block_size", "power of two"]),
        (Box::new(set("block_size", Meta::Unsigned(0))), &["prism.hadamard.block_size", "power of two"]),
        (Box::new(set("block_size", Meta::Unsigned(1 << 40))), &["do not divide"]),
        (Box::new(set("block_size", Meta::Unsigned(128))), &["blk.0.", "do not divide"]),
        (Box::new(set("sign_mode", text("random"))), &["prism.hadamard.sign_mode", "random"]),
        (Box::new(set("sign_mode", text("identity"))), &["prism.hadamard.sign_", "identity"]),
        (Box::new(set("sign_widths", Meta::Integers(vec![64]))), &["prism.hadamard.sign_values", "more"]),
        (Box::new(set("sign_widths", Meta::Integers(vec![64, -1]))), &["prism.hadamard.sign_widths", "-1"]),
        (Box::new(set("sign_widths", Meta::Integers(vec![64, i64::MAX]))), &["prism.hadamard.sign_widths"]),
        (Box::new(set("sign_widths", Meta::Integers(vec![64, 64, 64]))), &["prism.hadamard.sign_widths", "twice"]),
        (Box::new(set("sign_widths", Meta::Integers(vec![192]))), &["prism.hadamard.sign_widths", "no signs"]),
        (Box::new(signs_with(|v| v[70] = 0)), &["prism.hadamard.sign_values", "neither 1 nor -1"]),
        (Box::new(signs_with(|v| v.truncate(9))), &["prism.hadamard.sign_widths"]),
        (Box::new(set("weight_names", list(&["blk.0.attn_q.wight"]))), &["prism.hadamard.weight_names", "blk.0.attn_q.wight"]),
        (Box::new(set("weight_names", list(&["token_embd.weight"]))), &["prism.hadamard.weight_names", "token_embd.weight"]),
        (Box::new(set("weight_names", list(&["output_norm.weight"]))), &["prism.hadamard.weight_names", "output_norm.weight"]),
        (Box::new(set("weight_names", Meta::Unsigned(1))), &["prism.hadamard.weight_names", "array of strings"]),
        (Box::new(set("inverse_weight_names", list(&["output.weight"]))), &["prism.hadamard.inverse_weight_names", "output.weight"]),
        (Box::new(set("seed", Meta::Unsigned(1))), &["prism.hadamard.seed", "not known"]),
        (
            Box::new(|p: &mut Pairs, _: &mut Tensors| drop(p.insert("onebit.hadamard_q4_0".into(), Meta::Unsigned(32)))),
            &["onebit.hadamard_q4_0"],
        ),
    ];
    for (i, (change, words)) in cases.into_iter().enumerate() {
        let error = refused(PLAIN, change)?;
        assert!(words.iter().all(|w| error.contains(w)), "case {i}: {error}");
    }
    let error = refused(PLAIN, |_, tensors| drop(tensors.remove("output.weight")))?;
    assert!(error.contains("weight_names") && error.contains("output.weight"), "{error}");
    let identity = How { explicit: false, ..PLAIN };
    let error = refused(identity, |pairs, tensors| {
        tensors.remove("output.weight");
        pairs.insert("prism.hadamard.weight_names".into(), list(&["blk.0.attn_q.weight"]));
    })?;
    assert!(error.contains("version 2"), "{error}");
    let error = refused(identity, |pairs, _| {
        pairs.insert("prism.hadamard.weight_names".into(), Meta::Texts(Default::default()));
        pairs.remove("prism.hadamard.inverse_weight_names");
    })?;
    assert!(error.contains("names no weight"), "{error}");
    Ok(())
}

/// By type too: an unknown block, an unknown key, and experts of which only one of gate and up is rotated.
#[test]
fn rotations_by_type_that_cannot_be_run_are_refused() -> Outcome {
    for (key, value, word) in [("onebit.hadamard_q4_0", 64, "onebit.hadamard_q4_0"), ("onebit.hadamard_q8_0", 32, "onebit.hadamard_q8_0")] {
        let out = gguf_file("llama", |pairs, _| drop(pairs.insert(key.into(), Meta::Unsigned(value))))?;
        let error = refusal(&out.path().join("model.gguf"))?;
        assert!(error.contains(word), "{error}");
    }
    let out = gguf_file("qwen3_moe", |pairs, tensors| {
        pairs.insert("onebit.hadamard_q4_0".into(), Meta::Unsigned(32));
        let t = tensors.get_mut("blk.1.ffn_gate_exps.weight").expect("experts");
        *t = raw(Q4_0, &t.shape.clone(), &f32s(t));
    })?;
    let error = refusal(&out.path().join("model.gguf"))?;
    assert!(error.contains("blk.1.ffn_gate_exps.weight") && error.contains("twin"), "{error}");
    Ok(())
}

/// Rotated files that are broken at random are refused or run, and never end in a panic.
#[test]
fn broken_files_do_not_panic() -> Outcome {
    let out = gguf_file("llama", |pairs, tensors| rotate(PLAIN, pairs, tensors, &mut Tensors::new()))?;
    let file = out.path().join("model.gguf");
    let bytes = std::fs::read(&file)?;
    let key = b"prism.hadamard.";
    let starts: Vec<usize> = (0..bytes.len().min(1 << 16) - key.len()).filter(|i| bytes[*i..].starts_with(key)).collect();
    assert!(starts.len() > 8, "{starts:?}");
    let mut state = 1u64;
    for _ in 0..400 {
        let mut broken = bytes.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = starts[(state >> 33) as usize % starts.len()];
            let at = start + (state >> 20) as usize % 80;
            broken[at.min(bytes.len() - 1)] ^= 1 << ((state >> 60) & 7);
        }
        write(&file, &broken)?;
        if let Ok(checkpoint) = Checkpoint::open(&file) {
            let _ = onebit_models::load(&checkpoint);
        }
    }
    Ok(())
}

/// A new file, as the old one may still be mapped.
fn write(file: &Path, bytes: &[u8]) -> Outcome {
    std::fs::remove_file(file)?;
    Ok(std::fs::write(file, bytes)?)
}

#[test]
fn the_writer_takes_what_the_reader_gives() -> Outcome {
    let mut writer = gguf::Writer::new("unused");
    Ok(prism(32, true, &[64]).iter().try_for_each(|(key, value)| writer.pair(key, value))?)
}
