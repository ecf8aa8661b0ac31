//! Shared by strategies: cuts a scan into pieces, finds their files, reads ahead, and passes pieces to readers.
//!
//! ```text
//!  ScanReaders ── begin_task ──▶ PieceReader     one per scan │ one per task, in its thread
//!      │                             │ read(piece)
//!      ▼                             ▼
//!  Prefetcher ─── begin_task ──▶ TaskReader      reads ahead for all tasks │ hands out the pieces of one
//!      │                             │
//!      ▼                             ▼
//!  threads, io_uring, advice     buffers, mapped pages
//! ```
//!
//! Read-ahead belongs to the scan, so it continues from task to task.

mod advice;
mod buffer_pool;
mod files;
mod piece_queues;
mod piece_request;
mod pieces;
mod prefetch_thread;
mod prefetcher;
mod queue_scan;
mod read_threads;
mod reader;
mod readers;
mod reading;
mod request_iter;

pub(crate) use advice::ReadAdvice;
pub use advice::prefetch;
pub(crate) use buffer_pool::BufferPool;
pub(crate) use files::SourceFiles;
pub use piece_queues::TaskParts;
pub(crate) use piece_queues::{PieceQueues, QUEUE_DEPTH, READ_AHEAD_BYTES};
pub(crate) use piece_request::{Attempt, PieceRequest, RequestPlanner, bytes_present};
pub(crate) use pieces::PieceIter;
pub(crate) use prefetch_thread::PrefetchThread;
pub(crate) use prefetcher::{Fallback, Prefetcher, ReadOutcome, ScanSpec, SparePool, TaskReader};
pub(crate) use queue_scan::{QueueScan, ReadAheadQueue};
pub(crate) use read_threads::{PieceFiller, ReadThreads};
pub use reader::PieceReader;
pub use readers::ScanReaders;
pub use reading::Reading;
pub(crate) use request_iter::{MergePolicy, RequestIter};
