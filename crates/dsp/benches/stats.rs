//! Throughput of window statistics against a plain loop: `cargo bench -p isochrony-dsp --bench stats`.
//!
//! Pairs run interleaved. Results are asserted; without `--bench` cases run once.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::Isa;
use isochrony_dsp::stats::{Extreme, Statistic, Summary, summaries_on};

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

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn against_bare<T: Statistic>(
    case: &Case,
    window: usize,
    make: impl Fn(usize) -> T,
    bare: impl Fn(&[T]) -> f64,
) {
    let samples: Vec<T> = (0..case.samples).map(make).collect();
    let mut out = vec![Summary::EMPTY; samples.len() / window];
    let name = T::DTYPE.name();
    for isa in Isa::available() {
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        for _ in 0..case.rounds {
            let bare_time = seconds(|| {
                black_box(bare(black_box(&samples)));
            });
            let time = seconds(|| {
                let count = summaries_on(isa, black_box(&samples), window, &mut out);
                assert_eq!(count, Ok(out.len()));
            });
            ours.push(samples.len() as f64 / time / 1e9);
            theirs.push(samples.len() as f64 / bare_time / 1e9);
            ratios.push(bare_time / time);
        }
        assert!(
            out.iter()
                .all(|s| s.count == window as u64 && s.min.to_f64() <= s.mean)
        );
        let spread = {
            let mut sorted = ratios.clone();
            sorted.sort_by(f64::total_cmp);
            (sorted[sorted.len() / 10], sorted[sorted.len() * 9 / 10])
        };
        println!(
            "stats/summaries/{window}/{name}/{}/{}: {:.2} Gsamples/s, {:.1} GB/s; bare loop {:.2} Gsamples/s; ratio {:.2} ({:.2}..{:.2})",
            case.place,
            isa.name(),
            median(&mut ours),
            median(&mut ours) * size_of::<T>() as f64,
            median(&mut theirs),
            median(&mut ratios),
            spread.0,
            spread.1,
        );
    }
}

macro_rules! bare {
    ($type:ty, $sum:ty) => {
        |samples: &[$type]| {
            let (mut min, mut max, mut sum) = (samples[0], samples[0], 0 as $sum);
            for &sample in samples {
                min = if sample < min { sample } else { min };
                max = if sample > max { sample } else { max };
                sum += sample as $sum;
            }
            sum as f64 + min as f64 + max as f64
        }
    };
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    // Bound by the kernel in the L2 cache, and by memory.
    let cases = if measured {
        vec![
            Case {
                place: "cached",
                samples: 1 << 15,
                rounds: 301,
            },
            Case {
                place: "memory",
                samples: 1 << 25,
                rounds: 9,
            },
        ]
    } else {
        vec![Case {
            place: "tried",
            samples: 1 << 14,
            rounds: 1,
        }]
    };
    let noise = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
    for (case, window) in cases.iter().flat_map(|case| [(case, 64), (case, 4096)]) {
        against_bare(case, window, |i| noise(i) as i8, bare!(i8, i64));
        against_bare(case, window, |i| noise(i) as u8, bare!(u8, u64));
        against_bare(case, window, |i| noise(i) as i16, bare!(i16, i64));
        against_bare(case, window, noise, bare!(u16, u64));
        against_bare(case, window, |i| i32::from(noise(i)) << 8, bare!(i32, i64));
        against_bare(case, window, |i| i64::from(noise(i)) << 20, bare!(i64, i64));
        against_bare(case, window, |i| f32::from(noise(i)), bare!(f32, f64));
        against_bare(case, window, |i| f64::from(noise(i)), bare!(f64, f64));
        against_bare(
            case,
            window,
            |i| isochrony_segment::Complex32::new(f32::from(noise(i)), 1.0),
            |samples| samples.iter().map(|s| f64::from(s.norm())).sum(),
        );
    }
}
