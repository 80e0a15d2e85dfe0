//! Answers that are held to a grammar, against masks that are made by plain rules.

use crate::toy::{END, SPECIAL, Toy, Words, collect, expected, limits, logits};
use onebit_engine::{Config, Engine, EngineError, Event, FinishReason, Request, Sampling, SubmitError, Vocabulary};
use onebit_grammar::{Compiler, Grammar, Limits, Source, Word};

const WORDS: u32 = 48;

fn engine(sequences: usize) -> Engine<Words> {
    let config = Config { max_sequences: sequences, ..Config::default() };
    Engine::new(Toy::new(limits(32, 4, 64, sequences)).0, Words::new(), config)
}

fn grammar(source: Source) -> Grammar {
    let words = Words::new();
    let word = |id: u32| match words.is_special(id) {
        true if id == END => Word::Special("</s>"),
        true => Word::Special("<mark>"),
        false => Word::Text(words.bytes(id)),
    };
    Compiler::new((0..WORDS).map(word), &[END], Limits::default()).unwrap().compile(&source.into()).unwrap()
}

fn regex(text: &str) -> Option<Grammar> {
    Some(grammar(Source::Regex(text.into())))
}

fn greedy(prompt: Vec<u32>, grammar: Option<Grammar>) -> Request {
    Request { prompt, grammar, sampling: Sampling { temperature: 0.0, ..Sampling::default() }, ..Request::default() }
}

/// The best tokens of all that keep the text within two to six letters from `a` to `m`, by plain counting.
fn reference(prompt: &[u32]) -> (Vec<u32>, String) {
    let words = Words::new();
    let (mut tokens, mut text) = (prompt.to_vec(), String::new());
    while text.len() < 6 {
        let fits = |id: u32| {
            let bytes = words.bytes(id);
            id > SPECIAL && text.len() + bytes.len() <= 6 && bytes.iter().all(|b| (b'a'..=b'm').contains(b))
        };
        let row = logits(&tokens);
        let allowed = (0..WORDS).filter(|id| if *id == END { text.len() >= 2 } else { fits(*id) });
        let best = allowed.max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize]).then(b.cmp(a))).unwrap();
        tokens.push(best);
        if best == END {
            break;
        }
        text.push_str(str::from_utf8(words.bytes(best)).unwrap());
    }
    (tokens.split_off(prompt.len()), text)
}

#[test]
fn only_what_the_grammar_allows_is_chosen_and_the_best_of_it() {
    let engine = engine(4);
    let grammar = regex("[a-m]{2,6}");
    let prompts: Vec<Vec<u32>> = (4..24).map(|i| vec![i, 40, i + 7]).collect();
    let streams: Vec<_> = prompts.iter().map(|p| engine.submit(greedy(p.clone(), grammar.clone())).unwrap()).collect();
    let mut lengths = std::collections::BTreeSet::new();
    for (prompt, stream) in prompts.iter().zip(streams) {
        let (answer, (mut ids, text)) = (collect(stream), reference(prompt));
        ids.retain(|id| *id != END);
        assert_eq!((&answer.ids, &answer.text), (&ids, &text), "{prompt:?}");
        // Six letters are the end, whatever the model would say next.
        assert_eq!((answer.finish().reason, &answer.finish().stop), (FinishReason::Stop, &None));
        lengths.insert(text.len());
    }
    assert!(lengths.len() > 2, "{lengths:?}");
}

#[test]
fn streams_without_a_grammar_are_as_they_were() {
    let engine = engine(4);
    let free = |seed| Request {
        prompt: vec![5, 6, seed as u32],
        max_tokens: Some(40),
        ignore_eos: true,
        sampling: Sampling { seed: Some(seed), ..Sampling::default() },
        ..Request::default()
    };
    let held = Request { max_tokens: Some(30), ..greedy(vec![9, 9], regex("[a-z ]{200}")) };
    let streams: Vec<_> = (10..13).map(|seed| engine.submit(free(seed)).unwrap()).collect();
    let held = engine.submit(held).unwrap();
    for (seed, stream) in (10..13).zip(streams) {
        assert_eq!(collect(stream).ids, expected(&free(seed), usize::MAX));
    }
    let held = collect(held);
    assert_eq!((held.finish().reason, held.ids.len()), (FinishReason::Length, 30));
}

#[test]
fn a_complete_answer_has_stopped_even_at_its_last_token() {
    let request = |grammar| Request { max_tokens: Some(2), ..greedy(vec![4], grammar) };
    let engine = engine(1);
    let answer = collect(engine.submit(request(regex("xy"))).unwrap());
    assert_eq!((answer.text.as_str(), answer.finish().reason, answer.finish().usage.completion), ("xy", FinishReason::Stop, 2));
    let answer = collect(engine.submit(request(regex("xyz"))).unwrap());
    assert_eq!((answer.text.as_str(), answer.finish().reason), ("xy", FinishReason::Length));
}

#[test]
fn without_an_end_token_it_goes_on_as_long_as_it_may() {
    let engine = engine(1);
    let request = Request { ignore_eos: true, ..greedy(vec![4], regex("[a-c]{1,9}")) };
    let answer = collect(engine.submit(request).unwrap());
    assert_eq!((answer.text.len(), answer.finish().reason), (9, FinishReason::Stop));
    // Where the end is all that may come, it comes, and the answer does not say so.
    let request = Request { ignore_eos: true, ..greedy(vec![4], Some(grammar(Source::Lark("start: \"x\" | \"x\" start".into())))) };
    let answer = collect(engine.submit(Request { max_tokens: Some(12), ..request }).unwrap());
    assert_eq!((answer.text.as_str(), answer.finish().reason), ("x".repeat(12).as_str(), FinishReason::Length));
}

#[test]
fn stop_strings_and_logprobs_are_as_without() {
    let engine = engine(1);
    let request = Request { stop: vec!["bc".into()], logprobs: Some(3), ..greedy(vec![4], regex("abcd")) };
    let answer = collect(engine.submit(request).unwrap());
    assert_eq!((answer.text.as_str(), answer.finish().reason, answer.finish().stop.as_deref()), ("a", FinishReason::Stop, Some("bc")));
    // Logprobs are of the model's own distribution, in which the grammar has no part.
    let Event::Token(first) = &answer.events[0] else { panic!("{:?}", answer.events) };
    let row = logits(&[4]);
    let sum = row.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
    let of = |id: u32| (f64::from(row[id as usize]) - sum) as f32;
    let logprobs = first.logprobs.as_ref().unwrap();
    assert!((logprobs.logprob - of(first.id)).abs() < 1e-4);
    assert!(logprobs.top.iter().all(|t| (t.logprob - of(t.id)).abs() < 1e-4) && logprobs.top[0].logprob >= logprobs.logprob);
}

#[test]
fn what_cannot_be_is_a_failure_of_this_stream_only() {
    let engine = engine(2);
    // All that the grammar allows is forbidden.
    let x = (0..WORDS).find(|id| Words::new().bytes(*id) == b"q").unwrap();
    let sampling = Sampling { logit_bias: vec![(x, f32::NEG_INFINITY)], temperature: 0.0, ..Sampling::default() };
    let refused = engine.submit(Request { sampling, ..greedy(vec![4], regex("q")) }).unwrap();
    let other = engine.submit(greedy(vec![4], regex("xy"))).unwrap();
    assert_eq!(collect(refused).events, [Event::Failed(EngineError::NothingLeft)]);
    assert_eq!(collect(other).text, "xy");
}

#[test]
fn masks_that_take_long_do_not_hold_up_others() {
    // Each letter may be the last but so many, in as many ways, which makes masks slow.
    let slow = Some(grammar(Source::Regex("(a|b|ab|ba|aa)*c(a|b|c){0,300}d".into())));
    let engine = engine(4);
    let held: Vec<_> =
        (0..3).map(|i| engine.submit(Request { max_tokens: Some(20), ..greedy(vec![4 + i], slow.clone()) }).unwrap()).collect();
    let free = Request {
        prompt: vec![7],
        max_tokens: Some(30),
        ignore_eos: true,
        sampling: Sampling { seed: Some(1), ..Sampling::default() },
        ..Request::default()
    };
    assert_eq!(collect(engine.submit(free.clone()).unwrap()).ids, expected(&free, usize::MAX));
    for stream in held {
        let answer = collect(stream);
        assert!(answer.text.bytes().all(|b| b"abcd".contains(&b)), "{}", answer.text);
        assert!(!answer.ids.is_empty());
    }
}

#[test]
fn masked_diffusion_has_none() {
    let denoising = Some(onebit_plan::Denoising { mask: 47, shifted: false });
    let engine = Engine::new(Toy::new(limits(32, 4, 64, 4)).0, Words::new(), Config { denoising, ..Config::default() });
    let refused = engine.submit(greedy(vec![4], regex("xy"))).unwrap_err();
    assert!(matches!(refused, SubmitError::Invalid { param: "grammar", .. }), "{refused}");
}
