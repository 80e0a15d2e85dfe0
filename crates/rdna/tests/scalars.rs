//! Scalar operations on random operands against `common::scalar`; branches, calls, the program counter and MODE by small programs.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{
    Random,
    harness::{Operands, Outcome, State, mode, run},
    oracle::format,
    scalar::{In, Out, scalar},
    soft::{F16, ROUNDS},
};
use rdna::isa::{Encoding, Isa, Level, Op, Ty};

/// Operands that are often small, at the ends of their range, or numbers near each other.
fn operand(r: &mut Random) -> u64 {
    let any = u64::from(r.word()) << 32 | u64::from(r.word());
    let edges =
        [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX, 1 << 63, 0x7fff, 0x8000, 0x7f80_0000, 0x7fc0_0000, 0x7c00, 0x3f80_0000];
    match r.below(6) {
        0 => edges[r.below(edges.len() as u32) as usize],
        1 => any & 0x7f_003f,
        2 => any & !0x7f80_0000 | u64::from(0x7c + r.below(8)) << 23,
        3 => any & !0x7c00 | u64::from(12 + r.below(7)) << 10,
        _ => any,
    }
}

/// `s_mov_b32 exec_lo, s28`, then the operation on s[20:21] and s[22:23] (or `k`) into s[24:25].
fn words(encoding: Encoding, op: &Op, k: u32) -> Vec<u32> {
    let code = u32::from(op.code);
    let operation = match encoding {
        Encoding::Sop1 => 0xbe80_0000 | 24 << 16 | code << 8 | 20,
        Encoding::Sop2 => 0x8000_0000 | code << 23 | 24 << 16 | 22 << 8 | 20,
        Encoding::Sopc => 0xbf00_0000 | code << 16 | 22 << 8 | 20,
        _ => 0xb000_0000 | code << 23 | 24 << 16 | k & 0xffff,
    };
    let mut words = vec![0xbe80_0000 | 126 << 16 | 28, operation];
    if has_literal(op) {
        words.push(k);
    }
    words
}

/// The literal or, where it is a term of a sum, the destination's old value.
fn addend(op: &Op, k: u32, old: u64, flush: bool) -> u64 {
    let value = if has_literal(op) { k.into() } else { old };
    match op.dst.and_then(format) {
        Some(f) if flush && op.name.contains("fma") => f.flush(value & ((1 << f.bits()) - 1)),
        _ => value,
    }
}

fn has_literal(op: &Op) -> bool {
    op.name.contains("fmamk") || op.name.contains("fmaak")
}

/// Whether a result is the expected one; any NaN is as good as another.
fn same(op: &Op, got: u64, want: u64) -> bool {
    let nan = op.dst.and_then(format).is_some_and(|f| f.is_nan(got & ((1 << f.bits()) - 1)) && f.is_nan(want));
    let half = |shift: u32| {
        let (g, w) = (got >> shift & 0xffff, want >> shift & 0xffff);
        g == w || F16.is_nan(g) && F16.is_nan(w)
    };
    nan || if op.name == "s_cvt_pk_rtz_f16_f32" { half(0) && half(16) } else { got == want }
}

/// Runs an operation on so many operands; gives how many had an oracle.
fn check(encoding: Encoding, op: &Op, count: u32, state: State, r: &mut Random) -> Result<u64, String> {
    let flush = state.mode >> 4 & 15 == 0;
    let mut tested = 0;
    // The constant is part of the instruction, so that it stays for a launch.
    for _ in 0..if encoding == Encoding::Sopk || has_literal(op) { 8 } else { 1 } {
        let k = operand(r) as u32;
        let operands: Vec<Operands> = (0..count * 32)
            .map(|_| Operands { a: operand(r), b: operand(r), c: operand(r), old: [operand(r) as u32, r.word(), 0, 0] })
            .collect();
        let outcomes = run(Level::detect(), &words(encoding, op, k), &operands, state);
        for (o, got) in operands.iter().zip(&outcomes).step_by(32) {
            let old = u64::from(o.old[0]) | u64::from(o.old[1]) << 32;
            let b = if encoding == Encoding::Sopk { i64::from(k as u16 as i16) as u64 } else { o.b };
            let flushed = |x: u64, ty: Option<&Ty>| match ty.copied().and_then(format) {
                Some(f) if flush => f.flush(x & ((1 << f.bits()) - 1)),
                _ => x,
            };
            let input = In {
                a: flushed(o.a, op.src.first()),
                b: flushed(b, op.src.get(1)),
                old: addend(op, k, old, flush),
                scc: state.scc,
                exec: o.c as u32,
                rounds: [ROUNDS[state.mode as usize & 3], ROUNDS[state.mode as usize >> 2 & 3]],
            };
            let Some(want) = scalar(op.name, &input) else { return Ok(0) };
            let result = u64::from(got.s[0]) | u64::from(got.s[1]) << 32;
            let wide = op.dst.is_some_and(|ty| ty.registers() == 2);
            let expected = match want.value {
                None => old,
                Some(value) if wide => value,
                Some(value) => flushed(value, op.dst.as_ref()) | old >> 32 << 32,
            };
            let low = if wide { u64::MAX } else { 0xffff_ffff };
            let equal = same(op, result & low, expected & low) && result & !low == expected & !low;
            let left = Out { value: want.value, scc: got.scc == 1, exec: got.exec };
            if !equal || left != want {
                return Err(format!(
                    "{} mode {:#x} scc {} k {k:#x} {o:x?}: got {result:#x} {left:x?}, want {expected:#x} {want:x?}",
                    op.name, state.mode, state.scc
                ));
            }
            tested += 1;
        }
    }
    Ok(tested)
}

fn operations() -> impl Iterator<Item = (Encoding, &'static Op)> {
    let isa = Isa::of(Level::detect());
    [Encoding::Sop1, Encoding::Sop2, Encoding::Sopc, Encoding::Sopk]
        .into_iter()
        .flat_map(move |encoding| isa.operations(encoding).map(move |op| (encoding, op)))
}

#[test]
fn results_scc_and_exec() {
    let count = common::rounds(60, 1_000);
    let (mut failures, mut tested, mut without) = (Vec::new(), 0, Vec::new());
    for (encoding, op) in operations().filter(|(_, op)| !common::coverage::by_programs(op.name)) {
        let mut r = Random(common::seed() ^ u64::from(op.code) << 32);
        let mut operands = 0;
        for scc in [false, true] {
            match check(encoding, op, count, State { scc, ..State::default() }, &mut r) {
                Ok(n) => operands += n,
                Err(why) => failures.push(why),
            }
        }
        tested += operands;
        if operands == 0 {
            without.push(op.name);
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(without.is_empty(), "no test executes these: {without:?}");
    println!("{tested} operands");
}

#[test]
fn rounding_and_subnormals() {
    let mut failures = Vec::new();
    let floats = operations().filter(|(_, op)| !common::coverage::by_programs(op.name));
    for (encoding, op) in floats.filter(|(_, op)| op.src.iter().chain(&op.dst).any(|&ty| format(ty).is_some())) {
        let mut r = Random(common::seed() ^ u64::from(op.code));
        for round in 0..16 {
            for denormals in [0, 15] {
                let state = State { mode: mode(round, denormals), ..State::default() };
                failures.extend(check(encoding, op, common::rounds(4, 400), state, &mut r).err());
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
}

/// Runs up to eight words on one set of operands and gives lane 0.
fn program(words: &[u32], o: Operands, state: State) -> Outcome {
    run(Level::detect(), words, &[o; 32], state)[0]
}

fn pair(outcome: &Outcome) -> u64 {
    u64::from(outcome.s[0]) | u64::from(outcome.s[1]) << 32
}

const GET_PC: u32 = 0xbe80_4700;
const SET_PC: u32 = 0xbe80_4800;
const SWAP_PC: u32 = 0xbe80_4900;
const MOV_VCC: u32 = 0xbe80_0000 | 106 << 16;
const ADD_12_TO_S24: u32 = 0x8000_0000 | 24 << 16 | 140 << 8 | 24;

#[test]
fn the_program_counter() {
    let o = Operands::default();
    // Twice the address of what follows.
    let got = program(&[GET_PC | 24 << 16, GET_PC | 106 << 16], o, State::default());
    assert_eq!(got.vcc, got.s[0] + 4);
    // s_call_b64 skips a word and leaves the address of that word.
    let got = program(&[0xba00_0000 | 24 << 16 | 1, MOV_VCC | 129, GET_PC | 106 << 16], o, State::default());
    assert_eq!(got.vcc, got.s[0] + 8);
    // s_setpc_b64 to the word after the one that is skipped.
    let got = program(&[GET_PC | 24 << 16, ADD_12_TO_S24, SET_PC | 24, MOV_VCC | 129], o, State { vcc: 77, ..State::default() });
    assert_eq!(got.vcc, 77);
    // s_swappc_b64 goes there and leaves where it came from.
    let got = program(
        &[GET_PC | 24 << 16, ADD_12_TO_S24, SWAP_PC | 24 << 16 | 24, MOV_VCC | 129, GET_PC | 106 << 16],
        o,
        State { vcc: 77, ..State::default() },
    );
    assert_eq!(got.vcc, got.s[0] + 8);
}

#[test]
fn branches() {
    // The condition in SCC, VCC or EXEC; a taken branch skips `s_mov_b32 s24, 1`.
    type Condition = fn(scc: bool, vcc: u32, exec: u32) -> bool;
    let conditions: [(u32, Condition); 7] = [
        (0x20, |_, _, _| true),
        (0x21, |scc, _, _| !scc),
        (0x22, |scc, _, _| scc),
        (0x23, |_, vcc, _| vcc == 0),
        (0x24, |_, vcc, _| vcc != 0),
        (0x25, |_, _, exec| exec == 0),
        (0x26, |_, _, exec| exec != 0),
    ];
    for (code, holds) in conditions {
        for (scc, vcc, exec) in [(false, 0, 0), (true, 0, 1), (false, 4, 0), (true, 1 << 31, 1 << 31)] {
            let words = [0xbe80_0000 | 126 << 16 | 28, 0xbf80_0000 | code << 16 | 1, 0xbe80_0000 | 24 << 16 | 129];
            let o = Operands { c: exec, old: [7; 4], ..Operands::default() };
            let got = program(&words, o, State { scc, vcc, ..State::default() });
            assert_eq!(got.s[0] == 7, holds(scc, vcc, exec as u32), "{code:#x} {scc} {vcc} {exec}");
        }
    }
    // Backwards: s24 counts down to 0, s25 counts the rounds.
    let words = [
        0x8000_0000 | 25 << 16 | 129 << 8 | 25,
        0x8000_0000 | 3 << 23 | 24 << 16 | 129 << 8 | 24,
        0xbf00_0000 | 7 << 16 | 128 << 8 | 24,
        0xbf80_0000 | 0x22 << 16 | 0xfffc,
    ];
    let got = program(&words, Operands { old: [9, 100, 0, 0], ..Operands::default() }, State::default());
    assert_eq!(got.s, [0, 109]);
}

#[test]
fn mode_register() {
    const GET_MODE: u32 = 0xb000_0000 | 0x11 << 23 | 24 << 16 | 31 << 11 | 1;
    let modes = |words: &[u32]| program(words, Operands { a: 0x15, ..Operands::default() }, State { mode: 0x3f0, ..State::default() }).s[0];
    assert_eq!(modes(&[GET_MODE]) & 0x3ff, 0x3f0);
    // s_round_mode, s_denorm_mode.
    assert_eq!(modes(&[0xbf91_0006, GET_MODE]) & 0x3ff, 0x3f6);
    assert_eq!(modes(&[0xbf92_0005, GET_MODE]) & 0x3ff, 0x350);
    // Five bits from bit 4 from s20; four bits from bit 0 from a literal.
    assert_eq!(modes(&[0xb000_0000 | 0x12 << 23 | 20 << 16 | 4 << 11 | 4 << 6 | 1, GET_MODE]) & 0x3ff, 0x350);
    assert_eq!(modes(&[0xb000_0000 | 0x13 << 23 | 3 << 11 | 1, 0x1a, GET_MODE]) & 0x3ff, 0x3fa);
    // A field of it: the denormal bits.
    assert_eq!(modes(&[0xb000_0000 | 0x11 << 23 | 24 << 16 | 3 << 11 | 4 << 6 | 1]), 15);
}

#[test]
fn registers_named_by_m0() {
    let o = |m0: u64| Operands { a: 0x1111_2222_3333_4444, b: 0x5555_6666_7777_8888, c: m0, old: [1, 2, 0, 0] };
    let run = |code: u32, dst: u32, m0| program(&[0xbe80_0000 | dst << 16 | code << 8 | 20], o(m0), State::default());
    assert_eq!(run(0x40, 24, 2).s, [0x7777_8888, 2]);
    assert_eq!(pair(&run(0x41, 24, 2)), 0x5555_6666_7777_8888);
    assert_eq!(run(0x42, 23, 2).s, [1, 0x3333_4444]);
    assert_eq!(pair(&run(0x43, 22, 2)), 0x1111_2222_3333_4444);
    assert_eq!(run(0x44, 23, 3 | 2 << 16).s, [1, 0x5555_6666]);
}

#[test]
fn the_clock_goes_forward() {
    // s_sendmsg_rtn_b64 s[24:25] and vcc, sendmsg(MSG_RTN_GET_REALTIME); s_sendmsg_rtn_b32 likewise.
    for code in [0x4c, 0x4d] {
        let got = program(
            &[0xbe80_0000 | 24 << 16 | code << 8 | 0x83, 0xbe80_0000 | 106 << 16 | code << 8 | 0x83],
            Operands::default(),
            State::default(),
        );
        assert!(got.vcc > got.s[0], "{got:?}");
    }
}

#[test]
fn hints_change_nothing() {
    let isa = Isa::of(Level::detect());
    let ends = ["s_setkill", "s_sethalt", "s_trap", "s_code_end", "s_endpgm", "s_barrier", "s_round_mode", "s_denorm_mode"];
    for op in isa.operations(Encoding::Sopp).filter(|op| !op.name.contains("branch") && !ends.contains(&op.name)) {
        let o = Operands { a: 5, b: 6, c: 7, old: [8, 9, 10, 11] };
        let got = program(&[0xbf80_0000 | u32::from(op.code) << 16 | 1], o, State { scc: true, vcc: 3, ..State::default() });
        assert_eq!(got, Outcome { v: [8, 9, 10, 11], s: [8, 9], vcc: 3, exec: u32::MAX, scc: 1 }, "{}", op.name);
    }
}

/// `s_load_*` of one to sixteen words, with offsets in the instruction and in an SGPR; then cache control, which changes nothing here.
#[test]
fn scalar_loads() {
    let mut r = Random(common::seed());
    let operands: Vec<Operands> = (0..32).map(|_| Operands { a: operand(&mut r), b: 8, ..Operands::default() }).collect();
    let words: Vec<u32> = operands.iter().flat_map(|o| [o.a as u32, (o.a >> 32) as u32]).collect();
    let isa = Isa::of(Level::detect());
    for op in isa.operations(Encoding::Smem) {
        let Some(registers) = op.dst.map(Ty::registers) else { continue };
        for i in 0..registers {
            for (soffset, added) in [(124, 0), (22, 2)] {
                // s[36:...] from s[4:5], the address of `a`; then its register i.
                let load = [0xf400_0000 | u32::from(op.code) << 18 | 36 << 6 | 2, soffset << 25 | 12];
                let code = [load[0], load[1], 0xbf89_0000, 0xbe80_0000 | 24 << 16 | (36 + i)];
                let got = run(Level::detect(), &code, &operands, State::default())[0];
                assert_eq!(got.s[0], words[(3 + added + i) as usize], "{} word {i}", op.name);
            }
        }
    }
    let hints =
        isa.operations(Encoding::Smem).filter(|op| op.dst.is_none()).map(|op| [0xf400_0000 | u32::from(op.code) << 18, 0xf800_0000]);
    let hints = hints.chain(isa.operations(Encoding::Mubuf).map(|op| [0xe000_0000 | u32::from(op.code) << 18, 0]));
    for words in hints {
        let got = program(&words, Operands { old: [8, 9, 10, 11], ..Operands::default() }, State { scc: true, vcc: 3, ..State::default() });
        assert_eq!(got, Outcome { v: [8, 9, 10, 11], s: [8, 9], vcc: 3, exec: u32::MAX, scc: 1 }, "{words:x?}");
    }
}

#[test]
fn what_has_no_meaning_here_is_refused() {
    for word in [0xbf81_0000u32, 0xbf82_0000, 0xbf9f_0000] {
        let ran = std::panic::catch_unwind(|| program(&[word], Operands::default(), State::default()));
        let why = *ran.unwrap_err().downcast::<String>().unwrap();
        assert!(why.contains("decoded but not executed"), "{why}");
    }
}
