//! Who goes first, who makes way, and what it costs.

use crate::toy::{Toy, Words, collect, expected, limits};
use onebit_engine::{Config, Engine, EngineError, Event, Request, Sampling};
use std::time::Duration;

fn request(salt: u32, n: usize, max_tokens: usize, priority: i32) -> Request {
    let prompt = (0..n as u32).map(|i| 2 + (i * 7 + salt * 13) % 40).collect();
    let sampling = Sampling { seed: Some(u64::from(salt)), repeat_penalty: 1.2, ..Sampling::default() };
    Request { prompt, max_tokens: Some(max_tokens), sampling, ignore_eos: true, priority, ..Request::default() }
}

#[test]
fn the_lower_priority_gets_its_place_first() {
    let (toy, world) = Toy::new(limits(32, 4, 64, 2));
    let engine = Engine::new(toy, Words::new(), Config { max_sequences: 1, ..Config::default() });
    world.hold();
    let first = engine.submit(request(0, 3, 2, -5)).unwrap();
    world.wait_for(|c| c.steps.len() == 1);
    // Prompts of different lengths tell which is which.
    let waiting: Vec<_> = [(4, 1), (5, 0), (6, -1), (7, 0)].map(|(n, priority)| engine.submit(request(1, n, 1, priority)).unwrap()).into();
    world.release();
    for stream in [first].into_iter().chain(waiting) {
        collect(stream).finish();
    }
    let lengths: Vec<usize> = world.with(|c| c.steps.iter().filter(|s| s[0].0 == 0).map(|s| s[0].1).collect());
    assert_eq!(lengths, [3, 6, 5, 7, 4]);
}

#[test]
fn one_that_is_urgent_takes_a_place_and_changes_no_token() {
    for (seats, pages) in [(1, 64), (4, 9)] {
        // Either no seat is left, or no page.
        let (toy, world) = Toy::new(limits(32, 4, pages, 8));
        let engine = Engine::new(toy, Words::new(), Config { max_sequences: seats, ..Config::default() });
        let (slow, urgent) = (request(3, 8, 24, 0), request(4, 16, 6, -1));
        world.hold();
        let a = engine.submit(slow.clone()).unwrap();
        world.permit(6);
        world.wait_for(|c| c.steps.len() == 7);
        let b = engine.submit(urgent.clone()).unwrap();
        world.release();
        let b = collect(b);
        assert_eq!(b.ids, expected(&urgent, engine.context()));
        let last = world.with(|c| c.steps.iter().position(|s| s.contains(&(20, 1, 1))));
        let a = collect(a);
        assert_eq!(a.ids, expected(&slow, engine.context()));
        let steps = world.with(|c| c.steps.clone());
        let resumed = steps.iter().rposition(|s| s.iter().any(|(start, _, _)| *start == 0));
        assert!(engine.stats().preemptions == 1 && resumed > last, "{steps:?}");
        assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
    }
}

#[test]
fn equals_do_not_displace_each_other() {
    let (toy, world) = Toy::new(limits(32, 4, 64, 2));
    let engine = Engine::new(toy, Words::new(), Config { max_sequences: 1, ..Config::default() });
    world.hold();
    let a = engine.submit(request(0, 4, 9, 2)).unwrap();
    world.permit(2);
    world.wait_for(|c| c.steps.len() == 3);
    let others = [2, 3].map(|priority| engine.submit(request(1, 4, 2, priority)).unwrap());
    world.release();
    collect(a).finish();
    for stream in others {
        assert_eq!(collect(stream).finish().usage.completion, 2);
    }
    assert_eq!(engine.stats().preemptions, 0);
}

#[test]
fn a_deadline_holds_also_for_one_that_was_displaced() {
    let (toy, world) = Toy::new(limits(32, 4, 64, 2));
    let engine = Engine::new(toy, Words::new(), Config { max_sequences: 1, ..Config::default() });
    world.hold();
    let late = Request { timeout: Some(Duration::from_millis(100)), ..request(0, 4, 500, 0) };
    let mut a = engine.submit(late).unwrap();
    world.permit(2);
    world.wait_for(|c| c.steps.len() == 3);
    let b = engine.submit(request(1, 4, 40, -1)).unwrap();
    world.with(|c| c.delay = Duration::from_millis(10));
    world.release();
    let mut last = None;
    while let Some(event) = a.blocking_next() {
        last = Some(event);
    }
    assert_eq!(last, Some(Event::Failed(EngineError::Deadline(Duration::from_millis(100)))));
    assert_eq!(collect(b).finish().usage.completion, 40);
    assert_eq!((engine.stats().failed, engine.stats().pages_used), (1, 0));
}
