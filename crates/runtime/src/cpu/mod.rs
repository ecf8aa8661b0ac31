//! Which CPU each thread of an execution runs on.
//!
//! ```text
//!  sysfs -> CpuTopology (topology, list) --+
//!                                          +-> CpuPlacement (placement) -> PinnedThread (pinned_thread), for all threads of an execution: Pinning (pinning)
//!  affinity of the caller's thread --------+
//! ```

mod list;
mod pinned_thread;
mod pinning;
mod placement;
mod topology;

pub use pinned_thread::{PinnedThread, unpinned};
pub use pinning::Pinning;
pub use placement::CpuPlacement;
pub use topology::{CpuLocation, CpuTopology};

#[cfg(test)]
mod tests;
