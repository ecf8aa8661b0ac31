//! Sends samples as frames, with simulated network faults on request.

mod description_schedule;
mod faults;
mod sender;
mod transport;

pub use faults::NetworkFaults;
pub use sender::{SampleTime, SendCounts, Sender};
