//! [`StreamTuning`]: tunes how many workers take buffers, and the buffer size.
//!
//! The thread that watches the execution polls it; [`PolledTuning`] decides. Its flow model has three servers: reading,
//! executing with its joins, writing, each with a replica per worker that may be in that state at once. These cannot be
//! chosen, so external configurations have no replicas. The buffer size is the only link.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use isochrony_tune::{
    Configuration, ConfigurationLimits, ControllerOptions, PolledTuning, RunCounters, StageWindow,
    TuningMode, TuningReport, TuningSession,
};

use crate::error::NbufError;
use crate::report::StateTimes;
use crate::tunable_sizes::SizeRanges;

/// Workers that may read, execute and write at once.
pub(crate) type StateReplicas = [usize; 3];

pub(crate) struct StreamTuning {
    tuning: PolledTuning,
}

impl StreamTuning {
    /// Begins with `workers` and `fill` bytes, unless the mode has a configuration.
    pub(crate) fn new(
        mode: &TuningMode,
        (workers, fill): (usize, usize),
        ranges: &SizeRanges,
        replicas: StateReplicas,
    ) -> Result<Self, NbufError> {
        let limits = ConfigurationLimits {
            min_workers: ranges.workers.0,
            workers: ranges.workers.1,
            replicas: replicas.to_vec(),
            min_link_bytes: ranges.fill.0 as u64,
            max_link_bytes: ranges.fill.1 as u64,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        };
        let own = Configuration {
            workers,
            replicas: replicas.to_vec(),
            link_bytes: vec![fill as u64],
            task_bytes: 0,
            batch_tasks: 0,
        };
        let mode = match mode {
            TuningMode::ChangeFrom(start) => TuningMode::ChangeFrom(complete(start, &own)),
            TuningMode::Apply(start) => TuningMode::Apply(complete(start, &own)),
            other => other.clone(),
        };
        let session = TuningSession::new(mode, own, limits, ControllerOptions::default());
        let session = session.map_err(|error| NbufError::Option {
            option: "tune",
            got: error.to_string(),
            legal: "a configuration of a run with the same options".into(),
        })?;
        Ok(Self {
            tuning: PolledTuning::new(session),
        })
    }

    pub(crate) fn present(&self) -> (usize, usize) {
        sizes(self.tuning.configuration())
    }

    /// Returns workers and buffer bytes if they change.
    pub(crate) fn poll(&mut self, counters: RunCounters) -> Option<(usize, usize)> {
        self.tuning.poll(counters).map(sizes)
    }

    pub(crate) fn report(&self) -> TuningReport {
        let mut report = self.tuning.report().clone();
        report.configuration.iter_mut().for_each(hide_replicas);
        for decision in &mut report.decisions {
            hide_replicas(&mut decision.from);
            hide_replicas(&mut decision.to);
            for (configuration, _) in &mut decision.alternatives {
                hide_replicas(configuration);
            }
        }
        report
    }
}

pub(crate) fn check_mode(mode: &TuningMode, ranges: &SizeRanges) -> Result<(), NbufError> {
    let Some(start) = mode.start() else {
        return Ok(());
    };
    let [bytes] = start.link_bytes[..] else {
        return Err(NbufError::Option {
            option: "tune",
            got: format!(
                "a configuration with {} sizes of buffers",
                start.link_bytes.len()
            ),
            legal: "one with one size, as the report of an n-buffering run has it".into(),
        });
    };
    ranges.check(start.workers, bytes)
}

fn complete(given: &Configuration, own: &Configuration) -> Configuration {
    Configuration {
        replicas: own.replicas.clone(),
        ..given.clone()
    }
}

fn hide_replicas(configuration: &mut Configuration) {
    configuration.replicas.clear();
}

fn sizes(configuration: &Configuration) -> (usize, usize) {
    let fill = configuration.link_bytes.first().copied().unwrap_or(0);
    let fill = usize::try_from(fill).unwrap_or(usize::MAX);
    (configuration.workers, fill)
}

/// Total times in states, in nanoseconds, and buffers, of all workers.
#[derive(Default)]
pub(crate) struct SharedStateTimes {
    buffers: AtomicU64,
    waits: [AtomicU64; 3],
    works: [AtomicU64; 3],
}

impl SharedStateTimes {
    pub(crate) fn add_buffer(&self, before: &StateTimes, now: &StateTimes) {
        let nanoseconds = |now: Duration, before: Duration| {
            u64::try_from(now.saturating_sub(before).as_nanos()).unwrap_or(u64::MAX)
        };
        let states = waits_and_works(now)
            .into_iter()
            .zip(waits_and_works(before));
        for (state, ((wait, work), (wait_before, work_before))) in states.enumerate() {
            self.waits[state].fetch_add(nanoseconds(wait, wait_before), Ordering::Relaxed);
            self.works[state].fetch_add(nanoseconds(work, work_before), Ordering::Relaxed);
        }
        self.buffers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self, elapsed: Duration, done: u64, total: Option<u64>) -> RunCounters {
        let seconds = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64 / 1e9;
        let buffers = self.buffers.load(Ordering::Relaxed);
        let stages = self.waits.iter().zip(&self.works);
        RunCounters {
            elapsed_s: elapsed.as_secs_f64(),
            delivered: done as f64,
            total: total.map(|total| total as f64),
            results: buffers,
            stages: stages
                .map(|(wait, work)| StageWindow {
                    items: buffers as f64,
                    busy_s: seconds(work),
                    input_wait_s: seconds(wait),
                    ..StageWindow::default()
                })
                .collect(),
        }
    }
}

fn waits_and_works(times: &StateTimes) -> [(Duration, Duration); 3] {
    [
        (times.read_wait, times.read),
        (times.execute_wait, times.execute),
        (times.write_wait, times.write),
    ]
}
