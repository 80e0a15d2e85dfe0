//! A model of time: what a step would take on a device that nobody has timed here. Every figure that comes of it is *predicted*.
//!
//! A dispatch takes `packet + latency + max(bytes / rate, operations / peak)`. The constants are what others have measured on machines
//! with a Radeon 8060S, each named below with what was measured; [`calibration`] holds the model against other measurements of theirs.
//!
//! It is blind to: caches (a matrix that stays in the 32 MiB of MALL is read at more than twice the rate), clocks that fall with heat (the
//! same kernel was seen to lose up to 45 %), kernels that have too few waves to hide memory, bank conflicts, and what else uses the memory.

use crate::device::DispatchInfo;
use std::collections::BTreeMap;

/// What a device can do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Its architecture.
    pub name: &'static str,
    /// Seconds that a packet takes whatever it does.
    pub packet: f64,
    /// Seconds from a packet's first instruction to its last that are neither bandwidth nor arithmetic: filling and draining.
    pub latency: f64,
    /// Bytes per second of a matrix-vector product that streams its weights.
    pub streaming: f64,
    /// Multiplications and additions per second of `v_dot4_i32_iu8`.
    pub dots: f64,
    /// The same of WMMA with int8, as the blocked kernels reach it.
    pub matrices: f64,
    /// The same of f32.
    pub floats: f64,
}

/// The Radeon 8060S. Sources: the public experiment logs for gfx1151 that `ROOFLINE-gfx1151` and `opt-c178-attn` name.
pub const GFX1151: Machine = Machine {
    name: "gfx1151",
    // 1.75 to 1.9 µs for an AQL packet, whoever writes it.
    packet: 1.85e-6,
    // What is left of 4,800 dispatches a token at 18 to 27 tokens/s and 5.75 GB: (44 ms - 25 ms) / 4,800 - packet, rounded.
    latency: 2.1e-6,
    // 227 GB/s for Q4_K on a matrix of 256 MB, 212 to 226 in others' tests; 213 to 218 at two columns.
    streaming: 221e9,
    // Measured peak.
    dots: 28.3e12,
    // 55.2 T measured peak, of which per-32-block scales leave 57 %.
    matrices: 0.57 * 55.2e12,
    // Measured peak.
    floats: 27e12,
};

/// What bounds a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Reading and writing memory.
    Memory,
    /// Multiplying.
    Arithmetic,
    /// Being launched at all.
    Packet,
}

impl Bound {
    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Arithmetic => "arithmetic",
            Self::Packet => "packets",
        }
    }
}

impl Machine {
    /// Those that are known, by name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        (name == GFX1151.name).then_some(GFX1151)
    }

    /// Seconds that a dispatch takes, and what bounds it.
    #[must_use]
    pub fn time(&self, dispatch: &DispatchInfo) -> (f64, Bound) {
        let work = &dispatch.work;
        let memory = (work.weights + work.bytes) as f64 / self.streaming;
        let peak = match dispatch.kernel.rsplit_once('/') {
            Some(("floats" | "attention", _)) => self.floats,
            Some((_, "matmul")) => self.matrices,
            _ => self.dots,
        };
        let arithmetic = 2.0 * work.products as f64 / peak;
        let fixed = self.packet + self.latency;
        let bound = if fixed > memory.max(arithmetic) {
            Bound::Packet
        } else if arithmetic > memory {
            Bound::Arithmetic
        } else {
            Bound::Memory
        };
        (fixed + memory.max(arithmetic), bound)
    }
}

/// What a step would take.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Seconds.
    pub seconds: f64,
    /// Packets.
    pub packets: usize,
    /// Bytes of weights read.
    pub weights: usize,
    /// By op and what bounds it: packets and seconds.
    pub ops: BTreeMap<(&'static str, Bound), (usize, f64)>,
}

/// What a step of these dispatches would take.
#[must_use]
pub fn predict(machine: &Machine, dispatches: &[DispatchInfo]) -> Prediction {
    let mut p = Prediction { seconds: 0.0, packets: dispatches.len(), weights: 0, ops: BTreeMap::new() };
    for dispatch in dispatches {
        let (seconds, bound) = machine.time(dispatch);
        p.seconds += seconds;
        p.weights += dispatch.work.weights;
        let entry = p.ops.entry((dispatch.op, bound)).or_default();
        *entry = (entry.0 + 1, entry.1 + seconds);
    }
    p
}

/// A measurement that others have published, and what the model says of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// What was measured.
    pub what: &'static str,
    /// Their figure.
    pub measured: f64,
    /// The model's.
    pub predicted: f64,
    /// Of what.
    pub unit: &'static str,
}

impl Point {
    /// By how much the model is off, as a share of what was measured.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// The model against published measurements on such machines. The first two lie near what its constants were taken from; the others do not.
#[must_use]
pub fn calibration() -> Vec<Point> {
    let m = GFX1151;
    let fixed = m.packet + m.latency;
    let step = |bytes: f64, packets: f64| bytes / m.streaming + packets * fixed;
    let point = |what, measured, predicted, unit| Point { what, measured, predicted, unit };
    let gigabytes = |bytes: f64| bytes / step(bytes, 1.0) / 1e9;
    // 20.5 G multiplications a token: what the published bound of 1,338 tokens/s says at the peak of 55 T.
    let prompt = |tokens: f64| tokens / (tokens * 2.0 * 20.5e9 / m.matrices + 350.0 * fixed);
    vec![
        point("matrix-vector product, Q4_K, 256 MB", 227.0, gigabytes(256e6), "GB/s"),
        point("step of 4,800 dispatches that reads 5.75 GB", 22.5, 1.0 / step(5.75e9, 4800.0), "tokens/s"),
        point("matrix-vector product, 1 to 2 columns, 64 MB", 215.0, gigabytes(64e6), "GB/s"),
        point("27B Q4_K_S, 15.2 GB a token, one token after the other", 13.3, 1.0 / step(15.2e9, 350.0), "tokens/s"),
        point("27B, 3.85 rows at once in 111 ms", 1.0 / 0.111, 1.0 / step(15.2e9, 350.0), "steps/s"),
        point("27B W8A8, prompt", 550.0, prompt(512.0), "tokens/s"),
    ]
}
