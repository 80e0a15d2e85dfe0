//! The passes over a whole vocabulary: written so that the compiler makes vector code of them, and summing in one fixed order,
//! so that they give the same bits on every machine.

/// Values that are summed in f32 before the sum goes on in f64, and that a draw skips at once.
const BLOCK: usize = 256;
const LANES: usize = 16;

/// e^x for x up to 88, within 2 units in the last place; 0 below -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // e^x = 2^n e^r with |r| <= ln(2)/2. Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let series = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let e = series.iter().fold(0.0f32, |sum, c| sum * r + c);
    let power = f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { e * power }
}

/// The greatest value, or `None` if one of them is NaN or infinite.
pub(crate) fn finite_max(values: &[f32]) -> Option<f32> {
    let mut max = [f32::NEG_INFINITY; LANES];
    // x * 0 is 0, or NaN for what is not finite; and NaN stays.
    let mut bad = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            max[i] = if chunk[i] > max[i] { chunk[i] } else { max[i] };
            bad[i] += chunk[i] * 0.0;
        }
    }
    let mut greatest = max.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let mut wrong = bad.iter().sum::<f32>();
    for x in rest {
        greatest = greatest.max(*x);
        wrong += x * 0.0;
    }
    (wrong == 0.0 && greatest.is_finite()).then_some(greatest)
}

/// The greatest value, where minus infinity stands for what is forbidden.
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut max = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            max[i] = if chunk[i] > max[i] { chunk[i] } else { max[i] };
        }
    }
    max.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| a.max(*b))
}

/// The sum of e^((x - max) * scale).
pub(crate) fn sum_exp(values: &[f32], max: f32, scale: f32) -> f64 {
    values.chunks(BLOCK).map(|block| sum_block(block, max, scale)).sum()
}

fn sum_block(block: &[f32], max: f32, scale: f32) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = block.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += exp((chunk[i] - max) * scale);
        }
    }
    let tail: f32 = rest.iter().map(|x| exp((x - max) * scale)).sum();
    lanes.iter().map(|x| f64::from(*x)).sum::<f64>() + f64::from(tail)
}

/// The index that is drawn from the softmax of `values * scale` by `unit`, a random number from 0 up to 1. Its probability is
/// not 0. `sums` is working memory.
pub(crate) fn draw(values: &[f32], max: f32, scale: f32, unit: f64, sums: &mut Vec<f64>) -> usize {
    sums.clear();
    sums.extend(values.chunks(BLOCK).map(|block| sum_block(block, max, scale)));
    let mut target = unit * sums.iter().sum::<f64>();
    let last = sums.iter().rposition(|s| *s > 0.0).unwrap_or(0);
    let mut block = 0;
    while block < last && target >= sums[block] {
        target -= sums[block];
        block += 1;
    }
    // Rounding may carry the target past the end, where the last one that is possible counts.
    let start = block * BLOCK;
    let mut chosen = start;
    for (i, x) in values[start..].iter().take(BLOCK).enumerate() {
        let e = f64::from(exp((x - max) * scale));
        if e > 0.0 {
            chosen = start + i;
            if target < e {
                break;
            }
            target -= e;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_that_of_f64() {
        let mut worst = 0.0f64;
        for i in -870_000..=880_000i32 {
            let x = i as f32 * 1e-4;
            let truth = f64::from(x).exp();
            // Relative to the spacing of f32 there.
            let ulp = f64::from(f32::EPSILON) * truth;
            worst = worst.max((f64::from(exp(x)) - truth).abs() / ulp);
        }
        assert!(worst < 2.0, "{worst} ulp");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
    }

    #[test]
    fn greatest_and_not_finite() {
        for n in [1usize, 2, 15, 16, 17, 31, 32, 100] {
            for at in 0..n {
                let mut v: Vec<f32> = (0..n).map(|i| -(i as f32) - 5.0).collect();
                v[at] = -1.0;
                assert_eq!(finite_max(&v), Some(-1.0));
                assert_eq!(max(&v), -1.0);
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    v[at] = bad;
                    assert_eq!(finite_max(&v), None);
                }
            }
        }
        assert_eq!(max(&[]), f32::NEG_INFINITY);
    }

    #[test]
    fn draws_invert_the_cumulative_sum() {
        let n = 1000;
        let values: Vec<f32> = (0..n).map(|i| if i % 7 == 3 { f32::NEG_INFINITY } else { ((i * 37) % 101) as f32 * 0.1 }).collect();
        let scale = 0.7f32;
        let p: Vec<f64> = values.iter().map(|v| (f64::from(*v) * f64::from(scale)).exp()).collect();
        let total: f64 = p.iter().sum();
        let mut sums = Vec::new();
        for step in 0..4000 {
            let unit = (f64::from(step) + 0.5) / 4000.0;
            let got = draw(&values, 10.0, scale, unit, &mut sums);
            let before: f64 = p[..got].iter().sum::<f64>() / total;
            let after = before + p[got] / total;
            assert!(before - 1e-6 <= unit && unit <= after + 1e-6, "{unit} gave {got}: {before} to {after}");
        }
        assert_eq!(draw(&values, 10.0, scale, 0.0, &mut sums), 0);
        assert_ne!(draw(&[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY], 0.0, 1.0, 0.0, &mut sums), 0);
        assert_eq!(draw(&[0.0, f32::NEG_INFINITY], 0.0, 1.0, 1.0, &mut sums), 0);
    }
}
