//! Ten expressions of seed 2026, made by `bench/grammar.py`: do not edit, draw others.
#![allow(clippy::all, unused)]

use super::hand::{ByHand, Case, LANES, against_hand, choose, less, more, real, whole};
use isochrony_dsp::math;
use isochrony_expr::{Binary, Expr, Op, Reduction, Unary};
use isochrony_segment::Bool8;

pub(crate) const SEED: u64 = 2026;
pub(crate) const WINDOW: usize = 4096;

/// `np.where((s > s.mean()), (np.where((s >= s.max()), s, 0.1) + s), 0.5).sum()`
struct E0I16;
impl ByHand<i16, f64> for E0I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: i16| -> i16 { x };
            let (mut a0, mut b0) = ([0i32; LANES], [0i64; LANES]);
            let f1 = |x: i16| -> i16 { x };
            let mut a1 = [i16::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let wide = i32::from(v0);
                    a0[lane] += wide;
                    let v1 = f1(x);
                    a1[lane] = more(v1, a1[lane]);
                }
            }
            let w0 = whole::mean(&a0, &b0);
            let w1 = a1.into_iter().fold(i16::MIN, more);
            let f2 = |x: i16| -> f64 {
                choose(
                    (f64::from(x) > w0),
                    (choose((x >= w1), f64::from(x), 0.1_f64) + f64::from(x)),
                    0.5_f64,
                )
            };
            let shift2 = 0.0;
            let (mut a2, mut b2) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v2 = f2(x);
                    let d = f64::from(v2) - shift2;
                    a2[lane] += d;
                }
            }
            let w2 = real::sum(shift2, a2, b2) as f64;
            out[0] = w2;
        }
    }
}

/// `np.where((s > s.mean()), (np.where((s >= s.max()), s, 0.1) + s), 0.5).sum()`
struct E0F32;
impl ByHand<f32, f32> for E0F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f32| -> f32 { x };
            let shift0 = f64::from(f0(window[0]));
            let (mut a0, mut b0) = ([0.0; LANES], [0.0; LANES]);
            let f1 = |x: f32| -> f32 { x };
            let mut a1 = [f32::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let d = f64::from(v0) - shift0;
                    a0[lane] += d;
                    let v1 = f1(x);
                    a1[lane] = more(v1, a1[lane]);
                }
            }
            let w0 = real::mean(shift0, a0, b0) as f32;
            let w1 = a1.into_iter().fold(f32::MIN, more);
            let f2 =
                |x: f32| -> f32 { choose((x > w0), (choose((x >= w1), x, 0.1_f32) + x), 0.5_f32) };
            let shift2 = 0.0;
            let (mut a2, mut b2) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v2 = f2(x);
                    let d = f64::from(v2) - shift2;
                    a2[lane] += d;
                }
            }
            let w2 = real::sum(shift2, a2, b2) as f32;
            out[0] = w2;
        }
    }
}

/// `np.where((s > s.mean()), (np.where((s >= s.max()), s, 0.1) + s), 0.5).sum()`
struct E0F64;
impl ByHand<f64, f64> for E0F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f64| -> f64 { x };
            let shift0 = f64::from(f0(window[0]));
            let (mut a0, mut b0) = ([0.0; LANES], [0.0; LANES]);
            let f1 = |x: f64| -> f64 { x };
            let mut a1 = [f64::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let d = f64::from(v0) - shift0;
                    a0[lane] += d;
                    let v1 = f1(x);
                    a1[lane] = more(v1, a1[lane]);
                }
            }
            let w0 = real::mean(shift0, a0, b0) as f64;
            let w1 = a1.into_iter().fold(f64::MIN, more);
            let f2 =
                |x: f64| -> f64 { choose((x > w0), (choose((x >= w1), x, 0.1_f64) + x), 0.5_f64) };
            let shift2 = 0.0;
            let (mut a2, mut b2) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v2 = f2(x);
                    let d = f64::from(v2) - shift2;
                    a2[lane] += d;
                }
            }
            let w2 = real::sum(shift2, a2, b2) as f64;
            out[0] = w2;
        }
    }
}

/// `np.tanh((((0.75 * (np.where((s < s.max()), s, 3.0) * 0.5)) * ((s / s.mean()) + s.max())) * (s / s.min())))`
struct E1I16;
impl ByHand<i16, f64> for E1I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: i16| -> i16 { x };
            let mut a0 = [i16::MIN; LANES];
            let f1 = |x: i16| -> i16 { x };
            let (mut a1, mut b1) = ([0i32; LANES], [0i64; LANES]);
            let f2 = |x: i16| -> i16 { x };
            let mut a2 = [i16::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                    let v1 = f1(x);
                    let wide = i32::from(v1);
                    a1[lane] += wide;
                    let v2 = f2(x);
                    a2[lane] = less(v2, a2[lane]);
                }
            }
            let w0 = a0.into_iter().fold(i16::MIN, more);
            let w1 = whole::mean(&a1, &b1);
            let w2 = a2.into_iter().fold(i16::MAX, less);
            let f = |x: i16| -> f64 {
                math::tanh(
                    (((0.75_f64 * (choose((x < w0), f64::from(x), 3.0_f64) * 0.5_f64))
                        * ((f64::from(x) / w1) + f64::from(w0)))
                        * (f64::from(x) / f64::from(w2))),
                )
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `np.tanh((((0.75 * (np.where((s < s.max()), s, 3.0) * 0.5)) * ((s / s.mean()) + s.max())) * (s / s.min())))`
struct E1F32;
impl ByHand<f32, f32> for E1F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f32| -> f32 { x };
            let mut a0 = [f32::MIN; LANES];
            let f1 = |x: f32| -> f32 { x };
            let shift1 = f64::from(f1(window[0]));
            let (mut a1, mut b1) = ([0.0; LANES], [0.0; LANES]);
            let f2 = |x: f32| -> f32 { x };
            let mut a2 = [f32::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                    let v1 = f1(x);
                    let d = f64::from(v1) - shift1;
                    a1[lane] += d;
                    let v2 = f2(x);
                    a2[lane] = less(v2, a2[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f32::MIN, more);
            let w1 = real::mean(shift1, a1, b1) as f32;
            let w2 = a2.into_iter().fold(f32::MAX, less);
            let f = |x: f32| -> f32 {
                math::tanh_f32(
                    (((0.75_f32 * (choose((x < w0), x, 3.0_f32) * 0.5_f32)) * ((x / w1) + w0))
                        * (x / w2)),
                )
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `np.tanh((((0.75 * (np.where((s < s.max()), s, 3.0) * 0.5)) * ((s / s.mean()) + s.max())) * (s / s.min())))`
struct E1F64;
impl ByHand<f64, f64> for E1F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f64| -> f64 { x };
            let mut a0 = [f64::MIN; LANES];
            let f1 = |x: f64| -> f64 { x };
            let shift1 = f64::from(f1(window[0]));
            let (mut a1, mut b1) = ([0.0; LANES], [0.0; LANES]);
            let f2 = |x: f64| -> f64 { x };
            let mut a2 = [f64::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                    let v1 = f1(x);
                    let d = f64::from(v1) - shift1;
                    a1[lane] += d;
                    let v2 = f2(x);
                    a2[lane] = less(v2, a2[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f64::MIN, more);
            let w1 = real::mean(shift1, a1, b1) as f64;
            let w2 = a2.into_iter().fold(f64::MAX, less);
            let f = |x: f64| -> f64 {
                math::tanh(
                    (((0.75_f64 * (choose((x < w0), x, 3.0_f64) * 0.5_f64)) * ((x / w1) + w0))
                        * (x / w2)),
                )
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(np.cos(np.sqrt(np.abs(np.where(((s * s) >= s.max()), (((s - s) - s) + s), -0.3)))) + np.cos(((2.5 + s) / s.max())))`
struct E2I16;
impl ByHand<i16, f64> for E2I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: i16| -> i16 { x };
            let mut a0 = [i16::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(i16::MIN, more);
            let f = |x: i16| -> f64 {
                (math::cos(
                    choose(
                        (x.wrapping_mul(x) >= w0),
                        f64::from(x.wrapping_sub(x).wrapping_sub(x).wrapping_add(x)),
                        -0.3_f64,
                    )
                    .abs()
                    .sqrt(),
                ) + math::cos(((2.5_f64 + f64::from(x)) / f64::from(w0))))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(np.cos(np.sqrt(np.abs(np.where(((s * s) >= s.max()), (((s - s) - s) + s), -0.3)))) + np.cos(((2.5 + s) / s.max())))`
struct E2F32;
impl ByHand<f32, f32> for E2F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f32| -> f32 { x };
            let mut a0 = [f32::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f32::MIN, more);
            let f = |x: f32| -> f32 {
                (math::cos_f32(
                    choose(((x * x) >= w0), (((x - x) - x) + x), -0.3_f32)
                        .abs()
                        .sqrt(),
                ) + math::cos_f32(((2.5_f32 + x) / w0)))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(np.cos(np.sqrt(np.abs(np.where(((s * s) >= s.max()), (((s - s) - s) + s), -0.3)))) + np.cos(((2.5 + s) / s.max())))`
struct E2F64;
impl ByHand<f64, f64> for E2F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f64| -> f64 { x };
            let mut a0 = [f64::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f64::MIN, more);
            let f = |x: f64| -> f64 {
                (math::cos(
                    choose(((x * x) >= w0), (((x - x) - x) + x), -0.3_f64)
                        .abs()
                        .sqrt(),
                ) + math::cos(((2.5_f64 + x) / w0)))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `((np.maximum(np.sqrt(np.abs((s / 0.5))), 0.1) - s) >= s.max()).count()`
struct E3I16;
impl ByHand<i16, i64> for E3I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [i64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: i16| -> i16 { x };
            let mut a0 = [i16::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(i16::MIN, more);
            let f1 = |x: i16| -> bool {
                ((more((f64::from(x) / 0.5_f64).abs().sqrt(), 0.1_f64) - f64::from(x))
                    >= f64::from(w0))
            };
            let mut a1 = [0u32; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    a1[lane] += u32::from(v1);
                }
            }
            let w1 = a1.iter().map(|&n| i64::from(n)).sum::<i64>();
            out[0] = w1;
        }
    }
}

/// `((np.maximum(np.sqrt(np.abs((s / 0.5))), 0.1) - s) >= s.max()).count()`
struct E3F32;
impl ByHand<f32, i64> for E3F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [i64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f32| -> f32 { x };
            let mut a0 = [f32::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f32::MIN, more);
            let f1 = |x: f32| -> bool { ((more((x / 0.5_f32).abs().sqrt(), 0.1_f32) - x) >= w0) };
            let mut a1 = [0u32; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    a1[lane] += u32::from(v1);
                }
            }
            let w1 = a1.iter().map(|&n| i64::from(n)).sum::<i64>();
            out[0] = w1;
        }
    }
}

/// `((np.maximum(np.sqrt(np.abs((s / 0.5))), 0.1) - s) >= s.max()).count()`
struct E3F64;
impl ByHand<f64, i64> for E3F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [i64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f64| -> f64 { x };
            let mut a0 = [f64::MIN; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f64::MIN, more);
            let f1 = |x: f64| -> bool { ((more((x / 0.5_f64).abs().sqrt(), 0.1_f64) - x) >= w0) };
            let mut a1 = [0u32; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    a1[lane] += u32::from(v1);
                }
            }
            let w1 = a1.iter().map(|&n| i64::from(n)).sum::<i64>();
            out[0] = w1;
        }
    }
}

/// `((s + s.std()).min() + np.log1p(np.abs(((((3.0 + np.minimum(s, 3.0)) * 0.1) * 0.1) - np.where((s <= s.std()), s, 1.5))))).sum()`
struct E4I16;
impl ByHand<i16, f64> for E4I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: i16| -> i16 { x };
            let (mut a0, mut b0) = ([0i32; LANES], [0i64; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let wide = i32::from(v0);
                    a0[lane] += wide;
                    b0[lane] += i64::from(wide * wide);
                }
            }
            let w0 = whole::std(&a0, &b0);
            let f1 = |x: i16| -> f64 { (f64::from(x) + w0) };
            let mut a1 = [f64::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    a1[lane] = less(v1, a1[lane]);
                }
            }
            let w1 = a1.into_iter().fold(f64::MAX, less);
            let f2 = |x: i16| -> f64 {
                (w1 + math::ln_1p(
                    ((((3.0_f64 + less(f64::from(x), 3.0_f64)) * 0.1_f64) * 0.1_f64)
                        - choose((f64::from(x) <= w0), f64::from(x), 1.5_f64))
                    .abs(),
                ))
            };
            let shift2 = 0.0;
            let (mut a2, mut b2) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v2 = f2(x);
                    let d = f64::from(v2) - shift2;
                    a2[lane] += d;
                }
            }
            let w2 = real::sum(shift2, a2, b2) as f64;
            out[0] = w2;
        }
    }
}

/// `((s + s.std()).min() + np.log1p(np.abs(((((3.0 + np.minimum(s, 3.0)) * 0.1) * 0.1) - np.where((s <= s.std()), s, 1.5))))).sum()`
struct E4F32;
impl ByHand<f32, f32> for E4F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f32| -> f32 { x };
            let shift0 = f64::from(f0(window[0]));
            let (mut a0, mut b0) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let d = f64::from(v0) - shift0;
                    a0[lane] += d;
                    b0[lane] += d * d;
                }
            }
            let w0 = real::std(shift0, a0, b0) as f32;
            let f1 = |x: f32| -> f32 { (x + w0) };
            let mut a1 = [f32::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    a1[lane] = less(v1, a1[lane]);
                }
            }
            let w1 = a1.into_iter().fold(f32::MAX, less);
            let f2 = |x: f32| -> f32 {
                (w1 + math::ln_1p_f32(
                    ((((3.0_f32 + less(x, 3.0_f32)) * 0.1_f32) * 0.1_f32)
                        - choose((x <= w0), x, 1.5_f32))
                    .abs(),
                ))
            };
            let shift2 = 0.0;
            let (mut a2, mut b2) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v2 = f2(x);
                    let d = f64::from(v2) - shift2;
                    a2[lane] += d;
                }
            }
            let w2 = real::sum(shift2, a2, b2) as f32;
            out[0] = w2;
        }
    }
}

/// `((s + s.std()).min() + np.log1p(np.abs(((((3.0 + np.minimum(s, 3.0)) * 0.1) * 0.1) - np.where((s <= s.std()), s, 1.5))))).sum()`
struct E4F64;
impl ByHand<f64, f64> for E4F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f64| -> f64 { x };
            let shift0 = f64::from(f0(window[0]));
            let (mut a0, mut b0) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let d = f64::from(v0) - shift0;
                    a0[lane] += d;
                    b0[lane] += d * d;
                }
            }
            let w0 = real::std(shift0, a0, b0) as f64;
            let f1 = |x: f64| -> f64 { (x + w0) };
            let mut a1 = [f64::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    a1[lane] = less(v1, a1[lane]);
                }
            }
            let w1 = a1.into_iter().fold(f64::MAX, less);
            let f2 = |x: f64| -> f64 {
                (w1 + math::ln_1p(
                    ((((3.0_f64 + less(x, 3.0_f64)) * 0.1_f64) * 0.1_f64)
                        - choose((x <= w0), x, 1.5_f64))
                    .abs(),
                ))
            };
            let shift2 = 0.0;
            let (mut a2, mut b2) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v2 = f2(x);
                    let d = f64::from(v2) - shift2;
                    a2[lane] += d;
                }
            }
            let w2 = real::sum(shift2, a2, b2) as f64;
            out[0] = w2;
        }
    }
}

/// `(np.minimum((np.minimum(s, 0.1) - 0.25), 0.75) * s)`
struct E5I16;
impl ByHand<i16, f64> for E5I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f = |x: i16| -> f64 {
                (less((less(f64::from(x), 0.1_f64) - 0.25_f64), 0.75_f64) * f64::from(x))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(np.minimum((np.minimum(s, 0.1) - 0.25), 0.75) * s)`
struct E5F32;
impl ByHand<f32, f32> for E5F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f = |x: f32| -> f32 { (less((less(x, 0.1_f32) - 0.25_f32), 0.75_f32) * x) };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(np.minimum((np.minimum(s, 0.1) - 0.25), 0.75) * s)`
struct E5F64;
impl ByHand<f64, f64> for E5F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f = |x: f64| -> f64 { (less((less(x, 0.1_f64) - 0.25_f64), 0.75_f64) * x) };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `((((((s / 0.5) / 3.0) + 0.75) * 0.75) - np.log1p(np.abs((s - 2.5)))) + (s + 2.5))`
struct E6I16;
impl ByHand<i16, f64> for E6I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f = |x: i16| -> f64 {
                ((((((f64::from(x) / 0.5_f64) / 3.0_f64) + 0.75_f64) * 0.75_f64)
                    - math::ln_1p((f64::from(x) - 2.5_f64).abs()))
                    + (f64::from(x) + 2.5_f64))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `((((((s / 0.5) / 3.0) + 0.75) * 0.75) - np.log1p(np.abs((s - 2.5)))) + (s + 2.5))`
struct E6F32;
impl ByHand<f32, f32> for E6F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f = |x: f32| -> f32 {
                ((((((x / 0.5_f32) / 3.0_f32) + 0.75_f32) * 0.75_f32)
                    - math::ln_1p_f32((x - 2.5_f32).abs()))
                    + (x + 2.5_f32))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `((((((s / 0.5) / 3.0) + 0.75) * 0.75) - np.log1p(np.abs((s - 2.5)))) + (s + 2.5))`
struct E6F64;
impl ByHand<f64, f64> for E6F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f = |x: f64| -> f64 {
                ((((((x / 0.5_f64) / 3.0_f64) + 0.75_f64) * 0.75_f64)
                    - math::ln_1p((x - 2.5_f64).abs()))
                    + (x + 2.5_f64))
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(((s.mean() - np.minimum(np.tanh(s), 0.25)) + 0.5) * 3.0).std()`
struct E7I16;
impl ByHand<i16, f64> for E7I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: i16| -> i16 { x };
            let (mut a0, mut b0) = ([0i32; LANES], [0i64; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let wide = i32::from(v0);
                    a0[lane] += wide;
                }
            }
            let w0 = whole::mean(&a0, &b0);
            let f1 = |x: i16| -> f64 {
                (((w0 - f64::from(less(math::tanh_f32(f32::from(x)), 0.25_f32))) + 0.5_f64)
                    * 3.0_f64)
            };
            let shift1 = f64::from(f1(window[0]));
            let (mut a1, mut b1) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    let d = f64::from(v1) - shift1;
                    a1[lane] += d;
                    b1[lane] += d * d;
                }
            }
            let w1 = real::std(shift1, a1, b1) as f64;
            out[0] = w1;
        }
    }
}

/// `(((s.mean() - np.minimum(np.tanh(s), 0.25)) + 0.5) * 3.0).std()`
struct E7F32;
impl ByHand<f32, f32> for E7F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f32| -> f32 { x };
            let shift0 = f64::from(f0(window[0]));
            let (mut a0, mut b0) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let d = f64::from(v0) - shift0;
                    a0[lane] += d;
                }
            }
            let w0 = real::mean(shift0, a0, b0) as f32;
            let f1 = |x: f32| -> f32 {
                (((w0 - less(math::tanh_f32(x), 0.25_f32)) + 0.5_f32) * 3.0_f32)
            };
            let shift1 = f64::from(f1(window[0]));
            let (mut a1, mut b1) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    let d = f64::from(v1) - shift1;
                    a1[lane] += d;
                    b1[lane] += d * d;
                }
            }
            let w1 = real::std(shift1, a1, b1) as f32;
            out[0] = w1;
        }
    }
}

/// `(((s.mean() - np.minimum(np.tanh(s), 0.25)) + 0.5) * 3.0).std()`
struct E7F64;
impl ByHand<f64, f64> for E7F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples.chunks_exact(WINDOW).zip(out.chunks_exact_mut(1)) {
            let f0 = |x: f64| -> f64 { x };
            let shift0 = f64::from(f0(window[0]));
            let (mut a0, mut b0) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    let d = f64::from(v0) - shift0;
                    a0[lane] += d;
                }
            }
            let w0 = real::mean(shift0, a0, b0) as f64;
            let f1 =
                |x: f64| -> f64 { (((w0 - less(math::tanh(x), 0.25_f64)) + 0.5_f64) * 3.0_f64) };
            let shift1 = f64::from(f1(window[0]));
            let (mut a1, mut b1) = ([0.0; LANES], [0.0; LANES]);
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v1 = f1(x);
                    let d = f64::from(v1) - shift1;
                    a1[lane] += d;
                    b1[lane] += d * d;
                }
            }
            let w1 = real::std(shift1, a1, b1) as f64;
            out[0] = w1;
        }
    }
}

/// `np.minimum((0.25 + (0.25 * (np.where((s < -0.3), np.maximum((s - s), 3.0), 2.5) * (s * 0.5).min()))), 0.5)`
struct E8I16;
impl ByHand<i16, f64> for E8I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: i16| -> f64 { (f64::from(x) * 0.5_f64) };
            let mut a0 = [f64::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = less(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f64::MAX, less);
            let f = |x: i16| -> f64 {
                less(
                    (0.25_f64
                        + (0.25_f64
                            * (choose(
                                (f64::from(x) < -0.3_f64),
                                more(f64::from(x.wrapping_sub(x)), 3.0_f64),
                                2.5_f64,
                            ) * w0))),
                    0.5_f64,
                )
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `np.minimum((0.25 + (0.25 * (np.where((s < -0.3), np.maximum((s - s), 3.0), 2.5) * (s * 0.5).min()))), 0.5)`
struct E8F32;
impl ByHand<f32, f32> for E8F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [f32]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f32| -> f32 { (x * 0.5_f32) };
            let mut a0 = [f32::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = less(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f32::MAX, less);
            let f = |x: f32| -> f32 {
                less(
                    (0.25_f32
                        + (0.25_f32
                            * (choose((x < -0.3_f32), more((x - x), 3.0_f32), 2.5_f32) * w0))),
                    0.5_f32,
                )
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `np.minimum((0.25 + (0.25 * (np.where((s < -0.3), np.maximum((s - s), 3.0), 2.5) * (s * 0.5).min()))), 0.5)`
struct E8F64;
impl ByHand<f64, f64> for E8F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [f64]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f64| -> f64 { (x * 0.5_f64) };
            let mut a0 = [f64::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = less(v0, a0[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f64::MAX, less);
            let f = |x: f64| -> f64 {
                less(
                    (0.25_f64
                        + (0.25_f64
                            * (choose((x < -0.3_f64), more((x - x), 3.0_f64), 2.5_f64) * w0))),
                    0.5_f64,
                )
            };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = f(x);
            }
        }
    }
}

/// `(((s / -0.3) - s.max()) < s.min())`
struct E9I16;
impl ByHand<i16, Bool8> for E9I16 {
    #[inline(always)]
    fn run(samples: &[i16], out: &mut [Bool8]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: i16| -> i16 { x };
            let mut a0 = [i16::MIN; LANES];
            let f1 = |x: i16| -> i16 { x };
            let mut a1 = [i16::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                    let v1 = f1(x);
                    a1[lane] = less(v1, a1[lane]);
                }
            }
            let w0 = a0.into_iter().fold(i16::MIN, more);
            let w1 = a1.into_iter().fold(i16::MAX, less);
            let f =
                |x: i16| -> bool { (((f64::from(x) / -0.3_f64) - f64::from(w0)) < f64::from(w1)) };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = Bool8::from(f(x));
            }
        }
    }
}

/// `(((s / -0.3) - s.max()) < s.min())`
struct E9F32;
impl ByHand<f32, Bool8> for E9F32 {
    #[inline(always)]
    fn run(samples: &[f32], out: &mut [Bool8]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f32| -> f32 { x };
            let mut a0 = [f32::MIN; LANES];
            let f1 = |x: f32| -> f32 { x };
            let mut a1 = [f32::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                    let v1 = f1(x);
                    a1[lane] = less(v1, a1[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f32::MIN, more);
            let w1 = a1.into_iter().fold(f32::MAX, less);
            let f = |x: f32| -> bool { (((x / -0.3_f32) - w0) < w1) };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = Bool8::from(f(x));
            }
        }
    }
}

/// `(((s / -0.3) - s.max()) < s.min())`
struct E9F64;
impl ByHand<f64, Bool8> for E9F64 {
    #[inline(always)]
    fn run(samples: &[f64], out: &mut [Bool8]) {
        for (window, out) in samples
            .chunks_exact(WINDOW)
            .zip(out.chunks_exact_mut(WINDOW))
        {
            let f0 = |x: f64| -> f64 { x };
            let mut a0 = [f64::MIN; LANES];
            let f1 = |x: f64| -> f64 { x };
            let mut a1 = [f64::MAX; LANES];
            for group in window.as_chunks::<LANES>().0 {
                for lane in 0..LANES {
                    let x = group[lane];
                    let v0 = f0(x);
                    a0[lane] = more(v0, a0[lane]);
                    let v1 = f1(x);
                    a1[lane] = less(v1, a1[lane]);
                }
            }
            let w0 = a0.into_iter().fold(f64::MIN, more);
            let w1 = a1.into_iter().fold(f64::MAX, less);
            let f = |x: f64| -> bool { (((x / -0.3_f64) - w0) < w1) };
            for (out, &x) in out.iter_mut().zip(window) {
                *out = Bool8::from(f(x));
            }
        }
    }
}

pub(crate) fn run(
    case: &mut Case,
    i16: fn(usize) -> i16,
    f32: fn(usize) -> f32,
    f64: fn(usize) -> f64,
) {
    against_hand::<E0I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Sum),
            [Expr::apply(
                Op::Where,
                [
                    Expr::apply(
                        Op::Binary(Binary::Gt),
                        [
                            Expr::input(),
                            Expr::apply(Op::Reduce(Reduction::Mean), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Binary(Binary::Add),
                        [
                            Expr::apply(
                                Op::Where,
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Ge),
                                        [
                                            Expr::input(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Max),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::input(),
                                    Expr::from(0.1),
                                ],
                            )
                            .unwrap(),
                            Expr::input(),
                        ],
                    )
                    .unwrap(),
                    Expr::from(0.5),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E0F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Sum),
            [Expr::apply(
                Op::Where,
                [
                    Expr::apply(
                        Op::Binary(Binary::Gt),
                        [
                            Expr::input(),
                            Expr::apply(Op::Reduce(Reduction::Mean), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Binary(Binary::Add),
                        [
                            Expr::apply(
                                Op::Where,
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Ge),
                                        [
                                            Expr::input(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Max),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::input(),
                                    Expr::from(0.1),
                                ],
                            )
                            .unwrap(),
                            Expr::input(),
                        ],
                    )
                    .unwrap(),
                    Expr::from(0.5),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E0F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Sum),
            [Expr::apply(
                Op::Where,
                [
                    Expr::apply(
                        Op::Binary(Binary::Gt),
                        [
                            Expr::input(),
                            Expr::apply(Op::Reduce(Reduction::Mean), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Binary(Binary::Add),
                        [
                            Expr::apply(
                                Op::Where,
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Ge),
                                        [
                                            Expr::input(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Max),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::input(),
                                    Expr::from(0.1),
                                ],
                            )
                            .unwrap(),
                            Expr::input(),
                        ],
                    )
                    .unwrap(),
                    Expr::from(0.5),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E1I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Unary(Unary::Tanh),
            [Expr::apply(
                Op::Binary(Binary::Mul),
                [
                    Expr::apply(
                        Op::Binary(Binary::Mul),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Mul),
                                [
                                    Expr::from(0.75),
                                    Expr::apply(
                                        Op::Binary(Binary::Mul),
                                        [
                                            Expr::apply(
                                                Op::Where,
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Lt),
                                                        [
                                                            Expr::input(),
                                                            Expr::apply(
                                                                Op::Reduce(Reduction::Max),
                                                                [Expr::input()],
                                                            )
                                                            .unwrap(),
                                                        ],
                                                    )
                                                    .unwrap(),
                                                    Expr::input(),
                                                    Expr::from(3.0),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::from(0.5),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap(),
                            Expr::apply(
                                Op::Binary(Binary::Add),
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Div),
                                        [
                                            Expr::input(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Mean),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()])
                                        .unwrap(),
                                ],
                            )
                            .unwrap(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Binary(Binary::Div),
                        [
                            Expr::input(),
                            Expr::apply(Op::Reduce(Reduction::Min), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E1F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Unary(Unary::Tanh),
            [Expr::apply(
                Op::Binary(Binary::Mul),
                [
                    Expr::apply(
                        Op::Binary(Binary::Mul),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Mul),
                                [
                                    Expr::from(0.75),
                                    Expr::apply(
                                        Op::Binary(Binary::Mul),
                                        [
                                            Expr::apply(
                                                Op::Where,
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Lt),
                                                        [
                                                            Expr::input(),
                                                            Expr::apply(
                                                                Op::Reduce(Reduction::Max),
                                                                [Expr::input()],
                                                            )
                                                            .unwrap(),
                                                        ],
                                                    )
                                                    .unwrap(),
                                                    Expr::input(),
                                                    Expr::from(3.0),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::from(0.5),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap(),
                            Expr::apply(
                                Op::Binary(Binary::Add),
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Div),
                                        [
                                            Expr::input(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Mean),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()])
                                        .unwrap(),
                                ],
                            )
                            .unwrap(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Binary(Binary::Div),
                        [
                            Expr::input(),
                            Expr::apply(Op::Reduce(Reduction::Min), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E1F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Unary(Unary::Tanh),
            [Expr::apply(
                Op::Binary(Binary::Mul),
                [
                    Expr::apply(
                        Op::Binary(Binary::Mul),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Mul),
                                [
                                    Expr::from(0.75),
                                    Expr::apply(
                                        Op::Binary(Binary::Mul),
                                        [
                                            Expr::apply(
                                                Op::Where,
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Lt),
                                                        [
                                                            Expr::input(),
                                                            Expr::apply(
                                                                Op::Reduce(Reduction::Max),
                                                                [Expr::input()],
                                                            )
                                                            .unwrap(),
                                                        ],
                                                    )
                                                    .unwrap(),
                                                    Expr::input(),
                                                    Expr::from(3.0),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::from(0.5),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap(),
                            Expr::apply(
                                Op::Binary(Binary::Add),
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Div),
                                        [
                                            Expr::input(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Mean),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()])
                                        .unwrap(),
                                ],
                            )
                            .unwrap(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Binary(Binary::Div),
                        [
                            Expr::input(),
                            Expr::apply(Op::Reduce(Reduction::Min), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E2I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Add),
            [
                Expr::apply(
                    Op::Unary(Unary::Cos),
                    [Expr::apply(
                        Op::Unary(Unary::Sqrt),
                        [Expr::apply(
                            Op::Unary(Unary::Abs),
                            [Expr::apply(
                                Op::Where,
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Ge),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [Expr::input(), Expr::input()],
                                            )
                                            .unwrap(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Max),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(
                                        Op::Binary(Binary::Add),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Sub),
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Sub),
                                                        [Expr::input(), Expr::input()],
                                                    )
                                                    .unwrap(),
                                                    Expr::input(),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::input(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::from(-0.3),
                                ],
                            )
                            .unwrap()],
                        )
                        .unwrap()],
                    )
                    .unwrap()],
                )
                .unwrap(),
                Expr::apply(
                    Op::Unary(Unary::Cos),
                    [Expr::apply(
                        Op::Binary(Binary::Div),
                        [
                            Expr::apply(Op::Binary(Binary::Add), [Expr::from(2.5), Expr::input()])
                                .unwrap(),
                            Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap()],
                )
                .unwrap(),
            ],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E2F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Add),
            [
                Expr::apply(
                    Op::Unary(Unary::Cos),
                    [Expr::apply(
                        Op::Unary(Unary::Sqrt),
                        [Expr::apply(
                            Op::Unary(Unary::Abs),
                            [Expr::apply(
                                Op::Where,
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Ge),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [Expr::input(), Expr::input()],
                                            )
                                            .unwrap(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Max),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(
                                        Op::Binary(Binary::Add),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Sub),
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Sub),
                                                        [Expr::input(), Expr::input()],
                                                    )
                                                    .unwrap(),
                                                    Expr::input(),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::input(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::from(-0.3),
                                ],
                            )
                            .unwrap()],
                        )
                        .unwrap()],
                    )
                    .unwrap()],
                )
                .unwrap(),
                Expr::apply(
                    Op::Unary(Unary::Cos),
                    [Expr::apply(
                        Op::Binary(Binary::Div),
                        [
                            Expr::apply(Op::Binary(Binary::Add), [Expr::from(2.5), Expr::input()])
                                .unwrap(),
                            Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap()],
                )
                .unwrap(),
            ],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E2F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Add),
            [
                Expr::apply(
                    Op::Unary(Unary::Cos),
                    [Expr::apply(
                        Op::Unary(Unary::Sqrt),
                        [Expr::apply(
                            Op::Unary(Unary::Abs),
                            [Expr::apply(
                                Op::Where,
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Ge),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [Expr::input(), Expr::input()],
                                            )
                                            .unwrap(),
                                            Expr::apply(
                                                Op::Reduce(Reduction::Max),
                                                [Expr::input()],
                                            )
                                            .unwrap(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(
                                        Op::Binary(Binary::Add),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Sub),
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Sub),
                                                        [Expr::input(), Expr::input()],
                                                    )
                                                    .unwrap(),
                                                    Expr::input(),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::input(),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::from(-0.3),
                                ],
                            )
                            .unwrap()],
                        )
                        .unwrap()],
                    )
                    .unwrap()],
                )
                .unwrap(),
                Expr::apply(
                    Op::Unary(Unary::Cos),
                    [Expr::apply(
                        Op::Binary(Binary::Div),
                        [
                            Expr::apply(Op::Binary(Binary::Add), [Expr::from(2.5), Expr::input()])
                                .unwrap(),
                            Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                        ],
                    )
                    .unwrap()],
                )
                .unwrap(),
            ],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E3I16, i16, i64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Count),
            [Expr::apply(
                Op::Binary(Binary::Ge),
                [
                    Expr::apply(
                        Op::Binary(Binary::Sub),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Maximum),
                                [
                                    Expr::apply(
                                        Op::Unary(Unary::Sqrt),
                                        [Expr::apply(
                                            Op::Unary(Unary::Abs),
                                            [Expr::apply(
                                                Op::Binary(Binary::Div),
                                                [Expr::input(), Expr::from(0.5)],
                                            )
                                            .unwrap()],
                                        )
                                        .unwrap()],
                                    )
                                    .unwrap(),
                                    Expr::from(0.1),
                                ],
                            )
                            .unwrap(),
                            Expr::input(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E3F32, f32, i64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Count),
            [Expr::apply(
                Op::Binary(Binary::Ge),
                [
                    Expr::apply(
                        Op::Binary(Binary::Sub),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Maximum),
                                [
                                    Expr::apply(
                                        Op::Unary(Unary::Sqrt),
                                        [Expr::apply(
                                            Op::Unary(Unary::Abs),
                                            [Expr::apply(
                                                Op::Binary(Binary::Div),
                                                [Expr::input(), Expr::from(0.5)],
                                            )
                                            .unwrap()],
                                        )
                                        .unwrap()],
                                    )
                                    .unwrap(),
                                    Expr::from(0.1),
                                ],
                            )
                            .unwrap(),
                            Expr::input(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E3F64, f64, i64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Count),
            [Expr::apply(
                Op::Binary(Binary::Ge),
                [
                    Expr::apply(
                        Op::Binary(Binary::Sub),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Maximum),
                                [
                                    Expr::apply(
                                        Op::Unary(Unary::Sqrt),
                                        [Expr::apply(
                                            Op::Unary(Unary::Abs),
                                            [Expr::apply(
                                                Op::Binary(Binary::Div),
                                                [Expr::input(), Expr::from(0.5)],
                                            )
                                            .unwrap()],
                                        )
                                        .unwrap()],
                                    )
                                    .unwrap(),
                                    Expr::from(0.1),
                                ],
                            )
                            .unwrap(),
                            Expr::input(),
                        ],
                    )
                    .unwrap(),
                    Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E4I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Sum),
            [Expr::apply(
                Op::Binary(Binary::Add),
                [
                    Expr::apply(
                        Op::Reduce(Reduction::Min),
                        [Expr::apply(
                            Op::Binary(Binary::Add),
                            [
                                Expr::input(),
                                Expr::apply(Op::Reduce(Reduction::Std), [Expr::input()]).unwrap(),
                            ],
                        )
                        .unwrap()],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Unary(Unary::Log1p),
                        [Expr::apply(
                            Op::Unary(Unary::Abs),
                            [Expr::apply(
                                Op::Binary(Binary::Sub),
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Mul),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Add),
                                                        [
                                                            Expr::from(3.0),
                                                            Expr::apply(
                                                                Op::Binary(Binary::Minimum),
                                                                [Expr::input(), Expr::from(3.0)],
                                                            )
                                                            .unwrap(),
                                                        ],
                                                    )
                                                    .unwrap(),
                                                    Expr::from(0.1),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::from(0.1),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(
                                        Op::Where,
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Le),
                                                [
                                                    Expr::input(),
                                                    Expr::apply(
                                                        Op::Reduce(Reduction::Std),
                                                        [Expr::input()],
                                                    )
                                                    .unwrap(),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::input(),
                                            Expr::from(1.5),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap()],
                        )
                        .unwrap()],
                    )
                    .unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E4F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Sum),
            [Expr::apply(
                Op::Binary(Binary::Add),
                [
                    Expr::apply(
                        Op::Reduce(Reduction::Min),
                        [Expr::apply(
                            Op::Binary(Binary::Add),
                            [
                                Expr::input(),
                                Expr::apply(Op::Reduce(Reduction::Std), [Expr::input()]).unwrap(),
                            ],
                        )
                        .unwrap()],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Unary(Unary::Log1p),
                        [Expr::apply(
                            Op::Unary(Unary::Abs),
                            [Expr::apply(
                                Op::Binary(Binary::Sub),
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Mul),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Add),
                                                        [
                                                            Expr::from(3.0),
                                                            Expr::apply(
                                                                Op::Binary(Binary::Minimum),
                                                                [Expr::input(), Expr::from(3.0)],
                                                            )
                                                            .unwrap(),
                                                        ],
                                                    )
                                                    .unwrap(),
                                                    Expr::from(0.1),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::from(0.1),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(
                                        Op::Where,
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Le),
                                                [
                                                    Expr::input(),
                                                    Expr::apply(
                                                        Op::Reduce(Reduction::Std),
                                                        [Expr::input()],
                                                    )
                                                    .unwrap(),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::input(),
                                            Expr::from(1.5),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap()],
                        )
                        .unwrap()],
                    )
                    .unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E4F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Sum),
            [Expr::apply(
                Op::Binary(Binary::Add),
                [
                    Expr::apply(
                        Op::Reduce(Reduction::Min),
                        [Expr::apply(
                            Op::Binary(Binary::Add),
                            [
                                Expr::input(),
                                Expr::apply(Op::Reduce(Reduction::Std), [Expr::input()]).unwrap(),
                            ],
                        )
                        .unwrap()],
                    )
                    .unwrap(),
                    Expr::apply(
                        Op::Unary(Unary::Log1p),
                        [Expr::apply(
                            Op::Unary(Unary::Abs),
                            [Expr::apply(
                                Op::Binary(Binary::Sub),
                                [
                                    Expr::apply(
                                        Op::Binary(Binary::Mul),
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [
                                                    Expr::apply(
                                                        Op::Binary(Binary::Add),
                                                        [
                                                            Expr::from(3.0),
                                                            Expr::apply(
                                                                Op::Binary(Binary::Minimum),
                                                                [Expr::input(), Expr::from(3.0)],
                                                            )
                                                            .unwrap(),
                                                        ],
                                                    )
                                                    .unwrap(),
                                                    Expr::from(0.1),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::from(0.1),
                                        ],
                                    )
                                    .unwrap(),
                                    Expr::apply(
                                        Op::Where,
                                        [
                                            Expr::apply(
                                                Op::Binary(Binary::Le),
                                                [
                                                    Expr::input(),
                                                    Expr::apply(
                                                        Op::Reduce(Reduction::Std),
                                                        [Expr::input()],
                                                    )
                                                    .unwrap(),
                                                ],
                                            )
                                            .unwrap(),
                                            Expr::input(),
                                            Expr::from(1.5),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap()],
                        )
                        .unwrap()],
                    )
                    .unwrap(),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E5I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Mul),
            [
                Expr::apply(
                    Op::Binary(Binary::Minimum),
                    [
                        Expr::apply(
                            Op::Binary(Binary::Sub),
                            [
                                Expr::apply(
                                    Op::Binary(Binary::Minimum),
                                    [Expr::input(), Expr::from(0.1)],
                                )
                                .unwrap(),
                                Expr::from(0.25),
                            ],
                        )
                        .unwrap(),
                        Expr::from(0.75),
                    ],
                )
                .unwrap(),
                Expr::input(),
            ],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E5F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Mul),
            [
                Expr::apply(
                    Op::Binary(Binary::Minimum),
                    [
                        Expr::apply(
                            Op::Binary(Binary::Sub),
                            [
                                Expr::apply(
                                    Op::Binary(Binary::Minimum),
                                    [Expr::input(), Expr::from(0.1)],
                                )
                                .unwrap(),
                                Expr::from(0.25),
                            ],
                        )
                        .unwrap(),
                        Expr::from(0.75),
                    ],
                )
                .unwrap(),
                Expr::input(),
            ],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E5F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Mul),
            [
                Expr::apply(
                    Op::Binary(Binary::Minimum),
                    [
                        Expr::apply(
                            Op::Binary(Binary::Sub),
                            [
                                Expr::apply(
                                    Op::Binary(Binary::Minimum),
                                    [Expr::input(), Expr::from(0.1)],
                                )
                                .unwrap(),
                                Expr::from(0.25),
                            ],
                        )
                        .unwrap(),
                        Expr::from(0.75),
                    ],
                )
                .unwrap(),
                Expr::input(),
            ],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E6I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Add),
            [
                Expr::apply(
                    Op::Binary(Binary::Sub),
                    [
                        Expr::apply(
                            Op::Binary(Binary::Mul),
                            [
                                Expr::apply(
                                    Op::Binary(Binary::Add),
                                    [
                                        Expr::apply(
                                            Op::Binary(Binary::Div),
                                            [
                                                Expr::apply(
                                                    Op::Binary(Binary::Div),
                                                    [Expr::input(), Expr::from(0.5)],
                                                )
                                                .unwrap(),
                                                Expr::from(3.0),
                                            ],
                                        )
                                        .unwrap(),
                                        Expr::from(0.75),
                                    ],
                                )
                                .unwrap(),
                                Expr::from(0.75),
                            ],
                        )
                        .unwrap(),
                        Expr::apply(
                            Op::Unary(Unary::Log1p),
                            [Expr::apply(
                                Op::Unary(Unary::Abs),
                                [Expr::apply(
                                    Op::Binary(Binary::Sub),
                                    [Expr::input(), Expr::from(2.5)],
                                )
                                .unwrap()],
                            )
                            .unwrap()],
                        )
                        .unwrap(),
                    ],
                )
                .unwrap(),
                Expr::apply(Op::Binary(Binary::Add), [Expr::input(), Expr::from(2.5)]).unwrap(),
            ],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E6F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Add),
            [
                Expr::apply(
                    Op::Binary(Binary::Sub),
                    [
                        Expr::apply(
                            Op::Binary(Binary::Mul),
                            [
                                Expr::apply(
                                    Op::Binary(Binary::Add),
                                    [
                                        Expr::apply(
                                            Op::Binary(Binary::Div),
                                            [
                                                Expr::apply(
                                                    Op::Binary(Binary::Div),
                                                    [Expr::input(), Expr::from(0.5)],
                                                )
                                                .unwrap(),
                                                Expr::from(3.0),
                                            ],
                                        )
                                        .unwrap(),
                                        Expr::from(0.75),
                                    ],
                                )
                                .unwrap(),
                                Expr::from(0.75),
                            ],
                        )
                        .unwrap(),
                        Expr::apply(
                            Op::Unary(Unary::Log1p),
                            [Expr::apply(
                                Op::Unary(Unary::Abs),
                                [Expr::apply(
                                    Op::Binary(Binary::Sub),
                                    [Expr::input(), Expr::from(2.5)],
                                )
                                .unwrap()],
                            )
                            .unwrap()],
                        )
                        .unwrap(),
                    ],
                )
                .unwrap(),
                Expr::apply(Op::Binary(Binary::Add), [Expr::input(), Expr::from(2.5)]).unwrap(),
            ],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E6F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Add),
            [
                Expr::apply(
                    Op::Binary(Binary::Sub),
                    [
                        Expr::apply(
                            Op::Binary(Binary::Mul),
                            [
                                Expr::apply(
                                    Op::Binary(Binary::Add),
                                    [
                                        Expr::apply(
                                            Op::Binary(Binary::Div),
                                            [
                                                Expr::apply(
                                                    Op::Binary(Binary::Div),
                                                    [Expr::input(), Expr::from(0.5)],
                                                )
                                                .unwrap(),
                                                Expr::from(3.0),
                                            ],
                                        )
                                        .unwrap(),
                                        Expr::from(0.75),
                                    ],
                                )
                                .unwrap(),
                                Expr::from(0.75),
                            ],
                        )
                        .unwrap(),
                        Expr::apply(
                            Op::Unary(Unary::Log1p),
                            [Expr::apply(
                                Op::Unary(Unary::Abs),
                                [Expr::apply(
                                    Op::Binary(Binary::Sub),
                                    [Expr::input(), Expr::from(2.5)],
                                )
                                .unwrap()],
                            )
                            .unwrap()],
                        )
                        .unwrap(),
                    ],
                )
                .unwrap(),
                Expr::apply(Op::Binary(Binary::Add), [Expr::input(), Expr::from(2.5)]).unwrap(),
            ],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E7I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Std),
            [Expr::apply(
                Op::Binary(Binary::Mul),
                [
                    Expr::apply(
                        Op::Binary(Binary::Add),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Sub),
                                [
                                    Expr::apply(Op::Reduce(Reduction::Mean), [Expr::input()])
                                        .unwrap(),
                                    Expr::apply(
                                        Op::Binary(Binary::Minimum),
                                        [
                                            Expr::apply(Op::Unary(Unary::Tanh), [Expr::input()])
                                                .unwrap(),
                                            Expr::from(0.25),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap(),
                            Expr::from(0.5),
                        ],
                    )
                    .unwrap(),
                    Expr::from(3.0),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E7F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Std),
            [Expr::apply(
                Op::Binary(Binary::Mul),
                [
                    Expr::apply(
                        Op::Binary(Binary::Add),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Sub),
                                [
                                    Expr::apply(Op::Reduce(Reduction::Mean), [Expr::input()])
                                        .unwrap(),
                                    Expr::apply(
                                        Op::Binary(Binary::Minimum),
                                        [
                                            Expr::apply(Op::Unary(Unary::Tanh), [Expr::input()])
                                                .unwrap(),
                                            Expr::from(0.25),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap(),
                            Expr::from(0.5),
                        ],
                    )
                    .unwrap(),
                    Expr::from(3.0),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E7F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Reduce(Reduction::Std),
            [Expr::apply(
                Op::Binary(Binary::Mul),
                [
                    Expr::apply(
                        Op::Binary(Binary::Add),
                        [
                            Expr::apply(
                                Op::Binary(Binary::Sub),
                                [
                                    Expr::apply(Op::Reduce(Reduction::Mean), [Expr::input()])
                                        .unwrap(),
                                    Expr::apply(
                                        Op::Binary(Binary::Minimum),
                                        [
                                            Expr::apply(Op::Unary(Unary::Tanh), [Expr::input()])
                                                .unwrap(),
                                            Expr::from(0.25),
                                        ],
                                    )
                                    .unwrap(),
                                ],
                            )
                            .unwrap(),
                            Expr::from(0.5),
                        ],
                    )
                    .unwrap(),
                    Expr::from(3.0),
                ],
            )
            .unwrap()],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E8I16, i16, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Minimum),
            [
                Expr::apply(
                    Op::Binary(Binary::Add),
                    [
                        Expr::from(0.25),
                        Expr::apply(
                            Op::Binary(Binary::Mul),
                            [
                                Expr::from(0.25),
                                Expr::apply(
                                    Op::Binary(Binary::Mul),
                                    [
                                        Expr::apply(
                                            Op::Where,
                                            [
                                                Expr::apply(
                                                    Op::Binary(Binary::Lt),
                                                    [Expr::input(), Expr::from(-0.3)],
                                                )
                                                .unwrap(),
                                                Expr::apply(
                                                    Op::Binary(Binary::Maximum),
                                                    [
                                                        Expr::apply(
                                                            Op::Binary(Binary::Sub),
                                                            [Expr::input(), Expr::input()],
                                                        )
                                                        .unwrap(),
                                                        Expr::from(3.0),
                                                    ],
                                                )
                                                .unwrap(),
                                                Expr::from(2.5),
                                            ],
                                        )
                                        .unwrap(),
                                        Expr::apply(
                                            Op::Reduce(Reduction::Min),
                                            [Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [Expr::input(), Expr::from(0.5)],
                                            )
                                            .unwrap()],
                                        )
                                        .unwrap(),
                                    ],
                                )
                                .unwrap(),
                            ],
                        )
                        .unwrap(),
                    ],
                )
                .unwrap(),
                Expr::from(0.5),
            ],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E8F32, f32, f32>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Minimum),
            [
                Expr::apply(
                    Op::Binary(Binary::Add),
                    [
                        Expr::from(0.25),
                        Expr::apply(
                            Op::Binary(Binary::Mul),
                            [
                                Expr::from(0.25),
                                Expr::apply(
                                    Op::Binary(Binary::Mul),
                                    [
                                        Expr::apply(
                                            Op::Where,
                                            [
                                                Expr::apply(
                                                    Op::Binary(Binary::Lt),
                                                    [Expr::input(), Expr::from(-0.3)],
                                                )
                                                .unwrap(),
                                                Expr::apply(
                                                    Op::Binary(Binary::Maximum),
                                                    [
                                                        Expr::apply(
                                                            Op::Binary(Binary::Sub),
                                                            [Expr::input(), Expr::input()],
                                                        )
                                                        .unwrap(),
                                                        Expr::from(3.0),
                                                    ],
                                                )
                                                .unwrap(),
                                                Expr::from(2.5),
                                            ],
                                        )
                                        .unwrap(),
                                        Expr::apply(
                                            Op::Reduce(Reduction::Min),
                                            [Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [Expr::input(), Expr::from(0.5)],
                                            )
                                            .unwrap()],
                                        )
                                        .unwrap(),
                                    ],
                                )
                                .unwrap(),
                            ],
                        )
                        .unwrap(),
                    ],
                )
                .unwrap(),
                Expr::from(0.5),
            ],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E8F64, f64, f64>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Minimum),
            [
                Expr::apply(
                    Op::Binary(Binary::Add),
                    [
                        Expr::from(0.25),
                        Expr::apply(
                            Op::Binary(Binary::Mul),
                            [
                                Expr::from(0.25),
                                Expr::apply(
                                    Op::Binary(Binary::Mul),
                                    [
                                        Expr::apply(
                                            Op::Where,
                                            [
                                                Expr::apply(
                                                    Op::Binary(Binary::Lt),
                                                    [Expr::input(), Expr::from(-0.3)],
                                                )
                                                .unwrap(),
                                                Expr::apply(
                                                    Op::Binary(Binary::Maximum),
                                                    [
                                                        Expr::apply(
                                                            Op::Binary(Binary::Sub),
                                                            [Expr::input(), Expr::input()],
                                                        )
                                                        .unwrap(),
                                                        Expr::from(3.0),
                                                    ],
                                                )
                                                .unwrap(),
                                                Expr::from(2.5),
                                            ],
                                        )
                                        .unwrap(),
                                        Expr::apply(
                                            Op::Reduce(Reduction::Min),
                                            [Expr::apply(
                                                Op::Binary(Binary::Mul),
                                                [Expr::input(), Expr::from(0.5)],
                                            )
                                            .unwrap()],
                                        )
                                        .unwrap(),
                                    ],
                                )
                                .unwrap(),
                            ],
                        )
                        .unwrap(),
                    ],
                )
                .unwrap(),
                Expr::from(0.5),
            ],
        )
        .unwrap(),
        f64,
    );
    against_hand::<E9I16, i16, Bool8>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Lt),
            [
                Expr::apply(
                    Op::Binary(Binary::Sub),
                    [
                        Expr::apply(Op::Binary(Binary::Div), [Expr::input(), Expr::from(-0.3)])
                            .unwrap(),
                        Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                    ],
                )
                .unwrap(),
                Expr::apply(Op::Reduce(Reduction::Min), [Expr::input()]).unwrap(),
            ],
        )
        .unwrap(),
        i16,
    );
    against_hand::<E9F32, f32, Bool8>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Lt),
            [
                Expr::apply(
                    Op::Binary(Binary::Sub),
                    [
                        Expr::apply(Op::Binary(Binary::Div), [Expr::input(), Expr::from(-0.3)])
                            .unwrap(),
                        Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                    ],
                )
                .unwrap(),
                Expr::apply(Op::Reduce(Reduction::Min), [Expr::input()]).unwrap(),
            ],
        )
        .unwrap(),
        f32,
    );
    against_hand::<E9F64, f64, Bool8>(
        case,
        &Expr::apply(
            Op::Binary(Binary::Lt),
            [
                Expr::apply(
                    Op::Binary(Binary::Sub),
                    [
                        Expr::apply(Op::Binary(Binary::Div), [Expr::input(), Expr::from(-0.3)])
                            .unwrap(),
                        Expr::apply(Op::Reduce(Reduction::Max), [Expr::input()]).unwrap(),
                    ],
                )
                .unwrap(),
                Expr::apply(Op::Reduce(Reduction::Min), [Expr::input()]).unwrap(),
            ],
        )
        .unwrap(),
        f64,
    );
}
