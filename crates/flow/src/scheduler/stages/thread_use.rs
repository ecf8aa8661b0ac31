//! What a thread used of the machine.

use std::time::{Duration, Instant};

use isochrony_system::usage::involuntary_switches;
pub(crate) use isochrony_system::usage::thread_cpu_time as cpu_time;

use crate::engine::report::ThreadReport;

/// What the current thread has used since this was made.
pub(super) struct ThreadUse {
    begun: Instant,
    cpu: Option<Duration>,
    switches: Option<u64>,
}

impl ThreadUse {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            cpu: cpu_time(),
            switches: involuntary_switches(),
        }
    }

    pub(super) fn end(&self) -> ThreadReport {
        let both = cpu_time().zip(self.cpu);
        let switches = involuntary_switches().zip(self.switches);
        ThreadReport {
            cpu: both.map(|(now, before)| now.saturating_sub(before)),
            involuntary_switches: switches.map(|(now, before)| now.saturating_sub(before)),
            elapsed: self.begun.elapsed(),
        }
    }
}
