//! What became of what came.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What became of what came, since the listener was made.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct FeedCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl FeedCounts {
            /// Names and numbers.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        /// FeedCounters that threads share.
        #[derive(Debug, Default)]
        pub(crate) struct FeedCounters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl FeedCounters {
            pub(crate) fn read(&self) -> FeedCounts {
                FeedCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Frames that came, whatever became of them.
    frames,
    /// Samples that went to plans.
    samples,
    /// Samples that never came, or too late: within gaps. A gap in the recording is told of by the frame behind it; if that
    /// is lost, the gap counts as well.
    lost_samples,
    /// Frames whose samples had been given up when they came.
    late_frames,
    /// Frames that came before.
    duplicate_frames,
    /// Frames that came out of order and were put in order.
    reordered_frames,
    /// Frames dropped because the plan did not keep up: UDP only.
    overrun_frames,
    /// What was no frame, or of another type, or contradicted the sender's other frames by its counter or stamp.
    malformed_frames,
    /// Frames of another sender than the one that is listened to, and connections refused.
    foreign,
    /// Times that the sender's clock was set, or that it began anew.
    clock_steps,
    /// Feeds that ended before the sender said that all was sent: standard input that closed, a sender that was stopped.
    truncated_feeds,
}

pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
