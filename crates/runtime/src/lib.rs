//! What every engine of Isochrony shares: plans, tasklets, byte streams, imports and backups.
//!
//! | question | answer |
//! |---|---|
//! | How far is it? | [`Progress`], counted by the threads that work and read by the one that reports |
//! | Should it go on? | [`Interrupt`], a flag that the threads check; [`Watch`], a callback in the execution's own thread |
//! | When is it time to check? | every [`POLL_INTERVAL`]: [`PollTimer`] for a thread that works, [`WaitGroup`] for one that waits |
//! | Is there a core for it? | [`CoreLimit`], which each thread uses as a [`CoreUser`] |
//! | Is there memory for it? | [`MemoryBudget`], of which each thread holds [`MemoryReservation`]s |
//! | What did each thread do? | [`WorkerReport`] |
//! | Why did code of others fail? | [`Cause`], [`panic_message`] |
//!
//! Depends on the standard library only and starts no workers: pools and queues belong to the engines.

mod cause;
mod core_limit;
mod interrupt;
mod interval_clock;
mod memory_budget;
mod poll;
mod progress;
pub mod sync;
mod worker_report;

pub use cause::{Cause, panic_message};
pub use core_limit::{CoreLimit, CoreUse, CoreUser, WaitReason};
pub use interrupt::Interrupt;
pub use memory_budget::{MemoryBudget, MemoryReservation};
pub use poll::{ActiveWatch, POLL_INTERVAL, PollTimer, WaitGroup, WaitToken, Watch};
pub use progress::Progress;
pub use worker_report::WorkerReport;
