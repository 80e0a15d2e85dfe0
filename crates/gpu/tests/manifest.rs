//! The committed code objects: that they are what the sources give, what the manifest says of them, and the limits that they keep.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

use onebit_gpu::kernels::{Figures, Manifest, OBJECTS};
use rdna::{CodeObject, Kernel, disassemble, isa};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

const AGAIN: &str = "GPU_WRITE=1 cargo test -p onebit-gpu --test manifest, twice: objects, then what is made of them";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

fn writes() -> bool {
    std::env::var_os("GPU_WRITE").is_some()
}

/// SHA-256 of all sources, each with its path.
fn sources() -> String {
    let files = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file());
    let paths: BTreeSet<PathBuf> = files(folder()).chain(files(folder().join("weights"))).collect();
    let mut hash = Sha256::new();
    for path in paths {
        hash.update(path.strip_prefix(folder()).unwrap().to_string_lossy().as_bytes());
        hash.update(std::fs::read(&path).unwrap());
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// The compiler's version line, if it is there.
fn compiler() -> Option<String> {
    let output = Command::new("clang-19").arg("--version").output().ok().filter(|o| o.status.success());
    let linker = Command::new("ld.lld-19").arg("--version").output().is_ok_and(|o| o.status.success());
    if output.is_none() || !linker {
        println!("SKIPPED: clang-19 and lld-19 are not installed (Debian: apt-get install clang-19 lld-19); the objects were not rebuilt");
    }
    Some(String::from_utf8(output.filter(|_| linker)?.stdout).unwrap().lines().next().unwrap().to_string())
}

/// Waves of 32 that a SIMD of gfx1151 holds: 1536 registers in portions of 24, 64 KiB of LDS for two SIMDs, 16 waves at most.
fn waves(vgprs: u32, lds: u32, threads: u32) -> u32 {
    let by_registers = 1536 / vgprs.max(1).next_multiple_of(24);
    let by_lds = 65536u32.checked_div(lds).map_or(u32::MAX, |groups| groups * threads.div_ceil(32) / 2);
    by_registers.min(by_lds).min(16)
}

fn figures(object: &CodeObject, kernel: &Kernel) -> Figures {
    let functions = disassemble(object, isa::Isa::of(isa::Level::detect()));
    let (_, lines) = functions.into_iter().find(|(name, _)| *name == kernel.name).unwrap();
    let count = |matches: &dyn Fn(&str) -> bool| lines.iter().filter(|(_, _, text)| matches(text)).count() as u32;
    Figures {
        vgprs: kernel.vgprs,
        sgprs: kernel.sgprs,
        lds: kernel.lds_bytes,
        // Scalars that are spilled lie in lanes of vector registers, not in memory.
        scratch: kernel.scratch_bytes + kernel.spills[1],
        threads: kernel.max_workgroup,
        waves: waves(kernel.vgprs, kernel.lds_bytes, kernel.max_workgroup),
        instructions: lines.len() as u32,
        dots: count(&|t| t.starts_with("v_dot")),
        matrices: count(&|t| t.starts_with("v_wmma")),
        wide_loads: count(&|t| t.starts_with("global_load_b128")),
        loads: count(&|t| t.starts_with("global_load_")),
    }
}

fn all_figures() -> BTreeMap<String, Figures> {
    let mut all = BTreeMap::new();
    for object in OBJECTS {
        let code = CodeObject::read(object.bytes).unwrap();
        for kernel in &code.kernels {
            all.insert(format!("{}/{}", object.name, kernel.name), figures(&code, kernel));
        }
    }
    all
}

#[test]
fn the_objects_are_what_the_sources_give() {
    let Some(version) = compiler() else { return };
    let fresh = std::env::temp_dir().join(format!("onebit-gpu-{}", std::process::id()));
    std::fs::create_dir_all(&fresh).unwrap();
    assert!(Command::new("sh").arg(folder().join("build.sh")).arg(&fresh).status().unwrap().success());
    let built = folder().join("built/gfx1151");
    let names: BTreeSet<String> = std::fs::read_dir(&fresh).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let listed: BTreeSet<String> = OBJECTS.iter().map(|o| format!("{}.co", o.name)).collect();
    for name in &names {
        let bytes = std::fs::read(fresh.join(name)).unwrap();
        if writes() {
            std::fs::write(built.join(name), bytes).unwrap();
        } else {
            assert!(bytes == std::fs::read(built.join(name)).unwrap(), "{name} is not what {version} makes: {AGAIN}");
        }
    }
    std::fs::remove_dir_all(fresh).unwrap();
    assert_eq!(names, listed, "kernels.rs lists other objects than build.sh makes");
}

/// For development on other machines: not run here, and never shipped.
#[test]
fn all_sources_compile_to_ptx() {
    if compiler().is_none() {
        return;
    }
    let fresh = std::env::temp_dir().join(format!("onebit-gpu-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&fresh).unwrap();
    assert!(Command::new("sh").arg(folder().join("build.sh")).arg("--ptx").arg(&fresh).status().unwrap().success());
    for object in OBJECTS {
        let text = std::fs::read_to_string(fresh.join(object.name).with_extension("ptx")).unwrap();
        assert!(text.contains(".target sm_90"), "{}", object.name);
        for kernel in CodeObject::read(object.bytes).unwrap().kernels {
            assert!(text.contains(&format!(".entry {}(", kernel.name)), "{}/{}", object.name, kernel.name);
        }
    }
    std::fs::remove_dir_all(fresh).unwrap();
}

#[test]
fn the_manifest_is_current() {
    let path = folder().join("built/gfx1151/manifest.json");
    if writes() {
        let manifest = Manifest { compiler: compiler().unwrap(), sources: sources(), kernels: all_figures() };
        std::fs::write(path, serde_json::to_string_pretty(&manifest).unwrap() + "\n").unwrap();
        return;
    }
    let stored = Manifest::built().unwrap();
    assert!(stored.sources == sources(), "sources changed since the objects were built: {AGAIN}");
    for (name, figures) in all_figures() {
        assert_eq!(stored.kernels.get(&name), Some(&figures), "{name}: {AGAIN}");
    }
    assert_eq!(stored.kernels.len(), all_figures().len());
}

/// Nothing is spilled; what streams weights has waves enough to hide memory, and the instructions that it is made for.
#[test]
fn kernels_keep_their_limits() {
    for (name, f) in all_figures() {
        println!(
            "{name:<36} {:>3} VGPRs {:>3} SGPRs {:>5} LDS {:>2} waves {:>4} instructions {:>3} dots {:>2} matrices {:>2}/{:<2} wide loads",
            f.vgprs, f.sgprs, f.lds, f.waves, f.instructions, f.dots, f.matrices, f.wide_loads, f.loads
        );
        assert_eq!(f.scratch, 0, "{name} spills");
        assert!(f.lds <= 65536, "{name}");
        let (least, kind) = match name.rsplit('/').next().unwrap() {
            "matvec_1" | "matvec_2" => (8, "dots"),
            "matvec_4" | "matvec_8" => (6, "dots"),
            "fused_1" | "fused_2" => (8, "dots"),
            "fused_4" | "fused_8" => (6, "dots"),
            "matmul" | "matmul_experts" => (4, "matrices"),
            // Their sums of eight heads of 256 numbers are in LDS.
            "attention_256" | "decode_f16_256" | "decode_q8_256" | "decode_q4_256" | "chosen_f16_256" => (2, ""),
            "attention_128" | "decode_f16_128" | "decode_q8_128" | "decode_q4_128" | "chosen_f16_128" => (4, ""),
            // A transposed tile of values of 512 numbers fills LDS.
            "route" => (2, ""), // a wave with the scores of up to 1024 experts in LDS
            "latent_f16" | "latent_q8" | "latent_chosen_f16" => (2, "matrices"),
            // Sums and queries of 16 rows are in registers; of heads of 256 the queries are in LDS.
            kernel if kernel.starts_with("prompt_") => (if kernel.ends_with("256") { 2 } else { 4 }, "matrices"),
            _ => (8, ""),
        };
        assert!(f.waves >= least, "{name}: {} waves, {least} are wanted", f.waves);
        assert!(kind != "dots" || f.dots >= 16 && f.wide_loads >= 2, "{name}: {f:?}");
        assert!(kind != "matrices" || f.matrices >= 8, "{name}: {f:?}");
    }
}
