//! Placement policies: which executor runs a task, which cached object is evicted, how many executors there are.
//!
//! Pure data structures: no threads, no clock, no I/O, so that the scheduler and the simulator run the same code.

pub mod eviction;
