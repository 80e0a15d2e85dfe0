//! Which tokens attention is to see, and attention over those; rows of a hashed table.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, stored};

const PAGE: usize = 16;

/// Tokens that are chosen where blocks have these scores: by a sort of all, as the documentation of `Index` says.
fn chosen(scores: &[f32], position: usize, block: usize, top: usize) -> Vec<f32> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order.truncate(top);
    order.sort_unstable();
    let mut out: Vec<usize> = order.iter().flat_map(|b| b * block..(b + 1) * block).collect();
    out.extend(scores.len() * block..position + 1);
    let mut out: Vec<f32> = out.into_iter().map(|t| t as f32).collect();
    out.resize(top * block + block - 1, -1.0);
    out
}

/// The choice alone, among scores with many equals, negative zeros, and numbers that are none.
#[test]
fn the_best_blocks_are_chosen() {
    for (block, top) in [(1, 64), (4, 5), (2, 300), (1, 1)] {
        let (mut gpu, mut r, room) = (Gpu::checked(), Random(block as u64), 700);
        let positions = [0, 3, 4, 17, 333, block * room - 1];
        let score = |r: &mut Random, kind: usize| match kind {
            0 => r.number(),
            1 => (r.number() * 4.0).round() / 4.0,
            2 => [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40][r.word() as usize % 6],
            _ => 1.0,
        };
        for kind in 0..4 {
            let scores: Vec<f32> = (0..positions.len() * room).map(|_| score(&mut r, kind)).collect();
            let spans: Vec<u32> = positions.iter().flat_map(|p| [0, *p as u32]).collect();
            let width = top * block + block - 1;
            let pointers = [gpu.floats(&scores), gpu.words(&spans), gpu.room(4 * positions.len() * width)];
            let numbers = [block, top, width, room].map(|n| n as u32);
            gpu.launch("sparse", "choose", [positions.len() as u32, 1, 1], &pointers, &numbers);
            let got = gpu.read_floats(pointers[2], positions.len() * width);
            for (t, position) in positions.iter().enumerate() {
                let scores = &scores[t * room..][..(position + 1) / block];
                assert_eq!(
                    got[t * width..][..width],
                    chosen(scores, *position, block, top),
                    "{top} of {block}, kind {kind}, at {position}"
                );
            }
        }
    }
}

/// Keys or values of two sequences in pages that lie in no order: the cache, the pages, and the numbers by sequence.
fn cache(gpu: &mut Gpu, r: &mut Random, heads: usize, width: usize, lengths: [usize; 2]) -> (u64, Vec<u32>, usize, [Vec<f32>; 2]) {
    let most_pages = lengths.iter().max().unwrap().div_ceil(PAGE);
    let mut pages: Vec<u32> = (0..2 * most_pages as u32).collect();
    pages.reverse();
    let of_page = PAGE * width * 2;
    let mut bytes = vec![0; pages.len() * heads * of_page];
    let numbers = std::array::from_fn(|sequence| {
        let mut all = vec![];
        for t in 0..lengths[sequence] {
            for h in 0..heads {
                let (codes, _, values) = stored("f16", &r.numbers(width));
                let page = pages[sequence * most_pages + t / PAGE] as usize;
                bytes[(page * heads + h) * of_page + t % PAGE * 2 * width..][..2 * width].copy_from_slice(&codes);
                all.extend(values);
            }
        }
        all
    });
    (gpu.upload(&bytes), pages, most_pages, numbers)
}

#[test]
fn blocks_have_the_scores_of_their_last_tokens() {
    for (heads, head, block, weighted) in [(3, 64, 1, true), (2, 10, 4, false), (16, 128, 3, true)] {
        let (mut gpu, mut r) = (Gpu::checked(), Random(head as u64));
        let (keys, pages, most_pages, numbers) = cache(&mut gpu, &mut r, 1, head, [400, 30]);
        let tokens = [(0, 399), (1, 29), (0, 0), (1, 7)];
        let (q, weights) = (r.numbers(tokens.len() * heads * head), r.numbers(tokens.len() * heads));
        let spans: Vec<u32> = tokens.iter().flat_map(|(sequence, position)| [*sequence as u32, *position as u32]).collect();
        let room = 400;
        let scores = gpu.floats(&vec![-7.0; tokens.len() * room]);
        let pointers = [gpu.floats(&q), gpu.floats(&weights), keys, gpu.words(&spans), gpu.words(&pages), scores];
        let sizes = [heads, head, PAGE, most_pages, block, room, usize::from(weighted)].map(|n| n as u32);
        gpu.launch("sparse", "block_scores", [tokens.len() as u32, room.div_ceil(256) as u32, 1], &pointers, &sizes);
        let mut want = vec![-7.0; tokens.len() * room];
        for (t, (sequence, position)) in tokens.iter().enumerate() {
            for n in 0..(position + 1) / block {
                let key = &numbers[*sequence][(n * block + block - 1) * head..][..head];
                let dot = |h: usize| key.iter().zip(&q[(t * heads + h) * head..]).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum::<f64>();
                let weight = |h: usize| if weighted { f64::from(weights[t * heads + h]) } else { 1.0 };
                want[t * room + n] = (0..heads).map(|h| weight(h) * dot(h).max(0.0)).sum();
            }
        }
        assert_near(&format!("{heads} heads of {head}"), &gpu.read_floats(scores, want.len()), &want, |_| 2e-5);
    }
}

/// Attention of heads over tokens that are chosen, by the kernels of ordinary heads and of latent ones.
#[test]
fn attention_sees_what_is_chosen() {
    for (heads, kv_heads, key, value) in [(4, 2, 64, 64), (12, 1, 128, 96), (20, 1, 576, 512)] {
        let (mut gpu, mut r) = (Gpu::checked(), Random(key as u64));
        let lengths = [700, 40];
        let (keys, pages, most_pages, k) = cache(&mut gpu, &mut r, kv_heads, key, lengths);
        let (values, _, _, v) = cache(&mut gpu, &mut r, kv_heads, value, lengths);
        let (tokens, width) = ([(0, 699), (1, 12), (0, 650)], 600);
        // The first sees nearly all, the second a few, the third every third.
        let seen: Vec<Vec<usize>> = vec![(0..600).map(|t| t + t / 90).collect(), vec![0, 5, 12], (0..217).map(|t| 3 * t).collect()];
        let only: Vec<f32> = seen
            .iter()
            .flat_map(|s| s.iter().map(|t| *t as f32).chain(std::iter::repeat(-1.0)).take(width).collect::<Vec<f32>>())
            .collect();
        let q: Vec<f32> = r.numbers(tokens.len() * heads * key).iter().map(|x| x * 4.0).collect();
        let spans: Vec<u32> = tokens.iter().flat_map(|(sequence, position)| [*sequence as u32, *position as u32]).collect();
        let (splits, count, scale) = (width.div_ceil(512), tokens.len() * heads * value, 1.0 / (key as f32).sqrt());
        let (partial, out) = (gpu.room(4 * tokens.len() * heads * splits * (value + 2)), gpu.room(4 * count));
        let counters = gpu.words(&vec![0; tokens.len() * heads]);
        let pointers =
            [gpu.floats(&q), keys, values, gpu.floats(&only), gpu.words(&spans), gpu.words(&pages), partial, out, out, out, counters];
        let end = [1, width as u32, scale.to_bits()];
        if key > 256 {
            let sizes = [heads, key, value, PAGE, most_pages, splits].map(|n| n as u32);
            let grid = [tokens.len() as u32, heads.div_ceil(16) as u32, splits as u32];
            gpu.launch("attention", "latent_chosen_f16", grid, &pointers, &[&sizes[..], &end].concat());
        } else {
            let kernel = format!("chosen_f16_{}", key.max(value).next_power_of_two());
            for first in (0..heads / kv_heads).step_by(8) {
                let sizes = [heads, kv_heads, key, value, PAGE, most_pages, splits, first].map(|n| n as u32);
                gpu.launch(
                    "attention",
                    &kernel,
                    [tokens.len() as u32, kv_heads as u32, splits as u32],
                    &pointers,
                    &[&sizes[..], &end].concat(),
                );
            }
        }
        let mut want = vec![];
        for (t, (sequence, _)) in tokens.iter().enumerate() {
            for h in 0..heads {
                let part = |of: &[Vec<f32>; 2], at: usize, width: usize| {
                    of[*sequence][(at * kv_heads + h / (heads / kv_heads)) * width..][..width].to_vec()
                };
                let score = |at: &usize| {
                    let dot: f64 =
                        part(&k, *at, key).iter().zip(&q[(t * heads + h) * key..]).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                    (dot * f64::from(scale)).exp()
                };
                let weights: Vec<f64> = seen[t].iter().map(score).collect();
                let total: f64 = weights.iter().sum();
                let mut sum = vec![0.0; value];
                for (at, weight) in seen[t].iter().zip(weights) {
                    sum.iter_mut().zip(part(&v, *at, value)).for_each(|(s, v)| *s += weight / total * f64::from(v));
                }
                want.extend(sum);
            }
        }
        let bound = if key > 256 { 3e-3 } else { 3e-6 };
        assert_near(&format!("keys of {key}"), &gpu.read_floats(out, count), &want, |_| bound);
    }
}

/// Rows for hashes of the last tokens, for sequences cut in every way: the documentation of `NgramEmbed` in plain words.
#[test]
fn rows_of_hashed_tables() {
    let (boundary, multipliers) = (7u32, [0x9e37_79b9_7f4a_7c15u64, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9]);
    // Tokens, size, first row.
    let heads = [(2u64, 1009u64, 0u64), (3, 65_537, 1009), (3, 3, 4_000_000_000)];
    let (mut r, count) = (Random(5), 23);
    let mut tokens: Vec<u32> = (0..count).map(|_| r.word() % 150_000).collect();
    (tokens[4], tokens[5], tokens[15]) = (boundary, boundary, boundary);
    let row = |t: usize, (n, size, first): (u64, u64, u64)| {
        let mut hash = u64::from(tokens[t]).wrapping_mul(multipliers[0]);
        let mut ended = false;
        for i in 1..n as usize {
            ended |= t < i || tokens[t - i] == boundary;
            hash ^= u64::from(if ended { boundary } else { tokens[t - i] }).wrapping_mul(multipliers[i]);
        }
        (first + hash % size) as u32
    };
    let want: Vec<u32> = (0..count).flat_map(|t| heads.map(|head| row(t, head))).collect();
    let wide = |words: &[u64]| words.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect::<Vec<u32>>();
    for parts in [vec![count], vec![1; count], vec![2, 1, 17, 3]] {
        let mut gpu = Gpu::checked();
        let tokens_at = gpu.words(&tokens);
        let multipliers = gpu.words(&wide(&multipliers));
        let heads_at = gpu.words(&wide(&heads.iter().flat_map(|(n, size, first)| [*n, *size, *first]).collect::<Vec<u64>>()));
        let (states, out) = (gpu.room(2 * 2 * 4), gpu.room(4 * want.len()));
        let mut start = 0;
        for part in &parts {
            // Slot 1 of 2.
            let sequence = gpu.words(&[start, *part as u32, 1, start]);
            gpu.launch("ngram", "ngram_rows", [1, 1, 1], &[tokens_at, sequence, multipliers, heads_at, states, out], &[3, 3, boundary]);
            start += *part as u32;
        }
        assert_eq!(gpu.device.read_words(out, want.len()).unwrap(), want, "in {parts:?}");
    }
}
