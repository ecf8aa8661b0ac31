//! What a thread used of the machine.

use std::time::{Duration, Instant};

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

    /// Called by the same thread.
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

/// Processor time of the current thread so far.
pub(crate) fn cpu_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
}

fn involuntary_switches() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    value.trim().parse().ok()
}
