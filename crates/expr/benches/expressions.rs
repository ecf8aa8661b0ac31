//! Throughput of expressions against loops fused by hand: `cargo bench -p isochrony-expr --bench expressions`.
//!
//! Loops have the same instruction set, types and lanes. Pairs run interleaved; the ratio's median and spread (10 to 90
//! %) are reported. Results must be equal; without `--bench` each case runs once.

mod hand;

use hand::{ByHand, Case, LANES, WINDOW, against_hand, tree};
use isochrony_expr::Expr;
use isochrony_segment::Bool8;

#[inline(always)]
fn f32_mean_std(window: &[f32]) -> (f32, f32) {
    let shift = f64::from(window[0]);
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    for group in window.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let d = f64::from(group[lane]) - shift;
            sums[lane] += d;
            squares[lane] += d * d;
        }
    }
    let n = window.len() as f64;
    let (sum, squares) = (tree(sums), tree(squares));
    let variance = (squares - sum * (sum / n)) / n;
    ((shift + sum / n) as f32, variance.sqrt() as f32)
}

#[inline(always)]
fn i16_mean_std(window: &[i16]) -> (f64, f64) {
    let (mut sum, mut squares) = (0i64, 0i64);
    for block in window.chunks(1024) {
        sum += i64::from(block.iter().map(|&x| i32::from(x)).sum::<i32>());
        squares += block
            .iter()
            .map(|&x| i64::from(i32::from(x) * i32::from(x)))
            .sum::<i64>();
    }
    let n = window.len() as i64;
    let m2 = (squares * n - sum * sum) as f64 / n as f64;
    (sum as f64 / n as f64, (m2 / n as f64).sqrt())
}

struct Outliers;

impl ByHand<f32, Bool8> for Outliers {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [Bool8]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let (mean, std) = f32_mean_std(window);
            for (out, x) in out.iter_mut().zip(window) {
                *out = Bool8::from((x - mean) / std > 3.0);
            }
        }
    }
}

impl ByHand<i16, Bool8> for Outliers {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [Bool8]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let (mean, std) = i16_mean_std(window);
            for (out, &x) in out.iter_mut().zip(window) {
                *out = Bool8::from((f64::from(x) - mean) / std > 3.0);
            }
        }
    }
}

struct Affine;

impl ByHand<f32, f32> for Affine {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(samples) {
            *out = x * 2.5 + 1.0;
        }
    }
}

struct LoudCount;

impl ByHand<f32, i64> for LoudCount {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [i64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out) {
            let count: u32 = window.iter().map(|x| u32::from(x.abs() > 0.7)).sum();
            *out = i64::from(count);
        }
    }
}

struct MinMaxScaling;

impl ByHand<f32, f32> for MinMaxScaling {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let (mut low, mut high) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    low[lane] = if group[lane] < low[lane] {
                        group[lane]
                    } else {
                        low[lane]
                    };
                    high[lane] = if group[lane] > high[lane] {
                        group[lane]
                    } else {
                        high[lane]
                    };
                }
            }
            let low = low.into_iter().fold(f32::INFINITY, f32::min);
            let high = high.into_iter().fold(f32::NEG_INFINITY, f32::max);
            for (out, x) in out.iter_mut().zip(window) {
                *out = (x - low) / (high - low);
            }
        }
    }
}

struct Band;

impl ByHand<i16, i64> for Band {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [i64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out) {
            let (mean, std) = i16_mean_std(window);
            let (low, high) = (mean - std, mean + std);
            let inside = |&x: &i16| u32::from(f64::from(x) > low && f64::from(x) < high);
            *out = i64::from(window.iter().map(inside).sum::<u32>());
        }
    }
}

struct Energy;

impl ByHand<f32, f32> for Energy {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out) {
            let mut sums = [0.0; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let d = group[lane] * group[lane] - 0.25;
                    sums[lane] += f64::from(d);
                }
            }
            *out = tree(sums) as f32;
        }
    }
}

fn main() {
    let mut case = Case::of_arguments();
    let noise = hand::noise;
    let unit = |i: usize| f32::from(noise(i)) / 32768.0;
    let s = Expr::input();
    let outliers = ((&s - s.mean()) / s.std()).gt(3);
    against_hand::<Outliers, f32, Bool8>(&mut case, &outliers, unit);
    against_hand::<Outliers, i16, Bool8>(&mut case, &outliers, noise);
    against_hand::<Affine, f32, f32>(&mut case, &(&s * 2.5 + 1), unit);
    against_hand::<LoudCount, f32, i64>(&mut case, &s.abs().gt(0.7).count(), unit);
    let rescaled = (&s - s.min()) / (s.max() - s.min());
    against_hand::<MinMaxScaling, f32, f32>(&mut case, &rescaled, unit);
    let band = s.gt(s.mean() - s.std()) & s.lt(s.mean() + s.std());
    against_hand::<Band, i16, i64>(&mut case, &band.count(), noise);
    against_hand::<Energy, f32, f32>(&mut case, &(&s * &s - 0.25).sum(), unit);
}
