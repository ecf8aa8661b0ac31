//! Which CPU each thread of an execution runs on.
//!
//! ```text
//!  CpuTopology of the machine -------------+
//!                                          +-> CpuPlacement (placement) -> PinnedThread (pinned_thread), for all threads of an execution: Pinning (pinning)
//!  affinity of the caller's thread --------+
//! ```

mod pinned_thread;
mod pinning;
mod placement;

pub use isochrony_system::cpu_topology::{CpuLocation, CpuTopology};
pub use pinned_thread::{PinnedThread, unpinned};
pub use pinning::Pinning;
pub use placement::CpuPlacement;

#[cfg(test)]
mod placement_tests;
