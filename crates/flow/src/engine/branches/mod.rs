//! Branches added to a running plan: each is executed as a plan of its own, behind a queue.
//!
//! ```text
//!   scan ──▶ filter ──▶ detector ──▶ sink            the plan, in whatever threads
//!               │
//!               └─▶ tap ══▶ queue ══▶ rewindow ──▶ sink of the branch       the branch, in the caller's thread
//! ```
//!
//! A [`tap`] is a consumer that an executor adds to a node between bursts. It passes on items, breaks and marks of the
//! edge between two indices. The plan does not depend on it: what only a tap consumes ends with the plan. After each of
//! its bursts the caller's thread executes what is queued ([`running`]). A stage waits for a full queue as for a link.

mod queue;
mod running;
mod tap;

pub(crate) use queue::{Tap, TapRecording, TapWakers};
pub(crate) use running::RunningBranches;
pub(crate) use tap::{ExecutorTaps, TapInbox};
