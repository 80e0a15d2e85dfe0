//! Layers with a state of fixed size, in prompts, in chunks and in steps, against the reference device.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, oracle};
use onebit_plan::{
    Function,
    ops::{LinearOperands, Scan},
};

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

/// Columns of rows.
fn columns(rows: &[Vec<f32>], start: usize, width: usize) -> Vec<f32> {
    rows.iter().flat_map(|row| row[start..start + width].to_vec()).collect()
}

/// How a sequence of `count` tokens is cut: all at once, chunks of which the second goes on, and steps.
fn cuts(count: usize) -> [Vec<usize>; 3] {
    [vec![count], vec![count - 4, 1, 3], vec![1; count]]
}

/// Runs a kernel on a sequence cut as said; `launch` gets the words of its sequence.
fn in_parts(gpu: &mut Gpu, parts: &[usize], mut launch: impl FnMut(&mut Gpu, u64)) {
    let mut start = 0;
    for count in parts {
        // Slot 1 of 2.
        let sequence = gpu.words(&[start as u32, *count as u32, 1, start as u32]);
        launch(gpu, sequence);
        start += count;
    }
}

#[test]
fn gated_delta_nets() {
    for (k_heads, v_heads, key, value, tiled, by_row) in
        [(2, 4, 64, 64, false, false), (2, 4, 128, 96, true, false), (1, 2, 100, 40, false, true), (1, 1, 256, 32, false, false)]
    {
        let (mut r, tokens) = (Random(key as u64), 9);
        let decays = if by_row { v_heads * key } else { v_heads };
        let unit = |x: Vec<f32>| {
            x.chunks(key)
                .flat_map(|x| {
                    let l = x.iter().map(|v| v * v).sum::<f32>().sqrt();
                    x.iter().map(move |v| v / l).collect::<Vec<f32>>()
                })
                .collect::<Vec<f32>>()
        };
        let widths = [k_heads * key, k_heads * key, v_heads * value, decays, v_heads];
        let starts: Vec<usize> = (0..5).map(|i| widths[..i].iter().sum()).collect();
        let rows: Vec<Vec<f32>> = (0..tokens)
            .map(|_| {
                let decay = r.numbers(decays).iter().map(|v| -v.abs()).collect();
                let beta = r.numbers(v_heads).iter().map(|v| v.abs()).collect();
                [unit(r.numbers(k_heads * key)), unit(r.numbers(k_heads * key)), r.numbers(v_heads * value), decay, beta].concat()
            })
            .collect();
        let want = oracle::op(&rows, v_heads * value, &[], |g| {
            let [q, k, v, decay, beta] = std::array::from_fn(|i| g.given(starts[i], widths[i]));
            g.gated_delta((q, k, v), decay, beta, (k_heads, v_heads), (key, value), tiled)
        });
        for parts in cuts(tokens) {
            let mut gpu = Gpu::checked();
            let [q, k, v, decay, beta] = std::array::from_fn(|i| gpu.floats(&columns(&rows, starts[i], widths[i])));
            let (states, out) = (gpu.room(2 * 4 * v_heads * key * value), gpu.room(4 * tokens * v_heads * value));
            let numbers = [k_heads, v_heads, key, value, k_heads * key, k_heads * key, v_heads * value].map(|n| n as u32);
            let flags = u32::from(tiled) + 2 * u32::from(by_row);
            let numbers = [&numbers[..], &[flags, (1.0 / (key as f32).sqrt()).to_bits()]].concat();
            let kernel = format!("gated_delta_{}", key.next_power_of_two());
            in_parts(&mut gpu, &parts, |gpu, sequence| {
                let grid = [1, v_heads as u32, value.div_ceil(32) as u32];
                gpu.launch("recurrent", &kernel, grid, &[q, k, v, decay, beta, sequence, states, out], &numbers);
            });
            assert_near(&format!("{key} x {value} in {parts:?}"), &gpu.read_floats(out, want.len()), &wide(&want), |_| 2e-6);
        }
    }
}

#[test]
fn linear_attentions() {
    for (heads, key, value, before, swapped) in
        [(2, 64, 64, false, false), (3, 64, 64, true, false), (2, 64, 64, false, true), (1, 100, 33, true, true)]
    {
        let (mut r, tokens) = (Random(key as u64 + heads as u64), 9);
        let widths = [heads * key, heads * key, heads * value, heads * key, heads * key, heads * key];
        let starts: Vec<usize> = (0..6).map(|i| widths[..i].iter().sum()).collect();
        let rows: Vec<Vec<f32>> = (0..tokens)
            .map(|_| {
                let decay = r.numbers(heads * key).iter().map(|v| -v.abs()).collect();
                let small = |r: &mut Random| r.numbers(heads * key).iter().map(|v| v * 0.2).collect::<Vec<f32>>();
                [r.numbers(heads * key), r.numbers(heads * key), r.numbers(heads * value), decay, small(&mut r), small(&mut r)].concat()
            })
            .collect();
        let want = oracle::op(&rows, heads * value, &[], |g| {
            let [q, k, v, decay, a, b] = std::array::from_fn(|i| g.given(starts[i], widths[i]));
            g.linear_attention(LinearOperands { qkv: [q, k, v], decay, swap: swapped.then_some([a, b]) }, heads, before, 0.5)
        });
        for parts in cuts(tokens) {
            let mut gpu = Gpu::checked();
            let [q, k, v, decay, a, b] = std::array::from_fn(|i| gpu.floats(&columns(&rows, starts[i], widths[i])));
            let (states, out) = (gpu.room(2 * 4 * heads * key * value), gpu.room(4 * tokens * heads * value));
            let numbers = [heads as u32, key as u32, value as u32, u32::from(before) + 2 * u32::from(swapped), 0.5f32.to_bits()];
            let kernel = format!("linear_attention_{}", key.next_power_of_two());
            in_parts(&mut gpu, &parts, |gpu, sequence| {
                let grid = [1, heads as u32, value.div_ceil(32) as u32];
                gpu.launch("recurrent", &kernel, grid, &[q, k, v, decay, a, b, sequence, states, out], &numbers);
            });
            assert_near(&format!("{key} x {value} in {parts:?}"), &gpu.read_floats(out, want.len()), &wide(&want), |i| {
                3e-6 + 2e-6 * f64::from(want[i].abs())
            });
        }
    }
}

#[test]
fn causal_convolutions() {
    for (channels, kernel, dilation, bias, function) in
        [(200, 4, 1, true, Some(Function::Silu)), (64, 3, 2, false, None), (7, 2, 1, false, None)]
    {
        let (mut r, tokens) = (Random(channels as u64), 9);
        let rows: Vec<Vec<f32>> = (0..tokens).map(|_| r.numbers(channels)).collect();
        let (taps, bias_numbers) = (r.numbers(channels * kernel), r.numbers(channels));
        let mut weights = vec![("c.weight", &taps[..])];
        if bias {
            weights.push(("c.bias", &bias_numbers));
        }
        let want = oracle::op(&rows, channels, &weights, |g| {
            let x = g.given(0, channels);
            g.dilated_conv(x, "c", (kernel, dilation), function)
        });
        for parts in cuts(tokens) {
            let mut gpu = Gpu::checked();
            let (x, taps, bias_at) = (gpu.floats(&rows.concat()), gpu.floats(&taps), gpu.floats(&bias_numbers));
            let (states, out) = (gpu.room(2 * 4 * (kernel - 1) * dilation * channels), gpu.room(4 * tokens * channels));
            let flags = u32::from(bias) + 2 * u32::from(function.is_some());
            let numbers = [channels, kernel, dilation, channels].map(|n| n as u32);
            let numbers = [&numbers[..], &[flags, function.map_or(0, |f| f as u32)]].concat();
            in_parts(&mut gpu, &parts, |gpu, sequence| {
                let grid = [1, channels.div_ceil(128) as u32, 1];
                gpu.launch("recurrent", "causal_conv", grid, &[x, taps, bias_at, sequence, states, out], &numbers);
            });
            assert_near(&format!("{channels} channels in {parts:?}"), &gpu.read_floats(out, want.len()), &wide(&want), |_| 2e-6);
        }
    }
}

/// Mamba, whose heads are single numbers with a rate for each of the state's, and Mamba 2.
#[test]
fn selective_scans() {
    for (heads, groups, head, size, row_rates) in
        [(140, 1, 1, 16, true), (4, 2, 64, 64, false), (6, 2, 20, 100, false), (3, 1, 32, 256, false)]
    {
        let (mut r, tokens) = (Random(size as u64), 9);
        let widths = [heads * head, heads, groups * size, groups * size];
        let starts: Vec<usize> = (0..4).map(|i| widths[..i].iter().sum()).collect();
        let rows: Vec<Vec<f32>> = (0..tokens)
            .map(|_| {
                let step = r.numbers(heads).iter().map(|v| v.abs()).collect();
                [r.numbers(heads * head), step, r.numbers(groups * size), r.numbers(groups * size)].concat()
            })
            .collect();
        let rate: Vec<f32> = r.numbers(if row_rates { heads * size } else { heads }).iter().map(|v| -v.abs()).collect();
        let skip = r.numbers(heads);
        let want = oracle::op(&rows, heads * head, &[("a", &rate), ("d", &skip)], |g| {
            let [x, step, b, c] = std::array::from_fn(|i| g.given(starts[i], widths[i]));
            g.selective_scan(x, step, (b, c), "a", "d", Scan { heads, groups, head, size, row_rates })
        });
        let fits = [16, 64].into_iter().find(|n| *n >= size);
        for kernel in ["scan".to_string()].into_iter().chain(fits.map(|n| format!("scan_{n}"))) {
            for parts in cuts(tokens) {
                let mut gpu = Gpu::checked();
                let [x, step, b, c] = std::array::from_fn(|i| gpu.floats(&columns(&rows, starts[i], widths[i])));
                let (rate, skip) = (gpu.floats(&rate), gpu.floats(&skip));
                let (states, out) = (gpu.room(2 * 4 * heads * size * head), gpu.room(4 * tokens * heads * head));
                let numbers = [heads, groups, head, size, usize::from(row_rates) + 2, heads * head, groups * size].map(|n| n as u32);
                in_parts(&mut gpu, &parts, |gpu, sequence| {
                    let grid = [1, (heads * head).div_ceil(128) as u32, 1];
                    gpu.launch("recurrent", &kernel, grid, &[x, step, b, c, rate, skip, sequence, states, out], &numbers);
                });
                assert_near(&format!("{kernel} of {size} in {parts:?}"), &gpu.read_floats(out, want.len()), &wide(&want), |i| {
                    3e-6 + 3e-6 * f64::from(want[i].abs())
                });
            }
        }
    }
}

/// A kernel over `channels` that has the operands, then states of `kept` numbers a channel.
fn channels_by_themselves(
    kernel: &str,
    operands: &[Vec<f32>],
    channels: usize,
    kept: usize,
    want: &[f32],
    bound: impl Fn(usize) -> f64 + Copy,
) {
    let tokens = want.len() / channels;
    for parts in cuts(tokens) {
        let mut gpu = Gpu::checked();
        let operands: Vec<u64> = operands.iter().map(|x| gpu.floats(x)).collect();
        let (states, out) = (gpu.room(2 * 4 * kept * channels), gpu.room(4 * want.len()));
        in_parts(&mut gpu, &parts, |gpu, sequence| {
            let pointers = [&operands[..], &[sequence, states, out]].concat();
            gpu.launch("recurrent", kernel, [1, channels.div_ceil(128) as u32, 1], &pointers, &[channels as u32]);
        });
        assert_near(&format!("{kernel} in {parts:?}"), &gpu.read_floats(out, want.len()), &wide(want), bound);
    }
}

#[test]
fn gated_linear_recurrent_units() {
    let (mut r, tokens, channels) = (Random(11), 9, 150);
    // Decays from almost none to almost all.
    let decay = |r: &mut Random| (0..channels).map(|i| -r.number().abs() * 10f32.powi(i % 7 - 5)).collect::<Vec<f32>>();
    let rows: Vec<Vec<f32>> = (0..tokens).map(|_| [r.numbers(channels as usize), decay(&mut r)].concat()).collect();
    let channels = channels as usize;
    let want = oracle::op(&rows, channels, &[], |g| {
        let [x, decay] = [0, channels].map(|start| g.given(start, channels));
        g.rg_lru(x, decay)
    });
    let operands = [0, channels].map(|start| columns(&rows, start, channels));
    channels_by_themselves("rg_lru", &operands, channels, 1, &want, |i| 1e-6 + 2e-6 * f64::from(want[i].abs()));
}

#[test]
fn attention_without_queries() {
    let (mut r, tokens, channels) = (Random(12), 9, 150);
    // Keys whose exponentials are far beyond what f32 holds.
    let keys = |r: &mut Random| r.numbers(channels).iter().map(|v| v * 200.0).collect::<Vec<f32>>();
    let rows: Vec<Vec<f32>> = (0..tokens).map(|_| [keys(&mut r), r.numbers(channels)].concat()).collect();
    let decay: Vec<f32> = r.numbers(channels).iter().map(|v| -(v * 5.0).exp()).collect();
    let first = r.numbers(channels);
    let want = oracle::op(&rows, channels, &[("decay", &decay), ("first", &first)], |g| {
        let [k, v] = [0, channels].map(|start| g.given(start, channels));
        g.wkv(k, v, "decay", "first")
    });
    let operands = [columns(&rows, 0, channels), columns(&rows, channels, channels), decay, first];
    // Exponents of some hundred lose as many places as they have before the point.
    channels_by_themselves("wkv", &operands, channels, 3, &want, |_| 5e-5);
}

#[test]
fn linear_attention_in_blocks() {
    for (heads, dim, block) in [(2, 40, 4), (1, 150, 3)] {
        let (mut r, tokens, width) = (Random(dim as u64), 11, heads * dim);
        let rows: Vec<Vec<f32>> = (0..tokens).map(|_| r.numbers(3 * width)).collect();
        let rate: Vec<f32> = r.numbers(heads).iter().map(|v| v.abs()).collect();
        let [queries, keys, inner] = [heads * block, heads * block, heads * block * block].map(|n| r.numbers(n));
        let tables = [("rate", &rate[..]), ("queries", &queries), ("keys", &keys), ("inner", &inner)];
        let want = oracle::op(&rows, width, &tables, |g| {
            let qkv = std::array::from_fn(|i| g.given(i * width, width));
            g.lightning(qkv, ["rate", "queries", "keys", "inner"], heads, block)
        });
        for parts in cuts(tokens) {
            let mut gpu = Gpu::checked();
            let values = [0, 1, 2].map(|i| gpu.floats(&columns(&rows, i * width, width)));
            let tables = [&rate, &queries, &keys, &inner].map(|t| gpu.floats(t));
            let (states, out) = (gpu.room(2 * 4 * heads * (dim + 2 * block) * dim), gpu.room(4 * tokens * width));
            let numbers = [heads, dim, block].map(|n| n as u32);
            in_parts(&mut gpu, &parts, |gpu, sequence| {
                let pointers = [&values[..], &tables, &[sequence, states, out]].concat();
                gpu.launch("recurrent", "lightning", [1, heads as u32, 1], &pointers, &numbers);
            });
            assert_near(&format!("{dim} in blocks of {block}, in {parts:?}"), &gpu.read_floats(out, want.len()), &wide(&want), |i| {
                3e-6 + 3e-6 * f64::from(want[i].abs())
            });
        }
    }
}
