//! Steps that fail: who is hurt, and who is not.

use crate::toy::{Answer, Toy, Trap, WIDTH, Words, World, collect, expected, limits};
use onebit_engine::{Config, Engine, EngineError, Event, Request, Sampling, SubmitError};
use std::sync::Arc;
use std::time::Duration;

/// In no prompt but the bad one, and never chosen.
const POISON: u32 = 47;

fn engine() -> (Engine<Words>, Arc<World>) {
    let (toy, world) = Toy::new(limits(32, 4, 64, 6));
    (Engine::new(toy, Words::new(), Config { prompt_chunk: 8, ..Config::default() }), world)
}

fn request(salt: u32, n: usize) -> Request {
    let prompt = (0..n as u32).map(|i| 2 + (i * 3 + salt * 11) % 40).collect();
    let sampling = Sampling { seed: Some(u64::from(salt)), logit_bias: vec![(POISON, f32::NEG_INFINITY)], ..Sampling::default() };
    Request { prompt, max_tokens: Some(15), sampling, ignore_eos: true, ..Request::default() }
}

/// Submits all before any step is done, and reads them.
fn together(engine: &Engine<Words>, world: &World, requests: &[Request]) -> Vec<Answer> {
    world.hold();
    let streams: Vec<_> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    world.release();
    let answers = streams.into_iter().map(collect).collect();
    assert_eq!(world.with(|c| std::mem::take(&mut c.wrong)), Vec::<String>::new());
    answers
}

fn assert_unharmed(engine: &Engine<Words>, answer: &Answer, request: &Request) {
    assert_eq!(answer.ids, expected(request, engine.context()));
    answer.finish();
}

#[test]
fn a_step_that_fails_for_one_fails_only_that_one() {
    for panics in [true, false] {
        let (engine, world) = engine();
        world.with(|c| *(if panics { &mut c.panic_at } else { &mut c.error_at }) = Some(POISON));
        let mut requests: Vec<Request> = (0..5).map(|i| request(i, 5 + 4 * i as usize)).collect();
        // Late in its prompt, when others are in their answers.
        requests[2].prompt[11] = POISON;
        for round in 0..2 {
            let answers = together(&engine, &world, &requests);
            for (i, answer) in answers.iter().enumerate() {
                if i == 2 {
                    let message = if panics { "panic: the toy panics" } else { "the toy fails" };
                    assert_eq!(answer.events, [Event::Failed(EngineError::Step(message.into()))]);
                } else {
                    assert_unharmed(&engine, answer, &requests[i]);
                }
            }
            let stats = engine.stats();
            assert_eq!((stats.failed, stats.finished), (round + 1, 4 * (round + 1)));
            assert_eq!((stats.pages_used, stats.slots_used, stats.running, stats.waiting), (0, 0, 0, 0));
        }
    }
}

#[test]
fn several_that_fail() {
    let (engine, world) = engine();
    world.with(|c| c.panic_at = Some(POISON));
    let mut requests: Vec<Request> = (0..6).map(|i| request(i, 9)).collect();
    for i in [0, 3, 4] {
        requests[i].prompt[i * 2] = POISON;
    }
    for (i, answer) in together(&engine, &world, &requests).iter().enumerate() {
        match i {
            0 | 3 | 4 => assert!(matches!(&answer.events[..], [Event::Failed(EngineError::Step(_))])),
            _ => assert_unharmed(&engine, answer, &requests[i]),
        }
    }
}

#[test]
fn a_fault_that_does_not_come_again_hurts_nobody() {
    // In the prompts, in the answers, and several times.
    for steps in [vec![1], vec![9], vec![1, 12], vec![4, 9, 14, 19, 40]] {
        let (engine, world) = engine();
        world.with(|c| c.error_in = steps.clone());
        let requests: Vec<Request> = (0..4).map(|i| request(i, 9 + i as usize)).collect();
        let answers = together(&engine, &world, &requests);
        let failed = answers.iter().filter(|a| matches!(a.events.last(), Some(Event::Failed(_)))).count();
        for (answer, request) in answers.iter().zip(&requests) {
            if let Some(Event::Failed(error)) = answer.events.last() {
                assert_eq!(error, &EngineError::Step("the toy fails".into()));
            } else {
                assert_unharmed(&engine, answer, request);
            }
        }
        // A step with a single sequence cannot be told from that sequence's own fault.
        let single = world.with(|c| steps.iter().filter(|s| c.steps.get(**s).is_some_and(|s| s.len() == 1)).count());
        assert!(failed <= single, "{failed} of {single} with {steps:?}");
        if steps.len() == 1 {
            assert_eq!(failed, 0, "{steps:?}");
        }
    }
}

#[test]
fn a_broken_executable_fails_everything_at_once() {
    let (engine, world) = engine();
    world.with(|c| c.broken_from = Some(6));
    let requests: Vec<Request> = (0..12).map(|i| request(i, 9)).collect();
    for (answer, request) in together(&engine, &world, &requests).iter().zip(&requests) {
        assert!(matches!(answer.events.last(), Some(Event::Failed(EngineError::Stopped(m))) if m.contains("the toy fails")));
        assert!(expected(request, engine.context()).starts_with(&answer.ids));
    }
    assert!(matches!(engine.submit(request(0, 3)).unwrap_err(), SubmitError::Stopped(m) if m.contains("the toy fails")));
    engine.shutdown(Duration::from_secs(60));
    assert!(world.with(|c| c.dropped));
    assert_eq!(engine.stats().failed, 12);
}

#[test]
fn logits_that_are_no_numbers_fail_the_one_that_has_them() {
    let (engine, world) = engine();
    world.with(|c| c.nan_after = Some(POISON));
    let mut requests: Vec<Request> = (0..4).map(|i| request(i, 9)).collect();
    requests[1].prompt[8] = POISON;
    // In the middle of a prompt nobody looks at them, unless it is to be scored.
    requests[2].prompt[5] = POISON;
    requests[3].prompt[4] = POISON;
    requests[3].prompt_logprobs = Some(0);
    let answers = together(&engine, &world, &requests);
    let error = |position| [Event::Failed(EngineError::Logits { token: 7, position, value: "NaN".into() })];
    assert_unharmed(&engine, &answers[0], &requests[0]);
    assert_eq!(answers[1].events, error(8));
    assert_unharmed(&engine, &answers[2], &requests[2]);
    assert_eq!(answers[3].events, error(4));
    assert_eq!(engine.stats().pages_used, 0);
}

#[test]
fn nothing_left_to_choose() {
    let (engine, world) = engine();
    let mut requests = vec![request(0, 4), request(1, 4)];
    requests[0].sampling.logit_bias = (0..WIDTH as u32).map(|i| (i, f32::NEG_INFINITY)).collect();
    let answers = together(&engine, &world, &requests);
    assert_eq!(answers[0].events, [Event::Failed(EngineError::NothingLeft)]);
    assert_unharmed(&engine, &answers[1], &requests[1]);
}

#[test]
fn a_panic_in_the_engines_own_work_fails_only_that_stream() {
    let (toy, _) = Toy::new(limits(32, 4, 64, 6));
    let engine = Engine::new(toy, Arc::new(Trap(Words::new(), 30)), Config::default());
    let greedy = |bias| Sampling { temperature: 0.0, logit_bias: vec![(30, bias)], ..Sampling::default() };
    let bad = Request { sampling: greedy(100.0), ..request(0, 4) };
    let good = Request { sampling: greedy(f32::NEG_INFINITY), ..request(1, 4) };
    let (bad, also) = (engine.submit(bad).unwrap(), engine.submit(good.clone()).unwrap());
    assert!(matches!(&collect(bad).events[..], [Event::Failed(EngineError::Step(m))] if m.contains("a trap")));
    assert_eq!(collect(also).ids, expected(&good, engine.context()));
    assert_eq!(engine.stats().pages_used, 0);
}

#[test]
fn nothing_is_taken_over_from_before_a_failure() {
    let (mut toy, world) = Toy::new(limits(32, 4, 64, 6));
    toy.plain = true;
    let engine = Engine::new(toy, Words::new(), Config { prefix_reuse: true, ..Config::default() });
    let good = request(0, 13);
    let cached = || {
        let answer = collect(engine.submit(good.clone()).unwrap());
        assert_unharmed(&engine, &answer, &good);
        answer.finish().usage.cached
    };
    assert_eq!((cached(), cached()), (0, 12));
    world.with(|c| c.error_at = Some(POISON));
    let mut bad = request(1, 9);
    bad.prompt[8] = POISON;
    assert!(matches!(&collect(engine.submit(bad).unwrap()).events[..], [Event::Failed(EngineError::Step(_))]));
    assert_eq!((cached(), cached()), (0, 12));
    // Logits that are no numbers put the caches of that sequence in doubt.
    world.with(|c| (c.error_at, c.nan_after) = (None, Some(POISON)));
    let mut bad = request(1, 13);
    bad.prompt[12] = POISON;
    for _ in 0..2 {
        assert!(matches!(&collect(engine.submit(bad.clone()).unwrap()).events[..], [Event::Failed(EngineError::Logits { .. })]));
    }
    assert_eq!(engine.stats().cached_tokens, 24);
}
