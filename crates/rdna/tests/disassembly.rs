//! Text of instructions against LLVM's: a stored list, and, where `llvm-mc-19` is installed, fresh random encodings.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::Random;
use rdna::{
    decode::decode,
    isa::{Encoding, Isa, Level},
};
use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
};

/// What LLVM decodes and the tables do not have: graphics, buffers with descriptors, debugging, wave size 64.
const LEFT_OUT: &[&str] = &[
    "s_buffer_load",
    "s_atc_probe",
    "s_rfe_b64",
    "s_subvector_loop",
    "s_cbranch_cdbg",
    "s_sendmsghalt",
    "ds_bvh_stack",
    "v_interp",
    "buffer_",
    "_b64",
    "flat_atomic_csub",
];

/// Random words of an operation: the fields that say what it is are set, the rest is random within what is usual.
fn words(encoding: Encoding, code: u32, random: &mut Random) -> Vec<u32> {
    let r = &mut *random;
    let scalar = |r: &mut Random| {
        let n = r.below(16);
        match n {
            0..=5 => r.below(100),
            6 => [106, 107, 124, 125, 126, 127][r.below(6) as usize],
            7..=9 => 128 + r.below(81),
            10 | 11 => 240 + r.below(9),
            12 => 253,
            13 => 255,
            14 => 108 + r.below(15),
            _ => 2 * r.below(50),
        }
    };
    let vgpr = |r: &mut Random| if r.below(4) == 0 { r.below(256) } else { r.below(60) };
    let source = |r: &mut Random| if r.below(3) == 0 { scalar(r) } else { 256 + vgpr(r) };
    let (a, b, c) = (source(r), source(r), source(r));
    let dst = vgpr(r);
    match encoding {
        // Messages that have a name.
        Encoding::Sop1 if code == 0x4c || code == 0x4d => vec![0xbe80_0000 | r.below(53) << 17 | code << 8 | (128 + r.below(6))],
        Encoding::Sopp if code == 0x36 => vec![0xbf80_0000 | code << 16 | [1, 2, 3, 9][r.below(4) as usize]],
        Encoding::Sopk if code == 1 => vec![0xb000_0000 | code << 23 | 0x1234],
        Encoding::Sop1 => vec![0xbe80_0000 | r.below(106) << 16 | code << 8 | scalar(r), r.word()],
        Encoding::Sop2 => vec![0x8000_0000 | code << 23 | r.below(106) << 16 | scalar(r) << 8 | scalar(r), r.word()],
        Encoding::Sopc => vec![0xbf00_0000 | code << 16 | scalar(r) << 8 | scalar(r), r.word()],
        Encoding::Sopk => vec![0xb000_0000 | code << 23 | r.below(106) << 16 | r.word() & 0xffff, r.word()],
        Encoding::Sopp => vec![0xbf80_0000 | code << 16 | r.word() & 0xffff],
        Encoding::Smem => {
            let soffset = if r.below(2) == 0 { 124 } else { r.below(100) };
            vec![0xf400_0000 | code << 18 | (r.word() & 0x6000) | r.below(90) << 6 | r.below(50), soffset << 25 | r.word() & 0x1f_ffff]
        }
        Encoding::Vop1 => dpp(vec![0x7e00_0000 | dst << 17 | code << 9 | a], r),
        Encoding::Vop2 => dpp(vec![code << 25 | dst << 17 | vgpr(r) << 9 | a, r.word()], r),
        Encoding::Vopc => dpp(vec![0x7c00_0000 | code << 17 | vgpr(r) << 9 | a], r),
        Encoding::Vop3 => {
            // LLVM 19 does not show the halves that these choose.
            let hidden = match code {
                0x25d | 0x260 | 0x261 | 0x305 | 0x309..=0x30c | 0x338..=0x33a | 0x362..=0x364 => 0x7800,
                0x266 | 0x267 => 0x1800,
                // It shows a sign of the integer source.
                0x13b => 0x200,
                _ => 0,
            };
            let modifiers = if r.below(2) == 0 { 0 } else { r.word() & 0xff00 & !hidden };
            let second = if r.below(2) == 0 { 0 } else { r.word() & if code == 0x13b { 0x3800_0000 } else { 0xf800_0000 } };
            let sources = if r.below(3) == 0 { a | b << 9 } else { a | b << 9 | c << 18 };
            let dst = if code < 0x100 || code == 0x360 { r.below(106) } else { dst };
            let carry = if r.below(2) == 0 { r.below(100) << 8 & !hidden } else { 0 };
            dpp(vec![0xd400_0000 | code << 16 | if r.below(2) == 0 { modifiers } else { carry } | dst, second | sources, r.word()], r)
        }
        Encoding::Vop3p => {
            // Of these LLVM 19 shows literals and 1 / (2 pi) in another format than they have.
            let odd = matches!(code, 0x20..=0x22 | 0x44 | 0x45);
            let c = if odd && matches!(c, 248 | 255) { 128 } else { c };
            let (a, b) = if odd { (a.max(256), b.max(256)) } else { (a, b) };
            let first = if r.below(2) == 0 { 0x4000 } else { r.word() & 0xff00 };
            let second = if r.below(2) == 0 { 0x1800_0000 } else { r.word() & 0xf800_0000 };
            let sources = if r.below(3) == 0 { a | b << 9 } else { a | b << 9 | c << 18 };
            dpp(vec![0xcc00_0000 | code << 16 | first | dst, second | sources, r.word()], r)
        }
        Encoding::Vopd => {
            let (x, y) = if r.below(2) == 0 { (code & 15, r.below(19)) } else { (r.below(13), code) };
            vec![0xc800_0000 | x << 22 | y << 17 | vgpr(r) << 9 | a, vgpr(r) << 24 | vgpr(r) >> 1 << 17 | vgpr(r) << 9 | b, r.word()]
        }
        Encoding::Ds => vec![0xd800_0000 | code << 18 | r.word() & 0xffff, ds_registers(r)],
        Encoding::Flat | Encoding::Scratch | Encoding::Global => {
            let segment = match encoding {
                Encoding::Flat => 0,
                Encoding::Scratch => 1 << 16,
                _ => 2 << 16,
            };
            let offset = if r.below(2) == 0 { 0 } else { r.word() & 0xfff };
            let saddr = if r.below(2) == 0 { 124 } else { 2 * r.below(50) };
            let first = 0xdc00_0000 | code << 18 | segment | (r.word() & 0xe000) | offset;
            vec![first, vgpr(r) << 24 | r.below(2) << 23 | saddr << 16 | vgpr(r) << 8 | vgpr(r)]
        }
        Encoding::Mubuf => vec![0xe000_0000 | code << 18, 0],
    }
}

/// Unused register fields have to be 0 for LLVM.
fn ds_registers(r: &mut Random) -> u32 {
    let field = |r: &mut Random| if r.below(2) == 0 { 0 } else { r.below(250) };
    field(r) << 24 | field(r) << 16 | field(r) << 8 | field(r)
}

/// Some instructions get a DPP word.
fn dpp(mut words: Vec<u32>, r: &mut Random) -> Vec<u32> {
    let at = usize::from(words[0] >> 26 == 0b11_0101 || words[0] >> 26 == 0b11_0011);
    match r.below(6) {
        0 => {
            words[at] = words[at] & !0x1ff | 250;
            let control = match r.below(6) {
                0 => r.below(256),
                1 => 0x100 + 0x10 * r.below(3) + 1 + r.below(15),
                2 => 0x140 + r.below(2),
                n => 0x150 + 0x10 * (n & 1) + r.below(16),
            };
            words.truncate(at + 1);
            let signs = if at == 0 { r.word() & 0xf0_0000 } else { 0 };
            words.push(r.word() & 0xff0c_0000 | signs | control << 8 | r.below(256));
        }
        1 => {
            words[at] = words[at] & !0x1ff | (233 + r.below(2));
            words.truncate(at + 1);
            words.push(r.word());
        }
        _ => {}
    }
    words
}

/// LLVM's text of each list of words, `None` where it sees no single valid instruction.
fn llvm(lists: &[Vec<u32>]) -> Vec<Option<String>> {
    let mut out = Vec::new();
    for chunk in lists.chunks(60_000) {
        let mut input = String::new();
        for (i, list) in chunk.iter().enumerate() {
            let bytes: Vec<_> = list.iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:#04x}")).collect();
            input.push_str(&format!("[{}]\n[{:#04x},{:#04x},0x82,0xbf]\n", bytes.join(","), i & 255, i >> 8));
        }
        let mut child = Command::new("llvm-mc-19")
            .args(["--disassemble", "-triple=amdgcn", "-mcpu=gfx1151", "-mattr=+wavefrontsize32"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        // Each list is followed by an `s_sethalt` with its number.
        let (mut lines, mut found) = (Vec::new(), 0);
        for line in String::from_utf8(output.stdout).unwrap().lines().map(str::trim).filter(|l| !l.is_empty() && *l != ".text") {
            let number = line.strip_prefix("s_sethalt ").and_then(|n| match n.strip_prefix("0x") {
                Some(hex) => usize::from_str_radix(hex, 16).ok(),
                None => n.parse().ok(),
            });
            if number == Some(found) {
                found += 1;
                let first: Option<String> = lines.first().map(|l: &&str| (*l).to_string());
                // Integers with a sign modifier have no meaning.
                out.push(first.filter(|l| !l.contains("/*") && !l.contains("sext(")));
                lines.clear();
            } else {
                lines.push(line);
            }
        }
        assert_eq!(found, chunk.len());
    }
    out
}

/// Text without what differs in form only.
fn normal(text: &str) -> String {
    text.split("//").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn ours(isa: &'static Isa, words: &[u32]) -> Option<String> {
    decode(isa, 0, words).ok().map(|inst| inst.to_string())
}

fn has_llvm() -> bool {
    Command::new("llvm-mc-19").arg("--version").output().is_ok_and(|o| o.status.success())
}

#[test]
fn stored_texts_are_ours() {
    let isa = Isa::of(Level::detect());
    let text = include_str!("data/disassembly.txt");
    let mut count = 0;
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (hex, text) = line.split_once(' ').unwrap();
        let words: Vec<u32> = hex.split(',').map(|w| u32::from_str_radix(w, 16).unwrap()).collect();
        assert_eq!(ours(isa, &words).as_deref(), Some(text), "{hex}");
        count += 1;
    }
    assert!(count > 2000, "{count} instructions");
}

/// Every operation of the tables, with random fields, as LLVM prints it.
#[test]
fn fresh_texts_are_llvm_s() {
    if !has_llvm() {
        println!("SKIPPED: llvm-mc-19 is not installed (Debian: apt-get install llvm-19); the stored list was compared");
        return;
    }
    let rounds = common::rounds(20, 400);
    let (lists, _) = random_lists(rounds, common::seed());
    let expected = llvm(&lists);
    let isa = Isa::of(Level::detect());
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compared = 0;
    for (words, expected) in lists.iter().zip(&expected) {
        let Some(expected) = expected else { continue };
        let name = expected.split(' ').next().unwrap().to_string();
        match ours(isa, words) {
            Some(text) if normal(&text) == normal(expected) => compared += 1,
            None if LEFT_OUT.iter().any(|n| name.contains(n)) => {}
            other => wrong.entry(name).or_default().push(format!("{words:08x?} llvm `{expected}` ours `{}`", other.unwrap_or_default())),
        }
    }
    let shown: Vec<_> = wrong.iter().take(80).map(|(_, list)| format!("{} {}", list.len(), list[0])).collect();
    assert!(wrong.is_empty(), "{} names, {compared} equal\n{}", wrong.len(), shown.join("\n"));
    println!("{compared} instructions have LLVM's text");
    assert!(compared > 300 * rounds as usize, "{compared}");
}

fn random_lists(rounds: u32, seed: u64) -> (Vec<Vec<u32>>, Vec<Encoding>) {
    let mut random = Random(seed);
    let (mut lists, mut encodings) = (Vec::new(), Vec::new());
    for encoding in rdna::isa::ENCODINGS {
        let codes = match encoding {
            Encoding::Sop1 | Encoding::Vop1 | Encoding::Vopc | Encoding::Ds => 256,
            Encoding::Sop2 => 0x60,
            Encoding::Sopk => 0x1d,
            Encoding::Vop2 => 0x3e,
            Encoding::Vop3 => 0x400,
            Encoding::Vopd => 19,
            Encoding::Mubuf => return (lists, encodings),
            _ => 128,
        };
        for code in 0..codes {
            // `s_sethalt` marks the ends of lists.
            if encoding == Encoding::Sopp && code == 2 {
                continue;
            }
            for _ in 0..rounds {
                lists.push(words(encoding, code, &mut random));
                encodings.push(encoding);
            }
        }
    }
    (lists, encodings)
}

/// Writes the stored list anew: `cargo test -p rdna --test disassembly -- --ignored`.
#[test]
#[ignore = "writes tests/data/disassembly.txt with llvm-mc-19"]
fn write_stored_texts() {
    let (lists, _) = random_lists(40, 1);
    let texts = llvm(&lists);
    let isa = Isa::of(Level::detect());
    let mut per_name: BTreeMap<String, usize> = BTreeMap::new();
    let mut out = String::from(
        "# Words and text of instructions by llvm-mc-19 -mcpu=gfx1151; made by `cargo test -p rdna --test disassembly -- --ignored`.\n",
    );
    for (words, text) in lists.iter().zip(texts) {
        let (Some(text), Ok(inst)) = (text, decode(isa, 0, words)) else { continue };
        let count = per_name.entry(text.split(' ').next().unwrap().to_string()).or_default();
        *count += 1;
        if *count <= 3 {
            let words: Vec<_> = words[..usize::from(inst.words)].iter().map(|w| format!("{w:08x}")).collect();
            out.push_str(&format!("{} {}\n", words.join(","), normal(&text)));
        }
    }
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/disassembly.txt"), out).unwrap();
}
