//! The program as people and scripts use it: what goes to stdout, what to stderr, and the exit codes.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_1bit"));
    command.args(args).env("ONEBIT_OFFLINE", "1").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    program(args).output().unwrap()
}

fn out(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

fn said(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

/// A tiny model that the models crate carries: `config.json` and `model.safetensors`.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data/llama")
}

fn path(p: &Path) -> &str {
    p.to_str().unwrap()
}

#[test]
fn what_is_wrong_is_named_and_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, page, short) = (folder.path().join("empty.gguf"), folder.path().join("page.gguf"), folder.path().join("short.gguf"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&page, "<!DOCTYPE html><html>404").unwrap();
    std::fs::write(&short, b"GGUF\x03\0\0\0").unwrap();
    for (args, words) in [
        (vec!["show", "no-such-model"], vec!["no-such-model", "smollm2"]),
        (vec!["show", "./no/such/file.gguf"], vec!["no/such/file.gguf"]),
        (vec!["run", "hf:not-a-repository", "hi"], vec!["hf:owner/name"]),
        (vec!["show", path(&empty)], vec!["empty.gguf"]),
        (vec!["show", path(&page)], vec!["page.gguf", "HTML"]),
        (vec!["logits", path(&short), "--ids", "1", "-o", "/dev/null"], vec!["short.gguf"]),
        (vec!["run", "smollm2"], vec!["prompt"]),
        (vec!["rm", "never-pulled"], vec!["never-pulled"]),
        (vec!["convert", path(&page), "/tmp/x.gguf"], vec!["page.gguf"]),
        (vec!["tokenize"], vec!["Usage"]),
        (vec!["no-such-command"], vec!["no-such-command"]),
    ] {
        let o = run(&args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", said(&o));
        assert!(o.stdout.is_empty(), "{args:?} wrote to stdout");
        for word in words {
            assert!(said(&o).contains(word), "{args:?} says nothing of {word}: {}", said(&o));
        }
    }
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let model = fixture();
    let model = path(&model);
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.jinja");
    std::fs::write(&broken, "{{ messages }}\n{% nope %}").unwrap();
    let broken = path(&broken);
    for (args, word) in [
        (vec!["logits", model, "--ids", "1,999999", "-o", "/dev/null"], "999999"),
        (vec!["logits", model, "--ids", "1", "--chunk", "0", "-o", "/dev/null"], "--chunk"),
        (vec!["logits", model, "--ids", "1", "--threads", "0", "-o", "/dev/null"], "--threads"),
        (vec!["logits", model, "--ids", "1", "--device", "toaster", "-o", "/dev/null"], "toaster"),
        (vec!["show", model, "--tensor", "nothing", "--npy", "/dev/null"], "nothing"),
        (vec!["convert", model, "/tmp/x.gguf", "--type", "Q99"], "Q99"),
        (vec!["run", model, "hi", "-n", "-1"], "invalid value '-1' for '--max-tokens"),
        (vec!["run", model, "hi", "--top-k", "-1"], "invalid value '-1' for '--top-k"),
        (vec!["logits", model, "--ids", "-1", "-o", "/dev/null"], "invalid value '-1' for '--ids"),
        (vec!["serve", "-m", model, "--api-key", "", "--port", "0"], "key is empty"),
        (vec!["serve", "-m", model, "--host", "0.0.0.0", "--port", "0"], "--api-key"),
        (vec!["serve", "-m", model, "--chat-template", "/no/such.jinja", "--port", "0"], "--chat-template /no/such.jinja: No such file"),
        (vec!["serve", "-m", model, "--chat-template", broken, "--port", "0"], "line 2: Encountered unknown tag 'nope'"),
    ] {
        let o = run(&args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", said(&o));
        assert!(said(&o).contains(word), "{args:?}: {}", said(&o));
    }
}

/// Whatever writes a file leaves the model that it reads alone, by whatever name it is given.
#[test]
fn a_model_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("model");
    std::fs::create_dir(&dir).unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(fixture().join(name), dir.join(name)).unwrap();
    }
    let gguf = folder.path().join("m.gguf");
    assert!(run(&["convert", path(&dir), path(&gguf)]).status.success());
    let link = folder.path().join("link.gguf");
    std::os::unix::fs::symlink(&gguf, &link).unwrap();
    let hard = folder.path().join("hard.gguf");
    std::fs::hard_link(&gguf, &hard).unwrap();
    let roundabout = dir.join("../m.gguf");
    let files = [&gguf, &dir.join("config.json"), &dir.join("model.safetensors")].map(|f| (f.clone(), std::fs::read(f).unwrap()));
    let (model, weights, config) = (path(&dir), path(&files[2].0), path(&files[1].0));
    let mut commands = vec![
        vec!["convert", model, weights],
        vec!["convert", model, config],
        vec!["convert", weights, weights],
        vec!["logits", model, "--ids", "1", "-o", weights],
        vec!["show", model, "--tensor", "model.norm.weight", "--npy", weights],
    ];
    for out in [&gguf, &link, &hard, &roundabout] {
        commands.push(vec!["logits", path(&gguf), "--ids", "1", "-o", path(out)]);
        commands.push(vec!["show", path(&gguf), "--tensor", "output_norm.weight", "--npy", path(out)]);
        commands.push(vec!["quantize", path(&gguf), path(out), "Q8_0"]);
    }
    for args in commands {
        let o = run(&args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", said(&o));
        assert!(said(&o).contains("is a file of the model itself"), "{args:?}: {}", said(&o));
    }
    for (file, bytes) in files {
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "{}", file.display());
    }
    // Beside it is fine, and so is to replace what was made before.
    for _ in 0..2 {
        let o = run(&["convert", model, path(&dir.join("m.gguf"))]);
        assert!(o.status.success(), "{}", said(&o));
    }
}

/// Names in a file reach the terminal as text.
#[test]
fn escape_sequences_of_a_file_are_not_sent_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = folder.path().join("m.gguf");
    assert!(run(&["convert", path(&fixture()), path(&gguf)]).status.success());
    let mut bytes = std::fs::read(&gguf).unwrap();
    for (from, to) in [(&b"blk.0.ffn_up.weight"[..], &b"blk\x1b[31mn_up.weight"[..]), (b"general.name", b"general\x1bname")] {
        let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to);
    }
    std::fs::write(&gguf, bytes).unwrap();
    for args in [
        vec!["show", path(&gguf), "--all"],
        vec!["show", path(&gguf), "--check"],
        vec!["logits", path(&gguf), "--ids", "1", "-o", "/dev/null"],
    ] {
        let o = run(&args);
        assert!(!o.stdout.contains(&0x1b) && !o.stderr.contains(&0x1b), "{args:?}: {}{}", out(&o), said(&o));
    }
    assert!(out(&run(&["show", path(&gguf), "--all"])).contains("blk\\u{1b}[31mn_up.weight"));
}

/// A model that cannot be run is explained, and one that runs says what it computes.
#[test]
fn show_explains() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(fixture().join(file), folder.path().join(file)).unwrap();
    }
    let config = folder.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replacen('{', r#"{"twist": 0.5, "#, 1).replace("\"llama\"", "\"mystery\"").replace("Llama", "Mystery"))
        .unwrap();
    let o = run(&["show", path(folder.path())]);
    assert!(o.status.success(), "{}", said(&o));
    let text = out(&o);
    for word in [
        "`mystery` is not known; the closest family is `llama",
        "cannot run",
        "twist = 0.5    (not read)",
        "model.layers.{}.mlp.up_proj.weight",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&out(&run(&["show", path(folder.path()), "--json"]))).unwrap();
    assert_eq!((&json["found"], &json["runs"], &json["settings_used"]["twist"]), (&"closest".into(), &false.into(), &"unread".into()));
    let o = run(&["logits", path(folder.path()), "--ids", "1", "-o", "/dev/null"]);
    assert!(o.status.code() == Some(2) && said(&o).contains("twist"), "{}", said(&o));
    // Said to be what it is, it runs.
    let o = run(&["logits", path(folder.path()), "--ids", "1", "-o", "/dev/null", "--family", "llama"]);
    assert!(o.status.success(), "{}", said(&o));
    // Without the setting that nothing reads it runs, too, after a warning.
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap().replace(r#""twist": 0.5, "#, "")).unwrap();
    let o = run(&["logits", path(folder.path()), "--ids", "1", "-o", "/dev/null"]);
    assert!(o.status.success() && said(&o).contains("`mystery` is not known; taken for `llama`"), "{}", said(&o));
    assert!(out(&run(&["show", path(&fixture())])).contains("rotation of 16 of a head's 16 dimensions"));
}

#[test]
fn output_for_machines_is_json() {
    let cache = tempfile::tempdir().unwrap();
    let model = fixture();
    for args in [
        vec!["list", "--json"],
        vec!["list", "--architectures", "--json"],
        vec!["devices", "--json"],
        vec!["version", "--json"],
        vec!["show", path(&model), "--json"],
        vec!["show", path(&model), "--plan", "--json"],
        vec!["bench", path(&model), "-p", "4", "-n", "2", "-r", "1", "-o", "json"],
    ] {
        let o = program(&args).env("XDG_CACHE_HOME", cache.path()).output().unwrap();
        assert!(o.status.success(), "{args:?}: {}", said(&o));
        serde_json::from_slice::<serde_json::Value>(&o.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", out(&o)));
    }
}

/// What `bench` tells of a step is what the shapes of the model say, and events of all threads are traced.
#[test]
fn bench_counts_bytes_and_products() {
    let folder = tempfile::tempdir().unwrap();
    let (model, trace) = (fixture(), folder.path().join("trace.json"));
    let bench = |more: &[&str]| run(&[&["bench", path(&model), "-p", "8", "-n", "4", "-r", "1", "-t", "2", "-o", "json"], more].concat());
    let o = bench(&["--exact", "--profile", "--trace", path(&trace)]);
    assert!(o.status.success(), "{}", said(&o));
    let value: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(model.join("config.json")).unwrap()).unwrap();
    let of = |key: &str| config[key].as_f64().unwrap();
    let (width, head) = (of("hidden_size"), config["head_dim"].as_f64().unwrap_or(of("hidden_size") / of("num_attention_heads")));
    let kv = of("num_key_value_heads") * head;
    let layer = width * head * of("num_attention_heads") * 2.0 + 2.0 * width * kv + 3.0 * width * of("intermediate_size");
    let (layers, vocabulary) = (of("num_hidden_layers"), of("vocab_size"));
    let attended = |contexts: f64| contexts * layers * of("num_attention_heads") * head * 2.0;
    // A prompt needs the logits of its last token only.
    let prompt = 8.0 * layers * layer + width * vocabulary + attended((1..=8).sum::<u32>().into());
    let answer = 4.0 * (layers * layer + width * vocabulary) + attended((1..=4).sum::<u32>().into());
    for (test, tokens, products) in [(0, 8.0, prompt), (1, 4.0, answer)] {
        let got = value["tests"][test]["products_per_token"].as_f64().unwrap();
        assert!((got - products / tokens).abs() < 1e-6 * got, "{test}: {got} and {}", products / tokens);
    }
    // Whatever form weights have in memory, each is read once for a token, as are the keys and values so far.
    let (weights, bytes) = (value["weight_bytes"].as_f64().unwrap(), value["tests"][1]["bytes_per_token"].as_f64().unwrap());
    assert!(bytes > 0.5 * weights && bytes < 3.0 * weights, "{bytes} of {weights}");
    assert!(value["roof"]["read_bytes_per_second"].as_f64().unwrap() > 0.0 && value["peak_memory_bytes"].as_f64().unwrap() > weights);
    let profile = value["tests"][0]["profile"].as_array().unwrap();
    let times: f64 = profile.iter().map(|s| s["share_of_time"].as_f64().unwrap()).sum();
    assert!((times - 1.0).abs() < 1e-9 && profile.iter().any(|s| s["name"] == "attention"));
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let threads = |test: u64| {
        let of_test = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == test).map(|e| e["tid"].as_u64().unwrap());
        of_test.collect::<std::collections::BTreeSet<_>>()
    };
    assert!([1, 2].iter().all(|test| threads(*test) == [0, 1].into()), "{events:?}");
    let o = run(&["bench", path(&model), "--profile", "-o", "csv"]);
    assert!(o.status.code() == Some(2) && said(&o).contains("--profile"));
}

#[test]
fn a_plan_is_printed_op_by_op() {
    let o = run(&["show", path(&fixture()), "--plan"]);
    for word in ["embed", "layer 0", "rms_norm", "attention", "blk.0.attn_q.weight", "[128, 64]", "kv 2 heads"] {
        assert!(out(&o).contains(word), "{word} is not in\n{}", out(&o));
    }
}

/// The logits of a converted file are those of the directory, and chunks do not matter, in the program too.
#[test]
fn logits_are_written_for_every_position() {
    let folder = tempfile::tempdir().unwrap();
    let (gguf, a, b) = (folder.path().join("m.gguf"), folder.path().join("a.npy"), folder.path().join("b.npy"));
    let model = fixture();
    assert!(run(&["convert", path(&model), path(&gguf)]).status.success());
    assert!(run(&["logits", path(&model), "--ids", "1,2,3,4,5", "--exact", "-o", path(&a)]).status.success());
    assert!(run(&["logits", path(&gguf), "--ids", "1,2,3,4,5", "--exact", "--chunk", "2", "-o", path(&b)]).status.success());
    let (a, b) = (std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    assert!(String::from_utf8_lossy(&a[..128]).contains("(5, 256)"));
    assert_eq!(a.len(), 128 + 5 * 256 * 4);
    let floats = |bytes: &[u8]| bytes[128..].as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect::<Vec<_>>();
    let worst = floats(&a).iter().zip(floats(&b)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst}");
}

/// The logits of the fixture's first tokens, as the program writes them.
fn logits(model: &Path, folder: &Path, more: &[&str]) -> Vec<f32> {
    let file = folder.join("logits.npy");
    let o = run(&[&["logits", path(model), "--ids", "1,2,3,4,5", "-o", path(&file)], more].concat());
    assert!(o.status.success(), "{}", said(&o));
    std::fs::read(file).unwrap()[128..].as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
}

/// f32 of a NumPy file, and its shape as the header has it.
fn numbers(file: &Path) -> (Vec<f32>, String) {
    let bytes = std::fs::read(file).unwrap();
    let header = String::from_utf8_lossy(&bytes[..128]).into_owned();
    (bytes[128..].as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect(), header)
}

fn close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    let worst = found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst}");
}

/// Of an encoder without a tokenizer, the states and their mean that transformers computed.
#[test]
fn states_of_an_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let model = fixture().with_file_name("modernbert_local");
    let expected = onebit_formats::Checkpoint::open(model.join("expected.safetensors")).unwrap();
    let of = |name: &str| expected.tensor(name).unwrap().to_f32();
    let ids = of("ids_long").iter().map(|id| (*id as u32).to_string()).collect::<Vec<_>>().join(",");
    let (gguf, file) = (folder.path().join("m.gguf"), folder.path().join("x.npy"));
    assert!(run(&["convert", path(&model), path(&gguf)]).status.success());
    let embed = |model: &Path, more: &[&str]| {
        let o = run(&[&["embed", path(model), "--ids", &ids, "--exact", "-o", path(&file)], more].concat());
        assert!(o.status.success(), "{}", said(&o));
        numbers(&file)
    };
    for model in [&model, &gguf] {
        let (states, header) = embed(model, &["--pooling", "none"]);
        assert!(header.contains("(40, 32)"), "{header}");
        close(&states, &of("hidden"));
        let (mean, header) = embed(model, &["--embd-normalize", "-1"]);
        assert!(header.contains("(1, 32)"), "{header}");
        close(&mean, &of("embedding"));
    }
    // Cut, and of length 1.
    let (cut, _) = embed(&gguf, &["--dimensions", "5"]);
    let length = of("embedding")[..5].iter().map(|x| x * x).sum::<f32>().sqrt();
    close(&cut, &of("embedding")[..5].iter().map(|x| x / length).collect::<Vec<_>>());
    for (args, part) in [
        (vec!["embed", path(&gguf), "--ids", "1", "--dimensions", "33"], "--dimensions 33: the model's vectors have 32 numbers"),
        (vec!["embed", path(&gguf), "--ids", "1,64"], "token 64 is not in the vocabulary of 64"),
        (vec!["embed", path(&gguf), "--ids", "1", "--pooling", "best"], "known are none, mean, cls"),
        (
            vec!["logits", path(&gguf), "--ids", "1", "-o", path(&file)],
            "is an encoder, which makes embeddings and no text: use `1bit embed`",
        ),
        (vec!["run", path(&model), "hi"], "tokenizer"),
    ] {
        let o = run(&args);
        assert!(!o.status.success() && said(&o).contains(part), "{args:?}: {}", said(&o));
    }
}

/// A folder of sentence-transformers gives the vectors that sentence-transformers gave.
#[test]
fn sentence_transformers() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sentence_transformer");
    let expected: BTreeMap<String, Vec<f32>> = serde_json::from_slice(&std::fs::read(model.join("expected.json")).unwrap()).unwrap();
    let texts: Vec<&str> = expected.keys().map(String::as_str).collect();
    let o = run(&[&["embed", path(&model), "--exact"], &texts[..]].concat());
    assert!(o.status.success(), "{}", said(&o));
    let lines: Vec<Vec<f32>> = out(&o).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), expected.len());
    lines.iter().zip(expected.values()).for_each(|(found, wanted)| close(found, wanted));
    let o = run(&[&["embed", path(&model), "--json", "--exact"], &texts[..]].concat());
    let whole: serde_json::Value = serde_json::from_str(&out(&o)).unwrap();
    assert_eq!(whole["data"].as_array().unwrap().len(), expected.len());
    assert_eq!(whole["data"][1]["index"], 1);
    // The model's prompts are empty, or not there.
    let o = run(&["embed", path(&model), "--exact", "--prompt-name", "query", texts[0]]);
    close(&serde_json::from_str::<Vec<f32>>(&out(&o)).unwrap(), &lines[0]);
    let o = run(&["embed", path(&model), "--prompt-name", "title", "x"]);
    assert!(said(&o).contains("--prompt-name title: the model has document, query"), "{}", said(&o));
    // GGUF has no place for its dense layer.
    let o = run(&["convert", path(&model), "/dev/null/x.gguf"]);
    assert!(said(&o).contains("no place for the dense layers"), "{}", said(&o));
}

/// What `quantize --rotate` writes is what 1bit turns inputs for: in F32, the logits are the same.
#[test]
fn rotated_files_run() {
    let folder = tempfile::tempdir().unwrap();
    let (original, rotated) = (folder.path().join("m.gguf"), folder.path().join("r.gguf"));
    // Rows of its experts are too short for blocks of PTQ1_0.
    let types = [("llama", "*ffn_down=PTQ1_0"), ("qwen3_moe", "*ffn_down_exps=IQ4_NL"), ("qwen3_5_text", "*ffn_down=PQ2_0")];
    for (name, ty) in types {
        assert!(run(&["convert", path(&fixture().with_file_name(name)), path(&original)]).status.success());
        let expected = logits(&original, folder.path(), &["--exact"]);
        for block in ["--rotate", "--rotate=8"] {
            let o = run(&["quantize", path(&original), path(&rotated), "F32", block]);
            assert!(o.status.success(), "{}", said(&o));
            let plan = out(&run(&["show", path(&rotated), "--plan"]));
            assert!(plan.contains("hadamard(") && plan.contains("back, blocks of"), "{plan}");
            let found = logits(&rotated, folder.path(), &["--exact", "--check-tensors"]);
            let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{name} {block}: {worst}");
        }
        let o = run(&["quantize", path(&original), path(&rotated), "Q4_0", "--rotate", "--type", ty]);
        assert!(o.status.success(), "{}", said(&o));
        assert!(logits(&rotated, folder.path(), &[]).iter().all(|x| x.is_finite()), "{name}");
    }
    let o = run(&["quantize", path(&rotated), path(&original), "Q4_0", "--rotate"]);
    assert!(o.status.code() == Some(2) && said(&o).contains("rotated already"), "{}", said(&o));
}

/// A model with one NaN is refused where that was asked for, by tensor and block; where not, what it computes is.
#[test]
fn broken_tensors_are_refused_at_load_and_what_they_compute_always() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m.gguf");
    assert!(run(&["convert", path(&fixture()), path(&model)]).status.success());
    let mut bytes = std::fs::read(&model).unwrap();
    let at = bytes.len() - 64;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&model, bytes).unwrap();
    for args in [["logits", "--ids", "1", "-o", "/dev/null"], ["bench", "-p", "4", "-n", "0"], ["bench", "-p", "0", "-n", "2"]] {
        let (command, rest) = args.split_first().unwrap();
        let o = run(&[&[*command, path(&model), "--check-tensors"], rest].concat());
        assert!(o.status.code() == Some(2), "{command}: {:?} {}", o.status, said(&o));
        assert!(said(&o).contains("m.gguf: tensor `") && said(&o).contains("NaN, the first is block"), "{command}: {}", said(&o));
        let o = run(&[&[*command, path(&model)], rest].concat());
        assert!(o.status.code() == Some(1) && said(&o).contains("the model gave NaN as the logit"), "{command}: {}", said(&o));
    }
}

/// Whatever instructions the machine lacks, and however many threads it has or is asked for, the logits have the same bits.
#[test]
fn logits_depend_on_no_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (gguf, small) = (folder.path().join("m.gguf"), folder.path().join("small.gguf"));
    assert!(run(&["convert", path(&fixture()), path(&gguf)]).status.success());
    assert!(run(&["quantize", path(&gguf), path(&small), "Q4_0"]).status.success());
    let logits = |isa: &str, threads: &str| {
        let out = folder.path().join("logits.npy");
        let args = ["logits", path(&small), "--ids", "1,2,3,4,5,6,7,8,9", "--activations", "int8", "-t", threads, "-o", path(&out)];
        let o = program(&args).env("ONEBIT_ISA", isa).output().unwrap();
        assert!(o.status.success(), "{isa}, {threads}: {}", said(&o));
        std::fs::read(out).unwrap()
    };
    let expected = logits("scalar", "1");
    for (isa, threads) in [("avx2", "1"), ("avx512", "1"), ("amx", "2"), ("sse9", "2"), ("avx512", "1000")] {
        assert!(logits(isa, threads) == expected, "{isa} with {threads} threads");
    }
    for threads in ["0", "1025", "many"] {
        let o = run(&["logits", path(&small), "--ids", "1", "-o", "/dev/null", "-t", threads]);
        assert!(o.status.code() == Some(2) && said(&o).contains("--threads"), "{threads}: {}", said(&o));
    }
}

/// A tokenizer with one token for each byte (GPT-2's way to write bytes as characters).
fn byte_tokenizer() -> String {
    let shown = |b: u32| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let mut others = 256..;
    let vocabulary: serde_json::Map<String, serde_json::Value> = (0..256)
        .map(|b| (if shown(b) { b } else { others.next().unwrap() }, b))
        .map(|(c, id)| (char::from_u32(c).unwrap().to_string(), id.into()))
        .collect();
    serde_json::json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })
    .to_string()
}

/// Both forms are written, for every expert, and quantize reads them.
#[test]
fn importance_is_made_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(fixture().with_file_name("qwen3_moe").join(file), model.join(file)).unwrap();
    }
    std::fs::write(model.join("tokenizer.json"), byte_tokenizer()).unwrap();
    let [text, gguf, new, old, small] = ["text", "m.gguf", "i.gguf", "i.dat", "q.gguf"].map(|n| folder.path().join(n));
    std::fs::write(&text, "The quick brown fox jumps over the lazy dog. ".repeat(20)).unwrap();
    assert!(run(&["convert", path(&model), path(&gguf)]).status.success());
    for file in [&new, &old] {
        let o = run(&["imatrix", path(&model), path(&text), "-o", path(file), "-c", "64", "--windows", "4"]);
        assert!(o.status.success() && said(&o).contains("from 256 tokens"), "{}", said(&o));
        let o = run(&["quantize", path(&gguf), path(&small), "Q4_0", "--imatrix", path(file)]);
        assert!(o.status.success(), "{}", said(&o));
        assert!(said(&o).contains("2 tensors are not in the file of importance"), "only embedding and output: {}", said(&o));
    }
    let o = run(&["imatrix", path(&model), path(&text), "-o", path(&new), "-c", "4096"]);
    assert!(o.status.code() == Some(2) && said(&o).contains("--ctx-size"), "{}", said(&o));
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let mut child = program(&["show", path(&fixture()), "--plan"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let o = child.wait_with_output().unwrap();
    assert!(o.status.success() && o.stderr.is_empty(), "{}", said(&o));
}

#[test]
fn completion_scripts_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let o = run(&["completions", shell]);
        assert!(o.status.success() && out(&o).contains("tokenize"), "{shell}");
    }
}

#[test]
fn help_tells_of_every_command_and_the_exit_codes() {
    let help = out(&run(&["--help"]));
    let commands = [
        "run",
        "chat",
        "serve",
        "pull",
        "list",
        "rm",
        "show",
        "embed",
        "logits",
        "tokenize",
        "convert",
        "bench",
        "perplexity",
        "quantize",
        "imatrix",
        "devices",
        "completions",
        "version",
    ];
    for word in commands.iter().chain(&["Exit codes", "hf:owner/name"]) {
        assert!(help.contains(word), "{word}");
    }
}

/// A directory is quantized as the file that `convert` makes of it, and nothing is left beside the result.
#[test]
fn directories_are_quantized() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, twice, once] = ["whole.gguf", "twice.gguf", "once.gguf"].map(|n| folder.path().join(n));
    let model = fixture();
    for args in [
        ["convert", path(&model), path(&whole)].as_slice(),
        &["quantize", path(&whole), path(&twice), "Q8_0"],
        &["quantize", path(&model), path(&once), "Q8_0"],
    ] {
        let o = run(args);
        assert!(o.status.success(), "{args:?}: {}", said(&o));
    }
    assert_eq!(std::fs::read(&once).unwrap(), std::fs::read(&twice).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

/// A model of some size, so that writing it takes a while: 20 million weights of pseudo-random numbers.
fn larger(folder: &Path) {
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(fixture().join("config.json")).unwrap()).unwrap();
    let (width, inner, layers, vocabulary) = (512, 2048, 5, 64);
    for (key, value) in [
        ("hidden_size", width),
        ("intermediate_size", inner),
        ("num_hidden_layers", layers),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 8),
        ("head_dim", 64),
        ("vocab_size", vocabulary),
    ] {
        config[key] = value.into();
    }
    config["tie_word_embeddings"] = true.into();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut shapes = vec![("model.embed_tokens.weight".to_string(), vec![vocabulary, width]), ("model.norm.weight".into(), vec![width])];
    for layer in 0..layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
        shapes.extend(["input_layernorm", "post_attention_layernorm"].map(|part| (name(part), vec![width])));
        shapes.extend(["q", "k", "v", "o"].map(|part| (name(&format!("self_attn.{part}_proj")), vec![width, width])));
        shapes.extend(["gate", "up"].map(|part| (name(&format!("mlp.{part}_proj")), vec![inner, width])));
        shapes.push((name("mlp.down_proj"), vec![width, inner]));
    }
    let (mut header, mut at) = (serde_json::Map::new(), 0usize);
    for (name, shape) in &shapes {
        let bytes = shape.iter().product::<i32>() as usize * 4;
        header.insert(name.clone(), serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [at, at + bytes] }));
        at += bytes;
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend((0..at / 4).flat_map(|_| random().to_le_bytes()));
    std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
}

/// Whatever writes a model leaves nothing of it where it is stopped by Ctrl-C, on the way to GGUF or behind it, and says so by its exit code.
#[test]
fn what_is_interrupted_leaves_nothing() {
    let model = tempfile::tempdir().unwrap();
    larger(model.path());
    let mut waits = vec![30, 150, 600, 1500];
    let mut interrupted = 0;
    while let Some(wait) = waits.pop() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.gguf");
        let mut child =
            program(&["quantize", path(model.path()), path(&out), "IQ2_S", "--threads", "1"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if status.success() {
            // It was faster than the signal.
            assert_eq!(left, ["out.gguf"]);
            continue;
        }
        assert!(left.is_empty(), "after {wait} ms: {left:?}");
        interrupted += usize::from(status.code() == Some(130));
    }
    assert!(interrupted > 0, "it never came to be interrupted");
}

/// A file of the cache that has the right size and other bytes is found by `pull`, and taken away; where sizes alone are compared it is not.
#[test]
fn pull_finds_damage_that_keeps_the_size() {
    let home = tempfile::tempdir().unwrap();
    let in_home = |args: &[&str]| {
        let mut command = program(args);
        command.env("XDG_CACHE_HOME", home.path()).env("HF_HUB_CACHE", home.path().join("none")).output().unwrap()
    };
    let (entry, _) = onebit_registry::find("smollm2").unwrap().unwrap();
    let file = &entry.variants[0].files[0];
    let model = home.path().join("1bit/models/smollm2");
    let link = model.join("snapshots").join(&entry.variants[0].name).join(&file.name);
    let blob = model.join("blobs").join(&file.sha256);
    for folder in [link.parent().unwrap(), blob.parent().unwrap()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::File::create(&blob).unwrap().set_len(file.size).unwrap();
    std::os::unix::fs::symlink(&blob, &link).unwrap();
    let trusting = in_home(&["pull", "smollm2", "--no-check"]);
    assert_eq!((trusting.status.code(), out(&trusting).trim()), (Some(0), path(&link)), "{}", said(&trusting));
    let checking = in_home(&["pull", "smollm2"]);
    assert_eq!(checking.status.code(), Some(1), "{}", said(&checking));
    assert!(said(&checking).contains("is damaged") && said(&checking).contains("could not be fetched"), "{}", said(&checking));
    assert!(!blob.exists());
}
