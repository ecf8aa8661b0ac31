//! Synthetic recordings, and the applications' results by plain loops over whole arrays: the oracle of every variant.

use std::ops::Range;

use crate::kernels::{
    Detector, Peak, Spectrum, WINDOW, deviates, digest, digest_samples, haar, is_leak, mean_below,
    trim_peak,
};

/// Channels of the microphone array.
pub const CHANNELS: usize = 4;
/// Samples of a source's segment: ten milliseconds at 48 kHz, whole windows.
pub const SEGMENT: usize = 480;
/// Sensors along the pipe.
pub const SENSORS: usize = 3;
/// Window and hop of PIPELINE.
pub const LONG: usize = 1024;
pub const HOP: usize = 256;
/// Window of STATFILTER and SILENCEFILTER, and their thresholds.
pub const STAT: usize = 4096;
pub const DEVIATION: f32 = 0.29;
pub const MEAN: f32 = 0.0;
pub const LOUD: f32 = 0.4;

fn uniform(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Noise, with a call of 400 samples about every 94,000, none near the end.
pub fn audio(channels: usize, count: usize) -> Vec<Vec<f32>> {
    let made = (0..channels).map(|channel| {
        let mut state = 0x9e37_79b9 + channel as u64;
        let mut samples: Vec<f32> = (0..count).map(|_| uniform(&mut state) as f32).collect();
        let mut at = 20_000;
        while at + 20_000 < count {
            for k in 0..400 {
                samples[at + k] += 3.0 * (k as f32 * std::f32::consts::FRAC_PI_2).sin();
            }
            at += 90_000 + at % 7919;
        }
        samples
    });
    made.collect()
}

/// Vibration of a pipe: noise with a transient every 40,000 samples, which all sensors see.
pub fn vibration(count: usize) -> Vec<Vec<f64>> {
    let made = (0..SENSORS).map(|sensor| {
        let mut state = 0xd1b5_4a32 + sensor as u64;
        let mut samples: Vec<f64> = (0..count).map(|_| uniform(&mut state)).collect();
        let mut at = 10_000;
        while at + 2 < count {
            samples[at] += 20.0;
            at += 40_000;
        }
        samples
    });
    made.collect()
}

/// The ranges that DETECTAUDIO finds.
pub fn detections(samples: &[f32]) -> Vec<Range<i64>> {
    let (spectrum, mut detector) = (Spectrum::default(), Detector::default());
    let windows = samples.as_chunks::<WINDOW>().0.iter().enumerate();
    windows
        .filter_map(|(k, window)| detector.push((k * WINDOW) as i64, spectrum.score(window)))
        .collect()
}

/// Digest of DETECTAUDIO's selection of all channels.
pub fn detect_audio(channels: &[Vec<f32>]) -> u64 {
    let ranges = detections(&channels[0]);
    assert!(!ranges.is_empty(), "the recording has calls");
    let mut sum = 0u64;
    for range in ranges {
        for (channel, samples) in channels.iter().enumerate() {
            let end = (range.end as usize).min(samples.len());
            let part = &samples[range.start as usize..end];
            sum = sum.wrapping_add(digest_samples(channel, range.start, part));
        }
    }
    sum
}

/// The same, cut before sync: digest of the ranges.
pub fn detect_only(channels: &[Vec<f32>]) -> u64 {
    let ranges = detections(&channels[0]);
    ranges
        .iter()
        .fold(0, |sum, range| sum.wrapping_add(digest_range(range)))
}

pub fn digest_range(range: &Range<i64>) -> u64 {
    digest(0, range.start, range.end as u64)
}

/// The digest of PIPELINE's leaks.
pub fn pipeline(sensors: &[Vec<f64>]) -> u64 {
    let mut scratch = vec![0.0; LONG];
    let mut sum = 0u64;
    for start in (0..=sensors[0].len() - LONG).step_by(HOP) {
        let peaks: Vec<Peak> = sensors
            .iter()
            .map(|samples| {
                let mut window = samples[start..start + LONG].to_vec();
                haar(&mut window, &mut scratch);
                trim_peak(&window)
            })
            .collect();
        if is_leak(&peaks) {
            sum = sum.wrapping_add(digest(0, start as i64, peaks[0].peak.to_bits()));
        }
    }
    assert!(sum != 0, "the recording has leaks");
    sum
}

/// Windows that STATFILTER lets pass.
pub fn stat_filter(samples: &[f32]) -> u64 {
    let windows = samples.chunks_exact(STAT);
    let count = windows
        .filter(|w| deviates(w, DEVIATION) && mean_below(w, MEAN))
        .count();
    assert!(count > 0, "some windows pass");
    count as u64
}

/// The digest of what SILENCEFILTER keeps.
pub fn silence_filter(samples: &[f32]) -> u64 {
    let mut sum = 0u64;
    for (k, window) in samples.chunks_exact(STAT).enumerate() {
        if deviates(window, LOUD) {
            sum = sum.wrapping_add(digest_samples(0, (k * STAT) as i64, window));
        }
    }
    assert!(sum != 0, "some windows are loud");
    sum
}
