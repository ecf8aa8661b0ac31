//! Synthetic recordings with known truth: a drifting sample clock and a wall clock that may step.
#![allow(dead_code, unreachable_pub, unused_imports)]

mod stored;

use std::fs;
use std::path::Path;

pub use stored::{reasons, samples};

pub const SECOND: i128 = 1_000_000_000;

/// A recorded file.
#[derive(Debug, Clone)]
pub struct File {
    /// Number of its first sample.
    pub first: usize,
    pub samples: Vec<i16>,
    /// Wall clock at its first sample.
    pub wall_ns: i128,
    /// The same, as in the file name.
    pub stamp_ns: i128,
}

/// Generates consecutive files.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Sample period in 2^-20 ns: the truth has no rounding.
    pub period: i128,
    pub file_samples: usize,
    /// Of stamps: 1 s, 1 ms or 1 us in ns.
    pub resolution_ns: i128,
    /// Wall clock at the next sample, in 2^-20 ns.
    wall: i128,
    pub recorded: usize,
    pub files: Vec<File>,
}

/// At `hz`, fast by `ppm`.
pub fn period(hz: f64, ppm: f64) -> i128 {
    (1e9 * f64::from(1 << 20) / (hz * (1.0 + ppm * 1e-6))).round() as i128
}

impl Recorder {
    pub fn new(
        start_ns: i128,
        hz: f64,
        ppm: f64,
        file_samples: usize,
        resolution_ns: i128,
    ) -> Self {
        Self {
            period: period(hz, ppm),
            file_samples,
            resolution_ns,
            wall: start_ns << 20,
            recorded: 0,
            files: Vec::new(),
        }
    }

    /// True samples per second.
    pub fn rate(&self) -> f64 {
        1e9 * f64::from(1 << 20) / self.period as f64
    }

    /// Neighbours differ, and no range repeats within millions.
    pub fn sample(number: usize) -> i16 {
        let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 52) as i16) + (number % 100) as i16
    }

    /// Records whole files.
    pub fn record(&mut self, files: usize) -> &mut Self {
        for _ in 0..files {
            self.record_samples(self.file_samples);
        }
        self
    }

    pub fn record_samples(&mut self, samples: usize) -> &mut Self {
        let wall_ns = self.wall >> 20;
        self.files.push(File {
            first: self.recorded,
            samples: (self.recorded..self.recorded + samples)
                .map(Self::sample)
                .collect(),
            wall_ns,
            stamp_ns: wall_ns.div_euclid(self.resolution_ns) * self.resolution_ns,
        });
        self.recorded += samples;
        self.wall += self.period * samples as i128;
        self
    }

    /// The sample clock continues. Returns the missing samples.
    pub fn outage(&mut self, samples: usize) -> usize {
        self.wall += self.period * samples as i128;
        samples
    }

    pub fn step(&mut self, by_ns: i128) -> &mut Self {
        self.wall += by_ns << 20;
        self
    }

    pub fn samples(&self) -> Vec<i16> {
        self.files
            .iter()
            .flat_map(|file| file.samples.iter().copied())
            .collect()
    }

    /// In the layout `{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw`.
    pub fn path(&self, station: &str, sensor: &str, file: &File) -> String {
        let epoch = match self.resolution_ns {
            1_000_000_000 => format!("{}", file.stamp_ns / SECOND),
            1_000_000 => format!("{:013}", file.stamp_ns / 1_000_000),
            _ => format!("{:016}", file.stamp_ns / 1000),
        };
        // The day is only a label.
        format!(
            "{station}/2010/{:03}/{sensor}/{station}_{epoch}.raw",
            file.stamp_ns / (86_400 * SECOND) % 365 + 1
        )
    }

    pub fn write(&self, root: &Path, station: &str, sensor: &str) {
        for file in &self.files {
            self.write_file(root, station, sensor, file);
        }
    }

    pub fn write_file(&self, root: &Path, station: &str, sensor: &str, file: &File) {
        let bytes: Vec<u8> = file
            .samples
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        write(root, &self.path(station, sensor, file), &bytes);
    }
}

pub fn write(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
