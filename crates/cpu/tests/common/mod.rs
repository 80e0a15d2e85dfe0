//! Small models made on the spot: a plan built by a closure, with weights drawn from their names.

use onebit_formats::{Checkpoint, safetensors::Writer};
use onebit_plan::{Batch, Device, Edit, Graph, Limits, Model, Resolve, Span, Value, Weight};
use onebit_reference::{Reference, check::Expected};
use std::{cell::RefCell, collections::HashSet, error::Error, path::Path};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Tokens in the vocabulary of made models.
pub(crate) const VOCABULARY: usize = 61;

/// Finds every weight, but biases only where they are listed.
struct Drawn<'a> {
    folder: &'a Path,
    biases: &'a [&'a str],
    made: RefCell<HashSet<String>>,
}

/// Numbers around zero from a seed: a linear congruential generator (Knuth's MMIX constants).
pub(crate) fn numbers(seed: &str, count: usize, spread: f32) -> Vec<f32> {
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * spread
    };
    (0..count).map(|_| next()).collect()
}

impl Resolve for Drawn<'_> {
    fn resolve(&self, name: &str, shape: &[usize]) -> onebit_plan::Result<Option<Weight>> {
        if name == "output.weight" || name.ends_with("bias") && !self.biases.contains(&name) {
            return Ok(None);
        }
        let path = self.folder.join(format!("{name}.safetensors"));
        if self.made.borrow_mut().insert(name.to_string()) {
            let count = shape.iter().product();
            // Norms are around one; matrices keep the size of what they are multiplied with.
            let norm = name.contains("norm");
            let spread = if shape.len() > 1 { 1.7 / (shape[shape.len() - 1] as f32).sqrt() } else { 0.5 };
            let values = numbers(name, count, spread).into_iter().map(|x| if norm { 1.0 + x } else { x });
            let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            let mut writer = Writer::new(&path);
            writer.tensor("it", onebit_quants::F32, shape)?;
            let mut data = writer.begin()?;
            data.write("it", &bytes)?;
            data.finish()?;
        }
        let file = Checkpoint::open(&path)?;
        let tensor = file.tensor("it").ok_or_else(|| onebit_plan::Error::Missing(name.into()))?;
        Ok(Some(Weight::whole(name, tensor, shape.to_vec(), Edit::None)?))
    }
}

/// A model whose stream of `width` numbers goes through `body` once.
pub(crate) fn model(width: usize, biases: &[&str], body: impl Fn(&mut Graph<'_>, Value) -> Value) -> Outcome<Model> {
    whole_model(biases, |g| {
        let x = g.embed("token_embd", width, 1.5);
        body(g, x)
    })
}

/// A model whose stream before the last norm `build` makes.
pub(crate) fn whole_model(biases: &[&str], build: impl Fn(&mut Graph<'_>) -> Value) -> Outcome<Model> {
    let folder = tempfile::tempdir()?;
    let weights = Drawn { folder: folder.path(), biases, made: RefCell::default() };
    let mut g = Graph::new("made", VOCABULARY, 4096, &weights);
    let x = build(&mut g);
    let x = g.select(x);
    let x = g.rms_norm(x, "output_norm", 1e-5);
    let logits = g.head(x);
    // Files are mapped, and stay readable after their names are gone.
    Ok(g.finish(logits)?)
}

/// Tokens drawn from a seed.
pub(crate) fn tokens(seed: &str, count: usize) -> Vec<u32> {
    numbers(seed, count, 1.0).iter().map(|x| ((x + 1.0) / 2.0 * VOCABULARY as f32) as u32 % VOCABULARY as u32).collect()
}

/// All logits of a prompt fed in chunks.
pub(crate) fn run(device: &dyn Device, model: &Model, tokens: &[u32], chunk: usize, limits: &Limits) -> Outcome<Vec<f32>> {
    let mut exe = device.load(model.clone(), limits, &mut |_| {})?;
    let pages: Vec<u32> = (0..limits.pages as u32).rev().collect();
    let (mut logits, mut start) = (vec![], 0);
    for part in tokens.chunks(chunk) {
        let span = Span { len: part.len(), start, pages: &pages, slot: 1, outputs: part.len() };
        logits.extend_from_slice(exe.step(&Batch::text(part, &[span]))?);
        start += part.len();
    }
    Ok(logits)
}

/// What the reference computes for a long and a short prompt.
pub(crate) fn expected(model: &Model, long: usize, short: usize, limits: &Limits) -> Outcome<Expected> {
    let (long, short) = (tokens("long", long), tokens("short", short));
    let logits = |tokens: &[u32]| run(&Reference, model, tokens, limits.batch, limits);
    let (long_logits, short_logits) = (logits(&long)?, logits(&short)?);
    Ok(Expected { short, short_logits, long, long_logits, greedy: vec![], margin: vec![], sources: None })
}
