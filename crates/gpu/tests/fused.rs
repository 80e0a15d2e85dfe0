//! Kernels that do what a plan has as several ops: norms with what stands before them, rotations with rounding, products with what stands
//! around them, and what a layer does to queries, keys and values. Against the reference device and the plain kernels.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::{Gpu, Random, assert_near, oracle, random_rows, rounded, stored};
use onebit_gpu::{Form, pack};
use onebit_plan::{Function, Gating, Rope, RopeStyle};
use onebit_quants::{self as quants, WeightType};

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

/// Flags of norms.
const WEIGHTED: u32 = 1;
const ROUNDED: u32 = 4;
const LENGTH: u32 = 32;
const ONLY_ROUNDED: u32 = 64;
const BRANCH: u32 = 128;

#[test]
fn a_branch_is_added_normalised_and_rounded() {
    for (width, flags, factor) in
        [(576, WEIGHTED | ROUNDED, 1.0), (1056, WEIGHTED | ROUNDED | BRANCH, 1.0), (100, WEIGHTED, 0.22), (33, BRANCH, 1.0)]
    {
        let (rows, mut gpu, mut r) = (3, Gpu::checked(), Random(width as u64));
        let (x, branch) = (r.numbers(rows * width), r.numbers(rows * width));
        let (branch_weight, weight) = (r.numbers(width), r.numbers(width));
        let (count, eps) = (x.len(), 1e-5f32);
        let mut sums = x.clone();
        let branched = |g: &mut onebit_plan::Graph<'_>| {
            let b = g.given(0, width);
            g.rms_norm(b, "b", eps)
        };
        let rows_of = |x: &[f32]| x.chunks(width).map(<[f32]>::to_vec).collect::<Vec<_>>();
        let added = if flags & BRANCH != 0 {
            oracle::op(&rows_of(&branch), width, &[("b.weight", &branch_weight)], branched)
        } else {
            branch.clone()
        };
        sums.iter_mut().zip(&added).for_each(|(s, b)| *s += factor * b);
        let want = oracle::op(&rows_of(&sums), width, &[("w.weight", &weight)], |g| {
            let x = g.given(0, width);
            if flags & WEIGHTED != 0 { g.rms_norm(x, "w", eps) } else { g.plain_norm(x, width, eps) }
        });
        let x_at = gpu.floats(&x);
        let pointers = [
            x_at,
            gpu.floats(&branch),
            gpu.floats(&branch_weight),
            gpu.floats(&weight),
            x_at,
            x_at,
            gpu.room(4 * count),
            gpu.room(count + 32),
            gpu.room(count / 4 + 8),
        ];
        gpu.launch("norm", "add_norm", [rows as u32, 1, 1], &pointers, &[width as u32, f32::to_bits(factor), eps.to_bits(), flags]);
        assert_near("sums", &gpu.read_floats(x_at, count), &wide(&sums), |i| 2e-6 * f64::from(sums[i]).abs() + 2e-6);
        let y = gpu.read_floats(pointers[6], count);
        assert_near(&format!("norm of {width}, flags {flags}"), &y, &wide(&want), |i| 1e-5 * f64::from(want[i]).abs() + 1e-5);
        if flags & ROUNDED != 0 {
            let (codes, steps, _) = rounded(&y);
            assert_eq!((gpu.read(pointers[7], count), gpu.read(pointers[8], count / 4)), (codes, steps), "width {width}");
        }
    }
}

#[test]
fn lengths_are_made_one() {
    let (mut gpu, mut r, dim) = (Gpu::checked(), Random(3), 96);
    let x = r.numbers(6 * dim);
    let want = oracle::op(std::slice::from_ref(&x), 6 * dim, &[], |g| {
        let x = g.given(0, 6 * dim);
        g.l2_norm(x, dim, 1e-6)
    });
    let (at, y) = (gpu.floats(&x), gpu.room(4 * x.len()));
    gpu.launch("norm", "norm", [6, 1, 1], &[at, at, at, y, at, at], &[dim as u32, 1, 1e-6f32.to_bits(), LENGTH]);
    assert_near("L2 norm", &gpu.read_floats(y, x.len()), &wide(&want), |_| 1e-6);
}

#[test]
fn rows_are_rotated_and_rounded() {
    for (width, block, signed, inverse) in
        [(256, 128, true, false), (192, 64, true, true), (96, 32, false, false), (8192, 1024, true, false), (4096, 4096, false, true)]
    {
        let (mut gpu, mut r, rows) = (Gpu::checked(), Random(block as u64), 2);
        let x = r.numbers(rows * width);
        let signs: Vec<f32> = (0..width).map(|_| if r.word() & 1 == 0 { 1.0 } else { -1.0 }).collect();
        // By the definition: entry (i, j) is 1 where i and j share an even number of bits, else -1.
        let entry = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let sign = |i: usize, at_input: bool| if signed && at_input != inverse { f64::from(signs[i % width]) } else { 1.0 };
        let want: Vec<f64> = (0..x.len())
            .map(|i| {
                let start = i / block * block;
                let sum: f64 = (0..block).map(|j| entry(i % block, j) * f64::from(x[start + j]) * sign(start + j, true)).sum();
                sum / (block as f64).sqrt() * sign(i, false)
            })
            .collect();
        let count = x.len();
        let pointers = [gpu.floats(&x), gpu.floats(&signs), gpu.room(4 * count), gpu.room(count), gpu.room(count / 4)];
        let how = u32::from(signed) + 2 * u32::from(inverse);
        let parts = width.div_ceil(4096 / block * block) as u32;
        let numbers = [width as u32, block as u32, (1.0 / (block as f32).sqrt()).to_bits(), how, ROUNDED];
        gpu.launch("norm", "rotate", [rows as u32, parts, 1], &pointers, &numbers);
        let y = gpu.read_floats(pointers[2], count);
        assert_near(&format!("blocks of {block}"), &y, &want, |_| 4e-6);
        let (codes, steps, _) = rounded(&y);
        assert_eq!((gpu.read(pointers[3], count), gpu.read(pointers[4], count / 4)), (codes, steps), "width {width}");
    }
}

/// Flags of `fused_N`.
const ADD_ROWS: u32 = 1;
const ADD_COLUMNS: u32 = 2;
const GLU: u32 = 4;
const ROUND: u32 = 8;
const NORM: u32 = 16;

/// A matrix of a type with random rows.
fn matrix(gpu: &mut Gpu, ty: WeightType, rows: usize, width: usize, r: &mut Random) -> u64 {
    let (bytes, _) = random_rows(ty, rows, width, r);
    gpu.upload(&pack(ty, &bytes, rows, width).unwrap().bytes)
}

/// One packet gives the bits of several: a product, then gates, sums, norms and rounding by kernels that have tests of their own.
#[test]
fn products_with_what_stands_around_them() {
    let types = [quants::Q4_K, quants::Q8_0, quants::Q6_K, quants::IQ2_XS, quants::PQ2_0];
    for (ty, flags, columns, rows) in [
        (types[0], GLU | ROUND, 1, 96),
        (types[1], GLU, 2, 37),
        (types[2], GLU | ROUND, 7, 64),
        (types[3], ADD_COLUMNS | NORM, 1, 160),
        (types[0], ADD_COLUMNS | NORM, 3, 96),
        (types[4], ADD_ROWS | ROUND, 4, 128),
        (types[1], ADD_ROWS, 1, 9),
    ] {
        let (mut gpu, mut r, width) = (Gpu::checked(), Random(rows as u64), 512);
        let object = Form::of(ty).unwrap().object;
        let all = if flags & GLU != 0 { 2 * rows } else { rows };
        let weights = matrix(&mut gpu, ty, all, width, &mut r);
        let (codes, steps, _) = rounded(&r.numbers(columns * width));
        let (codes, steps) = (gpu.upload(&codes), gpu.upload(&steps));
        let added = r.numbers(all.max(columns * rows));
        let add = gpu.floats(&added);
        let norm_weight = gpu.floats(&r.numbers(rows));
        let (count, eps) = (columns * rows, 1e-5f32);
        let n = columns.next_power_of_two();
        // What other kernels make of it.
        let products = gpu.room(4 * columns * all);
        let plain = [all as u32, width as u32, columns as u32, flags & (ADD_ROWS | ADD_COLUMNS)];
        gpu.launch(object, &format!("matvec_{n}"), [all.div_ceil(8) as u32, 1, 1], &[weights, codes, steps, add, products], &plain);
        let mut want = gpu.read_floats(products, columns * all);
        let gating = [Function::Silu as u32, 3f32.to_bits(), 1f32.to_bits()];
        if flags & GLU != 0 {
            let rows_of: Vec<Vec<f32>> = want.chunks(all).map(<[f32]>::to_vec).collect();
            let by = Gating { f: Function::Silu, limit: Some(3.0), offset: 1.0 };
            let exact: Vec<f64> = rows_of.iter().flat_map(|x| (0..rows).map(|i| f64::from(by.apply(x[i], x[rows + i])))).collect();
            if rows % 32 == 0 {
                let (y, c, s) = (gpu.room(4 * count), gpu.room(count), gpu.room(count / 4));
                let numbers = [&[rows as u32, count as u32][..], &gating, &[1]].concat();
                gpu.launch("elementwise", "gated_rows", [count.div_ceil(1024) as u32, 1, 1], &[products, y, c, s], &numbers);
                want = gpu.read_floats(y, count);
                assert_near("gated rows", &want, &exact, |i| 2e-6 * exact[i].abs() + 2e-6);
                let (codes, steps, _) = rounded(&want);
                assert_eq!((gpu.read(c, count), gpu.read(s, count / 4)), (codes, steps));
            } else {
                want = exact.iter().map(|v| *v as f32).collect();
            }
        }
        let (y, c, s) = (gpu.room(4 * count), gpu.room(count), gpu.room(count / 4 + 8));
        let counters = gpu.words(&vec![0; rows / 32 + 1]);
        let numbers = [&[rows as u32, width as u32, columns as u32, flags, 1, 1][..], &gating, &[eps.to_bits()]].concat();
        let grid = [rows.div_ceil(if flags & GLU != 0 { 4 } else { 8 }) as u32, 1, 1];
        // Twice, as counters are zero again.
        for _ in 0..2 {
            gpu.launch(object, &format!("fused_{n}"), grid, &[weights, codes, steps, add, y, y, y, norm_weight, c, s, counters], &numbers);
        }
        assert!(gpu.device.read_words(counters, rows / 32 + 1).unwrap().iter().all(|n| *n == 0));
        let got = gpu.read_floats(y, count);
        assert_near(&format!("{ty}, flags {flags}"), &got, &wide(&want), |i| {
            if rows % 32 == 0 { 0.0 } else { 2e-6 * f64::from(want[i].abs()) + 2e-6 }
        });
        if flags & (ROUND | NORM) == 0 {
            continue;
        }
        let (want_c, want_s) = (gpu.room(count), gpu.room(count / 4));
        if flags & NORM != 0 {
            let numbers = [rows as u32, 1, eps.to_bits(), WEIGHTED | ONLY_ROUNDED];
            gpu.launch("norm", "norm", [columns as u32, 1, 1], &[y, norm_weight, y, y, want_c, want_s], &numbers);
            // Other threads sum: a number may be rounded another way.
            let (a, b) = (gpu.read(c, count), gpu.read(want_c, count));
            assert!(
                a.iter().zip(&b).all(|(a, b)| (*a as i8).abs_diff(*b as i8) <= 1)
                    && a.iter().zip(&b).filter(|(a, b)| a != b).count() * 100 <= count
            );
            let scale = |s: &[u8]| s.chunks(8).map(|s| f32::from_le_bytes([s[0], s[1], s[2], s[3]])).collect::<Vec<f32>>();
            let (a, b) = (scale(&gpu.read(s, count / 4)), scale(&gpu.read(want_s, count / 4)));
            assert_near("scales", &a, &wide(&b), |i| 1e-6 * f64::from(b[i]));
        } else {
            gpu.launch("norm", "round_columns", [count.div_ceil(1024) as u32, 1, 1], &[y, want_c, want_s], &[count as u32]);
            assert_eq!((gpu.read(c, count), gpu.read(s, count / 4)), (gpu.read(want_c, count), gpu.read(want_s, count / 4)), "{ty}");
        }
    }
}

/// Flags of `prepare_*`.
const NEIGHBOURS: u32 = 1;
const NORM_QUERIES: u32 = 2;
const NORM_KEYS: u32 = 4;
const TURNED: u32 = 16;

#[test]
fn queries_keys_and_values_are_prepared() {
    for (kind, head, pairs, flags, axes) in [
        ("f16", 64, 32, TURNED, 1),
        ("f16", 80, 16, TURNED | NEIGHBOURS | NORM_QUERIES | NORM_KEYS, 1),
        ("q8", 128, 64, TURNED | NORM_QUERIES | NORM_KEYS, 4),
        ("q4", 64, 32, TURNED | NORM_KEYS, 1),
        ("q4", 256, 0, 0, 1),
    ] {
        let (mut gpu, mut r) = (Gpu::checked(), Random(head as u64));
        let (heads, kv_heads, tokens, page_tokens, value) = (3, 2, 5, 4, if kind == "f16" { head - 16 } else { head });
        let width = heads * head + kv_heads * (head + value);
        let x = r.numbers(tokens * width);
        let (q_norm, k_norm) = (r.numbers(head), r.numbers(head));
        let frequencies: Vec<f32> = (0..pairs).map(|i| 10_000f32.powf(-(i as f32) / pairs as f32)).collect();
        let axis: Vec<u32> = (0..pairs as u32).map(|i| i * 7 % axes as u32).collect();
        let first = 6;
        // On the axes, positions are those of the sequence, as the reference has it for text.
        let positions: Vec<u32> = (0..tokens).flat_map(|t| vec![t as u32; axes]).collect();
        let spans: Vec<u32> = (0..tokens).flat_map(|t| [1, (first + t) as u32]).collect();
        let pages = [9, 9, 9, 2, 0, 1];
        let eps = 1e-6f32;
        let split = |x: &[f32]| {
            (x[..heads * head].to_vec(), x[heads * head..(heads + kv_heads) * head].to_vec(), x[(heads + kv_heads) * head..].to_vec())
        };
        // The reference, op by op.
        let turned = |which: &str, count: usize| {
            let rows: Vec<Vec<f32>> = x.chunks(width).map(|x| if which == "q" { split(x).0 } else { split(x).1 }).collect();
            let norm = flags & if which == "q" { NORM_QUERIES } else { NORM_KEYS } != 0;
            let weight = if which == "q" { &q_norm } else { &k_norm };
            let style = if flags & NEIGHBOURS != 0 { RopeStyle::Pairs } else { RopeStyle::Halves };
            let rope = Rope { scale: 1.25, ..Rope::new(style, frequencies.clone()) };
            oracle::op(&rows, count * head, &[("n.weight", weight)], |g| {
                let mut x = g.given(0, count * head);
                if norm {
                    x = g.head_norm(x, "n", head, eps);
                }
                if flags & TURNED != 0 { g.rope(x, head, &rope) } else { x }
            })
        };
        let (q, k) = (turned("q", heads), turned("k", kv_heads));
        let at = gpu.floats(&x);
        let bytes = |width: usize| match kind {
            "f16" => 2 * width,
            "q8" => width + width / 16,
            _ => width / 2 + width / 16,
        };
        let caches = [head, value].map(|w| gpu.room(3 * kv_heads * page_tokens * bytes(w)));
        let q_out = gpu.room(4 * tokens * heads * head);
        let pointers = [
            at,
            at + 4 * (heads * head) as u64,
            at + 4 * ((heads + kv_heads) * head) as u64,
            gpu.floats(&q_norm),
            gpu.floats(&k_norm),
            gpu.words(&positions),
            gpu.words(&axis),
            gpu.floats(&frequencies),
            gpu.words(&spans),
            gpu.words(&pages),
            q_out,
            caches[0],
            caches[1],
        ];
        let numbers = [heads, kv_heads, head, value, width, width, width, pairs, page_tokens, 3, axes].map(|n| n as u32);
        let numbers = [&numbers[..], &[flags, 1.25f32.to_bits(), eps.to_bits()]].concat();
        let grid = [tokens as u32, (heads + 2 * kv_heads).div_ceil(4) as u32, 1];
        gpu.launch("rope", &format!("prepare_{kind}"), grid, &pointers, &numbers);
        assert_near(&format!("{kind} queries"), &gpu.read_floats(q_out, q.len()), &wide(&q), |_| 4e-6);
        let mut differ = 0;
        for t in 0..tokens {
            let place = first + t;
            let (page, token) = (pages[3 + place / page_tokens] as usize, place % page_tokens);
            for (which, w) in [(0, head), (1, value)] {
                let v = split(&x[t * width..][..width]).2;
                for h in 0..kv_heads {
                    let row = if which == 0 { &k[(t * kv_heads + h) * head..][..head] } else { &v[h * value..][..value] };
                    let (codes, scales, _) = stored(kind, row);
                    let start = caches[which] + ((page * kv_heads + h) * page_tokens * bytes(w)) as u64;
                    let behind = start + (page_tokens * codes.len() + token * scales.len()) as u64;
                    let (got, got_scales) = (gpu.read(start + (token * codes.len()) as u64, codes.len()), gpu.read(behind, scales.len()));
                    // Keys come out of another arithmetic than the reference's and may be rounded another way; values may not.
                    let wrong = got.iter().zip(&codes).chain(got_scales.iter().zip(&scales)).filter(|(a, b)| a != b).count();
                    assert!(which == 0 || wrong == 0, "{kind}: token {t}, head {h}: {wrong} bytes");
                    differ += wrong;
                }
            }
        }
        assert!(differ * 50 <= tokens * kv_heads * bytes(head), "{kind}: {differ} bytes of keys");
    }
}
