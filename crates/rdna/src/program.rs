//! A kernel's code, decoded once.

use crate::{
    code_object::{CodeObject, Kernel},
    decode::{self, Inst, Undecodable},
    exec::{Step, step_of},
    fault::LoadError,
    isa::{Encoding, Isa, Op, Run},
    uses::Uses,
};
use std::sync::Arc;

/// An instruction with the function that executes it.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) step: Step,
    pub(crate) inst: Inst,
    pub(crate) uses: Uses,
}

/// The decoded functions of a code object.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) kernel: String,
    /// Device address of the code object's address 0.
    pub(crate) base: u64,
    pub(crate) codes: Vec<Code>,
    /// First address of the decoded range, and for each word the index of the instruction that starts there.
    first: u64,
    starts: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Program {
    /// Decodes the executable segment that holds the kernel. What is no instruction becomes one that faults when it is reached.
    pub(crate) fn new(object: &CodeObject, kernel: &Kernel, base: u64, isa: &'static Isa) -> Result<Self, LoadError> {
        let segment =
            object.segments.iter().find(|s| s.executable && kernel.entry >= s.address && kernel.entry - s.address < s.bytes.len() as u64);
        let segment = segment.ok_or_else(|| LoadError::Malformed(format!("kernel {} is in no executable segment", kernel.name)))?;
        let words: Vec<u32> = segment.bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        let mut starts = vec![NONE; words.len()];
        let mut codes = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let pc = segment.address + 4 * at as u64;
            let inst = decode::decode(isa, pc, &words[at..]).unwrap_or_else(|why| undecodable(pc, words[at], why));
            starts[at] = codes.len() as u32;
            at += usize::from(inst.words);
            codes.push(Code { step: step_of(&isa.steps, &inst), uses: Uses::of(&inst), inst });
        }
        Ok(Self { kernel: kernel.name.clone(), base, codes, first: segment.address, starts })
    }

    /// The instruction at an address of the code object.
    pub(crate) fn index_of(&self, pc: u64) -> Option<usize> {
        let word = pc.checked_sub(self.first).filter(|at| at % 4 == 0)? / 4;
        self.starts.get(usize::try_from(word).ok()?).filter(|&&i| i != NONE).map(|&i| i as usize)
    }
}

/// Stands for words that are no instruction.
fn undecodable(pc: u64, word: u32, why: Undecodable) -> Inst {
    static UNKNOWN: Op =
        Op { code: 0, name: "unknown", dst: None, src: Vec::new(), flags: 0, run: Run::Step(crate::exec::flow::unsupported) };
    let mut inst = Inst::unknown(pc, &UNKNOWN);
    inst.literal = word;
    inst.name = if why == Undecodable::Truncated { "<cut off>" } else { "<unknown>" };
    inst
}

/// The instructions of a code object's functions as text: address, words, text.
#[must_use]
pub fn disassemble(object: &CodeObject, isa: &'static Isa) -> Vec<(String, Vec<(u64, Vec<u32>, String)>)> {
    let mut out = Vec::new();
    for (name, address, size) in object.functions() {
        let Ok(bytes) = object.mapped(address, size, name) else { continue };
        let words: Vec<u32> = bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        let (mut lines, mut at) = (Vec::new(), 0);
        while at < words.len() {
            let pc = address + 4 * at as u64;
            let (count, text) = match decode::decode(isa, pc, &words[at..]) {
                Ok(inst) => (usize::from(inst.words), inst.to_string()),
                Err(_) => (1, format!("<unknown {:#010x}>", words[at])),
            };
            lines.push((pc, words[at..(at + count).min(words.len())].to_vec(), text));
            at += count;
        }
        out.push((name.to_string(), lines));
    }
    out
}

/// The class that statistics count an instruction under.
pub(crate) fn class(inst: &Inst) -> &'static str {
    use crate::isa::flag;
    let op = inst.op;
    match inst.encoding {
        _ if op.is(flag::MATRIX) => "matrix",
        _ if op.is(flag::DOT) => "dot",
        _ if op.is(flag::BRANCH) => "branch",
        Encoding::Sopp if op.name == "s_barrier" => "barrier",
        Encoding::Sopp => "wait_or_hint",
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc => "scalar",
        Encoding::Sopk if op.name.starts_with("s_waitcnt") => "wait_or_hint",
        Encoding::Sopk => "scalar",
        Encoding::Smem if op.dst.is_none() => "wait_or_hint",
        Encoding::Smem => "scalar_load",
        Encoding::Ds => match op.run {
            Run::Memory(_) => "local",
            _ => "lane_exchange",
        },
        Encoding::Flat | Encoding::Global => "global",
        Encoding::Scratch => "scratch",
        Encoding::Mubuf => "wait_or_hint",
        _ if is_transcendental(op.name) => "transcendental",
        _ => "vector",
    }
}

/// Operations that run at a quarter of the rate.
fn is_transcendental(name: &str) -> bool {
    ["v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"].iter().any(|start| name.starts_with(start))
}

/// Shares a program between threads.
pub(crate) type Shared = Arc<Program>;
