//! What comes out of a stream: text, stop strings, ends, logprobs.

use crate::toy::{Answer, END, SPECIAL, Toy, Words, collect, expected, limits, logits};
use onebit_engine::{Config, Engine, Event, FinishReason, Logprobs, Request, Sampling, Vocabulary};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

fn engine() -> Engine<Words> {
    Engine::new(Toy::new(limits(32, 4, 64, 4)).0, Words::new(), Config::default())
}

/// The answer that consists of exactly these tokens, which are all different.
fn forced(engine: &Engine<Words>, tokens: &[u32], rest: Request) -> Answer {
    let bias = tokens.iter().enumerate().map(|(i, t)| (*t, 10_000.0 - 20.0 * i as f32)).collect();
    let sampling = Sampling {
        temperature: 0.0,
        frequency_penalty: 100.0,
        presence_penalty: 100.0,
        repeat_last_n: None,
        logit_bias: bias,
        ..Sampling::default()
    };
    // Each choice costs a token 200, more than lies between the first and the last of them, so that all come once, in order.
    assert!(tokens.len() < 8);
    let request = Request { prompt: vec![40], sampling, max_tokens: Some(tokens.len()), ..rest };
    collect(engine.submit(request).unwrap())
}

fn ids(words: &[&str]) -> Vec<u32> {
    let vocabulary = Words::new();
    words.iter().map(|w| (0..40).find(|i| vocabulary.bytes(*i) == w.as_bytes()).unwrap()).collect()
}

#[test]
fn text_and_ids_are_those_of_the_tokens() {
    let engine = engine();
    let tokens = [&ids(&["a", " the"])[..], &[2, 3], &ids(&["ä", "b"])].concat();
    let answer = forced(&engine, &tokens, Request::default());
    assert_eq!((&answer.ids, answer.text.as_str()), (&tokens, "a the🦀äb"));
    let texts: Vec<&str> =
        answer.events.iter().filter_map(|e| if let Event::Token(t) = e { Some(t.text.as_str()) } else { None }).collect();
    assert_eq!(texts, ["a", " the", "", "🦀", "ä", "b"]);
    assert_eq!((answer.finish().reason, answer.finish().text.as_str()), (FinishReason::Length, ""));
    // Cut within a character.
    assert_eq!(forced(&engine, &[tokens[0], 2], Request::default()).text, "a\u{fffd}");
}

#[test]
fn stop_strings_end_it_and_are_not_shown() {
    let engine = engine();
    let stop = vec![" theab\n".to_string(), "zz".into()];
    let tokens = ids(&["c", " the", "ab", "\n", "d"]);
    let answer = forced(&engine, &tokens, Request { stop: stop.clone(), ..Request::default() });
    assert_eq!((answer.text.as_str(), &answer.ids[..]), ("c", &tokens[..4]));
    let finish = answer.finish();
    assert_eq!((finish.reason, finish.stop.as_deref(), finish.usage.completion), (FinishReason::Stop, Some(" theab\n"), 4));
    // A beginning that comes to nothing is shown: at the limit, before an end token, and when it is cancelled.
    let tokens = ids(&["c", " the", "ab"]);
    let answer = forced(&engine, &tokens, Request { stop: stop.clone(), ..Request::default() });
    assert_eq!((answer.text.as_str(), answer.finish().reason), ("c theab", FinishReason::Length));
    let answer = forced(&engine, &[&tokens[..], &[END]].concat(), Request { stop, ..Request::default() });
    assert_eq!((answer.text.as_str(), answer.finish().text.as_str()), ("c theab", " theab"));
    assert_eq!((answer.finish().reason, answer.finish().stop.as_ref()), (FinishReason::Stop, None));
}

#[test]
fn end_tokens_end_it_unless_they_are_ignored() {
    let engine = engine();
    let tokens = [ids(&["c"])[0], END, ids(&["d"])[0]];
    let answer = forced(&engine, &tokens, Request::default());
    assert_eq!((answer.ids.as_slice(), answer.text.as_str()), (&tokens[..1], "c"));
    assert_eq!((answer.finish().reason, answer.finish().usage.completion), (FinishReason::Stop, 2));
    let answer = forced(&engine, &tokens, Request { ignore_eos: true, ..Request::default() });
    assert_eq!((&answer.ids[..2], answer.ids.len()), (&[tokens[0], tokens[2]][..], 3));
    assert!(!answer.ids.contains(&END));
}

#[test]
fn special_tokens_are_shown_only_on_request() {
    let engine = engine();
    let tokens = [ids(&["c"])[0], SPECIAL, ids(&["d"])[0]];
    let answer = forced(&engine, &tokens, Request::default());
    assert_eq!((answer.ids.as_slice(), answer.text.as_str()), (&tokens[..], "cd"));
    assert_eq!(forced(&engine, &tokens, Request { skip_special: false, ..Request::default() }).text, "c<mark>d");
    assert_eq!(forced(&engine, &tokens, Request { shown: [SPECIAL].into(), ..Request::default() }).text, "c<mark>d");
}

fn ln_softmax(tokens: &[u32]) -> Vec<f64> {
    let row = logits(tokens);
    let total = row.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
    row.iter().map(|l| f64::from(*l) - total).collect()
}

fn assert_logprobs(got: &Logprobs, before: &[u32], id: u32, n: usize) {
    let want = ln_softmax(before);
    assert!((f64::from(got.logprob) - want[id as usize]).abs() < 1e-5);
    let mut order: Vec<usize> = (0..want.len()).collect();
    order.sort_by(|a, b| want[*b].total_cmp(&want[*a]));
    assert_eq!(got.top.iter().map(|t| t.id as usize).collect::<Vec<_>>(), order[..n]);
    assert!(got.top.iter().all(|t| (f64::from(t.logprob) - want[t.id as usize]).abs() < 1e-5));
}

#[test]
fn logprobs_of_answers_and_prompts() {
    let (toy, world) = Toy::new(limits(9, 4, 64, 4));
    let engine = Engine::new(toy, Words::new(), Config { prompt_chunk: 5, ..Config::default() });
    let prompt: Vec<u32> = (0..17).map(|i| 2 + i * 5 % 40).collect();
    // What changes the choice changes nothing in what is reported.
    let sampling =
        Sampling { temperature: 1.7, repeat_penalty: 1.5, top_k: 9, seed: Some(3), logit_bias: vec![(9, 4.0)], ..Sampling::default() };
    let request = Request {
        prompt: prompt.clone(),
        max_tokens: Some(6),
        sampling,
        ignore_eos: true,
        logprobs: Some(4),
        prompt_logprobs: Some(2),
        ..Request::default()
    };
    // Another in the same steps, which asks for nothing.
    let other =
        engine.submit(Request { prompt: prompt[..9].to_vec(), max_tokens: Some(20), ignore_eos: true, ..Request::default() }).unwrap();
    let answer = collect(engine.submit(request.clone()).unwrap());
    assert_eq!(answer.ids, expected(&request, engine.context()));
    let Event::Prompt(scores) = &answer.events[0] else { panic!("{:?}", answer.events[0]) };
    assert_eq!((scores.len(), &scores[0]), (17, &None));
    for i in 1..17 {
        assert_logprobs(scores[i].as_ref().unwrap(), &prompt[..i], prompt[i], 2);
    }
    let mut tokens = prompt.clone();
    for event in &answer.events[1..7] {
        let Event::Token(token) = event else { panic!("{event:?}") };
        assert_logprobs(token.logprobs.as_ref().unwrap(), &tokens, token.id, 4);
        tokens.push(token.id);
    }
    assert!(collect(other).events.iter().all(|e| !matches!(e, Event::Token(t) if t.logprobs.is_some())));
    // Only the prompt.
    let answer = collect(engine.submit(Request { max_tokens: Some(0), ..request.clone() }).unwrap());
    assert!(
        matches!(&answer.events[..], [Event::Prompt(again), Event::Finished(f)] if again == scores && f.reason == FinishReason::Length && f.usage.completion == 0)
    );
    let answer = collect(engine.submit(Request { prompt: vec![5], max_tokens: Some(1), ..request }).unwrap());
    assert!(matches!(&answer.events[..], [Event::Prompt(s), Event::Token(_), Event::Finished(_)] if s == &[None]));
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}

struct Unpark(std::thread::Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_task_reads_the_same_as_a_thread() {
    let (toy, world) = Toy::new(limits(32, 4, 64, 4));
    world.with(|c| c.delay = std::time::Duration::from_millis(1));
    let engine = Engine::new(toy, Words::new(), Config::default());
    let request = Request {
        prompt: vec![5, 6, 7],
        max_tokens: Some(20),
        sampling: Sampling { seed: Some(1), ..Sampling::default() },
        ..Request::default()
    };
    let mut stream = engine.submit(request.clone()).unwrap();
    let ids = block_on(async {
        let mut ids = Vec::new();
        while let Some(event) = stream.next().await {
            if let Event::Token(token) = event {
                ids.push(token.id);
            }
        }
        ids
    });
    assert_eq!(ids, expected(&request, engine.context()));
}

#[test]
fn handles_can_be_shared() {
    fn shared<T: Clone + Send + Sync>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let engine = engine();
    shared(&engine);
    sent(&engine.submit(Request { prompt: vec![4], max_tokens: Some(1), ..Request::default() }).unwrap());
}
