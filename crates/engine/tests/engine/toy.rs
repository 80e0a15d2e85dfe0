//! A model that is all bookkeeping: its logits are a hash of the whole sequence, read back from the pages and slots that the
//! engine names. A page, slot or position that is wrong by one changes every token after it, or is caught at once.

use onebit_engine::sampler::{Sampler, Scratch};
use onebit_engine::{Event, Finish, Request, Stream, Vocabulary};
use onebit_plan::{AXES, ActivationKind, Batch, BatchForm, Cached, DeviceError, Executable, KvType, Limits};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Ids: 0 ends, 1 is special, then letters, pieces of characters, and whole words.
pub(crate) const WIDTH: usize = 48;
/// Numbers in a row that stands in for a token.
pub(crate) const GIVEN: usize = 2;
pub(crate) const END: u32 = 0;
pub(crate) const SPECIAL: u32 = 1;

pub(crate) struct Words(Vec<Vec<u8>>);

impl Words {
    pub(crate) fn new() -> Arc<Self> {
        let crab = "🦀".as_bytes();
        let mut words: Vec<Vec<u8>> = vec![b"</s>".to_vec(), b"<mark>".to_vec(), crab[..2].to_vec(), crab[2..].to_vec()];
        words.extend((b'a'..=b'z').map(|b| vec![b]));
        words.extend([" the", "ab", "\n", "ä", ". "].map(|w| w.as_bytes().to_vec()));
        words.resize(WIDTH, b"x".to_vec());
        Arc::new(Self(words))
    }
}

impl Vocabulary for Words {
    fn ends(&self) -> &[u32] {
        &[END]
    }
    fn is_special(&self, id: u32) -> bool {
        id <= SPECIAL
    }
    fn bytes(&self, id: u32) -> &[u8] {
        &self.0[id as usize]
    }
}

/// A vocabulary that fails for one token.
pub(crate) struct Trap(pub(crate) Arc<Words>, pub(crate) u32);

impl Vocabulary for Trap {
    fn ends(&self) -> &[u32] {
        self.0.ends()
    }
    fn is_special(&self, id: u32) -> bool {
        self.0.is_special(id)
    }
    fn bytes(&self, id: u32) -> &[u8] {
        assert_ne!(id, self.1, "a trap");
        self.0.bytes(id)
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fold(hash: u64, token: u32) -> u64 {
    mix(hash.rotate_left(5) ^ u64::from(token + 1))
}

fn logit(hash: u64, id: usize) -> f32 {
    (mix(hash ^ ((id as u64 + 1) << 32)) >> 40) as f32 * (8.0 / (1u64 << 24) as f32) - 4.0
}

/// What stands for a token of a batch in the toy's caches: its id, mixed with what it has besides, where that is not as in text.
fn seen(batch: &Batch<'_>, token: usize, position: usize) -> u32 {
    let inputs = &batch.inputs;
    let axes = inputs.axes.get(token).copied().unwrap_or([position as u32; AXES]);
    let group = inputs.group(token).filter(|[first, end]| end - first > 1);
    stand_in(batch.tokens[token], inputs.row(token, GIVEN), axes.map(|axis| axis.wrapping_sub(position as u32)), group)
}

/// The same from its parts; `shift` is how far the position on each axis is from that in the sequence.
pub(crate) fn stand_in(id: u32, row: Option<&[f32]>, shift: [u32; AXES], group: Option<[u32; 2]>) -> u32 {
    let row = row.into_iter().flatten().map(|x| x.to_bits());
    let parts = row.chain(shift.into_iter().filter(|shift| *shift != 0)).chain(group.into_iter().flatten());
    parts.fold(id, |seen, part| fold(u64::from(seen), part >> 1 ^ part & 1) as u32 >> 1)
}

/// The logits that follow a sequence.
pub(crate) fn logits(tokens: &[u32]) -> Vec<f32> {
    let hash = tokens.iter().fold(0, |h, t| fold(h, *t));
    (0..WIDTH).map(|id| logit(hash, id)).collect()
}

/// What the sequence gets without any engine.
pub(crate) fn expected(request: &Request, context: usize) -> Vec<u32> {
    let words = Words::new();
    let forbidden = if request.ignore_eos { words.ends() } else { &[] };
    let mut sampler = Sampler::new(&request.sampling, forbidden, &request.prompt, &*words);
    let mut tokens = request.prompt.clone();
    let mut scratch = Scratch::default();
    let limit = request.max_tokens.map_or(context, |n| (n + tokens.len()).min(context));
    while tokens.len() < limit {
        let id = sampler.sample(&logits(&tokens), &tokens, None, &mut scratch).unwrap();
        if id == END {
            break;
        }
        tokens.push(id);
        sampler.observe(&tokens, &*words);
    }
    tokens.split_off(request.prompt.len())
}

/// What a test sees and does while the engine runs.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) state: Mutex<Control>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct Control {
    /// For each step, each span: position, length, outputs.
    pub(crate) steps: Vec<Vec<(usize, usize, usize)>>,
    /// Broken rules, which a test must not find.
    pub(crate) wrong: Vec<String>,
    /// Steps wait for permission if it is given one by one.
    pub(crate) permits: Option<usize>,
    /// A panic whenever this token is in a step.
    pub(crate) panic_at: Option<u32>,
    /// An error whenever this token is in a step.
    pub(crate) error_at: Option<u32>,
    /// Errors in these steps, by number.
    pub(crate) error_in: Vec<usize>,
    /// Errors from this step on.
    pub(crate) broken_from: Option<usize>,
    /// NaN in the logits after this token.
    pub(crate) nan_after: Option<u32>,
    /// The executable is gone.
    pub(crate) dropped: bool,
    pub(crate) delay: Duration,
}

impl World {
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Control) -> T) -> T {
        let result = f(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        result
    }

    /// From now on, steps need permission.
    pub(crate) fn hold(&self) {
        self.with(|c| c.permits = Some(0));
    }

    /// Lets `n` steps run, and waits until they have begun and the next one is being waited for, or all is idle.
    pub(crate) fn permit(&self, n: usize) {
        self.with(|c| c.permits = Some(c.permits.unwrap_or(0) + n));
    }

    pub(crate) fn release(&self) {
        self.with(|c| c.permits = None);
    }

    pub(crate) fn steps(&self) -> usize {
        self.with(|c| c.steps.len())
    }

    /// Waits until a step that has number `n` is under way (it may be held).
    pub(crate) fn wait_for(&self, what: impl Fn(&Control) -> bool) {
        let state = self.state.lock().unwrap();
        let (_state, timeout) = self.changed.wait_timeout_while(state, Duration::from_secs(60), |c| !what(c)).unwrap();
        assert!(!timeout.timed_out(), "nothing happened for a minute");
    }
}

pub(crate) struct Toy {
    /// Without fixed states: slots mean nothing, and the hash is that of the pages.
    pub(crate) plain: bool,
    /// Sequences answer to sources, which are read first.
    pub(crate) reads: bool,
    limits: Limits,
    world: Arc<World>,
    pages: Vec<Vec<Option<u32>>>,
    /// By page, too.
    sources: Vec<Vec<Option<u32>>>,
    slots: Vec<u64>,
    logits: Vec<f32>,
}

pub(crate) fn limits(batch: usize, page: usize, pages: usize, slots: usize) -> Limits {
    Limits { batch, outputs: batch, page, pages, slots, kv: KvType::F32, activations: ActivationKind::F32 }
}

impl Toy {
    pub(crate) fn new(limits: Limits) -> (Box<Self>, Arc<World>) {
        let world = Arc::new(World::default());
        let pages = vec![vec![None; limits.page]; limits.pages];
        // Slots hold rubbish until a sequence begins.
        let slots = (0..limits.slots as u64).map(|i| mix(i + 77)).collect();
        (
            Box::new(Self {
                plain: false,
                reads: false,
                limits,
                world: world.clone(),
                sources: pages.clone(),
                pages,
                slots,
                logits: Vec::new(),
            }),
            world,
        )
    }

    /// The tokens in pages, and the hash in a slot.
    pub(crate) fn read(&self, pages: &[u32], len: usize, slot: u32) -> (Vec<Option<u32>>, u64) {
        let page = self.limits.page;
        let tokens = (0..len).map(|i| self.pages[pages[i / page] as usize][i % page]).collect();
        (tokens, self.slots[slot as usize])
    }

    /// The hash of a source in pages.
    pub(crate) fn source(&self, pages: &[u32], len: usize) -> Option<u64> {
        let page = self.limits.page;
        (0..len).map(|i| self.sources[pages[i / page] as usize][i % page]).try_fold(0, |h, t| t.map(|t| fold(h, t)))
    }

    fn form(&self) -> BatchForm {
        BatchForm { given: GIVEN, source: self.reads, ..BatchForm::text(WIDTH) }
    }

    /// Notes a step that may begin now.
    fn begin(&self, batch: &Batch<'_>, form: &BatchForm) {
        self.world.with(|c| c.steps.push(batch.spans.iter().map(|s| (s.start, s.len, s.outputs)).collect()));
        self.world.wait_for(|c| c.permits != Some(0));
        let delay = self.world.with(|c| {
            c.permits = c.permits.map(|n| n - 1);
            c.delay
        });
        std::thread::sleep(delay);
        if let Err(error) = batch.check(&self.limits, form) {
            self.world.with(|c| c.wrong.push(error.to_string()));
        }
    }

    fn fault(&self, tokens: &[u32]) -> Result<(), DeviceError> {
        let (panic, error) = self.world.with(|c| {
            let step = c.steps.len() - 1;
            let hit = |at: Option<u32>| at.is_some_and(|t| tokens.contains(&t));
            let error = hit(c.error_at) || c.error_in.contains(&step) || c.broken_from.is_some_and(|s| step >= s);
            (hit(c.panic_at), error)
        });
        assert!(!panic, "the toy panics");
        if error { Err(DeviceError::Failed("the toy fails".into())) } else { Ok(()) }
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        self.world.with(|c| c.dropped = true);
    }
}

impl Executable for Toy {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn vocabulary(&self) -> usize {
        WIDTH
    }

    fn given(&self) -> usize {
        GIVEN
    }

    fn encode(&mut self, sources: &Batch<'_>) -> Result<(), DeviceError> {
        assert!(self.reads, "there is no encoder");
        self.begin(sources, &BatchForm { whole: true, ..BatchForm::text(WIDTH) });
        let (page, mut at) = (self.limits.page, 0);
        for span in sources.spans {
            for i in 0..span.len {
                self.sources[span.pages[i / page] as usize][i % page] = Some(sources.tokens[at + i]);
            }
            at += span.len;
        }
        self.fault(sources.tokens)
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        self.begin(batch, &self.form());
        let mut wrong = Vec::new();
        self.logits.clear();
        let page = self.limits.page;
        let mut written = Vec::new();
        let mut at = 0;
        for (index, span) in batch.spans.iter().enumerate() {
            let (before, slot) = self.read(span.pages, span.start, span.slot);
            let source = self.source(span.pages, batch.inputs.source(index));
            let paged = source.and_then(|source| before.iter().try_fold(source, |h, t| t.map(|t| fold(h, t))));
            let hash = if span.start == 0 || self.plain { paged.unwrap_or(0) } else { slot };
            if paged != Some(hash) {
                wrong.push(format!("pages {:?} hold {before:?}, which is not what slot {} has seen", span.pages, span.slot));
            }
            let tokens: Vec<u32> = (0..span.len).map(|i| seen(batch, at + i, span.start + i)).collect();
            at += span.len;
            let mut hash = hash;
            for (i, token) in tokens.iter().enumerate() {
                let position = span.start + i;
                self.pages[span.pages[position / page] as usize][position % page] = Some(*token);
                hash = fold(hash, *token);
                if i + span.outputs >= span.len {
                    let start = self.logits.len();
                    self.logits.extend((0..WIDTH).map(|id| logit(hash, id)));
                    if self.world.with(|c| c.nan_after) == Some(*token) {
                        self.logits[start + 7] = f32::NAN;
                    }
                }
            }
            self.slots[span.slot as usize] = hash;
            let first = span.start / page;
            written.extend_from_slice(&span.pages[first..(span.start + span.len).div_ceil(page)]);
        }
        let n = written.len();
        written.sort_unstable();
        written.dedup();
        if written.len() < n {
            wrong.push("a page is written by two sequences".into());
        }
        self.world.with(|c| c.wrong.append(&mut wrong));
        // After the caches are changed, as it would be in a device.
        self.fault(batch.tokens)?;
        Ok(&self.logits)
    }

    fn copy_slots(&mut self, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            self.slots[*to as usize] = self.slots[*from as usize];
        }
    }

    fn copy_pages(&mut self, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            self.pages[*to as usize] = self.pages[*from as usize].clone();
            self.sources[*to as usize] = self.sources[*from as usize].clone();
        }
    }

    fn part_bytes(&self) -> Option<[usize; 2]> {
        Some([self.limits.page * 4, 8])
    }

    fn read_cached(&mut self, part: Cached, out: &mut Vec<u8>) -> Result<(), DeviceError> {
        match part {
            Cached::Page(page) => out.extend(self.pages[page as usize].iter().flat_map(|t| t.unwrap_or(u32::MAX).to_le_bytes())),
            Cached::Slot(slot) => out.extend(self.slots[slot as usize].to_le_bytes()),
        }
        Ok(())
    }

    fn write_cached(&mut self, part: Cached, bytes: &[u8]) -> Result<(), DeviceError> {
        let number = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
        match part {
            Cached::Page(page) => self.pages[page as usize] = bytes.chunks(4).map(|b| Some(number(b)).filter(|t| *t != u32::MAX)).collect(),
            Cached::Slot(slot) => self.slots[slot as usize] = u64::from_le_bytes(bytes.try_into().unwrap()),
        }
        Ok(())
    }
}

/// All of a stream.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) ids: Vec<u32>,
    pub(crate) text: String,
    pub(crate) events: Vec<Event>,
}

impl Answer {
    pub(crate) fn finish(&self) -> &Finish {
        match self.events.last() {
            Some(Event::Finished(finish)) => finish,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn collect(mut stream: Stream) -> Answer {
    let mut answer = Answer { ids: Vec::new(), text: String::new(), events: Vec::new() };
    while let Some(event) = stream.blocking_next() {
        match &event {
            Event::Token(token) => {
                answer.ids.push(token.id);
                answer.text.push_str(&token.text);
            }
            Event::Finished(finish) => answer.text.push_str(&finish.text),
            _ => {}
        }
        answer.events.push(event);
    }
    answer
}
