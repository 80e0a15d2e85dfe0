//! One request on its way: its tokens, its place in the caches, and what turns rows of logits into its events.

use crate::cache::{Content, Place};
use crate::diffusion::Canvas;
use crate::embedding::Embedding;
use crate::given::Beside;
use crate::guided::{Guided, Workers};
use crate::sampler::{self, Sampler, Scratch};
use crate::stop::Output;
use crate::stream::Sender;
use crate::{
    Config, EngineError, Event, Finish, FinishReason, Logprobs, Request, Sampling, SlotStatus, Times, Timings, Token, Usage, Vocabulary,
};
use onebit_plan::Pool;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Sequence {
    /// The lower goes first.
    pub priority: i32,
    /// By submission: among equals, the lower goes first.
    pub order: u64,
    /// Prompt and answer.
    pub tokens: Vec<u32>,
    /// How many of them are the prompt.
    prompt: usize,
    /// What it answers to, where the model reads that first.
    source: Vec<u32>,
    /// What they have besides ids.
    beside: Option<Beside>,
    /// How many there may be.
    end: usize,
    /// Where they are in the caches, while it runs. Without one, all have to be computed (again).
    pub place: Option<Place>,
    /// Its number among those that run, while it does.
    pub seat: Option<usize>,
    /// It was in a step that failed when it had so many tokens in that step and before, and has to pass that point alone.
    pub suspect: Option<usize>,
    pub sender: Sender,
    sampler: Sampler,
    sampling: Arc<Sampling>,
    output: Output,
    logprobs: Option<usize>,
    scores: Option<Scores>,
    skip_special: bool,
    shown: Arc<[u32]>,
    /// Tokens of the prompt that were there when it began.
    cached: usize,
    submitted: Instant,
    begun: Option<Instant>,
    first: Option<Instant>,
    /// When its last token was chosen.
    last: Option<Instant>,
    timeout: Option<Duration>,
    /// Where its answer is made by masked diffusion.
    canvas: Option<Canvas>,
    guided: Option<Guided>,
    ignore_eos: bool,
    /// Logits from which its next token will be chosen, and their position: the grammar's mask is not there yet.
    held: Option<(Vec<f32>, usize)>,
    /// Where vectors are made of it, and no answer.
    embedding: Option<Embedding>,
}

/// Logprobs of the prompt's own tokens, as far as they are known.
#[derive(Debug)]
struct Scores {
    top: usize,
    tokens: Vec<Option<Logprobs>>,
}

/// New tokens of one sequence in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Which of the running sequences.
    pub index: usize,
    /// Position of the first.
    pub start: usize,
    /// How many.
    pub len: usize,
    /// For how many of the last of them rows of output are wanted.
    pub outputs: usize,
}

impl Sequence {
    pub(crate) fn new<V: Vocabulary>(
        request: Request,
        source: Vec<u32>,
        sender: Sender,
        config: &Config,
        given: usize,
        workers: &Arc<Workers>,
        vocabulary: &V,
    ) -> Self {
        let ends = if request.ignore_eos { vocabulary.ends() } else { &[] };
        let mask = config.denoising.map(|model| model.mask);
        let never = config.answering.iter().flat_map(|answering| &answering.never);
        let forbidden: Vec<u32> = ends.iter().chain(never).copied().chain(mask).collect();
        let sampler = Sampler::new(&request.sampling, &forbidden, &request.prompt, vocabulary);
        let prompt = request.prompt.len();
        let end = prompt.saturating_add(request.max_tokens.unwrap_or(usize::MAX)).min(config.context);
        let canvas = |model| Canvas::new(model, request.diffusion, request.sampling.seed, &request.prompt, end);
        Self {
            priority: request.priority,
            order: 0,
            canvas: config.denoising.map(canvas),
            guided: request.grammar.as_ref().map(|grammar| Guided::new(grammar, workers)),
            ignore_eos: request.ignore_eos,
            held: None,
            embedding: config.pooling.clone().map(Embedding::new),
            prompt,
            source,
            beside: Beside::new(request.given, request.axes, given),
            end,
            place: None,
            seat: None,
            suspect: None,
            sender,
            sampler,
            sampling: Arc::new(request.sampling),
            output: Output::new(&request.stop),
            logprobs: request.logprobs,
            scores: request.prompt_logprobs.map(|top| Scores { top, tokens: vec![None] }),
            skip_special: request.skip_special,
            shown: request.shown.clone(),
            tokens: request.prompt,
            cached: 0,
            submitted: Instant::now(),
            begun: None,
            first: None,
            last: None,
            timeout: request.timeout.or(config.timeout),
        }
    }

    /// The lower goes first.
    pub(crate) fn rank(&self) -> (i32, u64) {
        (self.priority, self.order)
    }

    /// Where, in pages of so many tokens, its fixed states are worth to be remembered while it is read: where it leaves the way of an earlier
    /// one, and where its last page but for the last token ends.
    fn marks(&self, page: usize) -> [usize; 2] {
        [self.place.as_ref().map_or(0, Place::branch), self.tokens.len().saturating_sub(1) / page * page]
    }

    /// How many of `len` tokens from `start` on lead up to a mark, if they pass one.
    pub(crate) fn up_to_mark(&self, start: usize, len: usize, page: usize) -> usize {
        let marks = self.marks(page).into_iter().filter(|mark| (start + 1..start + len).contains(mark));
        marks.min().map_or(len, |mark| mark - start)
    }

    /// Whether the fixed states are worth to be remembered as they are now, and if so, whether they are to stay.
    pub(crate) fn worth(&self, page: usize) -> Option<bool> {
        let computed = self.computed();
        let is_answer = computed > self.prompt && self.remaining() <= 1;
        (computed > 0 && computed.is_multiple_of(page) && (is_answer || self.marks(page).contains(&computed))).then_some(!is_answer)
    }

    /// What it is made of, for the cache.
    pub(crate) fn content(&self) -> Content<'_> {
        Content { tokens: self.input(), beside: self.beside.as_ref(), source: self.source.len() }
    }

    /// What it answers to.
    pub(crate) fn source(&self) -> &[u32] {
        &self.source
    }

    /// Whether its source, if it has one, has been read.
    pub(crate) fn has_read(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.source() == self.source.len())
    }

    /// What tokens of it have besides ids, for a step.
    pub(crate) fn part(&self, work: &Work) -> (Option<&Beside>, usize, Range<usize>) {
        (self.beside.as_ref(), self.prompt, work.start..work.start + work.len)
    }

    /// How many tokens from `start` on make a part that leaves together what has to be in one step: those before, and those with the image
    /// that `len` of them would cut.
    pub(crate) fn whole(&self, start: usize, len: usize) -> Option<[usize; 2]> {
        let [before, behind] = self.beside.as_ref()?.cut(start + len)?;
        Some([before.saturating_sub(start), behind - start])
    }

    /// Tokens in the caches.
    pub(crate) fn computed(&self) -> usize {
        self.place.as_ref().map_or(0, Place::len)
    }

    /// Tokens that are not.
    pub(crate) fn remaining(&self) -> usize {
        self.input().len() - self.computed()
    }

    /// What the model is to see: its tokens, or prompt and answer with masks.
    pub(crate) fn input(&self) -> &[u32] {
        self.canvas.as_ref().map_or(&self.tokens, Canvas::tokens)
    }

    /// Whether all of it is computed again in each step.
    pub(crate) fn is_whole(&self) -> bool {
        self.canvas.is_some()
    }

    /// Of `len` tokens from `start`, how many of the last need logits: the prompt's, as far as it is to be scored and is not yet,
    /// and the very last, from which a token is chosen.
    pub(crate) fn outputs(&self, start: usize, len: usize) -> usize {
        if let Some(canvas) = &self.canvas {
            return canvas.outputs();
        }
        if let Some(embedding) = &self.embedding {
            return embedding.pool().outputs(start, len, self.tokens.len());
        }
        let stop = start + len;
        if let Some(scores) = &self.scores
            && scores.tokens.len() < self.prompt
        {
            // The row at a position is about the token after it.
            return stop - start.max(scores.tokens.len() - 1).min(stop);
        }
        usize::from(stop == self.tokens.len() && self.tokens.len() < self.end)
    }

    /// How many of its first tokens need not be computed if their keys and values are there: all but the last, from which a token is
    /// chosen, and none whose logits are asked for.
    pub(crate) fn reusable(&self) -> usize {
        match &self.scores {
            _ if self.is_whole() || self.embedding.as_ref().is_some_and(|embedding| embedding.pool() != Pool::Last) => 0,
            Some(scores) if scores.tokens.len() < self.prompt => scores.tokens.len() - 1,
            _ => self.tokens.len() - 1,
        }
    }

    pub(crate) fn begin(&mut self, place: Place, now: Instant, times: &mut Times) {
        if self.begun.is_none() {
            self.begun = Some(now);
            times.queue.add_time(now.duration_since(self.submitted));
            self.cached = place.len();
        }
        self.place = Some(place);
    }

    /// Its tokens, where it is made of nothing else.
    pub(crate) fn only_tokens(&self) -> Option<&[u32]> {
        (self.beside.is_none() && self.source.is_empty()).then_some(&self.tokens[..])
    }

    /// Notes that it has got a token.
    pub(crate) fn time_token(&mut self, now: Instant, times: &mut Times) {
        match self.last.replace(now) {
            None => times.first_token.add_time(now.duration_since(self.submitted)),
            Some(before) => times.between_tokens.add_time(now.duration_since(before)),
        }
    }

    /// How far it is, for those who watch.
    pub(crate) fn status(&self) -> SlotStatus {
        SlotStatus {
            is_running: true,
            task: Some(self.order),
            prompt: if self.source.is_empty() { self.prompt } else { self.source.len() },
            cached: self.cached,
            computed: self.computed(),
            decoded: self.tokens.len() - self.prompt,
            end: self.end,
            sampling: self.sampling.clone(),
        }
    }

    /// What ends it before the next step, if anything does.
    pub(crate) fn interrupted(&mut self, now: Instant) -> Option<Event> {
        if self.sender.is_cancelled() {
            let text = self.output.finish().text;
            return Some(self.finish(FinishReason::Cancelled, text, None));
        }
        let timeout = self.timeout?;
        (now.duration_since(self.submitted) >= timeout).then_some(Event::Failed(EngineError::Deadline(timeout)))
    }

    /// Whether logits wait for the grammar.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Forgets logits that wait, as they are computed again.
    pub(crate) fn let_go(&mut self) {
        self.held = None;
    }

    /// Chooses a token from logits that waited for the grammar, if its mask is there, or waits for it. Gives the last event if it ends here.
    pub(crate) fn resume<V: Vocabulary>(&mut self, waits: bool, vocabulary: &V, scratch: &mut Scratch) -> Option<Event> {
        if !waits && self.guided.as_mut().is_some_and(|guided| !guided.is_ready()) {
            return None;
        }
        let (row, position) = self.held.take()?;
        self.choose(&row, position, vocabulary, scratch).unwrap_or_else(|error| Some(Event::Failed(error)))
    }

    /// Takes the rows of output of its part of a step, `width` numbers each, and sends what follows from them; gives the last event
    /// if it ends here. The work has been done: its tokens are in the caches.
    pub(crate) fn take<V: Vocabulary>(
        &mut self,
        work: Work,
        rows: &[f32],
        width: usize,
        vocabulary: &V,
        scratch: &mut Scratch,
        is_alone: bool,
    ) -> Option<Event> {
        if let Some(mut canvas) = self.canvas.take() {
            let end = self.denoise(&mut canvas, rows, width, vocabulary, scratch);
            self.canvas = Some(canvas);
            return end.unwrap_or_else(|error| Some(Event::Failed(error)));
        }
        if let Some(place) = &mut self.place {
            place.advance(work.len);
        }
        if let Some(mut embedding) = self.embedding.take() {
            let added = embedding.add(work.start, work.start + work.len, rows, width);
            let end = match added {
                Err(error) => Some(Event::Failed(error)),
                Ok(()) if self.computed() < self.tokens.len() => None,
                Ok(()) => {
                    self.sender.send(Event::Embedding(embedding.finish()));
                    Some(self.finish(FinishReason::Stop, String::new(), None))
                }
            };
            self.embedding = Some(embedding);
            return end;
        }
        let first = work.start + work.len - work.outputs;
        let mut rows = rows.chunks_exact(width).zip(first..work.start + work.len);
        let last = if self.computed() == self.tokens.len() && self.tokens.len() < self.end { rows.next_back() } else { None };
        for (row, position) in rows {
            if let Err(error) = self.score(row, position, scratch) {
                return Some(Event::Failed(error));
            }
        }
        if self.computed() < self.tokens.len() {
            return None;
        }
        if let Some(scores) = &mut self.scores
            && scores.tokens.len() >= self.prompt
            && self.tokens.len() == self.prompt
        {
            self.sender.send(Event::Prompt(std::mem::take(&mut scores.tokens)));
            self.scores = None;
        }
        let Some((row, position)) = last else { return Some(self.length()) };
        if !is_alone && self.guided.as_mut().is_some_and(|guided| !guided.is_ready()) {
            self.held = Some((row.to_vec(), position));
            return None;
        }
        self.choose(row, position, vocabulary, scratch).unwrap_or_else(|error| Some(Event::Failed(error)))
    }

    /// The row at a position of the prompt says how likely the token after it was.
    fn score(&mut self, row: &[f32], position: usize, scratch: &mut Scratch) -> Result<(), EngineError> {
        if let Some(scores) = &mut self.scores
            && scores.tokens.len() == position + 1
            && position + 1 < self.prompt
        {
            let max = sampler::check(row, position)?;
            scores.tokens.push(Some(sampler::report(row, max, self.tokens[position + 1], scores.top, scratch)));
        }
        Ok(())
    }

    /// Takes away masks, and adds the tokens before the first that is left.
    fn denoise<V: Vocabulary>(
        &mut self,
        canvas: &mut Canvas,
        rows: &[f32],
        width: usize,
        vocabulary: &V,
        scratch: &mut Scratch,
    ) -> Result<Option<Event>, EngineError> {
        canvas.advance(rows, width, &mut |row, position| {
            let max = sampler::check(row, position)?;
            let id = self.sampler.sample(row, &self.tokens, None, scratch)?;
            Ok((id, self.logprobs.map(|n| sampler::report(row, max, id, n, scratch))))
        })?;
        while let Some((id, logprobs)) = canvas.next_known() {
            if let Some(event) = self.accept(id, logprobs, vocabulary) {
                return Ok(Some(event));
            }
        }
        Ok((self.tokens.len() >= self.end).then(|| self.length()))
    }

    /// Chooses the next token.
    fn choose<V: Vocabulary>(
        &mut self,
        row: &[f32],
        position: usize,
        vocabulary: &V,
        scratch: &mut Scratch,
    ) -> Result<Option<Event>, EngineError> {
        let max = sampler::check(row, position)?;
        let is_over = match &mut self.guided {
            Some(guided) if self.ignore_eos => guided.mask()?.is_within(vocabulary.ends()),
            _ => false,
        };
        if is_over {
            let release = self.output.finish();
            return Ok(Some(self.finish(FinishReason::Stop, release.text, release.stop)));
        }
        let mask = self.guided.as_mut().map(Guided::mask).transpose()?;
        let id = self.sampler.sample(row, &self.tokens, mask, scratch)?;
        let logprobs = self.logprobs.map(|n| sampler::report(row, max, id, n, scratch));
        Ok(self.accept(id, logprobs, vocabulary))
    }

    /// Adds a token to the answer; gives the last event if it ends here.
    fn accept<V: Vocabulary>(&mut self, id: u32, logprobs: Option<Logprobs>, vocabulary: &V) -> Option<Event> {
        self.tokens.push(id);
        self.first.get_or_insert_with(Instant::now);
        self.sampler.observe(&self.tokens, vocabulary);
        if vocabulary.ends().contains(&id) {
            let release = self.output.finish();
            return Some(self.finish(FinishReason::Stop, release.text, release.stop));
        }
        let is_complete = match self.guided.as_mut().map(|guided| guided.accept(id)).transpose() {
            Ok(is_complete) => is_complete.unwrap_or(false),
            Err(error) => return Some(Event::Failed(error)),
        };
        let hidden = self.skip_special && vocabulary.is_special(id) && !self.shown.contains(&id);
        let mut release = self.output.push(if hidden { &[] } else { vocabulary.bytes(id) });
        let full = self.tokens.len() >= self.end;
        if (full || is_complete) && release.stop.is_none() {
            let rest = self.output.finish();
            release.text.push_str(&rest.text);
            release.stop = rest.stop;
        }
        self.sender.send(Event::Token(Token { id, text: release.text, logprobs }));
        match release.stop {
            Some(stop) => Some(self.finish(FinishReason::Stop, String::new(), Some(stop))),
            None if is_complete => Some(self.finish(FinishReason::Stop, String::new(), None)),
            None => full.then(|| self.length()),
        }
    }

    fn length(&self) -> Event {
        self.finish(FinishReason::Length, String::new(), None)
    }

    fn finish(&self, reason: FinishReason, text: String, stop: Option<String>) -> Event {
        let now = Instant::now();
        let begun = self.begun.unwrap_or(now);
        let first = self.first.unwrap_or(now);
        Event::Finished(Finish {
            reason,
            text,
            stop,
            usage: Usage {
                prompt: if self.source.is_empty() { self.prompt } else { self.source.len() },
                cached: self.cached,
                completion: self.tokens.len() - self.prompt,
            },
            timings: Timings {
                queue: begun.duration_since(self.submitted),
                prompt: first.duration_since(begun),
                decode: now.duration_since(first),
            },
        })
    }
}
