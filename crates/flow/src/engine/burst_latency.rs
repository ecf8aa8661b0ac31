//! [`BurstLatencies`]: how long bursts take, from the arrival of their first item until all operators are done.

use std::time::{Duration, Instant};

use isochrony_runtime::{Latency, LatencyHistogram};

/// A burst counts when the next one begins: if the sources are idle meanwhile, operators pass on what they hold back,
/// and the time of that belongs to the burst.
#[derive(Default)]
pub(super) struct BurstLatencies {
    histogram: LatencyHistogram,
    last: Option<Duration>,
}

impl BurstLatencies {
    pub(super) fn add_burst(&mut self, arrived: Instant) {
        self.end_burst();
        self.last = Some(arrived.elapsed());
    }

    /// Operators passed on what they held back.
    pub(super) fn add_flush(&mut self, begun: Instant) {
        if let Some(last) = &mut self.last {
            *last += begun.elapsed();
        }
        self.end_burst();
    }

    pub(super) fn end_burst(&mut self) {
        if let Some(last) = self.last.take() {
            self.histogram.add(last);
        }
    }

    pub(super) fn read(&self) -> Latency {
        self.histogram.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_passed_on_when_sources_are_idle_belongs_to_the_burst_before() {
        let mut latencies = BurstLatencies::default();
        let before = |seconds: u32| Instant::now().checked_sub(seconds * SECOND).unwrap();
        latencies.add_burst(before(1));
        assert_eq!(latencies.read().count, 0);
        latencies.add_burst(before(2));
        latencies.add_flush(before(4));
        // Nothing has arrived since.
        latencies.add_flush(before(20));
        latencies.end_burst();
        let read = latencies.read();
        assert_eq!(read.count, 2);
        assert!(
            read.median >= SECOND && read.median < 2 * SECOND,
            "{read:?}"
        );
        assert!(read.max >= 6 * SECOND && read.max < 7 * SECOND, "{read:?}");
    }
}
