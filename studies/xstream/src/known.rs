//! Known answers: checks shared kernels and segments before measurements.

use std::f64::consts::PI;

use crate::kernels::{Detector, PAD, Spectrum, WINDOW, deviates, haar, mean_below, trim_peak};
use crate::memory::{CopyAlways, Pooled, RefCountCopy, RefCountLazy, RefCountRealloc, Segment};

/// Panics on a wrong result.
pub fn check() {
    spectrum();
    wavelet();
    detector();
    assert!(deviates(&[1.0, -1.0].repeat(32), 0.9) && !deviates(&[1.0, -1.0].repeat(32), 1.1));
    assert!(mean_below(&[-1.0; 64], 0.0) && !mean_below(&[1.0; 64], 0.0));
    segments::<CopyAlways<f32>>();
    segments::<RefCountCopy<f32>>();
    segments::<RefCountRealloc<f32>>();
    segments::<RefCountLazy<f32>>();
    segments::<Pooled>();
}

fn spectrum() {
    let window: [f32; WINDOW] = std::array::from_fn(|k| ((k * k + 3 * k) % 17) as f32 - 8.0);
    let magnitude = |bin: usize| {
        let angle = |k: usize| -2.0 * PI * (bin * k) as f64 / WINDOW as f64;
        let (mut re, mut im) = (0.0, 0.0);
        for (k, &x) in window.iter().enumerate() {
            re += f64::from(x) * angle(k).cos();
            im += f64::from(x) * angle(k).sin();
        }
        re.hypot(im)
    };
    let expected: f64 = (0..WINDOW / 2)
        .map(|bin| magnitude(bin) / (1.0 + (bin as f64 - 8.0).abs()))
        .sum();
    let got = f64::from(Spectrum::default().score(&window));
    assert!(
        (got - expected).abs() < 1e-4 * expected,
        "{got} instead of {expected}"
    );
}

fn wavelet() {
    let mut data = [9.0, 7.0, 3.0, 5.0];
    haar(&mut data, &mut [0.0; 4]);
    assert_eq!(data, [6.0, 2.0, 1.0, -1.0]);
    let found = trim_peak(&[9.0, 9.0, 9.0, 9.0, 1.0, -3.0, 2.0, 0.0]);
    assert_eq!((found.peak, found.rest), (3.0, 5.0));
}

fn detector() {
    let mut detector = Detector::default();
    let mut ranges = Vec::new();
    for k in 0..400 {
        let score = if (200..202).contains(&k) {
            100.0
        } else {
            1.0 + (k % 3) as f32
        };
        ranges.extend(detector.push(k * WINDOW as i64, score));
    }
    let expected = 200 * 32 - PAD..202 * 32 + PAD;
    assert_eq!(ranges, [expected]);
    assert_eq!(detector.upto(), 400 * 32 - PAD);
}

/// Against plain vectors, over cuts and joins that share memory.
fn segments<S: Segment<f32>>() {
    let mut memory = S::Memory::default();
    let samples: Vec<f32> = (0..1000).map(|k| k as f32).collect();
    let holds = |segment: &S, from: usize, to: usize| {
        let mut all = Vec::new();
        segment.visit(&mut |part| all.extend_from_slice(part));
        assert_eq!((segment.start(), segment.end()), (from as i64, to as i64));
        assert_eq!(all, samples[from..to]);
    };
    let mut joined = S::make(&mut memory, 0, &samples[..100]);
    let mut kept = Vec::new();
    for at in (100..1000).step_by(100) {
        kept.push((joined.pass(), joined.start() as usize, at));
        joined = joined.append(S::make(&mut memory, at as i64, &samples[at..at + 100]));
        if at % 300 == 0 {
            let from = joined.start() + 150;
            joined = joined.cut(from, joined.end());
        }
        holds(&joined, joined.start() as usize, at + 100);
        let (from, to) = (joined.start() + 30, joined.end() - 50);
        holds(&joined.cut(from, to), from as usize, to as usize);
    }
    // What was shared has not changed.
    kept.iter()
        .for_each(|(segment, from, to)| holds(segment, *from, *to));
}
