//! [`SimulatedMachine`]: cores, shared resources, and scheduling.

use serde::{Deserialize, Serialize};

use crate::TuneError;

/// A machine and its scheduling. Costs of 0 do not apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatedMachine {
    /// Cores; at least 1.
    pub cores: usize,
    /// NUMA nodes of equally many cores; 1 to `cores`.
    pub nodes: usize,
    /// Assignment of stages to threads.
    pub schedule: StageSchedule,
    /// Seconds with the caller's thread alone.
    pub helpers_after_s: f64,
    /// Seconds to take a stage and put it back, even without work.
    pub hand_over_s: f64,
    /// Seconds to wake a thread.
    pub wake_s: f64,
    /// Seconds of spinning before sleep; counts as CPU time, takes no core from others.
    pub spin_s: f64,
    /// Bytes per second between memory and all caches; 0 for no limit.
    pub memory_bytes_per_s: f64,
    /// Bytes of a link that stay cached; 0 for no limit. An item sent when its link held more passes through memory.
    pub cache_bytes: f64,
    /// Bytes per second of items evicted or written by another core; 0 for no limit.
    pub transfer_bytes_per_s: f64,
    /// Slow-down of transfers between nodes; 0 for none.
    pub numa_factor: f64,
    /// Seconds after which a task leaves a core that others wait for. 0: a thread keeps its core until no stage is
    /// ready after a burst, a competitor until its end; one core is left to the plan.
    pub time_slice_s: f64,
    /// Other programs.
    pub competitors: Vec<Competitor>,
}

/// Assignment of stages to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StageSchedule {
    /// This package's rule: a free thread takes the ready stage nearest to the end of the plan; only the caller's
    /// thread takes the last, and that first.
    #[default]
    NearestToEnd,
    /// A thread per stage and replica, on cores chosen by the operating system; `workers` has no effect.
    ThreadPerStage,
    /// Each thread owns consecutive stages of equal expected load. Without a ready one it takes the first of the thread
    /// with most ready stages, if more than `threshold`, which pays for the cold cache. The last stage stays with the
    /// caller's thread. (RaftLib dissertation, Beard 2015, section 3.2.1.)
    CacheWeightedStealing {
        /// Ready stages that another thread keeps.
        threshold: usize,
    },
}

/// A program that computes without pause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competitor {
    /// Threads.
    pub threads: usize,
    /// Start in seconds of the run.
    pub start_s: f64,
    /// End, above `start_s`; infinite, or omitted in JSON, for none.
    #[serde(default = "never")]
    pub end_s: f64,
}

fn never() -> f64 {
    f64::INFINITY
}

impl SimulatedMachine {
    /// Cores on which only computing takes time.
    #[must_use]
    pub fn ideal(cores: usize) -> Self {
        Self {
            cores,
            nodes: 1,
            schedule: StageSchedule::NearestToEnd,
            helpers_after_s: 0.0,
            hand_over_s: 0.0,
            wake_s: 0.0,
            spin_s: 0.0,
            memory_bytes_per_s: 0.0,
            cache_bytes: 0.0,
            transfer_bytes_per_s: 0.0,
            numa_factor: 0.0,
            time_slice_s: 0.0,
            competitors: Vec::new(),
        }
    }

    /// A server with round, unmeasured costs: 1 µs per hand-over, 20 µs per wake-up, 1 MiB of cache per core, 10 GB/s
    /// between cores, 5 GB/s of memory per core up to 200 GB/s, time slices of 3 ms; from 64 cores two nodes with half
    /// the speed between. Helpers and spinning as in this package.
    #[must_use]
    pub fn typical(cores: usize) -> Self {
        Self {
            nodes: if cores >= 64 { 2 } else { 1 },
            helpers_after_s: 500e-6,
            hand_over_s: 1e-6,
            wake_s: 20e-6,
            spin_s: 50e-6,
            memory_bytes_per_s: (5e9 * cores as f64).min(200e9),
            cache_bytes: f64::from(1 << 20),
            transfer_bytes_per_s: 10e9,
            numa_factor: 2.0,
            time_slice_s: 3e-3,
            ..Self::ideal(cores)
        }
    }

    pub(super) fn node(&self, core: usize) -> usize {
        core * self.nodes / self.cores
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`TuneError::Parameter`].
    pub fn check(&self) -> Result<(), TuneError> {
        if self.cores == 0 || self.cores > MAX_CORES {
            let allowed = format!("1 to {MAX_CORES}");
            return Err(TuneError::parameter("cores", self.cores, allowed));
        }
        if self.nodes == 0 || self.nodes > self.cores {
            let allowed = format!("1 to cores={}", self.cores);
            return Err(TuneError::parameter("nodes", self.nodes, allowed));
        }
        for (field, value) in [
            ("helpers_after_s", self.helpers_after_s),
            ("hand_over_s", self.hand_over_s),
            ("wake_s", self.wake_s),
            ("spin_s", self.spin_s),
            ("memory_bytes_per_s", self.memory_bytes_per_s),
            ("cache_bytes", self.cache_bytes),
            ("transfer_bytes_per_s", self.transfer_bytes_per_s),
            ("numa_factor", self.numa_factor),
            ("time_slice_s", self.time_slice_s),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(TuneError::parameter(field, value, "finite and at least 0"));
            }
        }
        for (number, one) in self.competitors.iter().enumerate() {
            let place = |field: &str| format!("competitors[{number}].{field}");
            if !(one.start_s.is_finite() && one.start_s >= 0.0) {
                let allowed = "finite and at least 0";
                return Err(TuneError::parameter(place("start_s"), one.start_s, allowed));
            }
            if one.end_s.is_nan() || one.end_s <= one.start_s {
                let allowed = format!("above start_s={}", one.start_s);
                return Err(TuneError::parameter(place("end_s"), one.end_s, allowed));
            }
            if one.threads > MAX_CORES {
                let allowed = format!("at most {MAX_CORES}");
                return Err(TuneError::parameter(place("threads"), one.threads, allowed));
            }
        }
        Ok(())
    }
}

impl Default for SimulatedMachine {
    fn default() -> Self {
        Self::ideal(2)
    }
}

const MAX_CORES: usize = 4096;
