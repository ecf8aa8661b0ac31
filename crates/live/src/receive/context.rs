use std::sync::Arc;
use std::time::Duration;

use isochrony_segment::DType;

use super::packet_queue::{ArrivalTime, PacketQueue};
use super::run_clock::RunClock;
use crate::address::FeedFraming;
use crate::feed_counts::FeedCounters;

/// Clocks read within this time count as simultaneous.
const MAX_CLOCK_READ_GAP: Duration = Duration::from_millis(1);
/// Interval of a waiting thread's stop checks.
pub(super) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct ReceiveContext {
    pub(crate) queue: Arc<PacketQueue>,
    pub(crate) counters: Arc<FeedCounters>,
    pub(crate) framing: FeedFraming,
    pub(crate) dtype: DType,
    pub(crate) rate_hz: f64,
    pub(crate) max_frame: usize,
    pub(crate) clock: RunClock,
}

impl ReceiveContext {
    pub(super) fn now(&self) -> ArrivalTime {
        let mut since_start = self.clock.since_start();
        let mut civil_ns = self.clock.civil_ns();
        // Preemption would look like a set clock.
        for _ in 0..3 {
            let after = self.clock.since_start();
            if after - since_start < MAX_CLOCK_READ_GAP {
                break;
            }
            since_start = after;
            civil_ns = self.clock.civil_ns();
        }
        ArrivalTime {
            since_start,
            civil_ns,
            sampled_ns: None,
        }
    }
}
