//! Whole files: what is chosen, what is carried over, and what is refused.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

use onebit_formats::{Checkpoint, Meta, gguf::Writer};
use onebit_quantize::{Importance, Options, Override, Recipe, Rotate, quantize};
use onebit_quants::{F32, Q8_0, WeightType};
use std::path::{Path, PathBuf};

/// Numbers that look like weights: sums of a small generator's output.
fn weights(n: usize, mut seed: u64) -> Vec<f32> {
    let mut uniform = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| (0..6).map(|_| uniform()).sum::<f32>() * 0.02).collect()
}

/// A file with two layers of a llama's tensors, 256 wide.
fn model(folder: &Path, spoil: bool) -> PathBuf {
    let path = folder.join("original.gguf");
    let mut writer = Writer::new(&path);
    let number = |v| Meta::Unsigned(v);
    for (key, value) in [
        ("general.architecture", Meta::Text("llama".into())),
        ("general.file_type", number(0)),
        ("llama.block_count", number(2)),
        ("llama.attention.head_count", number(4)),
        ("llama.attention.head_count_kv", number(4)),
        ("tokenizer.ggml.scores", Meta::Floats(vec![1.0, 2.0])),
    ] {
        writer.pair(key, &value).unwrap();
    }
    let tensors: [(&str, &[usize]); 7] = [
        ("token_embd.weight", &[64, 256]),
        ("output.weight", &[64, 256]),
        ("blk.0.attn_norm.weight", &[256]),
        ("blk.0.ffn_down.weight", &[256, 256]),
        ("blk.1.ffn_down.weight", &[256, 96]),
        ("blk.1.ffn_gate_inp.weight", &[8, 256]),
        ("blk.1.attn_q.weight", &[256, 256]),
    ];
    for (name, shape) in tensors {
        writer.tensor(name, F32, shape).unwrap();
    }
    let mut data = writer.begin().unwrap();
    for (i, (name, shape)) in tensors.into_iter().enumerate() {
        let mut values = weights(shape.iter().product(), i as u64);
        if spoil && name == "blk.1.attn_q.weight" {
            values[256 * 3 + 5] = f32::NAN;
        }
        data.write(name, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    }
    data.finish().unwrap();
    path
}

fn options(recipe: &str, overrides: &[&str]) -> Options {
    let overrides = overrides.iter().map(|o| Override::parse(o).unwrap()).collect();
    Options { recipe: Recipe::by_name(recipe).unwrap(), overrides, importance: None, rotate: None, threads: 3 }
}

fn rmse(a: &[f32], b: &[f32]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}

#[test]
fn a_mix_is_chosen_encoded_and_carried_over() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (Checkpoint::open(model(folder.path(), false)).unwrap(), folder.path().join("small.gguf"));
    let mut seen = (0, 0);
    let report = quantize(&from, &to, &options("Q4_K_M", &["blk.1.attn_q=Q8_0"]), &mut |p| {
        assert!(p.done >= seen.0);
        seen = (p.done, p.total);
    })
    .unwrap();
    assert!(seen.0 == seen.1 && seen.1 == from.bytes());
    let file = Checkpoint::open(&to).unwrap();
    let ty = |name: &str| file.tensor(name).unwrap().ty().name();
    assert_eq!(ty("token_embd.weight"), "Q4_K");
    assert_eq!(ty("output.weight"), "Q6_K");
    assert_eq!(ty("blk.0.ffn_down.weight"), "Q4_K");
    // 96 is not divided by 256: Q6_K gives way to Q8_0.
    assert_eq!(ty("blk.1.ffn_down.weight"), "Q8_0");
    assert_eq!((ty("blk.0.attn_norm.weight"), ty("blk.1.ffn_gate_inp.weight")), ("F32", "F32"));
    assert_eq!(ty("blk.1.attn_q.weight"), "Q8_0");
    assert!(report.remarks.iter().any(|r| r.contains("do not divide")), "{:?}", report.remarks);
    assert_eq!(report.bytes, std::fs::metadata(&to).unwrap().len());
    assert_eq!(file.metadata.unsigned("general.file_type").unwrap(), Some(15));
    assert_eq!(file.metadata.floats("tokenizer.ggml.scores").unwrap(), Some(&[1.0, 2.0][..]));
    // Steps of the types on such weights, about 0.014 in deviation: an eighth for 4 bits, far less for 8.
    for (name, bound) in [("token_embd.weight", 2e-3), ("blk.1.attn_q.weight", 2e-4), ("blk.0.attn_norm.weight", 1e-30)] {
        let error = rmse(&from.tensor(name).unwrap().to_f32(), &file.tensor(name).unwrap().to_f32());
        assert!(error < bound, "{name}: {error}");
    }
}

/// The result is that of the encoder, row by row, whatever the number of threads.
#[test]
fn threads_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let from = Checkpoint::open(model(folder.path(), false)).unwrap();
    let made = [1, 2, 7].map(|threads| {
        let to = folder.path().join(format!("{threads}.gguf"));
        quantize(&from, &to, &Options { threads, ..options("Q8_0", &[]) }, &mut |_| {}).unwrap();
        std::fs::read(to).unwrap()
    });
    assert!(made[0] == made[1] && made[1] == made[2]);
    let tensor = from.tensor("token_embd.weight").unwrap();
    let mut want = vec![0; Q8_0.bytes_for(tensor.shape()).unwrap()];
    (Q8_0.info().encode.unwrap())(&tensor.to_f32(), None, &mut want);
    let file = Checkpoint::open(folder.path().join("2.gguf")).unwrap();
    assert_eq!(file.tensor("token_embd.weight").unwrap().bytes().as_ref(), want);
}

#[test]
fn importance_moves_the_error_to_where_it_matters_less() {
    let folder = tempfile::tempdir().unwrap();
    let from = Checkpoint::open(model(folder.path(), false)).unwrap();
    // The first half of the inputs matters, the second hardly.
    let importance: Vec<u8> = (0..256).flat_map(|i| if i < 128 { 1.0f32 } else { 0.001 }.to_le_bytes()).collect();
    let name = "blk.0.ffn_down.weight";
    let int = |v: usize| (v as i32).to_le_bytes().to_vec();
    let file = [int(1), int(name.len()), name.as_bytes().to_vec(), int(1), int(256), importance].concat();
    let imatrix = folder.path().join("imatrix.dat");
    std::fs::write(&imatrix, file).unwrap();
    let halves = |importance: Option<Importance>| {
        let to = folder.path().join("q.gguf");
        quantize(&from, &to, &Options { importance, ..options("Q2_K", &["*ffn_down*=Q2_K", "blk.1.ffn_down=Q8_0"]) }, &mut |_| {}).unwrap();
        let (a, b) = (from.tensor(name).unwrap().to_f32(), Checkpoint::open(&to).unwrap().tensor(name).unwrap().to_f32());
        let half = |at: usize| {
            let pick = |v: &[f32]| v.chunks(256).flat_map(|r| r[at..at + 128].to_vec()).collect::<Vec<_>>();
            rmse(&pick(&a), &pick(&b))
        };
        [half(0), half(128)]
    };
    let (plain, weighted) = (halves(None), halves(Some(Importance::read(&imatrix).unwrap())));
    assert!(weighted[0] < plain[0] && weighted[1] >= plain[1] * 0.99, "{plain:?} {weighted:?}");
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("small.gguf");
    let spoilt = Checkpoint::open(model(folder.path(), true)).unwrap();
    let error = quantize(&spoilt, &to, &options("Q4_0", &[]), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("blk.1.attn_q.weight") && error.contains("row 3, column 5 is NaN"), "{error}");
    let error = quantize(&spoilt, &to, &options("Q4_0", &["blk.1.ffn_down=Q4_K"]), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("blk.1.ffn_down.weight") && error.contains("do not divide"), "{error}");
    assert!(!to.exists() && std::fs::read_dir(folder.path()).unwrap().count() == 1);
}

/// Rows that begin with a scale of their own (IQ4_KS of ik_llama.cpp): copied as they are, and decoded row by row.
#[test]
fn types_that_are_not_written_are_carried_over() {
    let ty = WeightType::by_name("IQ4_KS").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, same, floats) = (folder.path().join("ks.gguf"), folder.path().join("same.gguf"), folder.path().join("32.gguf"));
    let (name, shape) = ("blk.0.ffn_down.weight", [3, 512]);
    let mut bytes = vec![];
    for row in 0..3u8 {
        bytes.extend((0.25 * f32::from(row + 1)).to_le_bytes());
        bytes.extend((0..2 * ty.block_bytes()).map(|i| (i as u8).wrapping_mul(37) ^ row));
    }
    let mut writer = Writer::new(&path);
    writer.pair("general.architecture", &Meta::Text("llama".into())).unwrap();
    writer.tensor(name, ty, &shape).unwrap();
    let mut data = writer.begin().unwrap();
    data.write(name, &bytes).unwrap();
    data.finish().unwrap();
    let from = Checkpoint::open(&path).unwrap();

    quantize(&from, &same, &options("Q4_K_M", &[]), &mut |_| {}).unwrap();
    let same = Checkpoint::open(same).unwrap();
    assert_eq!((same.tensors[name].ty(), &*same.tensors[name].bytes()), (ty, &bytes[..]));
    quantize(&from, &floats, &options("F32", &[]), &mut |_| {}).unwrap();
    let floats = Checkpoint::open(floats).unwrap();
    let values = from.tensors[name].to_f32();
    assert_eq!(floats.tensors[name].to_f32(), values);
    for (row, values) in bytes.chunks_exact(bytes.len() / 3).zip(values.chunks_exact(512)) {
        let mut want = vec![0.0; 512];
        ty.decode(row, &mut want);
        assert_eq!(values, want);
    }
}

/// Fewer bits cannot be undone: quantizing to more keeps what is there.
#[test]
fn nothing_is_stored_in_more_bits_than_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (four, eight) = (folder.path().join("4.gguf"), folder.path().join("8.gguf"));
    quantize(&Checkpoint::open(model(folder.path(), false)).unwrap(), &four, &options("Q4_0", &[]), &mut |_| {}).unwrap();
    let four = Checkpoint::open(four).unwrap();
    let report = quantize(&four, &eight, &options("Q8_0", &[]), &mut |_| {}).unwrap();
    let types = |c: &Checkpoint| c.tensors.values().map(|t| t.ty()).collect::<Vec<WeightType>>();
    assert_eq!(types(&Checkpoint::open(eight).unwrap()), types(&four));
    assert!(report.remarks[0].contains("stay as they are"), "{:?}", report.remarks);
    // But floats are decoded to, and what is asked for by name is made.
    let floats = folder.path().join("32.gguf");
    quantize(&four, &floats, &options("F32", &[]), &mut |_| {}).unwrap();
    let floats = Checkpoint::open(floats).unwrap();
    for (a, b) in floats.tensors.values().zip(four.tensors.values()) {
        assert_eq!((a.ty(), a.to_f32()), (F32, b.to_f32()));
    }
    let named = folder.path().join("named.gguf");
    quantize(&four, &named, &options("Q4_0", &["blk.0.ffn_down=Q8_0"]), &mut |_| {}).unwrap();
    assert_eq!(Checkpoint::open(named).unwrap().tensors["blk.0.ffn_down.weight"].ty(), Q8_0);
}

/// In F32 nothing is lost: by what the file says, and the dense matrix of the definition, the original comes back.
#[test]
fn rotated_rows_can_be_turned_back() {
    let folder = tempfile::tempdir().unwrap();
    let from = Checkpoint::open(model(folder.path(), false)).unwrap();
    let to = folder.path().join("rotated.gguf");
    let rotated = |block| Options { rotate: Some(Rotate { block }), ..options("F32", &[]) };
    quantize(&from, &to, &rotated(None), &mut |_| {}).unwrap();
    let file = Checkpoint::open(&to).unwrap();
    let key = |k: &str| format!("prism.hadamard.{k}");
    let names = |k: &str| -> Vec<String> {
        file.metadata.texts(&key(k)).unwrap().unwrap().iter().map(|n| String::from_utf8(n.to_vec()).unwrap()).collect()
    };
    // 96 has five twos.
    let block = file.metadata.unsigned(&key("block_size")).unwrap().unwrap() as usize;
    assert_eq!(block, 32);
    assert_eq!(file.metadata.integers(&key("sign_widths")).unwrap().unwrap(), [96, 256]);
    assert_eq!(names("inverse_weight_names"), ["token_embd.weight"]);
    let mut turned = names("weight_names");
    assert_eq!(turned, ["blk.0.ffn_down.weight", "blk.1.attn_q.weight", "blk.1.ffn_down.weight", "output.weight"]);
    turned.push("token_embd.weight".into());
    let signs = file.metadata.integers(&key("sign_values")).unwrap().unwrap();
    for (name, tensor) in &from.tensors {
        let (before, after) = (tensor.to_f32(), file.tensor(name).unwrap().to_f32());
        if !turned.contains(name) {
            assert_eq!(before, after, "{name}");
            continue;
        }
        let width = tensor.columns();
        let signs = if width == 96 { &signs[..96] } else { &signs[96..] };
        for (a, b) in before.chunks(width).zip(after.chunks(width)) {
            for (i, x) in a.iter().enumerate() {
                let start = i / block * block;
                let entry = |j: usize| if ((i % block) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                let sum: f64 = (0..block).map(|j| entry(j) * f64::from(b[start + j])).sum();
                let back = sum / (block as f64).sqrt() * signs[i] as f64;
                assert!((back - f64::from(*x)).abs() < 1e-7, "{name} {i}: {back} {x}");
            }
        }
    }
    let asked = |from: &Checkpoint, o: &Options| quantize(from, &folder.path().join("x.gguf"), o, &mut |_| {}).unwrap_err().to_string();
    assert!(asked(&file, &rotated(None)).contains("rotated already"));
    assert!(asked(&from, &rotated(Some(64))).contains("--rotate=32 fits all"));
    assert!(asked(&from, &rotated(Some(12))).contains("power of two"));
    let four = folder.path().join("4.gguf");
    quantize(&from, &four, &options("Q4_0", &[]), &mut |_| {}).unwrap();
    assert!(asked(&Checkpoint::open(&four).unwrap(), &rotated(None)).contains("original"));
    // Rotated files can be made smaller, and stay rotated.
    quantize(&file, &four, &options("Q4_0", &[]), &mut |_| {}).unwrap();
    assert_eq!(Checkpoint::open(&four).unwrap().metadata.unsigned(&key("block_size")).unwrap(), Some(32));
}
