//! How fast text becomes ids: `cargo bench -p onebit-text`. Vocabularies as for the tests; without them, small ones.
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use onebit_text::{Encode, Tokenizer};
use std::{env, fs, path::Path, time::Duration};

fn texts() -> Vec<(&'static str, String)> {
    let code = include_str!("../src/tokenizer/hf/mod.rs").repeat(40);
    let prose = "The quick brown fox can't jump over 13 lazy dogs, which is a pity; nobody knows why it is so, but \
                 everybody who has seen it says that it was the strangest thing in the whole of the year 2026. ";
    let scripts = "Быстрая коричневая лиса перепрыгнула через 13 ленивых собак. 敏捷的棕色狐狸跳过了13只懒狗。すばやい茶色の狐。 \
                   빠른 갈색 여우가 게으른 개를 뛰어넘는다. तेज़ भूरी लोमड़ी १२३ कुत्तों पर कूदती है। 👩‍👩‍👧‍👦 Größe, naïve façade.\n";
    vec![
        ("code", code),
        ("prose", prose.repeat(4000)),
        ("scripts", scripts.repeat(2000)),
        ("letter", "a".repeat(1 << 20)),
        ("spaces", " ".repeat(1 << 20)),
    ]
}

fn encode(c: &mut Criterion) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = env::var_os("ONEBIT_TOKENIZERS").map_or_else(|| root.join("../../target/tokenizers"), Into::into);
    for name in ["qwen3", "llama3", "gptoss", "gemma3"] {
        let Ok(json) = fs::read_to_string(folder.join(name).join("tokenizer.json")) else { continue };
        let tokenizer = Tokenizer::from_json(&json, None).unwrap();
        let mut group = c.benchmark_group(name);
        group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        for (kind, text) in texts() {
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(kind, |b| b.iter(|| tokenizer.encode(&text, Encode::default())));
        }
        group.bench_function("load", |b| b.iter(|| Tokenizer::from_json(&json, None).unwrap()));
        group.finish();
    }
}

criterion_group!(benches, encode);
criterion_main!(benches);
