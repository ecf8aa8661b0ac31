//! Runs what no task can compute in stages: parts of the plan that work at the same time, each in order.
//!
//! ```text
//!   thread 1                    thread 2                   caller's thread
//!  +------------------+  link  +------------------+  link  +----------------------------+
//!  | scan -> low-pass | =====> | STA/LTA          | =====> | threshold -> sink, Python  |
//!  +------------------+        +------------------+        +----------------------------+
//!          a stage is a graph that the engine executes depth first, as it does a whole plan
//!
//!  A stage waits:   for input  when all its links are empty, and no live source has anything;
//!                   for room   when a link is full: after a burst, or when a burst gave more than a link may hold;
//!                   for a core when as many stages compute as there are workers (`CoreLimit`).
//!  Memory budget:   what is in a link counts for the stage that made it, until the next one drops it.
//! ```
//!
//! **Results have the same bits as in one thread.** Each operator gets the same items, breaks and marks in the same
//! order: a link carries all of them, and two stages have one link, however many edges lead from one to the other.
//! Inputs of a fan-in that come from the same source leave one stage, so by one link, in the order in which one thread
//! would have computed them; those of different sources are asked as one thread asks the sources. Operators that write
//! or call Python stay in the caller's thread.
//!
//! **No deadlock.** Consider stages in the order of the plan. The caller's stage never waits for room. A stage that
//! waits for room waits for a later stage, which waits for input only while that link is empty, or if it waits for
//! another link, of other sources, whose stage it then is that can go on. So the last stage that has work goes on. A
//! stage that reads two links of the same source waits for neither alone, and has no fan-in (`could_pile_up`).
//!
//! **Errors.** What a stage gave before it failed still reaches the next one, then a stand-in for the error
//! ([`OpErrorKind::StageFailed`](crate::OpErrorKind)), which is ranked among others like the error itself, and
//! replaced by it in the end.
//!
//! | step | files |
//! |---|---|
//! | where to cut (pure) | `stage_plan` |
//! | a graph for each stage | `stage_graph` |
//! | what joins stages | `link`, `link_writer`, `link_reader` |
//! | threads | `run` |

mod link;
mod link_reader;
mod link_writer;
mod run;
mod stage_graph;
mod stage_plan;

pub(super) use run::run;
pub(super) use stage_plan::StagePlan;

use super::sync;
