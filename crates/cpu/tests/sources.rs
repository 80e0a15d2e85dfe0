//! An encoder and a decoder that attends to what it has read.

#[allow(dead_code)] // of what test files share, this one needs a part
mod common;

use common::{Outcome, VOCABULARY, tokens, whole_model};
use onebit_cpu::Cpu;
use onebit_plan::{ActivationKind, Answering, AttentionSpec, Batch, Device, Graph, Inputs, KvType, Limits, Mask, Model, Span, Value};
use onebit_reference::Reference;

const WIDTH: usize = 48;

/// Two layers that see all of the source in one cache; two of a decoder that sees its own past and the source, each with two query heads
/// to a key/value head.
fn build(g: &mut Graph<'_>) -> Value {
    let spec = |mask| AttentionSpec { mask, ..AttentionSpec::causal(4, 2, 16) };
    let project = |g: &mut Graph<'_>, x, part: &str, i: usize| {
        [("q", 4), ("k", 2), ("v", 2)].map(|(name, heads)| g.linear(x, &format!("{part}_{name}{i}"), heads * 16))
    };
    let out = |g: &mut Graph<'_>, x, y, name: String| {
        let y = g.linear(y, &name, WIDTH);
        g.add(x, y)
    };
    let mut x = g.embed("token_embd", WIDTH, 1.5);
    let cache = g.kv_cache(&spec(Mask::Full));
    for i in 0..2 {
        let [q, k, v] = project(g, x, "enc", i);
        let y = g.attention_in(cache, q, Some([k, v]), &spec(Mask::Full));
        x = out(g, x, y, format!("enc_o{i}"));
    }
    let sources = [0, 1].map(|i| {
        let [k, v] = ["k", "v"].map(|name| g.linear(x, &format!("cross_{name}{i}"), 32));
        g.remember(k, v, 2)
    });
    g.answers(Answering { start: vec![1], never: vec![] });
    let mut x = g.embed("token_embd", WIDTH, 1.5);
    for (i, source) in sources.into_iter().enumerate() {
        let [q, k, v] = project(g, x, "dec", i);
        let y = g.attention(q, k, v, &spec(Mask::Causal));
        x = out(g, x, y, format!("dec_o{i}"));
        let q = g.linear(x, &format!("cross_q{i}"), 64);
        let y = g.attention_in(source, q, None, &spec(Mask::Source));
        x = out(g, x, y, format!("cross_o{i}"));
    }
    x
}

fn limits(page: usize) -> Limits {
    let pages = 2 * 1500usize.div_ceil(page);
    Limits { batch: 1500, outputs: 64, page, pages, slots: 2, kv: KvType::F32, activations: ActivationKind::F32 }
}

/// All logits of answers to sources, the sequences' sources read by the batches of `reads`, their tokens fed `chunk` at a time each.
fn run(
    device: &dyn Device,
    model: &Model,
    parts: [(&[u32], &[u32]); 2],
    reads: &[&[usize]],
    chunk: usize,
    page: usize,
) -> Outcome<[Vec<f32>; 2]> {
    let limits = limits(page);
    let mut exe = device.load(model.clone(), &limits, &mut |_| {})?;
    let pages = [1, 0].map(|odd| (0..limits.pages as u32).rev().filter(|p| p % 2 == odd).collect::<Vec<_>>());
    let span = |i: usize, start, len, outputs| Span { len, start, pages: &pages[i], slot: i as u32, outputs };
    for sequences in reads {
        let tokens: Vec<u32> = sequences.iter().flat_map(|i| parts[*i].0).copied().collect();
        let spans: Vec<_> = sequences.iter().map(|i| span(*i, 0, parts[*i].0.len(), 0)).collect();
        exe.encode(&Batch::text(&tokens, &spans))?;
    }
    let mut logits = [vec![], vec![]];
    let longest = parts[0].1.len().max(parts[1].1.len());
    for start in (0..longest).step_by(chunk) {
        let some: Vec<(usize, &[u32])> = (0..2)
            .filter_map(|i| parts[i].1.get(start..parts[i].1.len().min(start + chunk)).filter(|t| !t.is_empty()).map(|t| (i, t)))
            .collect();
        let tokens: Vec<u32> = some.iter().flat_map(|(_, tokens)| *tokens).copied().collect();
        let spans: Vec<_> = some.iter().map(|(i, tokens)| span(*i, start, tokens.len(), tokens.len())).collect();
        let sources: Vec<u32> = some.iter().map(|(i, _)| parts[*i].0.len() as u32).collect();
        let mut rows = exe.step(&Batch { inputs: Inputs { sources: &sources, ..Inputs::default() }, ..Batch::text(&tokens, &spans) })?;
        for (i, tokens) in some {
            let (own, rest) = rows.split_at(tokens.len() * VOCABULARY);
            logits[i].extend_from_slice(own);
            rows = rest;
        }
    }
    Ok(logits)
}

fn bits(logits: &[Vec<f32>; 2]) -> [Vec<u32>; 2] {
    [0, 1].map(|i| logits[i].iter().map(|x| x.to_bits()).collect())
}

#[test]
fn sources_of_many_lengths() -> Outcome {
    let model = whole_model(&[], build)?;
    let answers = [tokens("first", 19), tokens("second", 30)];
    // Within a group of keys, over its edge, and over several ranges of blocks, which threads take apart.
    for (lengths, page) in [([1, 17], 16), ([16, 70], 5), ([900, 333], 64)] {
        let sources = lengths.map(|n| tokens(&format!("source {n}"), n));
        let parts = [0, 1].map(|i| (&sources[i][..], &answers[i][..]));
        let expected = run(&Reference, &model, parts, &[&[0], &[1]], 7, page)?;
        let one = run(&Cpu::new(Some(1)), &model, parts, &[&[0], &[1]], 30, page)?;
        for (a, b) in one.iter().flatten().zip(expected.iter().flatten()) {
            assert!((a - b).abs() < 2e-5, "sources of {lengths:?}: {a} should be {b}");
        }
        for (threads, reads, chunk) in [(3, &[&[1, 0][..]][..], 30), (2, &[&[0], &[1]], 1), (1, &[&[0, 1]], 4)] {
            let other = run(&Cpu::new(Some(threads)), &model, parts, reads, chunk, page)?;
            assert!(bits(&one) == bits(&other), "{threads} threads, sources {reads:?}, chunks of {chunk}");
        }
    }
    Ok(())
}

#[test]
fn batches_that_make_no_sense() -> Outcome {
    let model = whole_model(&[], build)?;
    let decoder = common::model(WIDTH, &[], |_, x| x)?;
    for device in [&Cpu::new(Some(1)) as &dyn Device, &Reference] {
        let mut exe = device.load(model.clone(), &limits(16), &mut |_| {})?;
        let pages = [0, 1];
        let span = |start, len| Span { len, start, pages: &pages, slot: 0, outputs: 0 };
        let step = |exe: &mut dyn onebit_plan::Executable, sources: &[u32]| {
            let spans = [span(0, 1)];
            let batch = Batch { inputs: Inputs { sources, ..Inputs::default() }, ..Batch::text(&[1], &spans) };
            exe.step(&batch).map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(step(exe.as_mut(), &[]), Err("sources for 0 spans, but 1 need one".into()));
        assert_eq!(step(exe.as_mut(), &[0]), Err("2 pages do not hold a source of 0 tokens".into()));
        assert_eq!(step(exe.as_mut(), &[33]), Err("2 pages do not hold a source of 33 tokens".into()));
        assert_eq!(step(exe.as_mut(), &[32]), Ok(()));
        let error = exe.encode(&Batch::text(&[1, 2], &[span(1, 2)])).expect_err("refused").to_string();
        assert!(error.contains("a sequence has to be in one step"), "{error}");
        let mut exe = device.load(decoder.clone(), &limits(16), &mut |_| {})?;
        assert_eq!(step(exe.as_mut(), &[5]), Err("sources for 1 spans, but 0 need one".into()));
        let error = exe.encode(&Batch::text(&[1, 2], &[span(0, 2)])).expect_err("refused").to_string();
        assert_eq!(error, "the model reads no sources: it has no encoder");
    }
    Ok(())
}
