//! Where a run calls a function of the host language: [`FunctionPlace`], and [`FunctionCosts`], which predicts a run
//! for each place from a short measurement.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a function is called in a run with several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionPlace {
    /// The run chooses. Calls may overlap and get blocks of any length.
    Any,
    /// In worker processes, where tasks contain the function and it can be sent there; else in the caller's thread.
    Auto,
    /// In the threads of the workers.
    Threads,
    /// In a worker process for each worker.
    Processes,
    /// In the caller's thread, in order.
    Inline,
}

impl FunctionPlace {
    const NAMES: [(&'static str, Self); 5] = [
        ("any", Self::Any),
        ("auto", Self::Auto),
        ("threads", Self::Threads),
        ("processes", Self::Processes),
        ("inline", Self::Inline),
    ];

    /// The place with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, place)| place)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, place)| *place == self);
        found.map_or("auto", |&(name, _)| name)
    }
}

impl fmt::Display for FunctionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What another place than the caller's thread must gain: predictions from a few blocks are no better.
pub const MIN_PLACE_GAIN: f64 = 0.1;
/// Worker processes cost memory and their start: they must be faster than threads by this share.
const MIN_PROCESS_GAIN: f64 = 0.05;

/// Measured costs of a function, in seconds per sample of the longest source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FunctionCosts {
    /// Of a call in one thread.
    pub call_s: f64,
    /// Of all that is computed before it, in one thread.
    pub before_s: f64,
    /// Whether as many threads compute what is before it; else one does.
    pub before_is_parallel: bool,
    /// Calls in two threads at the same time, relative to one thread: 2 without a lock, 1 with a lock that is always
    /// held.
    pub two_threads: Option<f64>,
    /// In a worker process.
    pub process: Option<ProcessCosts>,
}

/// Measured costs of calls in a worker process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessCosts {
    /// Seconds per sample, with sending samples and results.
    pub call_s: f64,
    /// Seconds until the process has started and has loaded the function.
    pub start_s: f64,
}

impl FunctionCosts {
    /// Predicted seconds of a run over so many samples; None if the place was not measured.
    #[must_use]
    pub fn seconds(&self, place: FunctionPlace, samples: f64, threads: usize) -> Option<f64> {
        let workers = threads.max(1) as f64;
        let both = self.before_s + self.call_s;
        let per_sample = match place {
            FunctionPlace::Inline | FunctionPlace::Auto | FunctionPlace::Any => {
                self.call_s.max(both / workers)
            }
            FunctionPlace::Threads => {
                (1.0 / self.thread_rate(self.two_threads?, threads)).max(both / workers)
            }
            FunctionPlace::Processes => (self.before_s + self.process?.call_s) / workers,
        };
        let per_sample = match self.before_is_parallel {
            true => per_sample,
            false => per_sample.max(self.before_s),
        };
        let start_s = match place {
            FunctionPlace::Processes => self.process?.start_s,
            _ => 0.0,
        };
        Some(samples * per_sample + start_s)
    }

    /// Gain in throughput over calls in the caller's thread, as a share.
    #[must_use]
    pub fn gain(&self, place: FunctionPlace, samples: f64, threads: usize) -> Option<f64> {
        let inline = self.seconds(FunctionPlace::Inline, samples, threads)?;
        let seconds = self.seconds(place, samples, threads)?;
        Some(if seconds > 0.0 {
            inline / seconds - 1.0
        } else {
            0.0
        })
    }

    /// The most that any place can gain: calls that never wait for each other, at no cost.
    #[must_use]
    pub fn largest_gain(&self, samples: f64, threads: usize) -> f64 {
        let ideal = Self {
            two_threads: Some(2.0),
            ..*self
        };
        let gain = ideal.gain(FunctionPlace::Threads, samples, threads);
        gain.unwrap_or(0.0)
    }

    /// The place with the best prediction: the caller's thread unless another one is clearly better.
    #[must_use]
    pub fn best(&self, samples: f64, threads: usize) -> FunctionPlace {
        let gain = |place| self.gain(place, samples, threads);
        let [in_threads, in_processes] = [FunctionPlace::Threads, FunctionPlace::Processes]
            .map(|place| gain(place).unwrap_or(0.0));
        let is_faster =
            (1.0 + in_processes) > (1.0 + in_threads.max(0.0)) * (1.0 + MIN_PROCESS_GAIN);
        match (in_threads >= MIN_PLACE_GAIN, in_processes >= MIN_PLACE_GAIN) {
            (_, true) if is_faster => FunctionPlace::Processes,
            (true, _) => FunctionPlace::Threads,
            _ => FunctionPlace::Inline,
        }
    }

    /// Samples per second in so many threads that share one lock: a closed queueing network of the lock and of what
    /// threads do without it, by mean value analysis (Reiser and Lavenberg 1980).
    fn thread_rate(&self, two_threads: f64, threads: usize) -> f64 {
        // Two threads that hold the lock for a share h of a call compute 2 / (1 + h * h) calls at once. Below 1 they
        // also lose time by handing it over.
        let held = (2.0 / two_threads.max(f64::MIN_POSITIVE) - 1.0)
            .clamp(0.0, 1.0)
            .sqrt();
        let handing_over = two_threads.min(1.0);
        let locked_s = held * self.call_s;
        let other_s = self.call_s - locked_s
            + match self.before_is_parallel {
                true => self.before_s,
                false => 0.0,
            };
        let (mut queue, mut rate) = (0.0, 0.0);
        for thread in 1..=threads.max(1) {
            let response_s = locked_s * (1.0 + queue);
            rate = thread as f64 / (other_s + response_s);
            queue = rate * response_s;
        }
        rate * handing_over
    }
}

/// How the place of a function was decided before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceOutcome {
    /// By measurements.
    Chosen,
    /// The run is too short to gain.
    TooShort,
    /// The function cannot be measured before the run.
    NotMeasured,
}

/// Decision about the place of one function before a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaceDecision {
    /// The function, as plans show it.
    pub function: String,
    /// Its position among the functions of the plan.
    pub position: usize,
    /// How it was decided.
    pub outcome: PlaceOutcome,
    /// Places of all functions before.
    pub from: Vec<FunctionPlace>,
    /// The same with the chosen one.
    pub to: Vec<FunctionPlace>,
    /// The chosen one.
    pub place: FunctionPlace,
    /// What was measured, or why nothing was.
    pub reason: String,
    /// Over calls in the caller's thread, as a share of the throughput.
    pub predicted_gain: Option<f64>,
    /// Other places with predicted gains, best first.
    pub alternatives: Vec<(FunctionPlace, Option<f64>)>,
}

impl fmt::Display for PlaceDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (function, place) = (&self.function, self.place);
        match self.outcome {
            PlaceOutcome::Chosen => write!(f, "before the start: {function} {place}")?,
            PlaceOutcome::TooShort => write!(
                f,
                "before the start: {function} {place}: the run ends too soon"
            )?,
            PlaceOutcome::NotMeasured => {
                write!(f, "before the start: {function} {place}, not measured")?;
            }
        }
        write!(f, " ({}", self.reason)?;
        if let Some(gain) = self
            .predicted_gain
            .filter(|_| place != FunctionPlace::Inline)
        {
            write!(f, "; predicted {:+.1} %", 100.0 * gain)?;
        }
        for (at, (other, gain)) in self.alternatives.iter().enumerate() {
            let start = if at == 0 { "; behind it" } else { "," };
            write!(f, "{start} {other}")?;
            if let Some(gain) = gain {
                write!(f, " {:+.1} %", 100.0 * gain)?;
            }
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(two_threads: f64) -> FunctionCosts {
        FunctionCosts {
            call_s: 1e-6,
            before_s: 0.0,
            before_is_parallel: true,
            two_threads: Some(two_threads),
            process: None,
        }
    }

    fn random(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Calls per second of threads that each compute without the lock, then with it, for exponential times.
    fn simulated_rate(threads: usize, other_s: f64, locked_s: f64) -> f64 {
        const CALLS: u32 = 400_000;
        let mut state = 7u64;
        let mut next = |mean: f64| -mean * random(&mut state).ln();
        // When each thread asks for the lock; when it is free again.
        let mut asks: Vec<f64> = (0..threads).map(|_| next(other_s)).collect();
        let mut free = 0.0_f64;
        for _ in 0..CALLS {
            let first = (0..threads)
                .min_by(|&a, &b| asks[a].total_cmp(&asks[b]))
                .unwrap();
            free = free.max(asks[first]) + next(locked_s);
            asks[first] = free + next(other_s);
        }
        f64::from(CALLS) / free
    }

    #[test]
    fn threads_that_share_a_lock_are_as_fast_as_in_a_simulation() {
        for held in [0.1, 0.4, 0.8] {
            let two = simulated_rate(2, 1.0 - held, held);
            let measured = FunctionCosts {
                call_s: 1.0,
                ..costs(two)
            };
            for threads in [2, 3, 6] {
                let expected = simulated_rate(threads, 1.0 - held, held);
                let seconds = measured
                    .seconds(FunctionPlace::Threads, 1.0, threads)
                    .unwrap();
                assert!(
                    (1.0 / seconds / expected - 1.0).abs() < 0.02,
                    "{held} {threads}"
                );
            }
        }
    }

    #[test]
    fn what_is_before_the_function_shares_threads_or_limits_them() {
        let of = |before_is_parallel| FunctionCosts {
            before_s: 3e-6,
            before_is_parallel,
            ..costs(2.0)
        };
        let seconds = |of: FunctionCosts, place| of.seconds(place, 1e6, 4).unwrap();
        for place in [FunctionPlace::Threads, FunctionPlace::Inline] {
            assert!((seconds(of(true), place) - 1.0).abs() < 1e-9);
            assert!((seconds(of(false), place) - 3.0).abs() < 1e-9);
        }
        // Two threads have two threads' time for both.
        let short = FunctionCosts {
            before_s: 0.5 * costs(2.0).call_s,
            ..of(false)
        };
        let expected = 0.75 * 1e6 * short.call_s;
        let found = short.seconds(FunctionPlace::Threads, 1e6, 2).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn the_best_place_is_the_callers_thread_unless_another_is_clearly_better() {
        let process = |call_s, start_s| Some(ProcessCosts { call_s, start_s });
        for (two_threads, process, samples, expected) in [
            // Releases the lock.
            (2.0, None, 1e6, FunctionPlace::Threads),
            (1.95, process(1.0e-6, 0.0), 1e6, FunctionPlace::Threads),
            // Holds it, and is worth sending.
            (1.0, None, 1e7, FunctionPlace::Inline),
            (1.0, process(1.1e-6, 0.3), 1e7, FunctionPlace::Processes),
            (0.7, process(1.1e-6, 0.3), 1e7, FunctionPlace::Processes),
            // Not for a short run, and not if sending takes longer than the call.
            (1.0, process(1.1e-6, 0.3), 5e5, FunctionPlace::Inline),
            (1.0, process(2.2e-6, 0.3), 1e7, FunctionPlace::Inline),
            // A little is no clear gain.
            (1.05, process(1.9e-6, 0.0), 1e7, FunctionPlace::Inline),
        ] {
            let costs = FunctionCosts {
                process,
                ..costs(two_threads)
            };
            assert_eq!(costs.best(samples, 2), expected, "{costs:?}");
        }
    }

    #[test]
    fn places_that_were_not_measured_are_not_predicted() {
        let costs = FunctionCosts {
            two_threads: None,
            ..costs(1.0)
        };
        for place in [FunctionPlace::Threads, FunctionPlace::Processes] {
            assert_eq!(costs.gain(place, 1e6, 2), None);
        }
        assert!((costs.largest_gain(1e6, 4) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn names_are_those_that_they_are_parsed_from() {
        for name in ["any", "auto", "threads", "processes", "inline"] {
            assert_eq!(FunctionPlace::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(FunctionPlace::parse("abroad"), None);
    }
}
