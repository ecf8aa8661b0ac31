//! Civil time of a feed's samples.

mod estimator;
mod feed_clock;

pub use estimator::{ClockEstimator, FIT_POINTS, StampSource};
pub use feed_clock::FeedClock;
