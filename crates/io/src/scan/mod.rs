//! What strategies share: cutting a scan into pieces, finding the files of a piece, reading ahead, and handing pieces to readers.
//!
//! ```text
//!  Readers ── begin_task ──▶ Reader          one per scan │ one per task, in the thread of its task
//!     │                        │ read(piece)
//!     ▼                        ▼
//!  Prefetcher ── begin_task ▶ TaskReader     of the strategy: reads ahead for all tasks │ hands out the pieces of one
//!     │                        │
//!     ▼                        ▼
//!  threads, io_uring, advice  buffers, mapped pages
//! ```
//!
//! What is read ahead belongs to the scan, not to the task, so that it goes on from one task to the next.

mod advice;
mod buffer_pool;
mod files;
mod piece_request;
mod pieces;
mod prefetch_thread;
mod prefetcher;
mod queue_scan;
mod reader;
mod readers;
mod reading;
mod task_queues;

pub(crate) use advice::ReadAdvice;
pub use advice::prefetch;
pub(crate) use buffer_pool::BufferPool;
pub(crate) use files::Files;
pub(crate) use piece_request::{Attempt, PieceRequest, RequestPlanner, bytes_present};
pub(crate) use pieces::Pieces;
pub(crate) use prefetch_thread::PrefetchThread;
pub(crate) use prefetcher::{Fallback, Outcome, Prefetcher, ScanSpec, Spares, TaskReader};
pub(crate) use queue_scan::{QueueScan, ReadAheadQueue};
pub use reader::Reader;
pub use readers::Readers;
pub use reading::Reading;
pub use task_queues::Tasks;
pub(crate) use task_queues::{QUEUE_DEPTH, READ_AHEAD_BYTES, TaskQueues};
