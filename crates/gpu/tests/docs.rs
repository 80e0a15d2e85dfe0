//! `docs/gpu.md`: made of the manifest, of what the fixtures have shown, and of the model of time.
//!
//!     GPU_FIXTURES=all cargo nextest run -p onebit-gpu --test docs    # runs all fixtures that are here, and stores what came of each
//!                                                                     # (refused: those that were refused last time)
//!     GPU_WRITE=1 cargo nextest run -p onebit-gpu --test docs         # writes docs/gpu.md

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod evidence;

use evidence::{Found, Outcome, differing, limits, model, run};
use onebit_gpu::{Form, Gpu, kernels::Manifest, predict};
use onebit_plan::Refused;
use onebit_quants::{self as quants};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
};

/// What came of a fixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    /// It ran: the largest difference from the expected logits, in their standard deviations, in the emulator and on the CPU in the same
    /// precision; and whether all ways of feeding gave the same bits.
    Ran { worst: f64, cpu: f64, identical: bool },
    /// What no kernel serves.
    Refused { missing: Vec<String> },
}

macro_rules! names {
    ($($name:ident: $form:ident,)*) => { &[$(stringify!($name)),*] };
}
const NAMES: &[&str] = onebit_reference::fixtures!(names);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fixtures.json")
}

fn stored() -> BTreeMap<String, Stored> {
    std::fs::read(file()).map(|text| serde_json::from_slice(&text).unwrap()).unwrap_or_default()
}

/// Each reason once, in the order of the ops.
fn reasons(refused: &[Refused]) -> Vec<String> {
    let mut all = vec![];
    for r in refused {
        let reason = format!("`{}`: {}", r.op, r.reason);
        if !all.contains(&reason) {
            all.push(reason);
        }
    }
    all
}

/// Runs them all, and stores what came of each.
#[test]
fn all_fixtures() -> Outcome {
    let asked = std::env::var("GPU_FIXTURES").unwrap_or_default();
    if !["all", "refused"].contains(&asked.as_str()) {
        println!("not asked for: GPU_FIXTURES=all");
        return Ok(());
    }
    let mut all = stored();
    for name in NAMES {
        if asked == "refused" && matches!(all.get(*name), Some(Stored::Ran { .. })) {
            continue;
        }
        let start = std::time::Instant::now();
        let Some(found) = run(name)? else { continue };
        let it = match found {
            Found::Refused(refused) => Stored::Refused { missing: reasons(&refused) },
            Found::Ran { gpu, cpu } => {
                let rounded = |x: f64| (x * 1e5).round() / 1e5;
                let identical = differing(&gpu).is_empty();
                if !identical || gpu.hold(evidence::bar(&cpu)).is_err() {
                    println!("{name} on the CPU\n{cpu}in the emulator\n{gpu}");
                }
                Stored::Ran { worst: rounded(gpu.worst()), cpu: rounded(cpu.worst()), identical }
            }
        };
        println!("{name}: {it:?} in {:?}", start.elapsed());
        all.insert((*name).into(), it);
    }
    std::fs::create_dir_all(file().parent().unwrap())?;
    Ok(std::fs::write(file(), serde_json::to_string_pretty(&all)? + "\n")?)
}

/// What is stored of refusals is what the kernels refuse today; and what ran was near.
#[test]
fn stored_outcomes_are_current() -> Outcome {
    let mut seen = 0;
    for (name, it) in stored() {
        let Some(model) = model(&name)? else { continue };
        let missing = reasons(&Gpu::refusals(&model, &limits()));
        match it {
            Stored::Refused { missing: stored } => assert_eq!(missing, stored, "{name}: GPU_FIXTURES=all"),
            Stored::Ran { worst, cpu, identical } => {
                assert!(missing.is_empty(), "{name} ran, but is refused now: {missing:?}");
                assert!(worst <= 2.0 * cpu + 1e-3 && identical, "{name}: off by {worst}, the CPU by {cpu}; same bits: {identical}");
            }
        }
        seen += 1;
    }
    println!("{seen} fixtures");
    Ok(())
}

fn document() -> String {
    let mut out = String::new();
    let manifest = Manifest::built().unwrap();
    let all = stored();
    let ran = all.values().filter(|it| matches!(it, Stored::Ran { .. })).count();
    let _ = writeln!(
        out,
        "# The GPU, as far as it can be shown without one\n\n\
         Made by `GPU_FIXTURES=all cargo nextest run -p onebit-gpu --test docs`, then `GPU_WRITE=1` with the same command; a test holds that it is\n\
         current. [crates/gpu](../crates/gpu/README.md) tells how the parts meet. Nothing here was timed on a device.\n\n\
         ## Whole models in the emulator\n\n\
         {ran} of {} fixtures run through the plan, the command lists and the code objects that ship: the prompt whole, in chunks of 1, 3 and 16, in a\n\
         batch with another sequence, after a rollback and a fork, all with the same bits, and the greedy continuation. The figures are the largest\n\
         difference of a logit from those of another implementation, in standard deviations of the logits: keys and values are in f16, in\n\
         the emulator as on the CPU beside it (which can change what a model chooses: glm_moe_dsa attends to other tokens than in f32). The others are refused with these reasons before anything is loaded, so that another device\n\
         can take them (`--device sim,cpu`).\n\n\
         | fixture | emulator | CPU |\n|---|---:|---:|",
        all.len()
    );
    for (name, it) in &all {
        if let Stored::Ran { worst, cpu, .. } = it {
            let _ = writeln!(out, "| {name} | {worst:.5} | {cpu:.5} |");
        }
    }
    let mut by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, it) in &all {
        if let Stored::Refused { missing } = it {
            missing.iter().for_each(|reason| {
                by_reason.entry(reason).or_default().insert(name);
            });
        }
    }
    let _ = writeln!(out, "\n| refused for | fixtures |\n|---|---|");
    for (reason, names) in by_reason {
        let _ = writeln!(out, "| {reason} | {} |", names.into_iter().collect::<Vec<_>>().join(", "));
    }
    let _ = writeln!(
        out,
        "\n## Weight types\n\n\
         Each runs in a llama, a qwen3 and a gemma2 with prompts and steps (`tests/types.rs`). Rounding to int8 costs the emulator's logits at most\n\
         1.25 times what it costs the CPU's, plus 0.001 of their standard deviation. Registers and waves are those of the kernels for one column, for eight, and of that with\n\
         matrix instructions.\n\n\
         | type | bits in the file | on the device | kernels | registers | waves per SIMD | LDS of the last |\n|---|---:|---:|---|---:|---:|---:|"
    );
    for ty in quants::ALL.iter().filter(|ty| ty.info().codes.is_some()) {
        let form = Form::of(*ty).unwrap();
        let of = |kernel: &str| &manifest.kernels[&format!("{}/{kernel}", form.object)];
        let [one, eight, many] = ["matvec_1", "matvec_8", "matmul"].map(of);
        let _ = writeln!(
            out,
            "| {ty} | {:.2} | {:.2} | {} | {}, {}, {} | {}, {}, {} | {} |",
            ty.bits_per_value(),
            form.bits_per_weight(),
            form.object,
            one.vgprs,
            eight.vgprs,
            many.vgprs,
            one.waves,
            eight.waves,
            many.waves,
            many.lds
        );
    }
    let _ = writeln!(
        out,
        "\n## Other kernels\n\n| kernel | vector registers | scalar registers | LDS | waves per SIMD | instructions | 128-bit loads of all |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for (name, f) in manifest.kernels.iter().filter(|(name, _)| !name.starts_with("linear_")) {
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} of {} |",
            f.vgprs, f.sgprs, f.lds, f.waves, f.instructions, f.wide_loads, f.loads
        );
    }
    let m = predict::GFX1151;
    let _ = writeln!(
        out,
        "\n## The model of time\n\n\
         `1bit bench --predict gfx1151 MODEL` says what a step would take: for each packet {:.2} µs and {:.1} µs of filling and draining, and what is longer\n\
         of bytes at {:.0} GB/s and multiplications at {:.1} T (dot products), {:.1} T (matrix instructions) or {:.0} T (f32) operations per second. These are\n\
         what others have measured on such machines; `crates/gpu/src/predict.rs` names each, and what the model is blind to. Against\n\
         other figures of theirs:\n\n\
         | measured by others | their figure | predicted | error |\n|---|---:|---:|---:|",
        m.packet * 1e6,
        m.latency * 1e6,
        m.streaming / 1e9,
        m.dots / 1e12,
        m.matrices / 1e12,
        m.floats / 1e12
    );
    for point in predict::calibration() {
        let (what, unit, error) = (point.what, point.unit, 100.0 * point.error());
        let _ = writeln!(out, "| {what} | {} {unit} | {:.1} {unit} | {error:+.0} % |", point.measured, point.predicted);
    }
    out
}

#[test]
fn the_document_is_current() {
    let path = root().join("docs/gpu.md");
    let made = document();
    if std::env::var_os("GPU_WRITE").is_some() {
        std::fs::write(path, made).unwrap();
        return;
    }
    assert!(std::fs::read_to_string(path).unwrap_or_default() == made, "GPU_WRITE=1 cargo nextest run -p onebit-gpu --test docs");
}
