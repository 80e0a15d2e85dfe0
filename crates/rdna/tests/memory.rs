//! Each memory instruction alone: global, flat, local and private, against bytes and plain arithmetic.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{
    Random, kernels,
    soft::{F32, F64, Format},
};
use rdna::{
    Arg, CodeObject, Device, Launch, Options,
    isa::{Encoding, Isa, Level, Op},
};

const LANES: usize = 32;
const BLOCK: usize = 1024;

/// What an instruction works on, and what it left.
#[derive(Clone)]
struct Setting {
    block: Vec<u8>,
    data: [[u32; 4]; LANES],
    old: [[u32; 4]; LANES],
    offsets: [u32; LANES],
}

struct Outcome {
    global: Vec<u8>,
    local: Vec<u8>,
    private: Vec<u8>,
    v: Vec<[u32; 4]>,
}

fn run(words: &[u32], s: &Setting) -> Outcome {
    let mut file = kernels::MEMORY.to_vec();
    let place = 0xbf80_0abcu32.to_le_bytes();
    let at = file.windows(4).position(|w| w == place).unwrap();
    for i in 0..3 {
        let word = words.get(i).copied().unwrap_or(0xbf80_0000);
        file[at + 4 * i..at + 4 * i + 4].copy_from_slice(&word.to_le_bytes());
    }
    let mut device = Device::new(Options::default());
    let module = device.load(CodeObject::read(&file).unwrap()).unwrap();
    let bytes = |words: &[[u32; 4]]| words.iter().flatten().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let offsets: Vec<u8> = s.offsets.iter().flat_map(|w| w.to_le_bytes()).collect();
    let block = device.upload(&s.block, "block").unwrap();
    let operands = device.upload(&bytes(&s.data), "operands").unwrap();
    let old = device.upload(&bytes(&s.old), "old").unwrap();
    let results = device.allocate(512, "results").unwrap();
    let private = device.allocate(BLOCK as u64, "private").unwrap();
    let offsets = device.upload(&offsets, "offsets").unwrap();
    let local = device.allocate(BLOCK as u64, "local").unwrap();
    let args = [block, operands, old, results, private, offsets, local].map(Arg::Pointer);
    device.launch(&module, "memory", &Launch { grid: [1; 3], block: [32, 1, 1], args: &args, dynamic_lds: 0 }).unwrap();
    let read = |address| {
        let mut bytes = vec![0; BLOCK];
        device.read(address, &mut bytes).unwrap();
        bytes
    };
    let v = device.read_words(results, 128).unwrap().chunks_exact(4).map(|w| w.try_into().unwrap()).collect();
    Outcome { global: read(block), local: read(local), private: read(private), v }
}

/// Where an instruction reaches.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Space {
    Global,
    GlobalWithBase,
    Flat,
    FlatLocal,
    Local,
    Private,
}

/// Bytes of one access, sign, half of a register, and the like, by the parts of an operation's name.
struct Shape {
    bytes: usize,
    signed: bool,
    high: bool,
    low: bool,
}

fn shape(name: &str) -> Shape {
    let bits = |suffix: &str| name.split('_').any(|part| part == suffix);
    let bytes = if bits("u8") || bits("i8") || bits("b8") {
        1
    } else if bits("u16") || bits("i16") || bits("b16") {
        2
    } else if ["b64", "u64", "i64", "f64"].into_iter().any(bits) {
        8
    } else if bits("b96") {
        12
    } else if bits("b128") {
        16
    } else {
        4
    };
    Shape { bytes, signed: bits("i8") || bits("i16"), high: bits("hi"), low: bits("d16") && !bits("hi") }
}

fn value(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// The new value of an atomic by its name; compare-and-swap has the new value first.
fn updated(name: &str, bytes: usize, old: u64, a: u64, b: u64) -> u64 {
    let bits = 8 * bytes as u32;
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let signed = |x: u64| if bits == 64 { x as i64 } else { i64::from(x as i32) };
    let format: Format = if bits == 64 { F64 } else { F32 };
    let real = |x: u64| if bits == 64 { f64::from_bits(x) } else { f64::from(f32::from_bits(x as u32)) };
    let is = |what: &str| name.split('_').any(|part| part == what);
    let float = name.ends_with("f32") || name.ends_with("f64");
    let signed_type = name.ends_with("i32") || name.ends_with("i64");
    let new = if is("swap") || is("storexchg") {
        a
    } else if is("cmpswap") || is("cmpstore") {
        if if float { real(old) == real(b) } else { old == b } { a } else { old }
    } else if float && is("add") {
        let sum = f32::from_bits(old as u32) + f32::from_bits(a as u32);
        return if format.is_nan(u64::from(sum.to_bits())) { u64::MAX } else { sum.to_bits().into() };
    } else if float && is("min") {
        if real(a) < real(old) { a } else { old }
    } else if float {
        if real(a) > real(old) { a } else { old }
    } else if is("add") {
        old.wrapping_add(a)
    } else if is("sub") {
        old.wrapping_sub(a)
    } else if is("csub") {
        old.saturating_sub(a)
    } else if is("rsub") {
        a.wrapping_sub(old)
    } else if is("min") {
        if signed_type { signed(old).min(signed(a)) as u64 } else { old.min(a) }
    } else if is("max") {
        if signed_type { signed(old).max(signed(a)) as u64 } else { old.max(a) }
    } else if is("and") {
        old & a
    } else if is("or") {
        old | a
    } else if is("xor") {
        old ^ a
    } else if is("inc") {
        if old >= a { 0 } else { old + 1 }
    } else if is("dec") {
        if old == 0 || old > a { a } else { old - 1 }
    } else if is("mskor") {
        old & !a | b
    } else if is("wrap") {
        if old >= a { old - a } else { old.wrapping_add(b) }
    } else {
        panic!("{name} has no oracle")
    };
    new & mask
}

/// Runs an operation in a space and compares memory and registers with what its name says.
fn check(encoding: Encoding, op: &Op, space: Space, returns: bool, r: &mut Random) -> Result<(), String> {
    let name = op.name;
    let shape = shape(name);
    let store = name.contains("_store_");
    let atomic = !store && !name.contains("load");
    // Lanes have slots of 32 bytes, so that none meets another; atomics all meet in the first.
    let aligned = if atomic { shape.bytes as u32 } else { 1 };
    let slot = |r: &mut Random| r.below(33 - shape.bytes as u32) / aligned * aligned;
    let meeting = atomic && r.below(2) == 0;
    let mut s = Setting {
        block: (0..BLOCK).map(|_| r.word() as u8).collect(),
        data: std::array::from_fn(|_| std::array::from_fn(|_| if r.below(4) == 0 { r.below(3) } else { r.word() })),
        old: std::array::from_fn(|_| std::array::from_fn(|_| r.word())),
        offsets: std::array::from_fn(|l| if meeting { 0 } else { 32 * l as u32 + slot(r) }),
    };
    if space == Space::Private {
        // The harness masks the offset to 15: larger accesses start at the lane's beginning.
        s.offsets = std::array::from_fn(|l| 32 * l as u32 + slot(r).min(15));
    }
    let offset = 8 * r.below(2) as usize;
    let inst_offset = if s.offsets.iter().all(|&o| o as usize % 32 + offset + shape.bytes <= 32) { offset as u32 } else { 0 };
    let code = u32::from(op.code);
    let (dst, data) = (8u32, 4u32);
    let glc = if returns && encoding != Encoding::Ds { 1 << 14 } else { 0 };
    let words = match space {
        Space::Local => vec![0xd800_0000 | code << 18 | inst_offset, dst << 24 | (data + second(op)) << 16 | data << 8 | 2],
        Space::Private => vec![0xdc01_0000 | code << 18 | inst_offset, dst << 24 | 1 << 23 | 124 << 16 | data << 8 | 3],
        Space::Global => vec![0xdc02_0000 | code << 18 | glc | inst_offset, dst << 24 | 124 << 16 | data << 8 | 16],
        Space::GlobalWithBase => vec![0xdc02_0000 | code << 18 | glc | inst_offset, dst << 24 | 12 << 16 | data << 8 | 2],
        Space::Flat => vec![0xdc00_0000 | code << 18 | glc | inst_offset, dst << 24 | 124 << 16 | data << 8 | 16],
        Space::FlatLocal => vec![0xdc00_0000 | code << 18 | glc | inst_offset, dst << 24 | 124 << 16 | data << 8 | 18],
    };
    let got = run(&words, &s);
    let mut memory = s.block.clone();
    let mut v = s.old;
    for (l, v) in v.iter_mut().enumerate() {
        let at = s.offsets[l] as usize + inst_offset as usize;
        let place = at..at + shape.bytes;
        if store {
            let data: Vec<u8> = s.data[l].iter().flat_map(|w| w.to_le_bytes()).collect();
            let from = if shape.high { 2 } else { 0 };
            memory[place].copy_from_slice(&data[from..from + shape.bytes]);
        } else if atomic {
            let operand = |i: usize| match shape.bytes {
                4 => s.data[l][i].into(),
                _ => u64::from(s.data[l][2 * i]) | u64::from(s.data[l][2 * i + 1]) << 32,
            };
            let old = value(&memory[place.clone()]);
            let mut new = updated(name, shape.bytes, old, operand(0), operand(1));
            if new == u64::MAX && name.contains("f32") {
                // A NaN: whatever the result has there.
                return Ok(());
            }
            if returns {
                v[0] = old as u32;
                if shape.bytes == 8 {
                    v[1] = (old >> 32) as u32;
                }
            }
            for byte in &mut memory[place] {
                *byte = new as u8;
                new >>= 8;
            }
        } else if shape.bytes >= 4 {
            for (word, bytes) in v.iter_mut().zip(memory[place].chunks(4)) {
                *word = value(bytes) as u32;
            }
        } else {
            let raw = value(&memory[place]) as u32;
            let shift = 32 - 8 * shape.bytes as u32;
            let extended = if shape.signed { ((raw << shift) as i32 >> shift) as u32 } else { raw };
            v[0] = match (shape.high, shape.low) {
                (true, _) => v[0] & 0xffff | extended << 16,
                (_, true) => v[0] & 0xffff_0000 | extended & 0xffff,
                _ => extended,
            };
        }
    }
    let memories = [
        (&got.global, [Space::Global, Space::GlobalWithBase, Space::Flat].contains(&space)),
        (&got.local, [Space::Local, Space::FlatLocal].contains(&space)),
        (&got.private, space == Space::Private),
    ];
    for (bytes, touched) in memories {
        let want = if touched { &memory } else { &s.block };
        if let Some(at) = (0..BLOCK).find(|&i| bytes[i] != want[i]) {
            return Err(format!("{name} {space:?} {words:08x?}: byte {at} is {:#x}, want {:#x}", bytes[at], want[at]));
        }
    }
    match (0..LANES).find(|&l| got.v[l] != v[l]) {
        Some(l) => Err(format!("{name} {space:?} {words:08x?}: lane {l} has {:x?}, want {:x?}", got.v[l], v[l])),
        None => Ok(()),
    }
}

/// Registers of a DS operation's first operand.
fn second(op: &Op) -> u32 {
    op.src.first().map_or(1, |ty| ty.registers())
}

/// Operations that are tested elsewhere in this file.
fn has_its_own_test(name: &str) -> bool {
    ["2addr", "addtid", "swizzle", "permute", "append", "consume", "condxchg", "ds_nop"].iter().any(|part| name.contains(part))
}

#[test]
fn loads_stores_and_atomics() {
    let isa = Isa::of(Level::detect());
    let spaces: [(Encoding, &[Space]); 4] = [
        (Encoding::Global, &[Space::Global, Space::GlobalWithBase]),
        (Encoding::Flat, &[Space::Flat, Space::FlatLocal]),
        (Encoding::Scratch, &[Space::Private]),
        (Encoding::Ds, &[Space::Local]),
    ];
    let (mut failures, mut tested) = (Vec::new(), 0);
    for (encoding, spaces) in spaces {
        for op in isa.operations(encoding).filter(|op| !has_its_own_test(op.name)) {
            let mut r = Random(common::seed() ^ u64::from(op.code));
            for &space in spaces {
                for _ in 0..common::rounds(4, 300) {
                    let returns = if encoding == Encoding::Ds { op.dst.is_some() } else { !op.name.contains("store") && r.below(2) == 0 };
                    let returns = returns || op.name.contains("load");
                    if let Err(why) = check(encoding, op, space, returns, &mut r) {
                        failures.push(why);
                        break;
                    }
                    tested += 1;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    println!("{tested} accesses of 32 lanes");
}

fn setting(r: &mut Random) -> Setting {
    Setting {
        block: (0..BLOCK).map(|_| r.word() as u8).collect(),
        data: std::array::from_fn(|_| std::array::from_fn(|_| r.word())),
        old: std::array::from_fn(|_| std::array::from_fn(|_| r.word())),
        offsets: std::array::from_fn(|l| 16 * l as u32),
    }
}

fn word(block: &[u8], at: usize) -> u32 {
    value(&block[at..at + 4]) as u32
}

/// Two elements, at offsets counted in elements or in 64 of them.
#[test]
fn pairs_of_local_accesses() {
    let mut r = Random(common::seed());
    let isa = Isa::of(Level::detect());
    for op in isa.operations(Encoding::Ds).filter(|op| op.name.contains("2addr")) {
        let mut s = setting(&mut r);
        let size = if op.name.ends_with("b64") { 8 } else { 4 };
        let strided = op.name.contains("stride64");
        if strided {
            s.offsets = std::array::from_fn(|l| (size * l) as u32);
        }
        let (first, second_) = if strided { (0, 1) } else { (1, 0) };
        let distance = if strided { 64 } else { 1 };
        let code = u32::from(op.code);
        let data1 = 4 + second(op);
        let words = [0xd800_0000 | code << 18 | second_ << 8 | first, 8 << 24 | data1 << 16 | 4 << 8 | 2];
        let got = run(&words, &s);
        let mut memory = s.block.clone();
        let count = size / 4;
        for l in 0..LANES {
            for (which, element) in [first, second_].into_iter().enumerate() {
                let at = s.offsets[l] as usize + element as usize * size * distance;
                for i in 0..count {
                    let old = word(&memory, at + 4 * i);
                    if !op.name.contains("store_") {
                        assert_eq!(got.v[l][which * count + i], old, "{} lane {l}", op.name);
                    }
                    if !op.name.contains("load") {
                        let data = s.data[l][which * count + i];
                        memory[at + 4 * i..at + 4 * i + 4].copy_from_slice(&data.to_le_bytes());
                    }
                }
            }
        }
        assert_eq!(got.local, memory, "{}", op.name);
    }
}

#[test]
fn exchanges_between_lanes() {
    let mut r = Random(common::seed());
    let isa = Isa::of(Level::detect());
    let code = |name: &str| u32::from(isa.operations(Encoding::Ds).find(|op| op.name == name).unwrap().code);
    for _ in 0..common::rounds(50, 2000) {
        let mut s = setting(&mut r);
        s.offsets = std::array::from_fn(|_| 4 * r.below(100));
        let inst = |name: &str, offset: u32| [0xd800_0000 | code(name) << 18 | offset, 8 << 24 | 4 << 8 | 2];
        let target = |l: usize| (s.offsets[l] / 4 % 32) as usize;
        let got = run(&inst("ds_bpermute_b32", 0), &s);
        assert!((0..LANES).all(|l| got.v[l][0] == s.data[target(l)][0]));
        let got = run(&inst("ds_permute_b32", 0), &s);
        for l in 0..LANES {
            let from = (0..LANES).rev().find(|&k| target(k) == l);
            assert_eq!(got.v[l][0], from.map_or(0, |k| s.data[k][0]));
        }
        // Swizzles read v2 itself: masks, quads, rotation.
        let (and, or, xor) = (r.below(32), r.below(32), r.below(32));
        let got = run(&inst("ds_swizzle_b32", and | or << 5 | xor << 10), &s);
        assert!((0..LANES as u32).all(|l| got.v[l as usize][0] == s.offsets[((l & and | or) ^ xor) as usize]));
        let quad: [u32; 4] = std::array::from_fn(|_| r.below(4));
        let pattern = 0x8000 | quad[0] | quad[1] << 2 | quad[2] << 4 | quad[3] << 6;
        let got = run(&inst("ds_swizzle_b32", pattern), &s);
        assert!((0..LANES).all(|l| got.v[l][0] == s.offsets[l / 4 * 4 + quad[l % 4] as usize]));
    }
}

#[test]
fn accesses_by_lane_number_and_counts() {
    let mut r = Random(common::seed());
    let s = setting(&mut r);
    // ds_load_addtid_b32 and ds_store_addtid_b32 (M0 is 0).
    let got = run(&[0xd800_0000 | 0xb1 << 18 | 16, 8 << 24], &s);
    assert!((0..LANES).all(|l| got.v[l][0] == word(&s.block, 16 + 4 * l)));
    let got = run(&[0xd800_0000 | 0xb0 << 18 | 32, 4 << 8], &s);
    assert!((0..LANES).all(|l| word(&got.local, 32 + 4 * l) == s.data[l][0]));
    // global_load_addtid_b32, global_store_addtid_b32 with s[12:13].
    let got = run(&[0xdc02_0000 | 0x28 << 18 | 8, 8 << 24 | 12 << 16], &s);
    assert!((0..LANES).all(|l| got.v[l][0] == word(&s.block, 8 + 4 * l)));
    let got = run(&[0xdc02_0000 | 0x29 << 18 | 8, 12 << 16 | 4 << 8], &s);
    assert!((0..LANES).all(|l| word(&got.global, 8 + 4 * l) == s.data[l][0]));
    // ds_append adds the count of active lanes, ds_consume takes it off.
    for (code, sign) in [(0x3e, 32u32), (0x3d, 32u32.wrapping_neg())] {
        let got = run(&[0xd800_0000 | code << 18 | 4, 8 << 24], &s);
        let old = word(&s.block, 4);
        assert!((0..LANES).all(|l| got.v[l][0] == old));
        assert_eq!(word(&got.local, 4), old.wrapping_add(sign));
    }
    // ds_condxchg32_rtn_b64 stores halves whose top bit is set, without it.
    let got = run(&[0xd800_0000 | 0x7e << 18, 8 << 24 | 4 << 8 | 2], &s);
    for l in 0..LANES {
        for half in 0..2 {
            let at = 16 * l + 4 * half;
            assert_eq!(got.v[l][half], word(&s.block, at));
            let data = s.data[l][half];
            assert_eq!(word(&got.local, at), if data >> 31 == 1 { data & 0x7fff_ffff } else { word(&s.block, at) });
        }
    }
}
