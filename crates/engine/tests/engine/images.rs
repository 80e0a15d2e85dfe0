//! Rows that stand in for tokens: they are where they belong in every step, however prompts are cut, displaced and reused.

use crate::toy::{GIVEN, Toy, WIDTH, Words, collect, limits, logits, stand_in};
use onebit_engine::{Config, Engine, Given, Request, Sampling, SubmitError};
use proptest::prelude::*;
use std::sync::Arc;

/// The mark of an image.
const MARK: u32 = 30;

/// A piece of a prompt.
#[derive(Clone, Debug)]
enum Part {
    Words(Vec<u32>),
    /// An image of so many rows, whose content this is; whole or not.
    Image(usize, u8, bool),
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        2 => prop::collection::vec(2u32..5, 1..9).prop_map(Part::Words),
        1 => (1usize..7, 0u8..2, any::<bool>()).prop_map(|(len, content, whole)| Part::Image(len, content, whole)),
    ]
}

/// A request, and what stands for its prompt in the toy; positions with axes where `turns`: an image takes as many as its rows' half.
fn request(parts: &[Part], turns: bool) -> (Request, Vec<u32>) {
    let (mut prompt, mut given, mut axes, mut seen) = (vec![], vec![], vec![], vec![]);
    let mut next = 0;
    for part in parts {
        let shift = |axes: [u32; 4], at: usize| if turns { axes.map(|a| a.wrapping_sub(at as u32)) } else { [0; 4] };
        match part {
            Part::Words(ids) => {
                for id in ids {
                    axes.push([next; 4]);
                    seen.push(stand_in(*id, None, shift([next; 4], prompt.len()), None));
                    prompt.push(*id);
                    next += 1;
                }
            }
            Part::Image(len, content, whole) => {
                let (start, first) = (prompt.len(), usize::from(*content));
                let rows: Arc<[f32]> = (0..(len + first) * GIVEN).map(|i| (i + first) as f32).collect();
                for i in 0..*len {
                    let place = [next, next + i as u32 / 2, next + i as u32 % 2, next];
                    let group = Some([start as u32, (start + len) as u32]).filter(|_| *whole && *len > 1);
                    let row = &rows[(first + i) * GIVEN..][..GIVEN];
                    axes.push(place);
                    seen.push(stand_in(MARK, Some(row), shift(place, start + i), group));
                    prompt.push(MARK);
                }
                given.push(Given { start, len: *len, rows, first, whole: *whole });
                next += len.div_ceil(2).max(2) as u32;
            }
        }
    }
    let last = axes.iter().flatten().max().map_or(0, |last| last + 1);
    let axes: Arc<[_]> = if turns { axes.into() } else { Arc::default() };
    let shift = if turns { [last.wrapping_sub(prompt.len() as u32); 4] } else { [0; 4] };
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    for _ in 0..5 {
        // Greedy: the token of the greatest logit, the end never.
        let row = logits(&seen);
        let best = (1..WIDTH).max_by(|a, b| row[*a].total_cmp(&row[*b]).then(b.cmp(a))).unwrap_or(0) as u32;
        seen.push(stand_in(best, None, shift, None));
        prompt.push(best);
    }
    let answer = prompt.split_off(prompt.len() - 5);
    (Request { prompt, given, axes, max_tokens: Some(5), sampling, ignore_eos: true, ..Request::default() }, answer)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn images_are_where_they_belong(
        prompts in prop::collection::vec((prop::collection::vec(part(), 1..6), any::<bool>()), 1..7),
        (page, pages) in (2usize..6, 24usize..40),
        (chunk, sequences) in (6usize..12, 1usize..4),
        plain in any::<bool>(),
    ) {
        // Long enough pages for each alone, and too few for all: some lose their places.
        let (mut toy, world) = Toy::new(limits(chunk + sequences - 1, page, pages, sequences));
        toy.plain = plain;
        let config = Config { prompt_chunk: chunk, prefix_reuse: plain, ..Config::default() };
        let engine = Engine::new(toy, Words::new(), config);
        let requests: Vec<_> = prompts.iter().map(|(parts, turns)| request(parts, *turns)).collect();
        let streams: Vec<_> = requests.iter().filter(|(r, _)| r.prompt.len() + 5 <= engine.context()).collect();
        let streams: Vec<_> = streams.into_iter().map(|(r, answer)| (engine.submit(r.clone()).unwrap(), answer)).collect();
        for (stream, answer) in streams {
            prop_assert_eq!(&collect(stream).ids, answer);
        }
        prop_assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
    }
}

#[test]
fn pages_are_known_by_their_images() {
    let (mut toy, world) = Toy::new(limits(16, 4, 40, 1));
    toy.plain = true;
    let engine = Engine::new(toy, Words::new(), Config { prefix_reuse: true, ..Config::default() });
    let parts = |content| [Part::Words(vec![2, 3]), Part::Image(6, content, true), Part::Words(vec![4; 9])];
    let cached = |content: u8| {
        let (request, answer) = request(&parts(content), false);
        let found = collect(engine.submit(request).unwrap());
        assert_eq!(found.ids, answer);
        found.finish().usage.cached
    };
    assert_eq!([cached(0), cached(1), cached(0), cached(1)], [0, 0, 16, 16]);
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

#[test]
fn what_does_not_fit_is_refused() {
    let (toy, _) = Toy::new(limits(8, 4, 40, 2));
    let engine = Engine::new(toy, Words::new(), Config { prompt_chunk: 8, ..Config::default() });
    let given = |start, len, rows: usize, whole| Given { start, len, rows: vec![0.0; rows * GIVEN].into(), first: 0, whole };
    let refusal = |request: Request| match engine.submit(Request { prompt: vec![2; 20], ..request }) {
        Err(SubmitError::Invalid { param, message }) => format!("{param}: {message}"),
        other => panic!("{other:?}"),
    };
    let with = |given: Vec<Given>| Request { given, ..Request::default() };
    for (request, wanted) in [
        (Request { axes: vec![[0; 4]; 3].into(), ..Request::default() }, "images: 3 positions were given for 20 tokens"),
        (with(vec![given(18, 3, 3, false)]), "images: rows for 3 tokens from 18 of 20 on"),
        (with(vec![given(4, 3, 3, false), given(6, 1, 1, false)]), "images: rows for 1 tokens from 6 of 20 on, those before 7"),
        (with(vec![given(usize::MAX, 3, 3, false)]), "images: rows for 3 tokens"),
        (with(vec![given(4, 0, 3, false)]), "images: rows for 0 tokens"),
        (with(vec![given(4, 3, 2, false)]), "images: 4 numbers are fewer than 3 rows of 2 from 0 on"),
        (with(vec![given(4, 8, 8, true)]), "images: an image of 8 tokens that see each other does not fit into a step of 7"),
        (Request { prompt_logprobs: Some(1), ..with(vec![given(4, 3, 3, false)]) }, "prompt_logprobs: the tokens of images"),
    ] {
        let found = refusal(request);
        assert!(found.starts_with(wanted), "{found}");
    }
}
