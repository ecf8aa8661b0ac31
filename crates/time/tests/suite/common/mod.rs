//! A simulated recorder: a drifting sample clock, stamps with jitter.
//!
//! Independent of the code under test: true times are sums of periods and a wandering rate.

#![allow(dead_code, unreachable_pub)]

use isochrony_time::{Clock, ClockConfig, Empirical, Fixed, Placement, Point, RunId, Stamp};

pub const START: i64 = 1_267_401_600_000_000_000;
pub const S: i64 = 1_000_000_000;

/// xorshift64*.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Uniform in 0..1.
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[derive(Clone, Copy)]
pub enum Noise {
    None,
    Gauss(f64),
    Uniform(f64),
    /// Exponential latency of a busy system.
    Late(f64),
}

#[derive(Clone)]
pub struct Recorder {
    pub nominal: f64,
    /// Initial true rate relative to nominal, ppm.
    pub ppm: f64,
    /// Amplitude and period of a sinusoidal wander, ppm and s.
    pub wander: (f64, f64),
    pub noise: Noise,
    pub resolution_ns: i64,
    pub file_samples: u64,
}

impl Recorder {
    pub fn water() -> Self {
        Self {
            nominal: 2000.0,
            ppm: 16.5,
            wander: (0.0, 1.0),
            noise: Noise::Gauss(20e-6),
            resolution_ns: 1000,
            file_samples: 60_000,
        }
    }

    /// Relative rate error, `t` seconds after the start.
    pub fn rate_error(&self, t: f64) -> f64 {
        let (ppm, period) = self.wander;
        (self.ppm + ppm * (std::f64::consts::TAU * t / period).sin()) * 1e-6
    }

    pub fn hz(&self, t: f64) -> f64 {
        self.nominal * (1.0 + self.rate_error(t))
    }

    /// In ns, relative to nominal.
    fn sample_duration(&self, t: f64) -> f64 {
        1.0 / (1.0 + self.rate_error(t))
    }
}

/// What follows a file.
#[derive(Clone, Copy, PartialEq)]
pub enum Event {
    None,
    /// Samples lost, for this long.
    Gap(f64),
    /// The stamping clock jumps (negative: back); samples continue.
    Step(f64),
    /// A positive leap second, flagged.
    Leap,
}

/// True times in ns since `START`; f64 is precise to 0.02 ns within a day.
#[derive(Clone, Copy)]
pub struct File {
    pub true_start: f64,
    /// By the stamping clock, with steps and leaps.
    pub shown_start: f64,
    pub samples: u64,
    pub stamp: Stamp,
    /// True gap before the file, ns.
    pub gap_before: f64,
}

pub fn record(
    rec: &Recorder,
    files: usize,
    seed: u64,
    event: impl Fn(usize) -> Event,
) -> Vec<File> {
    let mut rng = Rng::new(seed);
    let (mut t, mut shown_offset, mut gap, mut leap) = (rng.uniform() * 2e9, 0.0, 0.0, false);
    let mut out = Vec::new();
    for k in 0..files {
        let noise = match rec.noise {
            Noise::None => 0.0,
            Noise::Gauss(s) => s * rng.normal(),
            Noise::Uniform(w) => w * (2.0 * rng.uniform() - 1.0),
            Noise::Late(m) => -m * (1.0 - rng.uniform()).ln(),
        };
        let shown = t + shown_offset + noise * 1e9;
        let floor = (shown / rec.resolution_ns as f64).floor() as i64 * rec.resolution_ns;
        let mut stamp = Stamp::new(
            Fixed::from_int(START + floor),
            Fixed::from_int(rec.resolution_ns),
        );
        stamp.leap = leap;
        let samples = rec.file_samples;
        out.push(File {
            true_start: t,
            shown_start: t + shown_offset,
            samples,
            stamp,
            gap_before: gap,
        });
        // Rate at the midpoint: exact to 1e-6 of the wander.
        let nominal = samples as f64 / rec.nominal * 1e9;
        t += nominal * rec.sample_duration(t * 1e-9 + nominal * 0.5e-9);
        (gap, leap) = (0.0, false);
        match event(k) {
            Event::None => {}
            Event::Gap(s) => {
                gap = s * 1e9;
                t += gap;
            }
            Event::Step(s) => shown_offset += s * 1e9,
            Event::Leap => {
                shown_offset -= 1e9;
                leap = true;
            }
        }
    }
    out
}

pub struct ImportResult {
    pub clock: Clock,
    /// Final clocks of earlier runs.
    pub runs: Vec<Clock>,
    pub placements: Vec<Placement>,
    pub points: Vec<Point>,
    pub index: Vec<i64>,
}

pub fn config(rec: &Recorder) -> ClockConfig {
    ClockConfig::new(isochrony_time::Rate::from_f64(rec.nominal).unwrap())
}

pub fn import(config: ClockConfig, files: &[File], look_ahead: bool) -> ImportResult {
    let clock = Clock::new(config, RunId(0)).unwrap();
    let mut imported = ImportResult {
        clock,
        runs: vec![],
        placements: vec![],
        points: vec![],
        index: vec![],
    };
    go_on(&mut imported, files, look_ahead);
    imported
}

pub fn go_on(im: &mut ImportResult, files: &[File], look_ahead: bool) {
    let mut end = im.clock.end().unwrap_or(0);
    for (k, file) in files.iter().enumerate() {
        let next = files.get(k + 1).map(|f| &f.stamp).filter(|_| look_ahead);
        let placement = im.clock.place(&file.stamp, file.samples, next).unwrap();
        im.placements.push(placement);
        let mut accepted = placement;
        match placement {
            Placement::Backward { .. } | Placement::LeapSecond { .. } => {
                let run = RunId(im.clock.run().0 + 1);
                im.runs.push(im.clock.clone());
                im.clock = im.clock.next_run(run);
                accepted = im.clock.place(&file.stamp, file.samples, next).unwrap();
                assert_eq!(accepted, Placement::First);
            }
            Placement::Gap { samples, .. } => end += samples.unwrap_or(65_536) as i64,
            _ => {}
        }
        let point = im
            .clock
            .accept(end, &file.stamp, file.samples, &accepted)
            .unwrap();
        im.points.push(point);
        im.index.push(end);
        end += file.samples as i64;
    }
}

pub fn no_event(_: usize) -> Event {
    Event::None
}

/// Civil time of an index minus the shown true time, ns.
pub fn error_ns(metric: &Empirical, index: i64, shown: f64) -> f64 {
    let civil = metric.time_of(index).unwrap().value;
    civil.checked_sub(Fixed::from_int(START)).unwrap().to_f64() - shown
}
