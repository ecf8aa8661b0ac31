//! Placement policies: dispatch, eviction, provisioning, and a simulator.
//!
//! Pure data structures without threads, clock or I/O, and with seeded randomness: scheduler and simulator run the same
//! code. Times are nanoseconds since the caller's start.
//!
//! A *host* is one cache with some slots. *Objects* are immutable and have dense identifiers; [`Interner`] maps names
//! to them.

mod dispatch;
mod error;
mod eviction;
mod ids;
mod index;
mod provision;
pub mod simulation;

pub use dispatch::{
    Decision, DispatchOptions, Dispatcher, Input, MAX_SOURCES, Policy, QueueCounts,
};
pub use error::PlacementError;
pub use eviction::{Eviction, EvictionPolicy};
pub use ids::{HostId, Interner, ObjectId, TaskId};
pub use index::{CacheIndex, Change, Reply};
pub use provision::{HostPlan, ProvisionOptions, Provisioner};
