//! Answers made of masks, against the authors' samplers (`tools/oracles/diffusion.py` made `data/diffusion.json`).

use crate::toy::{Words, collect, limits};
use onebit_engine::{Config, Diffusion, Engine, Event, FinishReason, Remasking, Request, Sampling, SubmitError, Vocabulary};
use onebit_plan::{Batch, BatchForm, Denoising, DeviceError, Executable, Limits};
use serde_json::Value;
use std::sync::{Arc, Mutex};

const WIDTH: usize = 48;
const MASK: u32 = 47;

/// Tokens of one letter, none of which ends an answer unless it is said.
struct Letters(Vec<u32>);

impl Vocabulary for Letters {
    fn ends(&self) -> &[u32] {
        &self.0
    }
    fn is_special(&self, _: u32) -> bool {
        false
    }
    fn bytes(&self, id: u32) -> &[u8] {
        &b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[id as usize..][..1]
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Sees the whole of a sequence at each position.
struct Seer {
    limits: Limits,
    logits: Vec<f32>,
    /// Sequences in each step.
    steps: Arc<Mutex<Vec<usize>>>,
    fails_at: Option<usize>,
}

impl Executable for Seer {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn vocabulary(&self) -> usize {
        WIDTH
    }
    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], DeviceError> {
        batch.check(&self.limits, &BatchForm::text(WIDTH))?;
        let mut steps = self.steps.lock().unwrap();
        steps.push(batch.spans.len());
        if self.fails_at == Some(steps.len()) {
            return Err(DeviceError::Failed("the toy fails".into()));
        }
        self.logits.clear();
        let mut rest = batch.tokens;
        for span in batch.spans {
            assert_eq!(span.start, 0, "a sequence has to be in one step");
            let (tokens, others) = rest.split_at(span.len);
            rest = others;
            let whole = tokens.iter().fold(0u64, |h, t| mix(h.rotate_left(5) ^ u64::from(t + 1)));
            for p in span.len - span.outputs..span.len {
                let row = mix(whole ^ (p as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let one = |id: u64| (mix(row ^ ((id + 1) << 32)) >> 40) as f32 * (8.0 / (1u64 << 24) as f32) - 4.0;
                self.logits.extend((0..WIDTH as u64).map(one));
            }
        }
        Ok(&self.logits)
    }
    fn copy_slots(&mut self, _: &[(u32, u32)]) {}
    fn copy_pages(&mut self, _: &[(u32, u32)]) {}
}

type Steps = Arc<Mutex<Vec<usize>>>;

fn engine_of(shifted: bool, ends: &[u32], batch: usize, fails_at: Option<usize>) -> (Engine<Letters>, Steps) {
    let steps = Steps::default();
    let seer = Seer { limits: limits(batch, 4, 64, 4), logits: vec![], steps: steps.clone(), fails_at };
    let config = Config { max_sequences: 4, denoising: Some(Denoising { mask: MASK, shifted }), ..Config::default() };
    (Engine::new(Box::new(seer), Arc::new(Letters(ends.to_vec())), config), steps)
}

fn greedy() -> Sampling {
    Sampling { temperature: 0.0, ..Sampling::default() }
}

fn numbers(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// What a case asks for, and what it should get.
fn cases() -> Vec<(bool, Request, Vec<u32>)> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../data/diffusion.json")).unwrap();
    let size = |case: &Value, key: &str| case[key].as_u64().unwrap() as usize;
    let one = |case: &Value| {
        let diffusion = Diffusion {
            steps: Some(size(case, "steps")),
            block: Some(size(case, "block")),
            remasking: Remasking::named(case["remasking"].as_str().unwrap()).unwrap(),
            ..Diffusion::default()
        };
        let prompt = numbers(&case["prompt"]);
        let request = Request { prompt, max_tokens: Some(size(case, "answer")), sampling: greedy(), diffusion, ..Request::default() };
        (case["shifted"].as_bool().unwrap(), request, numbers(&case["tokens"]))
    };
    all.iter().map(one).collect()
}

#[test]
fn answers_of_the_authors_samplers() {
    let engines = [false, true].map(|shifted| engine_of(shifted, &[], 32, None));
    for (shifted, request, expected) in cases() {
        let answer = collect(engines[usize::from(shifted)].0.submit(request.clone()).unwrap());
        assert_eq!(answer.ids, expected, "{request:?}");
        assert_eq!(answer.finish().reason, FinishReason::Length);
        assert_eq!(answer.finish().usage.completion, expected.len());
    }
}

/// Several at once get what each gets alone, also where there is no room for all of them in a step.
#[test]
fn together() {
    let (engine, steps) = engine_of(false, &[], 64, None);
    let all: Vec<_> = cases().into_iter().filter(|(shifted, ..)| !shifted).collect();
    let streams: Vec<_> = all.iter().map(|(_, request, _)| engine.submit(request.clone()).unwrap()).collect();
    for (stream, (_, request, expected)) in streams.into_iter().zip(&all) {
        assert_eq!(&collect(stream).ids, expected, "{request:?}");
    }
    assert!(steps.lock().unwrap().iter().any(|n| *n > 1));
}

/// A step that fails with several sequences is done again with each alone.
#[test]
fn a_failed_step() {
    let (engine, steps) = engine_of(false, &[], 64, Some(5));
    let all: Vec<_> = cases().into_iter().filter(|(shifted, ..)| !shifted).take(6).collect();
    let streams: Vec<_> = all.iter().map(|(_, request, _)| engine.submit(request.clone()).unwrap()).collect();
    let answers: Vec<_> = streams.into_iter().map(collect).collect();
    let alone = steps.lock().unwrap()[4] == 1;
    for (answer, (_, request, expected)) in answers.iter().zip(&all) {
        let failed = matches!(answer.events.last(), Some(Event::Failed(_)));
        assert!(failed && alone || &answer.ids == expected, "{request:?}: {:?}", answer.events.last());
    }
}

/// The answer ends at the first end token from its start, though others are made before; stop strings end it too.
#[test]
fn ends() {
    let (_, request, expected) = cases().into_iter().find(|(shifted, r, _)| !shifted && r.max_tokens == Some(16)).unwrap();
    let (engine, _) = engine_of(false, &expected[6..7], 32, None);
    let answer = collect(engine.submit(request.clone()).unwrap());
    let end = expected.iter().position(|id| *id == expected[6]).unwrap();
    assert_eq!(answer.ids, expected[..end]);
    assert_eq!(answer.finish().reason, FinishReason::Stop);
    let (engine, _) = engine_of(false, &[], 32, None);
    let letters = Letters(vec![]);
    let stop = String::from_utf8(expected[3..5].iter().flat_map(|id| letters.bytes(*id)).copied().collect()).unwrap();
    let answer = collect(engine.submit(Request { stop: vec![stop.clone()], ..request }).unwrap());
    assert_eq!(answer.finish().stop.as_deref(), Some(&*stop));
    assert!(!answer.text.contains(&stop));
}

/// With a temperature the seed decides, and alone; every kind of remasking makes a whole answer without masks.
#[test]
fn seeds() {
    for (name, remasking) in Remasking::NAMES {
        for block in [0, 3] {
            let answer = |seed| {
                let (engine, _) = engine_of(true, &[], 32, None);
                let diffusion = Diffusion { steps: Some(4), block: Some(block), remasking, ..Diffusion::default() };
                let sampling = Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() };
                let request = Request { prompt: vec![5, 6], max_tokens: Some(10), sampling, diffusion, ..Request::default() };
                collect(engine.submit(request).unwrap()).ids
            };
            let (first, again, other) = (answer(1), answer(1), answer(2));
            assert_eq!(first, again, "{name}");
            assert_ne!(first, other, "{name}");
            assert!(first.len() == 10 && !first.contains(&MASK), "{name}: {first:?}");
        }
    }
}

/// As few steps as are asked for: not one for each token.
#[test]
fn steps() {
    for (steps, block, expected) in [(Some(4), 0, 4), (Some(4), 8, 4), (None, 4, 16), (Some(1), 16, 1), (Some(100), 16, 16)] {
        let (engine, seen) = engine_of(false, &[], 32, None);
        let diffusion = Diffusion { steps, block: Some(block), ..Diffusion::default() };
        let request = Request { prompt: vec![5], max_tokens: Some(16), sampling: greedy(), diffusion, ..Request::default() };
        assert_eq!(collect(engine.submit(request).unwrap()).ids.len(), 16);
        assert_eq!(seen.lock().unwrap().len(), expected, "{steps:?} {block}");
    }
}

/// What cannot be is refused by name; an answer is never longer than what the executable was made for.
#[test]
fn limits_of_answers() {
    let (engine, _) = engine_of(true, &[], 12, None);
    assert_eq!(engine.context(), 12);
    let request = Request { prompt: vec![3], sampling: greedy(), ..Request::default() };
    assert_eq!(collect(engine.submit(request.clone()).unwrap()).ids.len(), 11);
    let none = collect(engine.submit(Request { max_tokens: Some(0), ..request.clone() }).unwrap());
    assert_eq!((none.ids.len(), none.finish().reason), (0, FinishReason::Length));
    let refused = |request: Request| match engine.submit(request) {
        Err(SubmitError::Invalid { param, .. }) => param,
        other => panic!("{other:?}"),
    };
    let with = |diffusion| Request { diffusion, ..request.clone() };
    assert_eq!(refused(with(Diffusion { steps: Some(0), ..Diffusion::default() })), "steps");
    assert_eq!(refused(with(Diffusion { eps: f32::NAN, ..Diffusion::default() })), "eps");
    assert_eq!(refused(Request { prompt_logprobs: Some(1), ..request.clone() }), "prompt_logprobs");
    assert_eq!(Remasking::named("no such"), None);
    assert_eq!(Remasking::named("maskgit_plus"), Some(Remasking::LowConfidence));
    assert_eq!(Remasking::named("topk_margin"), Some(Remasking::Margin));
    // Other models have no use for any of it.
    let (toy, _) = crate::toy::Toy::new(limits(8, 4, 16, 2));
    let other = Engine::new(toy, Words::new(), Config::default());
    for (diffusion, name) in [
        (Diffusion { steps: Some(5), ..Diffusion::default() }, "steps"),
        (Diffusion { block: Some(0), ..Diffusion::default() }, "block_length"),
        (Diffusion { remasking: Remasking::Margin, ..Diffusion::default() }, "remasking"),
        (Diffusion { eps: 0.5, ..Diffusion::default() }, "eps"),
    ] {
        let refusal = other.submit(with(diffusion)).map(|_| ());
        assert!(matches!(refusal, Err(SubmitError::Invalid { param, .. }) if param == name), "{refusal:?}");
    }
}

/// Reported of a token is what the model thought when it was kept.
#[test]
fn logprobs() {
    let (engine, _) = engine_of(false, &[], 32, None);
    let request = Request { prompt: vec![9], max_tokens: Some(6), sampling: greedy(), logprobs: Some(1), ..Request::default() };
    let answer = collect(engine.submit(request).unwrap());
    let tokens: Vec<_> = answer.events.iter().filter_map(|e| if let Event::Token(t) = e { Some(t) } else { None }).collect();
    assert_eq!(tokens.len(), 6);
    for token in tokens {
        let logprobs = token.logprobs.as_ref().unwrap();
        assert!(logprobs.top[0].id == token.id || token.id == MASK, "the best guess is taken");
        assert!((logprobs.logprob - logprobs.top[0].logprob).abs() < 1e-6);
    }
}
