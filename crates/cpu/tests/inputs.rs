//! What tokens have besides ids: rows that they are given, positions on several axes, groups that see each other.

#[allow(dead_code)] // of what test files share, this one needs a part
mod common;

use common::{Outcome, VOCABULARY, model, numbers, tokens};
use onebit_cpu::Cpu;
use onebit_plan::{
    AXES, ActivationKind, AttentionSpec, Batch, Device, DeviceError, Executable, Graph, Inputs, KvType, Limits, Mask, Model, Rope,
    RopeStyle, Span, Value,
};
use onebit_reference::Reference;
use std::ops::Range;

/// Numbers of the stream, and of what tokens are given.
const WIDTH: usize = 48;
const GIVEN: usize = 2 * WIDTH;
/// Tokens of the sequence, and those of its two images.
const COUNT: usize = 75;
const IMAGES: [Range<usize>; 2] = [9..41, 50..62];

/// A layer of attention by axes and groups over an embedding that may be given, with more that is added behind it.
fn layer(g: &mut Graph<'_>, x: Value, mask: Mask) -> Value {
    let x = g.or_given(x);
    let rope = Rope { axes: vec![0, 1, 2, 0, 1, 2], ..Rope::new(RopeStyle::Halves, Rope::frequencies(100.0, 12)) };
    let project = |g: &mut Graph<'_>, name: &str, heads: usize| g.linear(x, name, heads * 16);
    let (q, k, v) = (project(g, "attn_q", 4), project(g, "attn_k", 2), project(g, "attn_v", 2));
    let (q, k) = (g.rope(q, 16, &rope), g.rope(k, 16, &rope));
    let y = g.attention(q, k, v, &AttentionSpec { mask, groups: true, ..AttentionSpec::causal(4, 2, 16) });
    let y = g.linear(y, "attn_output", WIDTH);
    let x = g.add(x, y);
    g.add_given(x, WIDTH)
}

/// A sequence of words and images.
struct Seen {
    tokens: Vec<u32>,
    rows: Vec<f32>,
    given: Vec<u32>,
    axes: Vec<[u32; AXES]>,
    groups: Vec<[u32; 2]>,
}

fn seen() -> Seen {
    let image = |i: usize| IMAGES.into_iter().find(|image| image.contains(&i));
    let all = || 0..COUNT;
    let group = |i: usize| image(i).map_or([i as u32, i as u32 + 1], |image| [image.start as u32, image.end as u32]);
    let place = |i: usize| image(i).map_or([i; AXES], |at| [at.start, at.start + (i - at.start) / 4, at.start + (i - at.start) % 4, 0]);
    Seen {
        tokens: tokens("inputs", COUNT),
        rows: numbers("rows", COUNT * GIVEN, 1.0),
        given: all().map(|i| image(i).map_or(Inputs::NONE, |_| (COUNT - 1 - i) as u32)).collect(),
        axes: all().map(|i| place(i).map(|p| p as u32)).collect(),
        groups: all().map(group).collect(),
    }
}

impl Seen {
    fn part(&self, at: Range<usize>) -> Inputs<'_> {
        Inputs {
            rows: &self.rows,
            given: &self.given[at.clone()],
            axes: &self.axes[at.clone()],
            groups: &self.groups[at],
            ..Inputs::default()
        }
    }
}

fn limits(page: usize) -> Limits {
    let pages = COUNT.div_ceil(page) + 2;
    Limits { batch: COUNT, outputs: COUNT, page, pages, slots: 2, kv: KvType::F32, activations: ActivationKind::F32 }
}

/// The logits of all tokens, fed in parts.
fn run(device: &dyn Device, model: &Model, seen: &Seen, parts: &[Range<usize>], page: usize) -> Outcome<Vec<f32>> {
    let mut exe = device.load(model.clone(), &limits(page), &mut |_| {})?;
    assert_eq!(exe.given(), GIVEN);
    let pages: Vec<u32> = (0..limits(page).pages as u32).rev().collect();
    let mut logits = vec![];
    for at in parts {
        let span = Span { len: at.len(), start: at.start, pages: &pages, slot: 1, outputs: at.len() };
        let inputs = seen.part(at.clone());
        logits.extend_from_slice(exe.step(&Batch { tokens: &seen.tokens[at.clone()], spans: &[span], inputs })?);
    }
    Ok(logits)
}

#[test]
fn images_in_a_sequence() -> Outcome {
    let seen = seen();
    for mask in [Mask::Causal, Mask::Window(7), Mask::Window(1)] {
        let model = model(WIDTH, &[], |g, x| layer(g, x, mask))?;
        for page in [16, 5] {
            let whole = 0..COUNT;
            let expected = run(&Reference, &model, &seen, std::slice::from_ref(&whole), page)?;
            let all = run(&Cpu::new(Some(3)), &model, &seen, std::slice::from_ref(&whole), page)?;
            let worst = all.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 2e-5, "{mask:?}, pages of {page}: {worst}");
            // Images in one step each, whatever comes with them, and on however many threads.
            for (threads, parts) in
                [(3, vec![0..9, 9..41, 41..50, 50..62, 62..75]), (1, vec![0..41, 41..75]), (2, vec![0..5, 5..49, 49..75])]
            {
                let some = run(&Cpu::new(Some(threads)), &model, &seen, &parts, page)?;
                assert!(all.iter().map(|x| x.to_bits()).eq(some.iter().map(|x| x.to_bits())), "{mask:?}, pages of {page}, {parts:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn text_with_axes_is_text() -> Outcome {
    let model = model(WIDTH, &[], |g, x| layer(g, x, Mask::Causal))?;
    let tokens = tokens("text", 30);
    let pages: Vec<u32> = (0..4).collect();
    let span = [Span { len: 30, start: 0, pages: &pages, slot: 0, outputs: 30 }];
    let logits = |inputs: Inputs<'_>| -> Outcome<Vec<u32>> {
        let mut exe = Cpu::new(Some(2)).load(model.clone(), &limits(16), &mut |_| {})?;
        Ok(exe.step(&Batch { tokens: &tokens, spans: &span, inputs })?.iter().map(|x| x.to_bits()).collect())
    };
    let axes: Vec<_> = (0..30).map(|i| [i; AXES]).collect();
    let groups: Vec<_> = (0..30).map(|i| [i, i + 1]).collect();
    let given = [Inputs::NONE; 30];
    assert_eq!(logits(Inputs::default())?, logits(Inputs { rows: &[], given: &given, axes: &axes, groups: &groups, ..Inputs::default() })?);
    Ok(())
}

/// What the device says to a batch of three tokens of a sequence that has 2.
fn refusal(exe: &mut dyn Executable, inputs: Inputs<'_>) -> String {
    let span = Span { len: 3, start: 2, pages: &[0], slot: 0, outputs: 0 };
    match exe.step(&Batch { tokens: &[1, 2, 3], spans: &[span], inputs }) {
        Err(DeviceError::Batch(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_refused() -> Outcome {
    let text = model(WIDTH, &[], |g, x| layer(g, x, Mask::Causal))?;
    let tower = model(WIDTH, &[], |g, x| {
        let given = g.given(0, WIDTH);
        g.add(x, given)
    })?;
    assert_eq!((text.plan.batch_form().vocabulary, text.plan.batch_form().given), (VOCABULARY, GIVEN));
    for device in [&Cpu::new(Some(1)) as &dyn Device, &Reference] {
        let mut exe = device.load(text.clone(), &limits(16), &mut |_| {})?;
        let refusal = |inputs| refusal(exe.as_mut(), inputs);
        let (none, rows) = (Inputs::default(), [0.0; GIVEN]);
        let mut refusal = refusal;
        assert_eq!(refusal(Inputs { given: &[0, 0], rows: &rows, ..none }), "2 rows for 3 tokens");
        assert_eq!(refusal(Inputs { axes: &[[0; AXES]], ..none }), "1 positions for 3 tokens");
        assert_eq!(refusal(Inputs { groups: &[[0, 1]; 4], ..none }), "4 groups for 3 tokens");
        let beyond = Inputs { given: &[0, 1, Inputs::NONE], rows: &rows, ..none };
        assert_eq!(refusal(beyond), "row 1 is not among those that are given, of 96 numbers each");
        assert_eq!(refusal(Inputs { groups: &[[2, 3], [3, 6], [4, 5]], ..none }), "a group from 3 to 6 in a sequence of 5 tokens");
        assert_eq!(refusal(Inputs { groups: &[[2, 3], [3, 3], [4, 5]], ..none }), "a group from 3 to 3 in a sequence of 5 tokens");
        let mut exe = device.load(tower.clone(), &limits(16), &mut |_| {})?;
        let mut refusal = |inputs| self::refusal(exe.as_mut(), inputs);
        assert_eq!(refusal(none), "a token is given no row");
        assert_eq!(refusal(Inputs { given: &[0, Inputs::NONE, 0], rows: &rows, ..none }), "a token is given no row");
    }
    Ok(())
}

#[test]
fn sequences_that_are_seen_whole() -> Outcome {
    let body = |g: &mut Graph<'_>, x| {
        // As towers have it: rows instead of ids, windows in some layers, and one cache for all of them.
        let x = {
            let given = g.given(0, GIVEN);
            let given = g.slice(given, 1, WIDTH, WIDTH);
            g.add(x, given)
        };
        let spec = |mask, groups| AttentionSpec { mask, groups, ..AttentionSpec::causal(4, 4, 16) };
        let state = g.kv_cache(&spec(Mask::Full, false));
        [spec(Mask::Full, false), spec(Mask::Window(1), true), spec(Mask::Full, false)].iter().enumerate().fold(x, |x, (i, spec)| {
            let [q, k, v] = ["q", "k", "v"].map(|name| g.linear(x, &format!("{name}{i}"), 64));
            let y = g.attention_in(state, q, Some([k, v]), spec);
            let y = g.linear(y, &format!("o{i}"), WIDTH);
            g.add(x, y)
        })
    };
    let model = model(WIDTH, &[], body)?;
    let mut seen = seen();
    seen.given = (0..COUNT as u32).rev().collect();
    let whole = std::iter::once(0..COUNT).collect::<Vec<_>>();
    for page in [16, 5] {
        let expected = run(&Reference, &model, &seen, &whole, page)?;
        let one = run(&Cpu::new(Some(1)), &model, &seen, &whole, page)?;
        let worst = one.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 2e-5, "pages of {page}: {worst}");
        let three = run(&Cpu::new(Some(3)), &model, &seen, &whole, page)?;
        assert!(one.iter().map(|x| x.to_bits()).eq(three.iter().map(|x| x.to_bits())));
        for device in [&Cpu::new(Some(1)) as &dyn Device, &Reference] {
            let error = run(device, &model, &seen, &[0..70, 70..75], page).expect_err("refused").to_string();
            assert_eq!(error, "a span begins at token 70, but this model sees what follows: a sequence has to be in one step");
        }
    }
    Ok(())
}
