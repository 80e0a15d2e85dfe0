//! Beginnings that come again of models with fixed states, and those that are saved and taken back.

use crate::toy::{Toy, Words, World, collect, expected, limits};
use onebit_engine::{Config, Engine, KeepError, Request, Sampling, Saved};
use std::sync::Arc;

fn engine(plain: bool, pages: usize, slots: usize) -> (Engine<Words>, Arc<World>) {
    let (mut toy, world) = Toy::new(limits(64, 4, pages, slots));
    toy.plain = plain;
    let config = Config { prefix_reuse: true, fixed_state: !plain, max_sequences: 2, prompt_chunk: 16, ..Config::default() };
    (Engine::new(toy, Words::new(), config), world)
}

fn request(prompt: Vec<u32>, max_tokens: usize) -> Request {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    Request { prompt, max_tokens: Some(max_tokens), sampling, ignore_eos: true, ..Request::default() }
}

fn prompt(n: usize, salt: u32) -> Vec<u32> {
    (0..n as u32).map(|i| 2 + (i * 7 + salt * 13) % 40).collect()
}

/// Answers it, checks the answer, and gives it with how much was known.
fn answer(engine: &Engine<Words>, request: &Request) -> (Vec<u32>, usize) {
    let answer = collect(engine.submit(request.clone()).unwrap());
    assert_eq!(answer.ids, expected(request, engine.context()));
    (answer.ids.clone(), answer.finish().usage.cached)
}

#[test]
fn a_chat_goes_on_where_its_states_are_known() {
    let (engine, world) = engine(false, 64, 8);
    let first = request(prompt(18, 0), 7);
    let (ids, cached) = answer(&engine, &first);
    assert_eq!(cached, 0);
    // The prompt was read up to its last page's end by itself.
    assert_eq!(world.with(|c| c.steps[..3].to_vec()), [vec![(0, 16, 0)], vec![(16, 2, 1)], vec![(18, 1, 1)]]);
    // 24 tokens were computed, and the states are known where the sixth page ends.
    let second = request([&first.prompt[..], &ids, &[9, 9, 9]].concat(), 5);
    assert_eq!(answer(&engine, &second).1, 24);
    // The same prompt again: up to its own last page's end.
    assert_eq!(answer(&engine, &first).1, 16);
    assert_eq!((engine.stats().cached_tokens, engine.stats().pages_used, engine.stats().slots_used), (40, 0, 0));
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

#[test]
fn a_common_beginning_is_known_from_the_third_on() {
    let (engine, world) = engine(false, 64, 8);
    let asks = |salt: u32| request([prompt(22, 0), prompt(9, 7 + salt)].concat(), 3);
    let cached: Vec<usize> = (0..4).map(|salt| answer(&engine, &asks(salt)).1).collect();
    // Five pages are common; the second finds that out.
    assert_eq!(cached, [0, 0, 20, 20]);
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

#[test]
fn without_slots_to_spare_nothing_is_known_and_all_is_right() {
    let (engine, world) = engine(false, 64, 2);
    let requests: Vec<Request> = (0..4).map(|i| request(prompt(18 + i, i as u32 % 2), 6)).collect();
    let streams: Vec<_> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    for (stream, request) in streams.into_iter().zip(&requests) {
        assert_eq!(collect(stream).ids, expected(request, engine.context()));
    }
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

/// Through its file, as the server does it.
fn through_a_file(saved: &Saved, engine: &Engine<Words>) -> Saved {
    let form = engine.saved_form().unwrap();
    let mut file = Vec::new();
    saved.write(&[1; 32], &form, &mut file).unwrap();
    Saved::read(&[1; 32], &form, file.len() as u64, &mut &file[..]).unwrap()
}

#[test]
fn what_was_saved_is_known_to_another_engine() {
    for plain in [true, false] {
        let (one, _) = engine(plain, 64, 8);
        let first = request(prompt(18, 0), 7);
        let (ids, _) = answer(&one, &first);
        let saved = one.save(0).unwrap();
        assert_eq!(saved.tokens(), &[&first.prompt[..], &ids].concat()[..24]);
        let (other, world) = engine(plain, 64, 8);
        other.restore(1, through_a_file(&saved, &other)).unwrap();
        let second = request([&first.prompt[..], &ids, &[9, 9, 9]].concat(), 5);
        assert_eq!(answer(&other, &second).1, 24, "plain: {plain}");
        // It can be saved again from the slot that it came to, and comes again where it is known.
        assert_eq!(other.save(1).unwrap(), saved);
        other.restore(0, saved.clone()).unwrap();
        // Erased, it is known no more.
        assert_eq!(other.erase(1).unwrap(), 24);
        assert_eq!(answer(&other, &second).1, 0);
        assert_eq!((other.stats().pages_used, other.stats().slots_used), (0, 0));
        assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
    }
}

#[test]
fn what_cannot_be_saved_or_taken_back_is_said() {
    let (one, world) = engine(true, 8, 2);
    assert_eq!(one.save(2), Err(KeepError::NoSlot { slot: 2, slots: 2 }));
    assert_eq!(one.save(0), Err(KeepError::Nothing { slot: 0, page: 4 }));
    assert_eq!(one.erase(0), Ok(0));
    let (ids, _) = answer(&one, &request(prompt(10, 0), 4));
    assert_eq!(ids.len(), 4);
    let saved = one.save(0).unwrap();
    one.erase(0).unwrap();
    // Another uses six of eight pages; three are needed.
    world.hold();
    let busy = one.submit(request(prompt(22, 3), 9)).unwrap();
    world.wait_for(|c| c.steps.last().is_some_and(|s| s[0].1 > 10));
    let restoring = std::thread::spawn({
        let (one, saved) = (one.clone(), saved.clone());
        move || one.restore(1, saved)
    });
    // It is done between two steps.
    while !restoring.is_finished() {
        world.permit(1);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(matches!(restoring.join().unwrap(), Err(KeepError::Full { needed: 3, free: 0..=2 })));
    world.release();
    collect(busy).finish();
    assert_eq!(one.restore(1, saved), Ok(()));
    // A model whose beginnings are not taken over.
    let (toy, _) = Toy::new(limits(16, 4, 8, 2));
    let never = Engine::new(toy, Words::new(), Config::default());
    assert!(matches!(never.save(0), Err(KeepError::Unsupported(_))) && never.saved_form().is_none());
    one.shutdown(std::time::Duration::ZERO);
    assert_eq!(one.save(0), Err(KeepError::Stopped));
}
