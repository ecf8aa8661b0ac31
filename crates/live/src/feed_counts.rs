//! Counts of a feed, by cause.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Frames and samples since the listener was created.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct FeedCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl FeedCounts {
            /// Names and values.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

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
    /// Received frames.
    frames,
    /// Samples delivered to plans.
    samples,
    /// Samples that never arrived, or too late. Includes gaps of the recording whose frame was lost.
    lost_samples,
    /// Frames that arrived after their samples were given up.
    late_frames,
    /// Samples that arrived after they were given up, which are in `lost_samples` too, or after the first frame of their
    /// session was released although they precede it, which are not. Each counts once, however often its frame comes.
    late_samples,
    /// Late samples dropped because those kept exceeded `keep_late`; also those that earlier runs left.
    dropped_late_samples,
    /// Repeated frames.
    duplicate_frames,
    /// Frames that were reordered.
    reordered_frames,
    /// Frames dropped at a full queue: UDP, and drivers that do not wait.
    overrun_frames,
    /// Invalid frames, of another dtype, or contradicting other frames.
    malformed_frames,
    /// Frames of another sender, and refused connections.
    foreign,
    /// Clock sets or restarts of the sender.
    clock_steps,
    /// Feeds that ended early: standard input closed, or the sender stopped.
    truncated_feeds,
}

pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
