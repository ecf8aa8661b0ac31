//! What every receiving thread has: the queue, the counters and the options of the feed.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use isochrony_segment::DType;

use super::packet_queue::{ArrivalTime, PacketQueue};
use crate::address::FeedFraming;
use crate::feed_counts::FeedCounters;

/// Two clocks that are read within this time of one another are read at once.
const MAX_CLOCK_READ_GAP: Duration = Duration::from_millis(1);
/// How often a thread that waits looks whether it is to stop, and how long it sleeps then.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What a thread needs to know.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveContext {
    pub(crate) queue: Arc<PacketQueue>,
    pub(crate) counters: Arc<FeedCounters>,
    pub(crate) framing: FeedFraming,
    pub(crate) dtype: DType,
    pub(crate) rate_hz: f64,
    pub(crate) max_frame: usize,
    pub(crate) started: Instant,
}

impl ReceiveContext {
    /// Since the beginning, by a clock that is never set; and the civil time, ns since 1970.
    pub(super) fn now(&self) -> ArrivalTime {
        let mut since_start = self.started.elapsed();
        let mut civil = SystemTime::now().duration_since(UNIX_EPOCH);
        // Preempted between the two, they would look like a clock that was set.
        for _ in 0..3 {
            let after = self.started.elapsed();
            if after - since_start < MAX_CLOCK_READ_GAP {
                break;
            }
            since_start = after;
            civil = SystemTime::now().duration_since(UNIX_EPOCH);
        }
        let civil_ns = civil.map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        });
        ArrivalTime {
            since_start,
            civil_ns,
            sampled_ns: None,
        }
    }
}
