//! Throughput of filters: `cargo bench -p isochrony-dsp --bench filters`.
//!
//! Results are asserted; without `--bench` cases run once.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::Isa;
use isochrony_dsp::filter::{
    Band, Family, Fir, FirMethod, FirWindow, Iir, Initial, SosFilter, fir_window,
};
use isochrony_dsp::spectrum::Precision;

fn throughput(samples: usize, rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut speeds: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            samples as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

fn sos<T: Precision + Into<f64>>(name: &str, samples: usize, rounds: usize) {
    let input: Vec<T> = (0..samples)
        .map(|n| T::of(((n * n) as f64 * 0.37).sin()))
        .collect();
    let mut output = vec![T::of(0.0); samples];
    for order in [1, 2, 4, 6, 8, 12] {
        let iir = Iir {
            family: Family::Butterworth,
            band: Band::Lowpass(50.0),
            order,
        };
        let design = iir.design("iir", 1000.0).expect("a design");
        for isa in Isa::available() {
            let mut filter = SosFilter::on(isa, &design, Initial::Zero);
            let speed = throughput(samples, rounds, || {
                for (input, output) in input.chunks(4096).zip(output.chunks_mut(4096)) {
                    filter
                        .process(black_box(input), output)
                        .expect("equal lengths");
                }
            });
            assert!(output.iter().all(|y| (*y).into().abs() < 2.0));
            println!(
                "filter/sos/{order}/{name}/{}: {speed:.0} Msamples/s",
                isa.name()
            );
        }
    }
}

fn fir<T: Precision + Into<f64>>(name: &str, samples: usize, rounds: usize) {
    let input: Vec<T> = (0..samples)
        .map(|n| T::of(((n * n) as f64 * 0.37).sin()))
        .collect();
    let mut output = vec![T::of(0.0); samples];
    for taps in [16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 4096] {
        let design = fir_window("fir", taps, Band::Lowpass(50.0), FirWindow::Hamming, 1000.0);
        let design = design.expect("a design");
        let methods = [("direct", FirMethod::Direct), ("fft", FirMethod::Fft)];
        for (method, chosen) in methods {
            if chosen == FirMethod::Direct && taps > 512 {
                continue;
            }
            let mut filter = Fir::<T>::new("fir", &design, chosen).expect("taps");
            let speed = throughput(samples, rounds, || {
                for (input, output) in input.chunks(4096).zip(output.chunks_mut(4096)) {
                    filter
                        .process(black_box(input), output)
                        .expect("equal lengths");
                }
            });
            assert!(output.iter().all(|y| (*y).into().abs() < 2.0));
            println!("filter/fir/{taps}/{name}/{method}: {speed:.0} Msamples/s");
        }
    }
}

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (samples, rounds) = if measured {
        (1 << 16, 101)
    } else {
        (1 << 12, 1)
    };
    sos::<f64>("f64", samples, rounds);
    sos::<f32>("f32", samples, rounds);
    fir::<f64>("f64", samples, rounds);
    fir::<f32>("f32", samples, rounds);
}
