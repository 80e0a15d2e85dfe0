//! Every weight type in whole models of three architectures: the emulator's logits against the CPU's, both with columns of int8.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::Random;
use onebit_cpu::Cpu;
use onebit_formats::{Checkpoint, Rows, Tensor, safetensors::Writer};
use onebit_gpu::{Gpu, NARROW, driver::SimOptions, shape};
use onebit_models::load;
use onebit_plan::{ActivationKind, Batch, Device, DeviceError, KvType, Limits, Model, Span};
use onebit_quants::{self as quants, WeightType};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

const WIDTH: usize = 256;
const VOCABULARY: usize = 96;
const EXPERTS: usize = 6;

/// Rows of a type in memory.
#[derive(Debug)]
struct Coded {
    bytes: Vec<u8>,
    stored: Vec<Tensor>,
}

impl Rows for Coded {
    fn row(&self, row: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes[row * out.len()..][..out.len()]);
    }
    fn stored(&self) -> &[Tensor] {
        &self.stored
    }
    fn scheme(&self) -> &str {
        "made"
    }
}

/// Random rows of a type, whose numbers are about as large as those of a trained matrix.
fn rows_of(ty: WeightType, rows: usize, r: &mut Random) -> Vec<u8> {
    let row_bytes = ty.row_bytes(WIDTH).unwrap();
    let mut bytes = vec![0; rows * row_bytes];
    let mut header = None;
    for row in bytes.chunks_mut(row_bytes) {
        let x: Vec<f32> = r.numbers(WIDTH).iter().map(|v| v * 3.0 / (WIDTH as f32).sqrt()).collect();
        if ty.encode(&x, None, row).is_none() {
            let header = header.get_or_insert_with(|| small_header(ty, r));
            row.copy_from_slice(&small_row(ty, header, r));
        }
    }
    bytes
}

/// A row's header is a scale, in f16 or f32 by its size.
fn header(ty: WeightType, scale: f32) -> Vec<u8> {
    match ty.header_bytes() {
        0 => vec![],
        2 => half::f16::from_f32(scale).to_le_bytes().to_vec(),
        n => scale.to_le_bytes().iter().copied().cycle().take(n).collect(),
    }
}

/// A block with random bytes of which no number is large, and not all are nearly nothing; in so many tries.
fn small_block(ty: WeightType, header: &[u8], tries: usize, r: &mut Random) -> Option<Vec<u8>> {
    let mut values = vec![0.0; ty.block_values()];
    let mut blocks = std::iter::repeat_with(|| (0..ty.block_bytes()).map(|_| r.word() as u8).collect::<Vec<u8>>()).take(tries);
    blocks.find(|block| {
        ty.decode(&[header, block].concat(), &mut values);
        let largest = values.iter().fold(0f32, |m, v| if v.is_finite() { m.max(v.abs()) } else { f32::INFINITY });
        (0.002..0.6).contains(&largest)
    })
}

/// The header with which the most random blocks are of that kind.
fn small_header(ty: WeightType, r: &mut Random) -> Vec<u8> {
    let headers = [0.05, 0.01, 0.002, 0.0005, 1e-4, 2e-5, 5e-6].map(|scale| header(ty, scale));
    let found = headers.map(|header| ((0..200).filter(|_| small_block(ty, &header, 1, r).is_some()).count(), header));
    let (count, header) = found.into_iter().max().unwrap();
    assert!(count > 0, "no random block of {ty} has small numbers");
    header
}

/// A row of such blocks.
fn small_row(ty: WeightType, header: &[u8], r: &mut Random) -> Vec<u8> {
    let blocks = (0..WIDTH / ty.block_values()).map(|_| small_block(ty, header, 1 << 16, r).unwrap());
    [header.to_vec(), blocks.collect::<Vec<_>>().concat()].concat()
}

/// An architecture: its settings, and what a layer has besides llama's tensors.
struct Architecture {
    name: &'static str,
    config: Value,
    vectors: &'static [(&'static str, usize)],
}

fn architectures() -> [Architecture; 4] {
    let shared = |class: &str, ty: &str, activation: &str| {
        json!({
            "architectures": [class], "model_type": ty, "hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": VOCABULARY, "max_position_embeddings": 128,
            "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": activation, "hidden_activation": activation,
            "tie_word_embeddings": false, "attention_bias": false, "query_pre_attn_scalar": 64, "sliding_window": 8,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "num_experts": EXPERTS, "num_experts_per_tok": 2,
            "moe_intermediate_size": WIDTH, "decoder_sparse_step": 1, "norm_topk_prob": true, "mlp_only_layers": [],
        })
    };
    [
        Architecture {
            name: "llama",
            config: shared("LlamaForCausalLM", "llama", "silu"),
            vectors: &[("input_layernorm.weight", WIDTH), ("post_attention_layernorm.weight", WIDTH)],
        },
        Architecture {
            name: "qwen3",
            config: shared("Qwen3ForCausalLM", "qwen3", "silu"),
            vectors: &[
                ("input_layernorm.weight", WIDTH),
                ("post_attention_layernorm.weight", WIDTH),
                ("self_attn.q_norm.weight", 64),
                ("self_attn.k_norm.weight", 64),
            ],
        },
        Architecture {
            name: "gemma2",
            config: shared("Gemma2ForCausalLM", "gemma2", "gelu_pytorch_tanh"),
            vectors: &[
                ("input_layernorm.weight", WIDTH),
                ("post_attention_layernorm.weight", WIDTH),
                ("pre_feedforward_layernorm.weight", WIDTH),
                ("post_feedforward_layernorm.weight", WIDTH),
            ],
        },
        Architecture {
            name: "qwen3_moe",
            config: shared("Qwen3MoeForCausalLM", "qwen3_moe", "silu"),
            vectors: &[
                ("input_layernorm.weight", WIDTH),
                ("post_attention_layernorm.weight", WIDTH),
                ("self_attn.q_norm.weight", 64),
                ("self_attn.k_norm.weight", 64),
            ],
        },
    ]
}

/// The model with all matrices of a type.
fn model(a: &Architecture, ty: WeightType, folder: &Path) -> Model {
    let mut r = Random(11 + ty.block_bytes() as u64);
    let layer = |name: &str| format!("model.layers.0.{name}");
    let (q, kv) = (4 * 64, 2 * 64);
    let mut matrices = vec![("model.embed_tokens.weight".to_string(), VOCABULARY)];
    if a.name != "gemma2" {
        matrices.push(("lm_head.weight".into(), VOCABULARY));
    }
    let own = [("q", q), ("k", kv), ("v", kv), ("o", WIDTH)].map(|(n, rows)| (layer(&format!("self_attn.{n}_proj.weight")), rows));
    let mlp = |of: &str| ["gate", "up", "down"].map(|n| (layer(&format!("mlp.{of}{n}_proj.weight")), WIDTH)).to_vec();
    let mixture = a.name == "qwen3_moe";
    let mlp = if mixture { (0..EXPERTS).flat_map(|e| mlp(&format!("experts.{e}."))).collect() } else { mlp("") };
    matrices.extend(own.into_iter().chain(mlp));
    let mut vectors: Vec<(String, usize)> = a.vectors.iter().map(|(n, len)| (layer(n), *len)).collect();
    vectors.push(("model.norm.weight".into(), WIDTH));
    let router = (layer("mlp.gate.weight"), [EXPERTS, WIDTH]);
    let mut writer = Writer::new(folder.join("model.safetensors"));
    // Matrices are a byte each here; their rows are put in afterwards.
    matrices.iter().for_each(|(name, _)| writer.tensor(name, quants::U8, &[1]).unwrap());
    vectors.iter().for_each(|(name, len)| writer.tensor(name, quants::F32, &[*len]).unwrap());
    if mixture {
        writer.tensor(&router.0, quants::F32, &router.1).unwrap();
    }
    let mut data = writer.begin().unwrap();
    matrices.iter().for_each(|(name, _)| data.write(name, &[0]).unwrap());
    for (name, len) in &vectors {
        let centre = if a.name == "gemma2" { 0.0 } else { 1.0 };
        let bytes: Vec<u8> = r.numbers(*len).iter().flat_map(|v| (centre + 0.2 * v).to_le_bytes()).collect();
        data.write(name, &bytes).unwrap();
    }
    if mixture {
        let bytes: Vec<u8> = r.numbers(EXPERTS * WIDTH).iter().flat_map(|v| (0.3 * v).to_le_bytes()).collect();
        data.write(&router.0, &bytes).unwrap();
    }
    data.finish().unwrap();
    let mut config = a.config.clone();
    config["tie_word_embeddings"] = (a.name == "gemma2").into();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut checkpoint = Checkpoint::open(folder).unwrap();
    for (name, rows) in matrices {
        let stored = vec![checkpoint.tensors[&name].clone()];
        let coded = Coded { bytes: rows_of(ty, rows, &mut r), stored };
        checkpoint.tensors.insert(name.clone(), Tensor::made(name, ty, vec![rows, WIDTH], Arc::new(coded)));
    }
    load(&checkpoint).unwrap()
}

/// Logits of a prompt in one step, long enough for matrix instructions, and of three tokens one after the other.
fn logits(device: &dyn Device, model: Model, activations: ActivationKind) -> Vec<f32> {
    let limits = Limits { batch: 32, outputs: 32, page: 16, pages: 4, slots: 1, kv: KvType::F16, activations };
    let mut exe = device.load(model, &limits, &mut |_| {}).unwrap();
    let tokens: Vec<u32> = (0..23).map(|i| (i * 37 + 5) % VOCABULARY as u32).collect();
    let mut out = vec![];
    for part in [&tokens[..20], &tokens[20..21], &tokens[21..22], &tokens[22..]] {
        let start = part.as_ptr() as usize - tokens.as_ptr() as usize;
        let span = Span { len: part.len(), start: start / 4, pages: &[2, 0, 3, 1], slot: 0, outputs: part.len() };
        out.extend_from_slice(exe.step(&Batch::text(part, &[span])).unwrap());
    }
    out
}

/// Rounding columns to int8 costs both devices the same: the emulator is as far from columns that are not rounded as the CPU is, and from
/// the CPU by no more than two such errors that have nothing to do with each other. Prompts lose a little more to attention in f16.
fn holds(architecture: usize, types: &[WeightType]) {
    let a = &architectures()[architecture];
    let mut worst: (f32, String) = Default::default();
    for ty in types {
        let folder = tempfile::tempdir().unwrap();
        let model = model(a, *ty, folder.path());
        let cpu = |kind| logits(&Cpu::new(Some(1)), model.clone(), kind);
        let (exact, rounded) = (cpu(ActivationKind::F32), cpu(ActivationKind::Int8));
        let got = logits(&Gpu::sim(SimOptions::default()), model.clone(), ActivationKind::Int8);
        assert_eq!(got.len(), exact.len(), "{ty}");
        let mean = exact.iter().sum::<f32>() / exact.len() as f32;
        let root = |of: &mut dyn Iterator<Item = f32>| (of.map(|d| d * d).sum::<f32>() / exact.len() as f32).sqrt();
        let deviation = root(&mut exact.iter().map(|v| v - mean));
        let off = |a: &[f32], b: &[f32]| root(&mut a.iter().zip(b).map(|(a, b)| a - b)) / deviation;
        let (emulator, cpu, apart) = (off(&got, &exact), off(&rounded, &exact), off(&got, &rounded));
        println!("{} {ty}: emulator off by {emulator:.1e}, CPU by {cpu:.1e}, apart {apart:.1e}", a.name);
        assert!(deviation > 0.0 && emulator < 1.25 * cpu + 1e-3 && apart < 1.5 * cpu + 1e-3, "{} {ty}", a.name);
        if cpu > 0.0 && emulator / cpu > worst.0 {
            worst = (emulator / cpu, ty.to_string());
        }
    }
    println!("{}: at worst {worst:?} times the CPU's error", a.name);
}

fn all() -> Vec<WeightType> {
    let plain = [quants::F32, quants::F16, quants::BF16, quants::F8_E4M3];
    quants::ALL.iter().copied().filter(|ty| ty.info().codes.is_some() || plain.contains(ty)).collect()
}

#[test]
fn all_types_in_llama() {
    holds(0, &all());
}

#[test]
fn all_types_in_qwen3() {
    holds(1, &all());
}

#[test]
fn all_types_in_gemma2() {
    holds(2, &all());
}

/// Experts, in prompts by tiles of the tokens that chose the same.
#[test]
fn some_types_in_qwen3_moe() {
    holds(3, &[quants::BF16, quants::Q8_0, quants::Q4_K, quants::IQ4_XS, quants::Q6_K]);
}

/// A layer of a llama takes seven packets a step with the norm before it, and the next ones six; a prompt takes more, as its products are
/// not joined with what stands around them. Gemma 2, whose sums are of norms, has no such joints yet.
#[test]
fn packets_of_a_layer() {
    for (architecture, most) in [(0, 7), (1, 7), (2, 14)] {
        let a = &architectures()[architecture];
        let folder = tempfile::tempdir().unwrap();
        let model = model(a, quants::Q4_K, folder.path());
        let limits = Limits { batch: 64, outputs: 4, page: 16, pages: 8, slots: 1, kv: KvType::F16, activations: ActivationKind::Int8 };
        let packets = |tokens: usize| {
            let ids = vec![0; tokens];
            let span = Span { len: tokens, start: 0, pages: &[], slot: 0, outputs: 1 };
            let all = Gpu::dispatches(&model, &limits, &shape(&Batch::text(&ids, &[span]), NARROW, 0)).unwrap();
            let of_layer = all.iter().filter(|d| d.layer == Some(0)).count();
            let ops = model.plan.op_layers.iter().filter(|l| **l == Some(0)).count();
            println!("{}, {tokens} tokens: {of_layer} packets for the layer's {ops} ops, {} in all", a.name, all.len());
            of_layer
        };
        let found = [1, 8, 64].map(packets);
        assert!(found[0] <= most && found[1] <= most && found[2] <= 2 * most, "{}: {found:?}", a.name);
    }
}

/// Without fusion the same model gives nearly the same logits, with more packets.
#[test]
fn fusion_changes_little() {
    for a in &architectures()[..3] {
        let folder = tempfile::tempdir().unwrap();
        let model = model(a, quants::Q5_K, folder.path());
        let fused = logits(&Gpu::sim(SimOptions::default()), model.clone(), ActivationKind::Int8);
        let plain = logits(&Gpu::sim(SimOptions::default()).without_fusion(), model, ActivationKind::Int8);
        let largest = fused.iter().fold(0f32, |m, v| m.max(v.abs()));
        let apart = fused.iter().zip(&plain).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart < 0.05 * largest, "{}: {apart} of {largest}", a.name);
    }
}

/// What the device cannot do is told before anything is loaded, with the op and the reason.
#[test]
fn refusals_are_typed() {
    let a = &architectures()[0];
    let folder = tempfile::tempdir().unwrap();
    let model = model(a, quants::Q8_0, folder.path());
    let limits = Limits { batch: 8, outputs: 8, page: 16, pages: 8, slots: 1, kv: KvType::F16, activations: ActivationKind::Int8 };
    let load = |options: SimOptions, limits: &Limits| Gpu::sim(options).load(model.clone(), limits, &mut |_| {}).err();
    // Memory is planned to the byte, but for what allocations are rounded up to.
    let memory = Gpu::sim(SimOptions::default()).memory(&model, &limits);
    match load(SimOptions { memory: memory.total() - 1, ..SimOptions::default() }, &limits) {
        Some(DeviceError::Memory { needed, available, .. }) => assert_eq!((needed, available), (memory.total(), memory.total() - 1)),
        other => panic!("{other:?}"),
    }
    assert!(load(SimOptions { memory: memory.total() + (64 << 10), ..SimOptions::default() }, &limits).is_none());
    match load(SimOptions::default(), &Limits { kv: KvType::F32, ..limits.clone() }) {
        Some(DeviceError::Refused { device, plan, ops }) => {
            assert_eq!((device.as_str(), plan.as_str(), ops[0].op, ops[0].layer), ("sim", "llama", "attention", None));
        }
        other => panic!("{other:?}"),
    }
    let message = load(SimOptions::default(), &Limits { activations: ActivationKind::Int16, ..limits }).unwrap().to_string();
    assert!(message.starts_with("the device `sim` cannot run `llama`: `linear`: "), "{message}");
}
