//! Who gets what in which step, and that it changes nothing in what anyone gets.

use crate::toy::{Toy, Words, collect, expected, limits};
use onebit_engine::{Config, Engine, Event, FinishReason, Request, Sampling, Stream};
use proptest::prelude::*;
use std::time::Duration;

fn prompt(n: usize, salt: u32) -> Vec<u32> {
    (0..n as u32).map(|i| 2 + (i * 7 + salt * 13) % 40).collect()
}

fn request(prompt: Vec<u32>, max_tokens: usize) -> Request {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    Request { prompt, max_tokens: Some(max_tokens), sampling, ignore_eos: true, ..Request::default() }
}

/// The next token of a stream that goes on.
fn token(stream: &mut Stream) -> u32 {
    match stream.blocking_next() {
        Some(Event::Token(token)) => token.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_sequence_alone() {
    let (toy, world) = Toy::new(limits(8, 4, 16, 2));
    let engine = Engine::new(toy, Words::new(), Config { prompt_chunk: 5, ..Config::default() });
    let request = request(prompt(12, 0), 20);
    let answer = collect(engine.submit(request.clone()).unwrap());
    assert_eq!(answer.ids, expected(&request, engine.context()));
    let finish = answer.finish();
    assert_eq!((finish.reason, finish.usage.prompt, finish.usage.completion), (FinishReason::Length, 12, 20));
    // The prompt in chunks, and only its last token's logits.
    let steps = world.with(|c| c.steps.clone());
    assert_eq!(steps[..4], [vec![(0, 5, 0)], vec![(5, 5, 0)], vec![(10, 2, 1)], vec![(12, 1, 1)]]);
    assert_eq!(steps.len(), 3 + 19);
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.pages_used, stats.slots_used), (0, 0, 0, 0));
    assert_eq!((stats.requests, stats.finished, stats.prompt_tokens, stats.completion_tokens), (1, 1, 12, 20));
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

#[test]
fn a_long_prompt_stops_nobody() {
    let (toy, world) = Toy::new(limits(64, 4, 200, 4));
    let engine = Engine::new(toy, Words::new(), Config { prompt_chunk: 10, ..Config::default() });
    world.hold();
    let streams: Vec<Stream> = (0..2).map(|i| engine.submit(request(prompt(3, i), 60)).unwrap()).collect();
    world.permit(3);
    world.wait_for(|c| c.steps.len() == 4);
    let long = engine.submit(request(prompt(300, 9), 5)).unwrap();
    world.release();
    let long = collect(long);
    assert_eq!(long.ids, expected(&request(prompt(300, 9), 5), engine.context()));
    for (i, stream) in streams.into_iter().enumerate() {
        assert_eq!(collect(stream).ids, expected(&request(prompt(3, i as u32), 60), engine.context()));
    }
    // While the prompt was read, both got their token in every step, and it never took more than a chunk.
    let steps = world.with(|c| c.steps.clone());
    let reading: Vec<_> = steps.iter().filter(|s| s.iter().any(|(_, len, _)| *len > 3)).collect();
    assert_eq!(reading.len(), 30);
    for step in reading {
        assert_eq!(step.iter().filter(|(_, len, outputs)| (*len, *outputs) == (1, 1)).count(), 2, "{step:?}");
        assert!(step.iter().map(|(_, len, _)| len).sum::<usize>() <= 12, "{step:?}");
    }
}

#[test]
fn prompts_share_what_is_left() {
    let (toy, world) = Toy::new(limits(32, 4, 200, 8));
    let engine = Engine::new(toy, Words::new(), Config { prompt_chunk: 30, ..Config::default() });
    world.hold();
    let first = engine.submit(request(prompt(1, 0), 3)).unwrap();
    world.wait_for(|c| c.steps.len() == 1);
    let streams: Vec<Stream> = [100, 4, 50].iter().map(|n| engine.submit(request(prompt(*n, 1), 2)).unwrap()).collect();
    world.permit(1);
    world.wait_for(|c| c.steps.len() == 2);
    // The short one is read whole; the two others share the rest.
    let mut step = world.with(|c| c.steps[1].clone());
    step.sort_unstable();
    assert_eq!(step, [(0, 4, 1), (0, 13, 0), (0, 13, 0), (1, 1, 1)]);
    world.release();
    for stream in streams.into_iter().chain([first]) {
        assert_eq!(collect(stream).finish().reason, FinishReason::Length);
    }
}

#[test]
fn who_leaves_is_gone_before_the_next_step() {
    let (toy, world) = Toy::new(limits(32, 4, 64, 2));
    let engine = Engine::new(toy, Words::new(), Config { max_sequences: 2, ..Config::default() });
    world.hold();
    let mut stays = engine.submit(request(prompt(3, 0), 12)).unwrap();
    world.wait_for(|c| c.steps.len() == 1);
    let leaves = engine.submit(request(prompt(4, 1), 50)).unwrap();
    let waits = engine.submit(request(prompt(5, 2), 4)).unwrap();
    let left = engine.submit(request(prompt(6, 3), 4)).unwrap();
    world.permit(2);
    world.wait_for(|c| c.steps.len() == 3);
    assert_eq!(world.with(|c| c.steps[2].len()), 2);
    assert_eq!(engine.stats().waiting, 2);
    // The third step is under way. It is the last that has a part of the one that leaves, and then the next gets its place.
    drop(leaves);
    drop(left);
    world.permit(1);
    world.wait_for(|c| c.steps.len() == 4);
    let mut step = world.with(|c| c.steps[3].clone());
    step.sort_unstable();
    assert_eq!(step, [(0, 5, 1), (5, 1, 1)]);
    assert_eq!((engine.stats().waiting, engine.stats().cancelled), (0, 2));
    world.release();
    token(&mut stays);
    assert_eq!(collect(waits).finish().usage.completion, 4);
    assert_eq!(collect(stays).finish().usage.completion, 12);
    let stats = engine.stats();
    assert_eq!((stats.finished, stats.cancelled, stats.pages_used, stats.slots_used), (2, 2, 0, 0));
}

#[test]
fn cancelling_ends_with_an_event() {
    let (toy, world) = Toy::new(limits(32, 4, 64, 2));
    let engine = Engine::new(toy, Words::new(), Config::default());
    world.hold();
    let mut stream = engine.submit(request(prompt(3, 0), 50)).unwrap();
    world.permit(2);
    world.wait_for(|c| c.steps.len() == 3);
    stream.cancel();
    world.release();
    let ids = [token(&mut stream), token(&mut stream), token(&mut stream)];
    assert_eq!(ids[..], expected(&request(prompt(3, 0), 3), engine.context()));
    let answer = collect(stream);
    assert_eq!((answer.finish().reason, answer.finish().usage.completion), (FinishReason::Cancelled, 3));
}

#[test]
fn the_youngest_gives_way_when_pages_run_out() {
    // Two that need 15 pages each, and 16 in all.
    let (toy, world) = Toy::new(limits(32, 4, 16, 4));
    let engine = Engine::new(toy, Words::new(), Config::default());
    world.hold();
    let requests: Vec<Request> = (0..3)
        .map(|i| Request {
            sampling: Sampling { seed: Some(u64::from(i)), repeat_penalty: 1.2, ..Sampling::default() },
            prompt_logprobs: Some(1),
            ..request(prompt(8, i), 50)
        })
        .collect();
    let streams: Vec<Stream> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    world.release();
    let mut ended = Vec::new();
    for (stream, request) in streams.into_iter().zip(&requests) {
        let answer = collect(stream);
        assert_eq!(answer.ids, expected(request, engine.context()));
        assert!(matches!(&answer.events[0], Event::Prompt(scores) if scores.len() == 8));
        ended.push(answer.finish().timings);
    }
    let stats = engine.stats();
    assert!(stats.preemptions >= 2, "{stats:?}");
    assert_eq!((stats.finished, stats.failed, stats.pages_used), (3, 0, 0));
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
    // The oldest was in every step until it ended.
    let steps = world.with(|c| c.steps.clone());
    let first: Vec<usize> = steps.iter().map(|s| s.iter().map(|(start, len, _)| start + len).max().unwrap()).collect();
    assert!(first[..50].windows(2).all(|w| w[1] > w[0]), "{first:?}");
}

#[test]
fn beginnings_that_come_again_are_not_computed_again() {
    let (mut toy, world) = Toy::new(limits(64, 4, 40, 4));
    toy.plain = true;
    let engine = Engine::new(toy, Words::new(), Config { prefix_reuse: true, ..Config::default() });
    let first = request(prompt(18, 0), 7);
    let answer = collect(engine.submit(first.clone()).unwrap());
    assert_eq!((&answer.ids, answer.finish().usage.cached), (&expected(&first, engine.context()), 0));
    // A second turn: of the 25 tokens before, 24 were computed, which is six pages.
    let second = request([&first.prompt[..], &answer.ids, &[9, 9, 9]].concat(), 5);
    let from = world.steps();
    let answer = collect(engine.submit(second.clone()).unwrap());
    assert_eq!(answer.ids, expected(&second, engine.context()));
    assert_eq!((answer.finish().usage.prompt, answer.finish().usage.cached), (28, 24));
    assert_eq!(world.with(|c| c.steps[from].clone()), [(24, 4, 1)]);
    // The same again: the last token at least is computed.
    assert_eq!(collect(engine.submit(request(prompt(16, 0), 1)).unwrap()).finish().usage.cached, 12);
    // Two at once, the second of which comes when the first has read its prompt.
    world.hold();
    let a = engine.submit(request(prompt(21, 5), 4)).unwrap();
    world.permit(1);
    world.wait_for(|c| c.permits == Some(0) && c.steps.last().is_some_and(|s| s[0].0 == 21));
    let b = engine.submit(request(prompt(21, 5), 4)).unwrap();
    world.release();
    let (a, b) = (collect(a), collect(b));
    assert_eq!((a.finish().usage.cached, b.finish().usage.cached, &a.ids), (0, 20, &b.ids));
    // Whose logits are asked for is computed.
    let scored = Request { prompt_logprobs: Some(0), ..first };
    let answer = collect(engine.submit(scored).unwrap());
    assert!(answer.finish().usage.cached == 0 && matches!(&answer.events[0], Event::Prompt(s) if s.len() == 18));
    assert_eq!(engine.stats().cached_tokens, 24 + 12 + 20);
    assert_eq!((engine.stats().pages_used, world.with(|c| c.wrong.clone())), (0, vec![]));
}

#[derive(Clone, Debug)]
struct Plan {
    request: Request,
    /// Steps to wait before it is submitted.
    pause: usize,
    /// Leaves after so many tokens.
    leaves: Option<usize>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let sampling =
        (0u64..1000, prop::sample::select(vec![0.0f32, 0.8, 1.5]), 0usize..20, prop::sample::select(vec![1.0f32, 1.3]), any::<bool>());
    let sampling = sampling.prop_map(|(seed, temperature, top_k, repeat_penalty, dry)| {
        let mut s = Sampling { seed: Some(seed), temperature, top_k, repeat_penalty, repeat_last_n: Some(9), ..Sampling::default() };
        s.dry.multiplier = if dry { 0.7 } else { 0.0 };
        s.mirostat.mode = if seed % 5 == 0 { 2 } else { 0 };
        s
    });
    let scores = prop_oneof![3 => Just(None), 1 => Just(Some(2usize))];
    (
        sampling,
        1usize..40,
        0u32..3,
        prop::option::weighted(0.9, 0usize..30),
        any::<bool>(),
        scores,
        0usize..6,
        prop::option::weighted(0.2, 0usize..6),
        -1i32..2,
    )
        .prop_map(|(sampling, n, salt, max_tokens, ignore_eos, prompt_logprobs, pause, leaves, priority)| Plan {
            request: Request { prompt: prompt(n, salt), max_tokens, sampling, ignore_eos, prompt_logprobs, priority, ..Request::default() },
            pause,
            leaves,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_schedule_gives_what_each_gets_alone(
        plans in prop::collection::vec(plan(), 1..14),
        batch in 6usize..40, outputs in 6usize..12, page in 1usize..9, slots in 1usize..7, chunk in 1usize..20,
        spare in 0usize..20, plain in any::<bool>(),
    ) {
        // Enough pages for the longest alone, and little more.
        let pages = 72usize.div_ceil(page) + spare;
        let limits = onebit_plan::Limits { outputs: outputs.min(batch), ..limits(batch, page, pages, slots) };
        let (mut toy, world) = Toy::new(limits);
        toy.plain = plain;
        let config = Config { context: 72, prompt_chunk: chunk, prefix_reuse: true, fixed_state: !plain, ..Config::default() };
        let engine = Engine::new(toy, Words::new(), config);
        let readers: Vec<_> = plans.into_iter().map(|plan| {
            let from = world.steps();
            // Idle engines do no steps, so this only waits while there is something to wait for.
            for _ in 0..50 {
                if world.steps() >= from + plan.pause || engine.stats().running == 0 { break }
                std::thread::sleep(Duration::from_micros(50));
            }
            let mut stream = engine.submit(plan.request.clone()).unwrap();
            std::thread::spawn(move || {
                let Some(n) = plan.leaves else { return (plan.request, Some(collect(stream))) };
                for _ in 0..n {
                    let _ = stream.blocking_next();
                }
                (plan.request, None)
            })
        }).collect();
        for reader in readers {
            let (request, answer) = reader.join().unwrap();
            if let Some(answer) = answer {
                let want = expected(&request, 72);
                prop_assert_eq!(&answer.ids, &want);
                let full = request.prompt.len() + request.max_tokens.unwrap_or(100);
                let reason = if request.prompt.len() + want.len() >= full.min(72) { FinishReason::Length } else { FinishReason::Stop };
                prop_assert_eq!(answer.finish().reason, reason);
                let scores = answer.events.iter().filter(|e| matches!(e, Event::Prompt(s) if s.len() == request.prompt.len())).count();
                prop_assert_eq!(scores, usize::from(request.prompt_logprobs.is_some()));
            }
        }
        engine.shutdown(Duration::from_secs(60));
        let stats = engine.stats();
        prop_assert_eq!((stats.running, stats.waiting, stats.pages_used, stats.slots_used, stats.failed), (0, 0, 0, 0, 0));
        prop_assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
        prop_assert!(world.with(|c| c.dropped));
    }
}
