//! Ops in settings that the fixtures do not have, against the reference: every op, exact, in every way of feeding.

mod common;

use common::{Outcome, expected, model};
use onebit_cpu::Cpu;
use onebit_plan::{
    ActivationKind, AttentionSpec, Binary, ExpertsSpec, Function, Gating, Graph, Groups, KvType, Limits, Mask, Model, Rope, RopeStyle,
    Rotated, Rotation, Rotations, Route, Score, Signs, Value, Weigh, WeightId,
    ops::{LinearOperands, NgramHead, Relative, Scan, Xielu},
    rotate,
};
use onebit_reference::{
    Reference,
    check::{self, ExpectedStates},
};

/// Pages, what is in them, and how far results may be apart. What is stored may be rounded to another neighbour where the sums before
/// it differ in the last bit.
const CACHES: [(usize, KvType, f64); 6] = [
    (16, KvType::F32, check::BAR),
    (5, KvType::F32, check::BAR),
    (64, KvType::F16, 10.0 * check::BAR),
    (24, KvType::Bf16, 100.0 * check::BAR),
    (64, KvType::Q8, 100.0 * check::BAR),
    (7, KvType::Q8, 100.0 * check::BAR),
];

/// Runs a made model on three threads and holds it to the reference, and all ways of feeding to the same bits.
fn agrees(name: &str, width: usize, biases: &[&str], lengths: (usize, usize), body: impl Fn(&mut Graph<'_>, Value) -> Value) -> Outcome {
    model_agrees(name, &model(width, biases, body)?, lengths)
}

/// [`agrees`], of a model.
fn model_agrees(name: &str, model: &Model, (long, short): (usize, usize)) -> Outcome {
    for (page, kv, bar) in CACHES {
        let pages = 2 * (long + short).div_ceil(page) + 2;
        let limits = Limits { batch: long + short, outputs: long + short, page, pages, slots: 3, kv, activations: ActivationKind::F32 };
        let report = check::fixture(&Cpu::new(Some(3)), model.clone(), &expected(model, long, short, &limits)?, &limits)?;
        report.hold(bar).map_err(|e| format!("{name}, {kv:?}, pages of {page}: {e}"))?;
        let differ: Vec<_> = report.cases.iter().filter(|c| !c.identical && !c.name.ends_with("short")).collect();
        assert!(differ.is_empty(), "{name}, pages of {page}: not the bits of the whole prompt: {differ:?}");
    }
    Ok(())
}

/// `x + attention(x)` with heads of `key` and `value` numbers.
fn attend(g: &mut Graph<'_>, x: Value, spec: &AttentionSpec) -> Value {
    let q = g.linear(x, "attn_q", spec.heads * spec.key);
    let k = g.linear(x, "attn_k", spec.kv_heads * spec.key);
    let v = g.linear(x, "attn_v", spec.kv_heads * spec.value);
    let (q, k) = (g.scale(q, 3.0), g.scale(k, 3.0));
    let y = g.attention(q, k, v, spec);
    let y = g.linear(y, "attn_output", g.width(x));
    g.add(x, y)
}

#[test]
fn attention_of_any_shape() -> Outcome {
    let spec = |heads, kv_heads, key, value| AttentionSpec { value, ..AttentionSpec::causal(heads, kv_heads, key) };
    for (heads, kv_heads, key, value) in [(3, 1, 24, 40), (4, 4, 16, 16), (40, 2, 8, 24), (18, 1, 33, 7)] {
        let name = format!("{heads} heads, {kv_heads} of keys, {key} and {value} numbers");
        agrees(&name, 48, &[], (70, 5), |g, x| attend(g, x, &spec(heads, kv_heads, key, value)))?;
    }
    Ok(())
}

#[test]
fn attention_with_window_softcap_and_sinks() -> Outcome {
    let base = AttentionSpec::causal(6, 2, 16);
    for window in [1, 7, 40] {
        let spec = AttentionSpec { mask: Mask::Window(window), ..base.clone() };
        agrees(&format!("window of {window}"), 48, &[], (150, 9), |g, x| attend(g, x, &spec))?;
    }
    for chunk in [1, 7, 40] {
        let spec = AttentionSpec { mask: Mask::Chunked(chunk), ..base.clone() };
        agrees(&format!("chunks of {chunk}"), 48, &[], (150, 9), |g, x| {
            let y = g.position_scale(x, 0.1, 16, 1);
            attend(g, y, &spec)
        })?;
    }
    let spec = AttentionSpec { softcap: Some(2.5), ..base.clone() };
    agrees("softcap", 48, &[], (70, 9), |g, x| attend(g, x, &spec))?;
    let spec = AttentionSpec { sinks: Some("attn_sinks"), mask: Mask::Window(20), ..base };
    agrees("sinks", 48, &[], (70, 9), |g, x| attend(g, x, &spec))
}

#[test]
fn attention_with_linear_biases() -> Outcome {
    for (heads, kv_heads) in [(6, 2), (20, 1)] {
        let slopes = (0..heads).map(|h| 0.5 / (h + 1) as f32).collect();
        let spec = AttentionSpec { alibi: Some(slopes), ..AttentionSpec::causal(heads, kv_heads, 16) };
        agrees(&format!("linear biases of {heads} heads"), 48, &[], (300, 9), |g, x| attend(g, x, &spec))?;
    }
    Ok(())
}

#[test]
fn positions() -> Outcome {
    let frequencies = Rope::frequencies(1e4, 50);
    agrees("positions", 50, &[], (40, 5), |g, x| {
        let learned = g.embed_position("position_embd", 50, 2);
        let x = g.add(x, learned);
        let kind = g.embed_row("kinds", 3, 50);
        let x = g.add(x, kind);
        let sines = g.sinusoid(frequencies.clone(), 1);
        let x = g.add(x, sines);
        attend(g, x, &AttentionSpec::causal(2, 1, 16))
    })
}

/// Attention to what follows, on three threads against the reference: the text alone, and in batches.
fn both_ways(name: &str, tokens: usize, body: impl Fn(&mut Graph<'_>, Value) -> Value) -> Outcome {
    let model = model(48, &[], body)?;
    for (page, kv, bar) in CACHES {
        let (batch, pages) = (2 * tokens, 3 * tokens.div_ceil(page) + 2);
        let limits = Limits { batch, outputs: batch, page, pages, slots: 3, kv, activations: ActivationKind::F32 };
        let text = common::tokens("long", tokens);
        let hidden = common::run(&Reference, &model, &text, tokens, &limits)?;
        let width = hidden.len() / tokens;
        let embedding = (0..width).map(|i| hidden.iter().skip(i).step_by(width).sum::<f32>() / tokens as f32).collect();
        let report = check::encoder(&Cpu::new(Some(3)), model.clone(), &ExpectedStates { tokens: text, hidden, embedding }, &limits)?;
        report.hold(bar).map_err(|e| format!("{name}, {kv:?}, pages of {page}: {e}"))?;
        assert!(report.cases.iter().all(|c| c.identical), "{name}, pages of {page}: {report}");
    }
    Ok(())
}

#[test]
fn attention_that_looks_ahead() -> Outcome {
    let base = AttentionSpec::causal(6, 2, 16);
    for (mask, tokens) in [(Mask::Full, 5), (Mask::Full, 150), (Mask::Full, 700), (Mask::Near(1), 40), (Mask::Near(37), 300)] {
        let spec = AttentionSpec { mask, ..base.clone() };
        both_ways(&format!("{mask:?} of {tokens}"), tokens, |g, x| attend(g, x, &spec))?;
    }
    let slopes = (0..6).map(|h| 0.5 / (h + 1) as f32).collect();
    let spec = AttentionSpec { mask: Mask::Full, alibi: Some(slopes), ..base };
    both_ways("linear biases", 150, |g, x| attend(g, x, &spec))
}

/// Biases by distance: in fixed buckets, looking back and both ways, and such that queries and keys make.
#[test]
fn attention_with_biases_by_distance() -> Outcome {
    let buckets = |reach: i64, count: i64| {
        (-reach..=reach).map(|d| (d / 3).clamp(-count / 2, (count - 1) / 2) + count / 2).map(|b| b as u32).collect()
    };
    let relative = |heads: usize| Relative {
        buckets: buckets(20, 9),
        count: 9,
        fixed: Some(common::numbers("fixed", heads * 9, 2.0)),
        of_query: None,
        of_key: None,
    };
    let spec = AttentionSpec { relative: Some(relative(6)), ..AttentionSpec::causal(6, 2, 16) };
    agrees("fixed, looking back", 48, &[], (150, 9), |g, x| attend(g, x, &spec))?;
    let spec = AttentionSpec { mask: Mask::Full, ..spec };
    both_ways("fixed, both ways", 150, |g, x| attend(g, x, &spec))?;
    for (heads, kv_heads, mask) in [(4, 4, Mask::Full), (20, 1, Mask::Near(30))] {
        both_ways(&format!("of queries and keys, {heads} heads, {mask:?}"), 100, |g, x| {
            let (of_query, of_key) = (Some(g.linear(x, "of_query", heads * 9)), Some(g.linear(x, "of_key", heads * 9)));
            let relative = Some(Relative { of_query, of_key, ..relative(heads) });
            attend(g, x, &AttentionSpec { mask, relative, ..AttentionSpec::causal(heads, kv_heads, 16) })
        })?;
    }
    Ok(())
}

/// An op that looks at what an earlier one has stored.
#[test]
fn attention_to_keys_of_another_op() -> Outcome {
    let spec = AttentionSpec::causal(4, 2, 16);
    agrees("shared keys", 48, &[], (70, 9), |g, x| {
        let (q, k, v) = (g.linear(x, "q", 64), g.linear(x, "k", 32), g.linear(x, "v", 32));
        let cache = g.kv_cache(&spec);
        let y = g.attention_in(cache, q, Some([k, v]), &spec);
        let q = g.scale(y, 3.0);
        let narrow = AttentionSpec { mask: Mask::Window(11), ..spec.clone() };
        let z = g.attention_in(cache, q, None, &narrow);
        let y = g.add(y, z);
        let y = g.linear(y, "out", 48);
        g.add(x, y)
    })
}

/// More keys than one range holds, so that threads share the keys of a single token.
#[test]
fn attention_over_many_keys() -> Outcome {
    let spec = AttentionSpec::causal(3, 1, 16);
    agrees("many keys", 32, &[], (700, 3), |g, x| attend(g, x, &spec))
}

#[test]
fn rotary_styles() -> Outcome {
    for style in [RopeStyle::Halves, RopeStyle::Pairs] {
        for dims in [24, 10] {
            let rope = Rope { scale: 1.2, ..Rope::new(style, Rope::frequencies(1e4, dims)) };
            agrees(&format!("{style:?} of {dims}"), 48, &[], (40, 5), |g, x| {
                let y = g.rope(x, 24, &rope);
                let y = attend(g, y, &AttentionSpec::causal(2, 1, 16));
                let x = g.rope(x, 48, &rope);
                g.add(x, y)
            })?;
        }
    }
    Ok(())
}

#[test]
fn gated_delta_of_any_shape() -> Outcome {
    for (k_heads, v_heads, key, value, tiled, of_rows) in [
        (2, 6, 20, 24, true, false),
        (2, 6, 20, 24, false, true),
        (1, 1, 16, 16, false, false),
        (3, 3, 7, 50, true, true),
        (2, 2, 40, 16, false, true),
    ] {
        let name = format!("{k_heads} and {v_heads} heads, {key} and {value} numbers, tiled {tiled}, decays of rows {of_rows}");
        agrees(&name, 48, &[], (60, 5), |g, x| {
            let q = g.linear(x, "q", k_heads * key);
            let k = g.linear(x, "k", k_heads * key);
            let (q, k) = (g.l2_norm(q, key, 1e-6), g.l2_norm(k, key, 1e-6));
            let v = g.linear(x, "v", v_heads * value);
            let decay = g.linear(x, "decay", if of_rows { v_heads * key } else { v_heads });
            let decay = g.apply(decay, Function::Softplus);
            let decay = g.scale(decay, -0.4);
            let beta = g.linear(x, "beta", v_heads);
            let beta = g.apply(beta, Function::Sigmoid);
            let y = g.gated_delta((q, k, v), decay, beta, (k_heads, v_heads), (key, value), tiled);
            let y = g.linear(y, "out", 48);
            g.add(y, x)
        })?;
    }
    Ok(())
}

#[test]
fn linear_attention_of_any_shape() -> Outcome {
    for (heads, key, value, swapped, before) in
        [(3, 16, 16, true, false), (2, 20, 24, false, true), (1, 7, 50, true, true), (4, 5, 3, false, false)]
    {
        let name = format!("{heads} heads, {key} x {value}, swapped {swapped}, read before {before}");
        agrees(&name, 48, &[], (60, 5), |g, x| {
            let [q, k, decay, a] = ["q", "k", "decay", "a"].map(|name| g.linear(x, name, heads * key));
            let v = g.linear(x, "v", heads * value);
            let decay = g.apply(decay, Function::Softplus);
            let decay = g.scale(decay, -0.4);
            let a = g.l2_norm(a, key, 1e-6);
            let swap = swapped.then(|| [g.scale(a, -1.0), g.scale(a, 0.7)]);
            let y = g.linear_attention(LinearOperands { qkv: [q, k, v], decay, swap }, heads, before, 0.2);
            let y = g.linear(y, "out", 48);
            g.add(y, x)
        })?;
    }
    Ok(())
}

#[test]
fn selective_scan_of_any_shape() -> Outcome {
    for (heads, groups, head, size, row_rates) in [(6, 2, 24, 20, false), (40, 1, 1, 7, true), (6, 3, 5, 16, false), (6, 2, 7, 3, true)] {
        let name = format!("{heads} heads in {groups} groups, {size} x {head}, rates of rows {row_rates}");
        agrees(&name, 48, &[], (60, 5), |g, x| {
            let input = g.linear(x, "in", heads * head);
            let step = g.linear(x, "step", heads);
            let step = g.apply(step, Function::Softplus);
            let (b, c) = (g.linear(x, "b", groups * size), g.linear(x, "c", groups * size));
            // Rates are drawn around zero: with steps near one, states neither vanish nor grow without bound.
            let step = g.clamp_between(step, 0.1, 0.5);
            let y = g.selective_scan(input, step, (b, c), "ssm_a", "ssm_d", Scan { heads, groups, head, size, row_rates });
            let y = g.group_norm(y, "group_norm", groups, 1e-5);
            let y = g.linear(y, "out", 48);
            g.add(y, x)
        })?;
    }
    Ok(())
}

#[test]
fn lightning_attention_of_any_block() -> Outcome {
    for (heads, block) in [(2, 16), (3, 7), (1, 1)] {
        agrees(&format!("{heads} heads, blocks of {block}"), 48, &[], (60, 5), |g, x| {
            let qkv = ["q", "k", "v"].map(|name| g.linear(x, name, heads * 20));
            let y = g.lightning(qkv, ["rate", "decay_q", "decay_k", "decay_inner"], heads, block);
            let y = g.head_norm(y, "norm", 20, 1e-5);
            let y = g.linear(y, "out", 48);
            g.add(y, x)
        })?;
    }
    Ok(())
}

#[test]
fn recurrences_of_single_numbers() -> Outcome {
    agrees("RG-LRU and WKV", 48, &[], (60, 5), |g, x| {
        let y = g.linear(x, "in", 90);
        let decay = g.block_linear(y, "decay", "decay.b", 3);
        let decay = g.apply(decay, Function::Softplus);
        let decay = g.scale(decay, -0.5);
        let y = g.rg_lru(y, decay);
        let last = g.delay(y);
        let both = g.concat(y, last, 6);
        let k = g.linear(both, "k", 50);
        let v = g.linear(both, "v", 50);
        let y = g.wkv(k, v, "time_decay", "time_first");
        let y = g.linear(y, "out", 48);
        g.add(y, x)
    })
}

#[test]
fn causal_conv_of_any_kernel() -> Outcome {
    for (kernel, channels, f) in [(2, 40, None), (4, 16, Some(Function::Silu)), (5, 90, Some(Function::GeluTanh))] {
        let biases: &[&str] = if kernel == 4 { &[] } else { &["conv.bias"] };
        agrees(&format!("kernel of {kernel}"), 48, biases, (50, 6), |g, x| {
            let y = g.linear(x, "in", channels);
            let y = g.causal_conv(y, "conv", kernel, f);
            let y = g.linear(y, "out", 48);
            g.add(x, y)
        })?;
    }
    Ok(())
}

#[test]
fn convolutions_with_gaps_and_means() -> Outcome {
    let rope = Rope::new(RopeStyle::Halves, Rope::frequencies(1e4, 10));
    for (kernel, dilation, count) in [(4, 3, 2), (2, 5, 7)] {
        agrees(&format!("kernel of {kernel}, {dilation} apart, means of {count}"), 48, &[], (50, 6), |g, x| {
            let y = g.linear(x, "in", 40);
            let y = g.dilated_conv(y, "conv", (kernel, dilation), Some(Function::Silu));
            let z = g.mean_of_last(y, count);
            let z = g.shifted_rope(z, 20, &rope, 1 - count as i32);
            let y = g.rope(y, 20, &rope);
            let y = g.add(y, z);
            let y = g.linear(y, "out", 48);
            g.add(x, y)
        })?;
    }
    Ok(())
}

#[test]
fn ngrams() -> Outcome {
    let head = |tokens, size, first| NgramHead { tokens, size, first };
    let heads = vec![head(2, 11, 0), head(2, 13, 11), head(3, 17, 24), head(4, 19, 41)];
    let multipliers = vec![1_000_003, 7_777_777_777, (1 << 61) - 1, u64::MAX];
    agrees("a table without the last tokens", 48, &[], (60, 6), |g, x| {
        let y = g.embed_first("first", 20, 48, 0.5);
        g.add(x, y)
    })?;
    // A boundary that is frequent, and one that never comes.
    for boundary in [7, 60] {
        agrees(&format!("boundary {boundary}"), 48, &[], (90, 6), |g, x| {
            let y = g.ngram_embed("ngram", [64, 10], heads.clone(), multipliers.clone(), boundary);
            let y = g.linear(y, "out", 48);
            g.add(x, y)
        })?;
    }
    Ok(())
}

#[test]
fn attention_to_chosen_tokens() -> Outcome {
    for (block, top, weighted, heads, kv_heads, key, value) in
        [(4, 3, false, 4, 2, 16, 16), (1, 20, true, 6, 1, 24, 40), (7, 1, true, 3, 3, 10, 33), (2, 60, false, 2, 1, 8, 16)]
    {
        agrees(&format!("{top} blocks of {block}"), 48, &[], (100, 9), |g, x| {
            let (q, k) = (g.linear(x, "index_q", 3 * 20), g.linear(x, "index_k", 20));
            let weights = weighted.then(|| g.linear(x, "index_weights", 3));
            let only = g.index(q, k, weights, block, top);
            let (q, k) = (g.linear(x, "q", heads * key), g.linear(x, "k", kv_heads * key));
            let (q, v) = (g.scale(q, 3.0), g.linear(x, "v", kv_heads * value));
            let spec = AttentionSpec { value, ..AttentionSpec::causal(heads, kv_heads, key) };
            let y = g.sparse_attention(q, k, v, only, &spec);
            let y = g.linear(y, "out", 48);
            g.add(x, y)
        })?;
    }
    Ok(())
}

#[test]
fn norms_slices_and_functions() -> Outcome {
    let biases = ["ln.bias", "ln_head.bias", "ln_group.bias", "lin.bias", "gate.bias", "up.bias", "shift.bias"];
    agrees("row ops", 50, &biases, (30, 4), |g, x| {
        let y = g.layer_norm(x, "ln", 1e-5);
        let y = g.linear(y, "lin", 75);
        let y = g.head_norm(y, "head_norm", 25, 1e-6);
        let y = g.head_layer_norm(y, "ln_head", 15, 1e-5);
        let y = g.group_layer_norm(y, "ln_group", 5, 1e-5);
        let z = g.slice(y, 3, 5, 11);
        let z = g.with_weight(z, Binary::Add, "shift.bias");
        let z = g.with_weight(z, Binary::Mul, "factor");
        let z = g.with_short_weight(z, Binary::Mul, "factors", 3);
        let narrow = g.slice(z, 11, 1, 1);
        let z = g.mul(z, narrow);
        let z = g.with_short_weight(z, Binary::Mul, "short", 11);
        let sums = g.sum(z, 3, 11);
        let z = g.add(z, sums);
        let sums = g.sum(z, 1, 3);
        let sums = g.repeat(sums, 11, 3);
        let z = g.add(z, sums);
        let z = g.plain_layer_norm(z, 11, 1e-5);
        let z = g.clamp(z, 0.8);
        let z = g.position_scale(z, 0.3, 4, 1);
        let z = g.xielu(z, Xielu { x: z, alpha_p: 0.8, alpha_n: 1.1, beta: 0.5, eps: -1e-6, out: z });
        let mut sum = g.linear(z, "back", 50);
        let functions = [
            Function::Silu,
            Function::Gelu,
            Function::GeluTanh,
            Function::QuickGelu,
            Function::Relu,
            Function::ReluSquared,
            Function::Sigmoid,
            Function::Softplus,
            Function::Tanh,
            Function::SignedSqrt,
            Function::Exp,
        ];
        for f in functions {
            let t = g.apply(x, f);
            sum = g.add(sum, t);
            let gate = g.linear(sum, "gate", 40);
            let up = g.linear(sum, "up", 40);
            let t = g.glu(gate, up, f);
            let t = g.linear(t, "down", 50);
            sum = g.add(t, sum);
            // A value that is read twice, and one that is added to itself, must not be fused away.
            let t = g.linear(sum, "twice", 50);
            let t = g.add(t, t);
            sum = g.add(t, sum);
            sum = g.rms_norm(sum, "again_norm", 1e-5);
        }
        sum
    })
}

#[test]
fn products_of_heads() -> Outcome {
    for (heads, from, to) in [(3, 16, 40), (2, 24, 5), (1, 48, 33), (6, 8, 64)] {
        agrees(&format!("{heads} heads, {from} to {to}"), 48, &[], (40, 5), |g, x| {
            let y = g.linear(x, "in", heads * from);
            let a = g.head_linear(y, "a", heads, to, false);
            let b = g.head_linear(y, "b", heads, to, true);
            let y = g.concat(a, b, heads);
            let y = g.linear(y, "out", 48);
            g.add(x, y)
        })?;
    }
    Ok(())
}

#[test]
fn products_of_chosen_experts() -> Outcome {
    for (experts, choices, inner) in [(4, 2, 40), (3, 3, 16), (6, 1, 33)] {
        agrees(&format!("{choices} of {experts} experts of {inner}"), 48, &[], (40, 5), |g, x| {
            let logits = g.linear(x, "logits", experts);
            let route = g.route(logits, Route { normalize: true, ..Route::new(choices, Score::Softmax) });
            let y = g.chosen_linear(x, route, "a", experts, inner);
            let y = g.apply(y, Function::Silu);
            let y = g.chosen_sum(y, route, "b", experts, 48);
            g.add(x, y)
        })?;
    }
    Ok(())
}

#[test]
fn routers_and_experts() -> Outcome {
    let plain = |inner| ExpertsSpec::new(8, inner, Function::Silu);
    let gating = Gating { f: Function::QuickGelu, limit: Some(0.7), offset: 1.0 };
    let groups = |count, chosen, best| Some(Groups { count, chosen, best });
    let cases = [
        (Route { normalize: true, ..Route::new(3, Score::Softmax) }, false, plain(48)),
        (Route { normalize: true, ..Route::new(2, Score::Sigmoid) }, true, plain(24)),
        (Route { nothing: 3, ..Route::new(2, Score::Softmax) }, true, plain(24)),
        (Route::new(1, Score::Softmax), false, plain(33)),
        (Route::new(7, Score::Sigmoid), true, plain(64)),
        (Route { normalize: true, groups: groups(4, 2, 2), ..Route::new(3, Score::Sigmoid) }, true, plain(24)),
        (Route { groups: groups(2, 1, 1), ..Route::new(2, Score::Softmax) }, false, plain(24)),
        (Route::new(2, Score::Softmax), false, ExpertsSpec { biased: true, gating, ..plain(40) }),
        (Route::new(2, Score::Sigmoid), false, ExpertsSpec { weigh: Weigh::Input, ..plain(40) }),
        (Route::new(5, Score::Softmax), true, ExpertsSpec { identities: 3, experts: 5, ..plain(24) }),
    ];
    let biases = ["router.bias", "ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"];
    for (route, biased, spec) in cases {
        agrees(&format!("{route:?}, {spec:?}"), 48, &biases, (40, 5), |g, x| {
            let h = g.rms_norm(x, "norm", 1e-5);
            let logits = g.linear(h, "logits", 8);
            let logits = g.scale(logits, 4.0);
            let bias = biased.then(|| g.weight("router.bias", &[8]));
            let factors = route.normalize.then(|| g.weight("ffn_down_exps.scale", &[8]));
            let route = g.route(logits, Route { bias, scale: 1.25, factors, ..route.clone() });
            let y = g.experts(h, route, &spec);
            g.add(x, y)
        })?;
    }
    Ok(())
}

/// Rotated matrices, experts and tables, in blocks within a vector and beyond, with and without signs.
#[test]
fn rotations() -> Outcome {
    for (block, signed) in [(2, true), (8, false), (16, true), (32, false)] {
        let width = 96;
        let route = Route { normalize: true, ..Route::new(2, Score::Softmax) };
        let model = model(width, &[], |g, x| {
            let h = g.rms_norm(x, "norm", 1e-5);
            let logits = g.linear(h, "logits", 5);
            let route = g.route(logits, route.clone());
            let y = g.experts(h, route, &ExpertsSpec::new(5, 64, Function::Silu));
            let x = g.add(x, y);
            let [q, k] = ["q", "k"].map(|n| g.linear(x, n, 2 * 16));
            let v = g.linear(x, "v", 6 * 16);
            let [decay, beta] = ["decay", "beta"].map(|n| g.linear(x, n, 6));
            let (decay, beta) = (g.apply(decay, Function::Softplus), g.apply(beta, Function::Sigmoid));
            let decay = g.scale(decay, -0.4);
            let y = g.gated_delta((q, k, v), decay, beta, (2, 6), (16, 16), true);
            let y = g.linear(y, "ssm_out", width);
            let x = g.add(x, y);
            g.gated_ffn(x, 128, Function::Silu)
        })?;
        let signs = |width: usize| signed.then(|| Signs::new((0..width).map(|i| if i % 3 == 1 { -1.0 } else { 1.0 }).collect()));
        let rotation = |width: usize| Rotation { block, signs: signs(width).and_then(Result::ok) };
        let mut how = Rotations::default();
        for (i, weight) in model.weights.iter().enumerate().filter(|(_, w)| w.shape.len() > 1) {
            let rotated = Rotated { rotation: rotation(weight.columns()), grouped: weight.name == "ssm_out.weight" };
            how.matrices.insert(WeightId(i as u32), rotated);
            if weight.name == "token_embd.weight" {
                how.tables.insert(WeightId(i as u32), rotation(width));
            }
        }
        let rotated = rotate(model, &how)?;
        assert!(rotated.plan.ops.iter().filter(|op| op.name() == "hadamard").count() >= 6);
        model_agrees(&format!("rotated in blocks of {block}, signs {signed}"), &rotated, (40, 5))?;
    }
    Ok(())
}
