//! Holds a device against expected values, in all the ways in which an engine feeds a model.
//!
//! ```no_run
//! # use onebit_reference::{Reference, check::{self, Expected}};
//! # fn model() -> onebit_plan::Model { unimplemented!() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = check::folder("llama").ok_or("no fixtures here")?;
//! let report = check::fixture(&Reference, model(), &Expected::open(&folder)?, &check::limits())?;
//! report.hold(check::BAR)?;
//! # Ok(()) }
//! ```

use onebit_formats::{Checkpoint, Error};
use onebit_plan::{ActivationKind, Batch, Device, DeviceError, Executable, Inputs, KvType, Limits, Model, Span};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The largest difference from the expected logits that exact arithmetic may show, in standard deviations of the logits.
pub const BAR: f64 = 2e-4;

/// Limits that make small models use their caches in earnest: pages of few tokens, keys and values in f32, exact arithmetic.
pub fn limits() -> Limits {
    Limits { batch: 64, outputs: 64, page: 8, pages: 24, slots: 3, kv: KvType::F32, activations: ActivationKind::F32 }
}

/// The folder of the fixture `name`: where `ONEBIT_SHARED` says, copied into the crate `models`, or in the shared folder beside
/// the repository. Where there is none, says so on stderr, for the test to end.
pub fn folder(name: &str) -> Option<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let given = std::env::var_os("ONEBIT_SHARED").map(|p| PathBuf::from(p).join("fixtures/data"));
    let places = [crates.join("models/tests/data"), crates.join("../../shared/fixtures/data")];
    // Some names have dashes, which a name in Rust cannot have.
    let names = [name.to_string(), name.replace('_', "-")];
    let folders = given.iter().chain(&places).flat_map(|p| names.iter().map(|name| p.join(name)));
    let found = { folders }.find(|p| p.join("expected.safetensors").is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no fixture `{name}`; set ONEBIT_SHARED to the folder that holds fixtures/data");
    }
    found
}

/// What another implementation computed for a model.
#[derive(Clone, Debug)]
pub struct Expected {
    /// A prompt of a few tokens.
    pub short: Vec<u32>,
    /// Its logits, `[tokens, vocabulary]`.
    pub short_logits: Vec<f32>,
    /// A longer prompt.
    pub long: Vec<u32>,
    /// Its logits.
    pub long_logits: Vec<f32>,
    /// The most likely continuation of the short prompt.
    pub greedy: Vec<u32>,
    /// By how much each of its tokens was ahead of the next best.
    pub margin: Vec<f32>,
    /// Where the model has an encoder, what that reads before it makes the logits of the long prompt and of the short one.
    pub sources: Option<[Vec<u32>; 2]>,
}

impl Expected {
    /// Reads `expected.safetensors` in `folder`.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("expected.safetensors");
        let file = Checkpoint::open(&path)?;
        let numbers = |name: &str| file.tensor(name).map(|t| t.to_f32()).ok_or_else(|| Error::invalid(&path, format!("has no `{name}`")));
        let ids = |name: &str| Ok::<_, Error>(numbers(name)?.iter().map(|x| *x as u32).collect());
        Ok(Self {
            short: ids("ids_short")?,
            short_logits: numbers("logits_short")?,
            long: ids("ids_long")?,
            long_logits: numbers("logits_long")?,
            greedy: ids("greedy")?,
            margin: numbers("greedy_margin")?,
            sources: ids("source_long").ok().zip(ids("source_short").ok()).map(|(long, short)| [long, short]),
        })
    }

    /// Standard deviation of the long prompt's logits, in which differences are measured.
    pub fn deviation(&self) -> f64 {
        deviation(&self.long_logits)
    }
}

/// What another implementation computed for an encoder.
#[derive(Clone, Debug)]
pub struct ExpectedStates {
    /// A text.
    pub tokens: Vec<u32>,
    /// Its last hidden states, `[tokens, width]`.
    pub hidden: Vec<f32>,
    /// Their mean.
    pub embedding: Vec<f32>,
}

impl ExpectedStates {
    /// Reads `expected.safetensors` in `folder`.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("expected.safetensors");
        let file = Checkpoint::open(&path)?;
        let numbers = |name: &str| file.tensor(name).map(|t| t.to_f32()).ok_or_else(|| Error::invalid(&path, format!("has no `{name}`")));
        let tokens = numbers("ids_long")?.iter().map(|x| *x as u32).collect();
        Ok(Self { tokens, hidden: numbers("hidden")?, embedding: numbers("embedding")? })
    }

    /// Standard deviation of the states, in which differences are measured.
    pub fn deviation(&self) -> f64 {
        deviation(&self.hidden)
    }
}

/// Runs an encoder on `device`: the text alone, its last rows only, and in a batch behind and before a shorter text, whose states must not
/// change by it. The bar is for the largest difference in standard deviations of the states.
pub fn encoder(device: &dyn Device, model: Model, expected: &ExpectedStates, limits: &Limits) -> Result<Report, DeviceError> {
    let mut exe = device.load(model, limits, &mut |_| {})?;
    let exe = exe.as_mut();
    let (long, width) = (&expected.tokens[..], exe.width());
    let short = &long[..long.len() / 3];
    let first = || Sequence::new(limits, 0);
    let second = || Sequence::new(limits, 1);
    let whole = feed(exe, &mut [(&mut first(), long, long.len())])?;
    let alone = feed(exe, &mut [(&mut second(), short, short.len())])?;
    let last = feed(exe, &mut [(&mut first(), long, 2)])?;
    let behind = feed(exe, &mut [(&mut second(), short, short.len()), (&mut first(), long, long.len())])?;
    let before = feed(exe, &mut [(&mut first(), long, long.len()), (&mut second(), short, short.len())])?;
    let (short_first, long_last) = behind.split_at(alone.len());
    let (long_first, short_last) = before.split_at(whole.len());
    let deviation = expected.deviation();
    let case = |name: &str, found: &[f32], wanted: &[f32], same: &[f32]| Case {
        name: name.into(),
        worst: difference(found, wanted) / deviation,
        identical: found.iter().map(|x| x.to_bits()).eq(same.iter().map(|x| x.to_bits())),
    };
    let tail = (long.len() - 2) * width;
    let mean: Vec<f32> = (0..width).map(|i| whole.iter().skip(i).step_by(width).sum::<f32>() / long.len() as f32).collect();
    let cases = vec![
        case("whole", &whole, &expected.hidden, &whole),
        case("last states only", &last, &expected.hidden[tail..], &whole[tail..]),
        case("behind another", long_last, &expected.hidden, &whole),
        case("before another", long_first, &expected.hidden, &whole),
        case("the other, first", short_first, &alone, &alone),
        case("the other, last", short_last, &alone, &alone),
        case("mean", &mean, &expected.embedding, &mean),
    ];
    Ok(Report { cases, greedy: None })
}

/// The largest difference; infinite where a number is none, or there are more or fewer.
pub fn difference(found: &[f32], wanted: &[f32]) -> f64 {
    let off = |(a, b): (&f32, &f32)| if a.is_finite() { f64::from((a - b).abs()) } else { f64::INFINITY };
    let start = if found.len() == wanted.len() { 0.0 } else { f64::INFINITY };
    found.iter().zip(wanted).map(off).fold(start, f64::max)
}

fn deviation(values: &[f32]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    (values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// One way of feeding, and what came of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The way.
    pub name: String,
    /// Largest difference from the expected logits, in their standard deviations; infinite where a logit is not a number.
    pub worst: f64,
    /// Whether all bits are those of the whole prompt fed in one step.
    pub identical: bool,
}

/// What [`fixture`] found.
#[derive(Clone, Debug)]
pub struct Report {
    /// All ways of feeding.
    pub cases: Vec<Case>,
    /// The first token of the greedy continuation that differs although its margin exceeded twice the bar: index and token.
    pub greedy: Option<(usize, u32)>,
}

impl Report {
    /// The largest difference of all cases.
    pub fn worst(&self) -> f64 {
        self.cases.iter().map(|c| c.worst).fold(0.0, f64::max)
    }

    /// An error that shows the report where a case differs by more than `bar`, or the greedy continuation does.
    pub fn hold(&self, bar: f64) -> Result<(), String> {
        if self.worst() <= bar && self.greedy.is_none() { Ok(()) } else { Err(format!("not within {bar:.1e}:\n{self}")) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            writeln!(f, "{:24} {:.1e}{}", case.name, case.worst, if case.identical { " identical" } else { "" })?;
        }
        match self.greedy {
            Some((i, token)) => writeln!(f, "greedy token {i} is {token}"),
            None => writeln!(f, "greedy continuation agrees"),
        }
    }
}

/// A sequence under test: its pages (out of order, and never those of the other sequence), its slot, and how far it is.
struct Sequence {
    pages: Vec<u32>,
    slot: u32,
    len: usize,
    /// Tokens of the source that was read for it.
    source: u32,
}

impl Sequence {
    fn new(limits: &Limits, slot: u32) -> Self {
        let pages = (0..limits.pages as u32).filter(|p| p % 2 == slot % 2).rev().collect();
        Self { pages, slot, len: 0, source: 0 }
    }

    fn span(&self, len: usize, outputs: usize) -> Span<'_> {
        Span { len, start: self.len, pages: &self.pages, slot: self.slot, outputs }
    }
}

/// Has the sources of sequences read, all in one batch.
fn encode(exe: &mut dyn Executable, parts: &mut [(&mut Sequence, &[u32])]) -> Result<(), DeviceError> {
    let tokens: Vec<u32> = parts.iter().flat_map(|(_, source)| source.iter().copied()).collect();
    let spans: Vec<Span<'_>> = parts.iter().map(|(sequence, source)| sequence.span(source.len(), 0)).collect();
    exe.encode(&Batch::text(&tokens, &spans))?;
    parts.iter_mut().for_each(|(sequence, source)| sequence.source = source.len() as u32);
    Ok(())
}

/// Appends tokens to sequences in one step; the logits of the last `outputs` of each, sequence by sequence.
fn feed(exe: &mut dyn Executable, parts: &mut [(&mut Sequence, &[u32], usize)]) -> Result<Vec<f32>, DeviceError> {
    let tokens: Vec<u32> = parts.iter().flat_map(|(_, tokens, _)| tokens.iter().copied()).collect();
    let spans: Vec<Span<'_>> = parts.iter().map(|(s, tokens, outputs)| s.span(tokens.len(), *outputs)).collect();
    let sources: Vec<u32> = parts.iter().map(|(s, ..)| s.source).filter(|tokens| *tokens > 0).collect();
    let inputs = Inputs { sources: &sources, ..Inputs::default() };
    let logits = exe.step(&Batch { inputs, ..Batch::text(&tokens, &spans) })?.to_vec();
    for (sequence, tokens, _) in parts {
        sequence.len += tokens.len();
    }
    Ok(logits)
}

/// Appends tokens in chunks; the logits of all of them.
fn feed_chunks(exe: &mut dyn Executable, sequence: &mut Sequence, tokens: &[u32], chunk: usize) -> Result<Vec<f32>, DeviceError> {
    let mut logits = vec![];
    for part in tokens.chunks(chunk) {
        logits.extend(feed(exe, &mut [(sequence, part, part.len())])?);
    }
    Ok(logits)
}

/// Collects cases against the expected logits and those of the first case.
struct Recorder<'a> {
    expected: &'a Expected,
    vocabulary: usize,
    whole: Vec<f32>,
    cases: Vec<Case>,
}

impl Recorder<'_> {
    /// Adds a case: the logits of the tokens from `first` on, of the long or the short prompt.
    fn add(&mut self, name: impl Into<String>, long: bool, first: usize, logits: &[f32]) {
        let expected = if long { &self.expected.long_logits } else { &self.expected.short_logits };
        let skip = first * self.vocabulary;
        let worst = difference(logits, &expected[skip..]);
        if self.cases.is_empty() {
            self.whole = logits.to_vec();
        }
        let identical = long && self.whole.iter().skip(skip).map(|x| x.to_bits()).eq(logits.iter().map(|x| x.to_bits()));
        self.cases.push(Case { name: name.into(), worst: worst / self.expected.deviation(), identical });
    }
}

/// Runs `model` on `device` in every way: whole, in chunks of 1, 3 and 16, two sequences of different lengths in one batch,
/// with the last logits only, after a snapshot and the way back, after a fork, and greedily.
///
/// `limits` must have room for the long prompt in one step and, twice, in the pages, and three slots: see [`limits`].
pub fn fixture(device: &dyn Device, model: Model, expected: &Expected, limits: &Limits) -> Result<Report, DeviceError> {
    let mut exe = device.load(model, limits, &mut |_| {})?;
    let exe = exe.as_mut();
    let mut record = Recorder { expected, vocabulary: exe.vocabulary(), whole: vec![], cases: vec![] };
    let (long, short) = (&expected.long[..], &expected.short[..]);
    // A sequence in place 0 or 1, its source read: that of the long prompt or of the short one.
    let read = |exe: &mut dyn Executable, place: u32, which: usize| {
        let mut sequence = Sequence::new(limits, place);
        if let Some(sources) = &expected.sources {
            encode(exe, &mut [(&mut sequence, &sources[which])])?;
        }
        Ok::<_, DeviceError>(sequence)
    };
    let (of_long, of_short) = (0, 1);

    let mut sequence = read(exe, 0, of_long)?;
    record.add("whole", true, 0, &feed_chunks(exe, &mut sequence, long, long.len())?);
    let mut sequence = read(exe, 1, of_short)?;
    record.add("whole, short", false, 0, &feed_chunks(exe, &mut sequence, short, short.len())?);
    for chunk in [1, 3, 16] {
        let mut sequence = read(exe, 0, of_long)?;
        record.add(format!("chunks of {chunk}"), true, 0, &feed_chunks(exe, &mut sequence, long, chunk)?);
    }
    let mut sequence = read(exe, 0, of_long)?;
    record.add("last logits only", true, long.len() - 2, &feed(exe, &mut [(&mut sequence, long, 2)])?);

    let (mut a, mut b) = (Sequence::new(limits, 0), Sequence::new(limits, 1));
    if let Some([long, short]) = &expected.sources {
        encode(exe, &mut [(&mut b, short), (&mut a, long)])?;
    }
    let (logits, short_logits) = two_sequences(exe, [&mut a, &mut b], [long, short])?;
    record.add("two sequences", true, 0, &logits);
    record.add("two sequences, short", false, 0, &short_logits);

    let (now, rest) = long.split_at(long.len() / 2);
    let mut sequence = read(exe, 0, of_long)?;
    feed_chunks(exe, &mut sequence, now, 16)?;
    exe.copy_slots(&[(0, 2)]);
    feed_chunks(exe, &mut sequence, short, 2)?;
    exe.copy_slots(&[(2, 0)]);
    sequence.len = now.len();
    record.add("rolled back", true, now.len(), &feed_chunks(exe, &mut sequence, rest, 4)?);

    let (mut sequence, mut fork) = (read(exe, 0, of_long)?, Sequence::new(limits, 1));
    feed_chunks(exe, &mut sequence, now, 16)?;
    exe.copy_slots(&[(0, 1)]);
    exe.copy_pages(&sequence.pages.iter().copied().zip(fork.pages.iter().copied()).collect::<Vec<_>>());
    (fork.len, fork.source) = (now.len(), sequence.source);
    let logits = feed(exe, &mut [(&mut sequence, short, 0), (&mut fork, rest, rest.len())])?;
    record.add("forked", true, now.len(), &logits);

    let mut sequence = read(exe, 0, of_short)?;
    let greedy = greedy(exe, &mut sequence, expected)?;
    Ok(Report { cases: record.cases, greedy })
}

/// Two prompts fed in one batch, in chunks of different lengths and changing order.
fn two_sequences(
    exe: &mut dyn Executable,
    [a, b]: [&mut Sequence; 2],
    [long, short]: [&[u32]; 2],
) -> Result<(Vec<f32>, Vec<f32>), DeviceError> {
    let (mut logits, mut short_logits) = (vec![], vec![]);
    let mut short_chunks = short.chunks(2);
    for (i, part) in long.chunks(7).enumerate() {
        let Some(other) = short_chunks.next() else {
            logits.extend(feed(exe, &mut [(a, part, part.len())])?);
            continue;
        };
        let mut parts = [(&mut *a, part, part.len()), (&mut *b, other, other.len())];
        if i % 2 == 1 {
            parts.reverse();
        }
        let all = feed(exe, &mut parts)?;
        let vocabulary = all.len() / (part.len() + other.len());
        let (x, y) = all.split_at(vocabulary * if i % 2 == 1 { other.len() } else { part.len() });
        let (x, y) = if i % 2 == 1 { (y, x) } else { (x, y) };
        logits.extend_from_slice(x);
        short_logits.extend_from_slice(y);
    }
    Ok((logits, short_logits))
}

/// Continues the short prompt with the most likely tokens, as long as the margins tell them clearly.
fn greedy(exe: &mut dyn Executable, sequence: &mut Sequence, expected: &Expected) -> Result<Option<(usize, u32)>, DeviceError> {
    let mut next = expected.short.clone();
    for (i, (token, margin)) in expected.greedy.iter().zip(&expected.margin).enumerate() {
        let logits = feed(exe, &mut [(sequence, &next, 1)])?;
        if f64::from(*margin) <= 2.0 * BAR * expected.deviation() {
            break;
        }
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or_default() as u32;
        if best != *token {
            return Ok(Some((i, best)));
        }
        next = vec![*token];
    }
    Ok(None)
}
