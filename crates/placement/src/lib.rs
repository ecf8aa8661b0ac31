//! Placement policies: which host runs a task, which cached object is evicted, how many hosts there are.
//!
//! Pure data structures: no threads, no clock, no I/O, and every choice at random comes from a seed, so that the
//! scheduler of a cluster and the simulator run the same code. Times are nanoseconds since the caller's start.
//!
//! A *host* is one cache with some slots: the workers of one machine share what it holds. *Objects* are immutable and
//! known by dense identifiers inside; [`Interner`] maps names to them.
//!
//! - [`CacheIndex`]: which hosts hold an object, kept up to date by numbered deltas.
//! - [`Dispatcher`]: waiting tasks, free slots and the [`Policy`] that joins them.
//! - [`Eviction`]: which objects leave a cache of bounded bytes.
//! - [`Provisioner`]: how many hosts the queued work is worth, and which are released.
//! - [`simulation`]: a discrete-event simulator that drives all of these.

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
