//! Runs single instructions, or a few: `kernels/harness.s` with its operation replaced.

use rdna::{Arg, Checks, CodeObject, Device, Launch, Options, Stats, isa::Level};

const PLACE: u32 = 0xbf80_0abc;

/// Operands of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
    pub(crate) old: [u32; 4],
}

/// What an instruction left behind in a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) v: [u32; 4],
    pub(crate) s: [u32; 2],
    pub(crate) vcc: u32,
    pub(crate) exec: u32,
    pub(crate) scc: u32,
}

/// State that all lanes share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) mode: u32,
    pub(crate) scc: bool,
    pub(crate) vcc: u32,
}

impl Default for State {
    fn default() -> Self {
        Self { mode: 0x3f0, scc: false, vcc: 0x5a5a_1234 }
    }
}

/// MODE's usual value, with other rounding and denormal bits.
pub(crate) fn mode(round: u32, denormals: u32) -> u32 {
    0x300 | denormals << 4 | round
}

/// Runs instructions of up to eight words on operands, 32 of them a workgroup.
pub(crate) fn run(level: Level, words: &[u32], operands: &[Operands], state: State) -> Vec<Outcome> {
    let mut file = super::kernels::HARNESS.to_vec();
    let place = PLACE.to_le_bytes();
    let at = file.windows(4).position(|w| w == place).unwrap();
    for i in 0..8 {
        let word = words.get(i).copied().unwrap_or(0xbf80_0000);
        file[at + 4 * i..at + 4 * i + 4].copy_from_slice(&word.to_le_bytes());
    }
    let mut device = Device::new(Options { level, checks: Checks::NONE, ..Options::default() });
    let module = device.load(CodeObject::read(&file).unwrap()).unwrap();
    assert_eq!(operands.len() % 32, 0);
    let wide = |get: fn(&Operands) -> u64| operands.iter().flat_map(|o| get(o).to_le_bytes()).collect::<Vec<u8>>();
    let a = device.upload(&wide(|o| o.a), "a").unwrap();
    let b = device.upload(&wide(|o| o.b), "b").unwrap();
    let c = device.upload(&wide(|o| o.c), "c").unwrap();
    let old: Vec<u8> = operands.iter().flat_map(|o| o.old).flat_map(u32::to_le_bytes).collect();
    let old = device.upload(&old, "old").unwrap();
    let results = device.allocate(operands.len() as u64 * 36, "results").unwrap();
    let args = [
        Arg::Pointer(a),
        Arg::Pointer(b),
        Arg::Pointer(c),
        Arg::Pointer(old),
        Arg::Pointer(results),
        Arg::U32(state.mode),
        Arg::U32(state.scc.into()),
        Arg::U32(state.vcc),
    ];
    let launch = Launch { grid: [operands.len() as u32 / 32, 1, 1], block: [32, 1, 1], args: &args, dynamic_lds: 0 };
    let _: Stats = device.launch(&module, "harness", &launch).unwrap();
    let words = device.read_words(results, operands.len() * 9).unwrap();
    let outcome = |w: &[u32]| Outcome { v: [w[0], w[1], w[2], w[3]], s: [w[4], w[5]], vcc: w[6], exec: w[7], scc: w[8] };
    words.chunks_exact(9).map(outcome).collect()
}
