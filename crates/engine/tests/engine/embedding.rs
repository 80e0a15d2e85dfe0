//! Vectors of texts: the toy's rows of logits stand for hidden states.

use crate::toy::{Toy, WIDTH, Words, collect, limits, logits};
use onebit_engine::{Config, Engine, EngineError, Event, FinishReason, Pool, Request, Stream, SubmitError};
use std::sync::Arc;

const POOLS: [Pool; 7] = [Pool::None, Pool::Mean, Pool::Cls, Pool::Last, Pool::Max, Pool::MeanSqrtLen, Pool::WeightedMean];

fn config(pool: Pool) -> Config {
    Config { pooling: Some(Arc::new(pool.into())), prompt_chunk: 7, max_sequences: 3, prefix_reuse: true, ..Config::default() }
}

fn text(seed: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| 4 + (seed * 7 + i * i) % 20).collect()
}

/// What a pooling makes of the states of a text, row by row from the first.
fn expected(pool: Pool, text: &[u32]) -> Vec<Vec<f32>> {
    let rows: Vec<Vec<f32>> = (1..=text.len()).map(|n| logits(&text[..n])).collect();
    let n = rows.len() as f64;
    let over = |weight: &dyn Fn(usize) -> f64| -> Vec<f32> {
        (0..WIDTH).map(|i| rows.iter().enumerate().map(|(t, row)| weight(t) * f64::from(row[i])).sum::<f64>() as f32).collect()
    };
    match pool {
        Pool::None => rows,
        Pool::Cls => vec![rows[0].clone()],
        Pool::Last => vec![rows[rows.len() - 1].clone()],
        Pool::Max => vec![(0..WIDTH).map(|i| rows.iter().map(|row| row[i]).fold(f32::MIN, f32::max)).collect()],
        Pool::Mean => vec![over(&|_| 1.0 / n)],
        Pool::MeanSqrtLen => vec![over(&|_| 1.0 / n.sqrt())],
        Pool::WeightedMean => vec![over(&|t| (t + 1) as f64 / (n * (n + 1.0) / 2.0))],
    }
}

fn vectors(stream: Stream) -> Vec<Vec<f32>> {
    let answer = collect(stream);
    match &answer.events[..] {
        [Event::Embedding(vectors), Event::Finished(finish)] => {
            assert_eq!((finish.reason, finish.usage.completion, finish.text.as_str()), (FinishReason::Stop, 0, ""));
            vectors.clone()
        }
        other => panic!("{other:?}"),
    }
}

fn close(found: &[Vec<f32>], wanted: &[Vec<f32>]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found.len(), wanted.len());
        found.iter().zip(wanted).for_each(|(a, b)| assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} for {b}"));
    }
}

/// In chunks, beside others, with beginnings that come again: the same vectors.
#[test]
fn every_pooling() {
    for pool in POOLS {
        let (mut toy, world) = Toy::new(limits(24, 4, 40, 4));
        // Beginnings that come again are for models without fixed states.
        toy.plain = true;
        let engine = Engine::new(toy, Words::new(), config(pool));
        assert_eq!(engine.embedding_width(), Some(WIDTH));
        let texts: Vec<Vec<u32>> = [(1, 30), (2, 1), (1, 30), (3, 17), (1, 31), (4, 2), (5, 64)].map(|(seed, len)| text(seed, len)).into();
        let streams: Vec<Stream> = texts.iter().map(|text| engine.embed(text.clone()).unwrap()).collect();
        for (stream, text) in streams.into_iter().zip(&texts) {
            close(&vectors(stream), &expected(pool, text));
        }
        world.with(|c| assert!(c.wrong.is_empty(), "{pool:?}: {:?}", c.wrong));
        let longest = world.with(|c| c.steps.iter().flatten().map(|(_, len, _)| *len).max());
        assert!(longest <= Some(7), "{pool:?}: {longest:?} tokens of a text in one step");
    }
}

/// Pages for one text at a time only.
#[test]
fn short_of_pages() {
    let (toy, world) = Toy::new(limits(24, 4, 17, 4));
    let engine = Engine::new(toy, Words::new(), Config { prefix_reuse: false, ..config(Pool::Mean) });
    let texts: Vec<Vec<u32>> = (0..8).map(|seed| text(seed, 40)).collect();
    let streams: Vec<Stream> = texts.iter().map(|text| engine.embed(text.clone()).unwrap()).collect();
    for (stream, text) in streams.into_iter().zip(&texts) {
        close(&vectors(stream), &expected(Pool::Mean, text));
    }
    world.with(|c| assert!(c.wrong.is_empty(), "{:?}", c.wrong));
}

/// Where tokens see those behind them, each text is in one step, and no longer than one.
#[test]
fn whole_texts() {
    let (toy, world) = Toy::new(limits(24, 4, 40, 4));
    let engine = Engine::new(toy, Words::new(), Config { whole: true, ..config(Pool::Mean) });
    assert_eq!(engine.context(), 24);
    let texts: Vec<Vec<u32>> = [10, 24, 3, 9, 24, 1].into_iter().zip(0..).map(|(len, seed)| text(seed, len)).collect();
    let streams: Vec<Stream> = texts.iter().map(|text| engine.embed(text.clone()).unwrap()).collect();
    for (stream, text) in streams.into_iter().zip(&texts) {
        close(&vectors(stream), &expected(Pool::Mean, text));
    }
    let mut lens: Vec<usize> = world.with(|c| {
        assert!(c.steps.iter().flatten().all(|(start, len, outputs)| *start == 0 && len == outputs), "{:?}", c.steps);
        c.steps.iter().flatten().map(|(_, len, _)| *len).collect()
    });
    lens.sort_unstable();
    assert_eq!(lens, [1, 3, 9, 10, 24, 24]);
    assert_eq!(engine.embed(text(1, 25)).unwrap_err(), SubmitError::SourceTooLong { prompt: 25, limit: 24 });
    // Fewer rows of output bound texts as well, unless one row is enough.
    let fewer = |pool| {
        let (toy, _) = Toy::new(onebit_plan::Limits { outputs: 8, ..limits(24, 4, 40, 4) });
        Engine::new(toy, Words::new(), Config { whole: true, ..config(pool) }).context()
    };
    assert_eq!([fewer(Pool::Mean), fewer(Pool::Cls), fewer(Pool::Last)], [8, 8, 24]);
}

#[test]
fn what_is_refused_and_what_fails() {
    let (toy, world) = Toy::new(limits(24, 4, 10, 4));
    let engine = Engine::new(toy, Words::new(), config(Pool::Mean));
    assert_eq!(engine.submit(Request { prompt: text(1, 3), ..Request::default() }).unwrap_err(), SubmitError::NoText);
    assert_eq!(engine.embed(vec![]).unwrap_err(), SubmitError::EmptyPrompt);
    assert!(matches!(engine.embed(vec![WIDTH as u32]).unwrap_err(), SubmitError::Invalid { param: "prompt", .. }));
    assert_eq!(engine.embed(text(1, 41)).unwrap_err(), SubmitError::SourceTooLong { prompt: 41, limit: 40 });
    assert_eq!(vectors(engine.embed(text(1, 40)).unwrap()).len(), 1);
    world.with(|c| c.nan_after = Some(25));
    let failed = collect(engine.embed([text(1, 10), vec![25], text(2, 3)].concat()).unwrap());
    let error = EngineError::States { position: 10, value: "NaN".into() };
    assert_eq!(failed.events, [Event::Failed(error)]);
    let (toy, _) = Toy::new(limits(24, 4, 10, 4));
    let writer = Engine::new(toy, Words::new(), Config::default());
    assert_eq!((writer.embed(text(1, 3)).unwrap_err(), writer.embedding_width()), (SubmitError::NoEmbeddings, None));
}
