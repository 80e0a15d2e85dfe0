//! What is refused, what is bounded, and how it all ends.

use crate::toy::{Toy, WIDTH, Words, collect, expected, limits};
use onebit_engine::{Config, Dry, Engine, EngineError, Event, FinishReason, Mirostat, Request, Sampling, SubmitError, Xtc};
use std::time::{Duration, Instant};

fn engine(config: Config) -> (Engine<Words>, std::sync::Arc<crate::toy::World>) {
    let (toy, world) = Toy::new(limits(16, 4, 8, 4));
    (Engine::new(toy, Words::new(), config), world)
}

fn request(n: usize, max_tokens: Option<usize>) -> Request {
    Request { prompt: vec![5; n], max_tokens, ignore_eos: true, ..Request::default() }
}

#[test]
fn the_configuration_is_lowered_to_what_there_is() {
    let (engine, _) = engine(Config { max_sequences: 100, prompt_chunk: 1000, ..Config::default() });
    assert_eq!((engine.config().max_sequences, engine.context(), engine.config().prompt_chunk), (4, 32, 16));
    assert_eq!((engine.vocabulary(), engine.limits().pages), (WIDTH, 8));
    let (small, _) = self::engine(Config { context: 10, max_sequences: 0, prompt_chunk: 0, ..Config::default() });
    assert_eq!((small.config().max_sequences, small.context(), small.config().prompt_chunk), (1, 10, 1));
}

#[test]
fn prompts_that_cannot_be_continued_are_refused() {
    let (engine, _) = engine(Config::default());
    assert_eq!(engine.submit(request(0, None)).unwrap_err(), SubmitError::EmptyPrompt);
    for n in [32, 33, 100_000] {
        assert_eq!(engine.submit(request(n, Some(0))).unwrap_err(), SubmitError::TooLong { prompt: n, limit: 32 });
    }
    let strange = Request { prompt: vec![3, WIDTH as u32], ..Request::default() };
    assert!(matches!(engine.submit(strange).unwrap_err(), SubmitError::Invalid { param: "prompt", .. }));
    assert_eq!(engine.stats().requests, 0);
}

#[test]
fn a_full_context_ends_the_answer() {
    let (engine, world) = engine(Config::default());
    for (n, max_tokens) in [(31, None), (1, None), (10, Some(usize::MAX)), (20, Some(12))] {
        let answer = collect(engine.submit(request(n, max_tokens)).unwrap());
        assert_eq!((answer.finish().reason, answer.ids.len()), (FinishReason::Length, 32 - n));
    }
    let answer = collect(engine.submit(request(7, Some(0))).unwrap());
    assert_eq!((answer.finish().reason, answer.events.len(), answer.finish().usage.prompt), (FinishReason::Length, 1, 7));
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

#[test]
fn every_parameter_has_its_range() {
    let s = Sampling::default;
    let xtc = |probability, threshold| Xtc { probability, threshold };
    let miro = |mode, tau, eta| Mirostat { mode, tau, eta };
    let dry = |multiplier, base, allowed_length| Dry { multiplier, base, allowed_length, ..Dry::default() };
    let good = [
        s(),
        Sampling { temperature: 0.0, top_p: 1e-6, min_p: 1.0, typical_p: 1e-6, top_k: usize::MAX, ..s() },
        Sampling { temperature: 100.0, repeat_penalty: 0.01, presence_penalty: -100.0, frequency_penalty: 100.0, ..s() },
        Sampling { xtc: xtc(1.0, 1.0), mirostat: miro(2, 100.0, 1.0), dry: dry(100.0, 1.0, usize::MAX), ..s() },
        Sampling { logit_bias: vec![(47, f32::NEG_INFINITY), (0, 1e30)], top_n_sigma: 1000.0, ..s() },
    ];
    for sampling in good {
        assert_eq!(sampling.validate(WIDTH), Ok(()));
    }
    let long = || vec!["x".repeat(5000)];
    let bad: Vec<(&str, Sampling)> = vec![
        ("temperature", Sampling { temperature: -0.1, ..s() }),
        ("temperature", Sampling { temperature: 100.5, ..s() }),
        ("temperature", Sampling { temperature: f32::NAN, ..s() }),
        ("temperature", Sampling { temperature: f32::INFINITY, ..s() }),
        ("top_p", Sampling { top_p: 0.0, ..s() }),
        ("top_p", Sampling { top_p: 1.01, ..s() }),
        ("top_p", Sampling { top_p: f32::NAN, ..s() }),
        ("min_p", Sampling { min_p: -0.1, ..s() }),
        ("min_p", Sampling { min_p: 1.1, ..s() }),
        ("typical_p", Sampling { typical_p: 0.0, ..s() }),
        ("typical_p", Sampling { typical_p: 2.0, ..s() }),
        ("top_n_sigma", Sampling { top_n_sigma: -1.0, ..s() }),
        ("repeat_penalty", Sampling { repeat_penalty: 0.0, ..s() }),
        ("repeat_penalty", Sampling { repeat_penalty: 101.0, ..s() }),
        ("presence_penalty", Sampling { presence_penalty: -101.0, ..s() }),
        ("frequency_penalty", Sampling { frequency_penalty: f32::NEG_INFINITY, ..s() }),
        ("dry_multiplier", Sampling { dry: dry(-1.0, 1.75, 2), ..s() }),
        ("dry_base", Sampling { dry: dry(0.8, 0.5, 2), ..s() }),
        ("dry_allowed_length", Sampling { dry: dry(0.8, 1.75, 0), ..s() }),
        ("dry_sequence_breakers", Sampling { dry: Dry { sequence_breakers: vec!["x".into(); 65], ..Dry::default() }, ..s() }),
        ("dry_sequence_breakers", Sampling { dry: Dry { sequence_breakers: vec![String::new()], ..Dry::default() }, ..s() }),
        ("dry_sequence_breakers", Sampling { dry: Dry { sequence_breakers: long(), ..Dry::default() }, ..s() }),
        ("xtc_probability", Sampling { xtc: xtc(1.5, 0.1), ..s() }),
        ("xtc_threshold", Sampling { xtc: xtc(0.5, -0.1), ..s() }),
        ("mirostat", Sampling { mirostat: miro(1, 5.0, 0.1), ..s() }),
        ("mirostat_tau", Sampling { mirostat: miro(2, 0.0, 0.1), ..s() }),
        ("mirostat_eta", Sampling { mirostat: miro(2, 5.0, 1.5), ..s() }),
        ("logit_bias", Sampling { logit_bias: vec![(48, 1.0)], ..s() }),
        ("logit_bias", Sampling { logit_bias: vec![(4, f32::NAN)], ..s() }),
        ("logit_bias", Sampling { logit_bias: vec![(4, f32::INFINITY)], ..s() }),
        ("logit_bias", Sampling { logit_bias: vec![(4, 1.0); 5000], ..s() }),
    ];
    let (engine, _) = engine(Config::default());
    let refused = |request: Request, name: &str| match engine.submit(request) {
        Err(SubmitError::Invalid { param, message }) => {
            assert_eq!(param, name);
            assert!(message.contains("given") || message.contains("vocabulary"), "{message}");
        }
        other => panic!("{name}: {other:?}"),
    };
    for (name, sampling) in bad {
        refused(Request { sampling, ..request(3, Some(1)) }, name);
    }
    refused(Request { stop: vec![String::new()], ..request(3, Some(1)) }, "stop");
    refused(Request { stop: vec!["a".into(); 65], ..request(3, Some(1)) }, "stop");
    refused(Request { stop: long(), ..request(3, Some(1)) }, "stop");
    refused(Request { logprobs: Some(101), ..request(3, Some(1)) }, "logprobs");
    refused(Request { prompt_logprobs: Some(101), ..request(3, Some(1)) }, "prompt_logprobs");
    let range = engine.submit(Request { sampling: Sampling { temperature: -1.0, ..s() }, ..request(3, None) }).unwrap_err();
    assert_eq!(range.to_string(), "temperature: -1 was given; it must be from 0 to 100");
}

#[test]
fn the_queue_has_an_end() {
    let (engine, world) = engine(Config { max_sequences: 1, queue: 2, ..Config::default() });
    world.hold();
    let first = engine.submit(request(3, Some(2))).unwrap();
    world.wait_for(|c| c.steps.len() == 1);
    let second = engine.submit(request(3, Some(2))).unwrap();
    let third = engine.submit(request(3, Some(2))).unwrap();
    for _ in 0..3 {
        assert_eq!(engine.submit(request(3, Some(2))).unwrap_err(), SubmitError::QueueFull { limit: 2, wait: Duration::ZERO });
    }
    assert_eq!((engine.stats().waiting, engine.stats().refused), (2, 3));
    // One that has left keeps nobody out, even while a step is under way.
    drop(third);
    let fourth = engine.submit(request(3, Some(2))).unwrap();
    world.release();
    for stream in [first, second, fourth] {
        assert_eq!(collect(stream).ids.len(), 2);
    }
}

#[test]
fn time_limits() {
    let (engine, world) = engine(Config { max_sequences: 1, timeout: Some(Duration::from_secs(1000)), ..Config::default() });
    world.with(|c| c.delay = Duration::from_millis(20));
    let short = Duration::from_millis(50);
    let runs = engine.submit(Request { timeout: Some(short), ..request(3, None) }).unwrap();
    let waits = engine.submit(Request { timeout: Some(short), ..request(3, None) }).unwrap();
    let later = engine.submit(request(3, Some(2))).unwrap();
    for stream in [runs, waits] {
        assert_eq!(collect(stream).events.last(), Some(&Event::Failed(EngineError::Deadline(short))));
    }
    assert_eq!(collect(later).ids.len(), 2);
    let stats = engine.stats();
    assert_eq!((stats.failed, stats.finished, stats.pages_used), (2, 1, 0));
}

#[test]
fn shutting_down_lets_streams_finish() {
    let (engine, world) = engine(Config { max_sequences: 1, ..Config::default() });
    world.with(|c| c.delay = Duration::from_millis(2));
    let requests = [request(3, Some(10)), request(4, Some(5))];
    let streams = requests.clone().map(|r| engine.submit(r).unwrap());
    let other = engine.clone();
    std::thread::spawn(move || other.shutdown(Duration::from_secs(60)));
    while engine.submit(request(3, Some(1))).is_ok() {}
    assert_eq!(engine.submit(request(3, None)).unwrap_err(), SubmitError::ShuttingDown);
    for (stream, request) in streams.into_iter().zip(&requests) {
        let answer = collect(stream);
        assert_eq!((answer.finish().reason, answer.ids.len()), (FinishReason::Length, request.max_tokens.unwrap()));
    }
    engine.shutdown(Duration::ZERO);
    assert!(world.with(|c| c.dropped));
}

#[test]
fn shutting_down_does_not_wait_for_ever() {
    let (engine, world) = engine(Config { max_sequences: 1, ..Config::default() });
    world.with(|c| c.delay = Duration::from_millis(30));
    let streams = [engine.submit(request(3, None)).unwrap(), engine.submit(request(3, None)).unwrap()];
    let begun = Instant::now();
    engine.shutdown(Duration::from_millis(100));
    assert!(begun.elapsed() < Duration::from_millis(600), "{:?}", begun.elapsed());
    for stream in streams {
        assert_eq!(collect(stream).events.last(), Some(&Event::Failed(EngineError::ShuttingDown)));
    }
    assert!(world.with(|c| c.dropped));
}

#[test]
fn without_handles_the_thread_ends_when_the_streams_have() {
    let (engine, world) = engine(Config::default());
    let request = Request { sampling: Sampling { seed: Some(1), ..Sampling::default() }, ..request(3, Some(20)) };
    let stream = engine.submit(request.clone()).unwrap();
    let another = engine.clone();
    drop(engine);
    let late = another.submit(request.clone()).unwrap();
    drop(another);
    for stream in [stream, late] {
        assert_eq!(collect(stream).ids, expected(&request, 32));
    }
    world.wait_for(|c| c.dropped);
}

#[test]
fn an_executable_without_slots_serves_nobody_and_says_so() {
    let (toy, _) = Toy::new(onebit_plan::Limits { slots: 0, ..limits(16, 4, 8, 4) });
    let engine = Engine::new(toy, Words::new(), Config::default());
    let streams = [engine.submit(request(3, None)).unwrap(), engine.submit(request(3, None)).unwrap()];
    for stream in streams {
        assert!(matches!(&collect(stream).events[..], [Event::Failed(EngineError::Step(m))] if m.contains("slot")));
    }
}
