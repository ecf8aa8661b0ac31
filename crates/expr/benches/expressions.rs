//! Throughput of expressions against loops fused by hand; run with `cargo bench -p isochrony-expr`.
//!
//! The loops are compiled for the same instruction set, compute in the same types and add in the
//! same lanes. Every pair is run interleaved and reported as median and spread (10 to 90 %) of the
//! ratio. Results are asserted to be equal; without `--bench` (as `cargo test` runs it) each case
//! runs once on little data.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::{Kernel, Level};
use isochrony_expr::{Expr, Frames, Isa, Program};
use isochrony_segment::{Bool8, Sample};

const WINDOW: usize = 4096;
const LANES: usize = 32;

/// A loop as one would write it for one expression. `run` must be `#[inline(always)]`.
trait ByHand<T, O> {
    fn run(samples: &[T], out: &mut [O]);
}

struct Compiled<'a, H, T, O>(&'a [T], &'a mut [O], std::marker::PhantomData<H>);

impl<H: ByHand<T, O>, T, O> Kernel for Compiled<'_, H, T, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        H::run(self.0, self.1);
    }
}

#[inline(always)]
fn tree(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

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

struct Rescaled;

impl ByHand<f32, f32> for Rescaled {
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

struct Case {
    place: &'static str,
    samples: usize,
    rounds: usize,
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

fn against_hand<H: ByHand<T, O>, T: Sample, O: Sample>(
    case: &Case,
    expr: &Expr,
    make: impl Fn(usize) -> T,
) {
    let samples: Vec<T> = (0..case.samples).map(make).collect();
    let program = Program::compile(expr, T::DTYPE).unwrap();
    let frames = Frames::new(&samples, WINDOW, WINDOW).unwrap();
    let mut out = vec![O::default(); program.results(&frames)];
    let mut expected = out.clone();
    let mut state = program.state();
    for isa in Isa::available() {
        let mut scratch = program.scratch_on(isa);
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        for _ in 0..case.rounds {
            let by_hand = seconds(|| {
                isa.run(Compiled::<H, T, O>(
                    black_box(&samples),
                    &mut expected,
                    std::marker::PhantomData,
                ));
            });
            let time = seconds(|| {
                program
                    .run(&mut scratch, &mut state, black_box(&frames), &mut out)
                    .unwrap();
            });
            ours.push(samples.len() as f64 / time / 1e9);
            theirs.push(samples.len() as f64 / by_hand / 1e9);
            ratios.push(by_hand / time);
        }
        assert!(out == expected, "{expr}");
        println!(
            "expr/{expr}/{}/{}/{}: {:.2} Gsamples/s; by hand {:.2}; ratio {:.2} ({:.2}..{:.2})",
            T::DTYPE,
            case.place,
            isa.name(),
            quantile(&mut ours, 0.5),
            quantile(&mut theirs, 0.5),
            quantile(&mut ratios, 0.5),
            quantile(&mut ratios, 0.1),
            quantile(&mut ratios, 0.9),
        );
    }
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let case = if measured {
        Case {
            place: "cached",
            samples: 1 << 16,
            rounds: 301,
        }
    } else {
        Case {
            place: "tried",
            samples: 1 << 14,
            rounds: 1,
        }
    };
    let noise = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as i16;
    let unit = |i: usize| f32::from(noise(i)) / 32768.0;
    let s = Expr::input();
    let outliers = ((&s - s.mean()) / s.std()).gt(3);
    against_hand::<Outliers, f32, Bool8>(&case, &outliers, unit);
    against_hand::<Outliers, i16, Bool8>(&case, &outliers, noise);
    against_hand::<Affine, f32, f32>(&case, &(&s * 2.5 + 1), unit);
    against_hand::<LoudCount, f32, i64>(&case, &s.abs().gt(0.7).count(), unit);
    let rescaled = (&s - s.min()) / (s.max() - s.min());
    against_hand::<Rescaled, f32, f32>(&case, &rescaled, unit);
    let band = s.gt(s.mean() - s.std()) & s.lt(s.mean() + s.std());
    against_hand::<Band, i16, i64>(&case, &band.count(), noise);
    against_hand::<Energy, f32, f32>(&case, &(&s * &s - 0.25).sum(), unit);
}
