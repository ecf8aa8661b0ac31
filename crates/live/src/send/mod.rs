//! Sends samples as frames.

mod description_schedule;
mod faults;
mod sender;
mod transport;

pub use faults::NetworkFaults;
pub use sender::{SampleTime, SendCounts, Sender};
