//! A model that reads a source before it answers: what is read is there in every step, however sequences are displaced and shared.

use crate::toy::{Answer, END, Toy, WIDTH, Words, World, collect, limits, logits};
use onebit_engine::cache::{Cache, Content};
use onebit_engine::sampler::{Sampler, Scratch};
use onebit_engine::{Config, Engine, EngineError, Event, Given, Request, Sampling, SubmitError, Vocabulary};
use onebit_plan::{Answering, Batch, Executable, Inputs, Span};
use std::sync::Arc;

/// What all answers begin with, and what none has.
const START: [u32; 2] = [40, 41];
const NEVER: u32 = 17;

fn engine(batch: usize, pages: usize, sequences: usize) -> (Engine<Words>, Arc<World>) {
    let (mut toy, world) = Toy::new(limits(batch, 4, pages, sequences));
    toy.reads = true;
    let answering = Some(Answering { start: START.to_vec(), never: vec![NEVER] });
    let config = Config { max_sequences: sequences, prompt_chunk: 4, prefix_reuse: true, answering, ..Config::default() };
    (Engine::new(toy, Words::new(), config), world)
}

/// To a source of `n` tokens.
fn request(salt: u32, n: usize) -> Request {
    let prompt = (0..n as u32).map(|i| 2 + (i * 3 + salt * 11) % 30).collect();
    let sampling = Sampling { seed: Some(u64::from(salt)), ..Sampling::default() };
    Request { prompt, max_tokens: Some(9), sampling, ignore_eos: true, ..Request::default() }
}

/// What the answer is without any engine.
fn expected(request: &Request, start: &[u32], most: usize) -> Vec<u32> {
    let (words, mut scratch, mut tokens) = (Words::new(), Scratch::default(), start.to_vec());
    let mut sampler = Sampler::new(&request.sampling, &[END, NEVER], start, &*words);
    while tokens.len() < start.len() + most {
        let seen = [&request.prompt[..], &tokens].concat();
        tokens.push(sampler.sample(&logits(&seen), &tokens, None, &mut scratch).unwrap());
        sampler.observe(&tokens, &*words);
    }
    tokens.split_off(start.len())
}

fn together(engine: &Engine<Words>, world: &World, requests: &[Request]) -> Vec<Answer> {
    world.hold();
    let streams: Vec<_> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    world.release();
    let answers = streams.into_iter().map(collect).collect();
    assert_eq!(world.with(|c| std::mem::take(&mut c.wrong)), Vec::<String>::new());
    answers
}

#[test]
fn answers_to_their_sources() {
    // With room for all, and with pages for two at most, so that the others lose theirs and are read again.
    for pages in [64, 8] {
        let (engine, world) = engine(24, pages, 5);
        let requests: Vec<Request> = [1, 23, 4, 5, 16, 9, 24].iter().zip(0..).map(|(n, salt)| request(salt, *n)).collect();
        for (request, answer) in requests.iter().zip(together(&engine, &world, &requests)) {
            assert_eq!(answer.ids, expected(request, &START, 9), "{pages} pages, a source of {}", request.prompt.len());
            let usage = answer.finish().usage;
            assert_eq!((usage.prompt, usage.cached, usage.completion), (request.prompt.len(), 0, 9));
        }
        // No more of sources is read before a step than a batch holds, where there is one.
        let steps = world.with(|c| std::mem::take(&mut c.steps));
        let (mut read, mut tokens) = (0, 0);
        for step in steps {
            match step[..] {
                [(0, n, 0)] if n > START.len() => (read, tokens) = (read + 1, tokens + n),
                _ => tokens = 0,
            }
            assert!(tokens <= 24 || pages == 8, "{step:?}");
        }
        let preempted = engine.stats().preemptions > 0;
        assert!(if preempted { pages == 8 && read > 6 } else { pages == 64 && read == 6 }, "{read} sources were read");
        assert_eq!((engine.stats().pages_used, engine.stats().cached_tokens), (0, 0));
    }
}

#[test]
fn an_answer_can_be_begun() {
    let (engine, _world) = engine(24, 64, 2);
    let begun = Request { answer_start: vec![7, 8, 9], ..request(3, 11) };
    let answer = collect(engine.submit(begun.clone()).unwrap());
    assert_eq!(answer.ids, expected(&begun, &[START[0], 7, 8, 9], 9));
    // Up to the end of the context, which is that of the answer alone.
    let long = Request { max_tokens: None, ..request(4, 24) };
    assert_eq!(engine.context(), 24);
    let answer = collect(engine.submit(long.clone()).unwrap());
    assert_eq!(answer.ids, expected(&long, &START, 22));
}

#[test]
fn a_source_that_fails_hurts_nobody_else() {
    for panics in [true, false] {
        let (engine, world) = engine(24, 64, 4);
        world.with(|c| *(if panics { &mut c.panic_at } else { &mut c.error_at }) = Some(39));
        let mut requests: Vec<Request> = (0..5).map(|salt| request(salt, 10)).collect();
        requests[2].prompt[4] = 39;
        let sampling = Sampling { logit_bias: vec![(39, f32::NEG_INFINITY)], ..Sampling::default() };
        requests.iter_mut().zip(0..).for_each(|(r, seed)| r.sampling = Sampling { seed: Some(seed), ..sampling.clone() });
        for (i, (request, answer)) in requests.iter().zip(together(&engine, &world, &requests)).enumerate() {
            match i {
                2 => assert!(matches!(&answer.events[..], [Event::Failed(EngineError::Step(_))])),
                _ => assert_eq!(answer.ids, expected(request, &START, 9)),
            }
        }
        assert_eq!(engine.stats().pages_used, 0);
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let (engine, _world) = engine(24, 64, 2);
    let refusal = |request: Request| engine.submit(request).unwrap_err();
    assert_eq!(refusal(request(0, 25)), SubmitError::SourceTooLong { prompt: 25, limit: 24 });
    assert_eq!(refusal(request(0, 0)), SubmitError::EmptyPrompt);
    let named = |request: Request| match refusal(request) {
        SubmitError::Invalid { param, message } => (param, message),
        other => panic!("{other:?}"),
    };
    assert_eq!(named(Request { prompt: vec![5, 99], ..request(0, 1) }).1, format!("token 99 is not in the vocabulary of {WIDTH}"));
    assert_eq!(named(Request { prompt_logprobs: Some(0), ..request(0, 5) }).0, "prompt_logprobs");
    let image = Given { start: 0, len: 1, rows: Arc::new([0.0; 2]), first: 0, whole: false };
    assert_eq!(named(Request { given: vec![image], ..request(0, 5) }).0, "images");
    assert_eq!(named(Request { answer_start: vec![99], ..request(0, 5) }).0, "prompt");
    let (toy, _world) = Toy::new(limits(24, 4, 64, 2));
    let decoder = Engine::new(toy, Words::new(), Config::default());
    let error = decoder.submit(Request { answer_start: vec![5], ..request(0, 5) }).unwrap_err();
    assert!(matches!(error, SubmitError::Invalid { param: "answer_start", .. }));
    assert_eq!(Words::new().ends(), [END]);
}

/// A fork and a rollback keep the source, also where it lies in pages that the answer has not reached, or shares.
#[test]
fn places_keep_their_source() {
    let (mut toy, world) = Toy::new(limits(32, 4, 16, 4));
    toy.reads = true;
    let mut cache = Cache::new(&limits(32, 4, 16, 4));
    let source: Vec<u32> = (2..13).collect();
    let mut place = cache.open(Content::from(&[40u32]).answering_to(source.len()), 0).unwrap();
    assert_eq!(place.pages().len(), 3);
    let span = Span { len: source.len(), start: 0, pages: place.pages(), slot: place.slot(), outputs: 0 };
    toy.encode(&Batch::text(&source, &[span])).unwrap();
    place.has_read(source.len());
    let step = |toy: &mut Toy, place: &mut onebit_engine::cache::Place, token: u32| {
        let span = Span { len: 1, start: place.len(), pages: place.pages(), slot: place.slot(), outputs: 1 };
        let inputs = Inputs { sources: &[11], ..Inputs::default() };
        let row = toy.step(&Batch { inputs, ..Batch::text(&[token], &[span]) }).unwrap().to_vec();
        place.advance(1);
        row
    };
    let seen = |answer: &[u32]| logits(&[&source[..], answer].concat());
    assert_eq!(step(&mut toy, &mut place, 40), seen(&[40]));
    let snapshot = cache.snapshot(&place, &mut *toy).unwrap();
    let mut fork = cache.fork(&place, &mut *toy).unwrap();
    assert_eq!((fork.source(), fork.pages().len()), (11, 3));
    for (token, answer) in (5..10).zip([&[40, 5][..], &[40, 5, 6], &[40, 5, 6, 7], &[40, 5, 6, 7, 8], &[40, 5, 6, 7, 8, 9]]) {
        cache.reserve(&mut fork, 1, &mut *toy).unwrap();
        assert_eq!(step(&mut toy, &mut fork, token), seen(answer));
    }
    // The first page was shared and is the fork's own now, the second too, the third is shared still.
    let shared: Vec<bool> = fork.pages().iter().zip(place.pages()).map(|(a, b)| a == b).collect();
    assert_eq!(shared, [false, false, true]);
    cache.reserve(&mut place, 1, &mut *toy).unwrap();
    assert_eq!(step(&mut toy, &mut place, 6), seen(&[40, 6]));
    cache.rollback(&mut place, &snapshot, &mut *toy);
    assert_eq!((place.len(), place.source(), place.pages().len()), (1, 11, 3));
    cache.reserve(&mut place, 1, &mut *toy).unwrap();
    assert_eq!(step(&mut toy, &mut place, 7), seen(&[40, 7]));
    cache.discard(snapshot);
    cache.release(place);
    cache.release(fork);
    assert_eq!((cache.used_pages(), world.with(|c| std::mem::take(&mut c.wrong))), (0, vec![]));
}
