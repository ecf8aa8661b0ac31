//! What every engine of Isochrony shares: plans, tasklets, byte streams, imports and backups.
//!
//! | question | answer |
//! |---|---|
//! | How far is it? | [`Progress`], counted by the threads that work |
//! | Should it go on? | [`Interrupt`], a flag that the threads check; [`Watch`], a callback in the execution's own thread |
//! | When is it time to check? | every [`POLL_INTERVAL`]: [`PollTimer`] for a thread that works, [`WaitGroup`] for one that waits |
//! | May this worker go on? | [`WorkerGate`], which changes how many are in use |
//! | What wakes it? | a [`Waker`](std::task::Waker): [`thread_waker`] for a thread that is parked |
//! | Is there memory for it? | [`MemoryBudget`], of which each thread holds [`MemoryReservation`]s |
//! | What did each thread do? | [`WorkerReport`], [`StageTime`]; how long items took: [`LatencyHistogram`] |
//! | Who starts its threads? | [`start_worker`], for those that compute; [`start_helper`], [`start_scoped_helper`], for those that mostly wait |
//! | Where does a thread run? | [`CpuTopology`], the machine; [`CpuPlacement`], a CPU for each thread; [`Pinning`], [`PinnedThread`] |
//! | Why did code of others fail? | [`Cause`], [`panic_message`] |
//!
//! Depends on the standard library and, for CPUs, on `isochrony-system`. Which work a worker takes next is left to the
//! engines: their queues promise different things (docs/why/queues.md).

mod blocking;
mod cause;
mod cpu;
mod interrupt;
mod interval_clock;
mod latency;
mod memory_budget;
mod poll;
mod progress;
mod stage_time;
pub mod sync;
mod threads;
mod waker;
mod worker_gate;
mod worker_report;

pub use blocking::{WaitCheck, is_stop_requested, poll_stop, stoppable_waits};
pub use cause::{Cause, panic_message};
pub use cpu::{CpuLocation, CpuPlacement, CpuTopology, PinnedThread, Pinning, unpinned};
pub use interrupt::Interrupt;
pub use interval_clock::POLL_INTERVAL;
pub use latency::{Latency, LatencyHistogram};
pub use memory_budget::{MemoryBudget, MemoryReservation};
pub use poll::{ActiveWatch, PollTimer, WaitGroup, WaitToken, Watch};
pub use progress::Progress;
pub use stage_time::StageTime;
pub use threads::{start_helper, start_scoped_helper, start_worker};
pub use waker::thread_waker;
pub use worker_gate::WorkerGate;
pub use worker_report::WorkerReport;
