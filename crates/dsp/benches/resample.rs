//! Throughput of resampling: `cargo bench -p isochrony-dsp --bench resample`, with `-- NAME` for one case.
//!
//! Results are asserted; without `--bench` cases run once.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::Isa;
use isochrony_dsp::resample::{Edges, Quality, Ratio, Resampler};
use isochrony_dsp::spectrum::Precision;

const RATIOS: [(&str, u64, u64); 6] = [
    ("up-2", 2, 1),
    ("up-10", 10, 1),
    ("down-10", 1, 10),
    ("down-1000", 1, 1000),
    ("44100-48000", 160, 147),
    ("48000-47123.456", 981_738_667, 1_000_000_000),
];

fn resample<T: Precision>(name: &str, samples: usize, rounds: usize) {
    let input: Vec<T> = (0..samples)
        .map(|n| T::of(1.0 + (n as f64 * 0.01).sin()))
        .collect();
    let only = std::env::args()
        .nth(1)
        .filter(|only| !only.starts_with('-'));
    for (what, up, down) in RATIOS {
        if only.as_ref().is_some_and(|only| only != what) {
            continue;
        }
        let ratio = Ratio::new(up, down).expect("a ratio");
        for isa in Isa::available() {
            let quality = Quality::default();
            let made = Resampler::<T>::on(isa, "resample", ratio, quality, Edges::Steady);
            let mut resampler = made.expect("a quality");
            let mut output = Vec::new();
            let mut times: Vec<f64> = (0..rounds)
                .map(|_| {
                    let begun = Instant::now();
                    resampler.begin(0).expect("a small index");
                    let mut at = 0;
                    for block in input.chunks(1 << 16) {
                        let ready = resampler.ready(block.len());
                        output.resize(output.len().max(at + ready), T::of(0.0));
                        let results = &mut output[at..at + ready];
                        resampler
                            .process(black_box(block), results)
                            .expect("as many as ready");
                        at += ready;
                    }
                    begun.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let (best, median) = (times[0], times[times.len() / 2]);
            assert!(output.iter().all(|y| (-0.1..2.1).contains(&(*y).into())));
            let rate = |time: f64| output.len() as f64 / time / 1e6;
            println!(
                "resample/{what}/{name}/{}: {:.1} Msamples/s out (median {:.1})",
                isa.name(),
                rate(best),
                rate(median)
            );
        }
    }
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (samples, rounds) = if measured {
        (1 << 20, 11)
    } else {
        (1 << 14, 1)
    };
    resample::<f64>("f64", samples, rounds);
    resample::<f32>("f32", samples, rounds);
}
