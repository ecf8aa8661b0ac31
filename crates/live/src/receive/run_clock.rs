#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone)]
pub(crate) enum RunClock {
    System(Instant),
    /// Set by a test, in ns.
    #[cfg(test)]
    Simulated(std::sync::Arc<AtomicU64>),
}

impl RunClock {
    pub(crate) fn start() -> Self {
        Self::System(Instant::now())
    }

    /// Monotonic.
    pub(crate) fn since_start(&self) -> Duration {
        match self {
            Self::System(started) => started.elapsed(),
            #[cfg(test)]
            Self::Simulated(ns) => Duration::from_nanos(ns.load(Ordering::Acquire)),
        }
    }

    pub(crate) fn civil_ns(&self) -> i64 {
        let since = match self {
            Self::System(_) => SystemTime::now().duration_since(UNIX_EPOCH),
            #[cfg(test)]
            Self::Simulated(_) => Ok(self.since_start()),
        };
        since.map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        })
    }
}
