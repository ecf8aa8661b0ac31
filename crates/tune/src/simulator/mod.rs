//! Discrete-event simulator of a plan that runs in stages, on machines of up to some hundred cores.
//!
//! A [`SimulatedRun`] answers to [`Configuration`](crate::Configuration)s with [`Window`](crate::Window)s, as a real run
//! does, so a tuner cannot tell them apart. It uses no clock and no threads, and every choice at random comes from its
//! seed.
//!
//! # What it mirrors
//! Entries of a queue are stages, and replicas of stages. A free thread takes the ready entry nearest to the end of the
//! plan, executes a burst of it and puts it back; only the caller's thread takes the last stage, and that first. An entry
//! waits for input or for room and is told when there is some; a link that was full has room once half of it is free. A
//! link accepts all that one item gives, so it exceeds its capacity by that. Replicas take the next item of their link;
//! their results leave in order, through a reorder buffer of three items for each replica that the stage may have. A stage
//! whose inputs come from different sources takes from the one that lags behind, and waits for it; one whose inputs have a
//! source in common takes what comes.
//!
//! # What a flow model does not have
//! | effect | parameter of [`SimulatedMachine`] | cost |
//! |---|---|---|
//! | hand-over of a burst | `hand_over_s` | of each burst, also of one that finds nothing |
//! | wake-up | `wake_s`, `spin_s` | before a thread works that had no work for longer than `spin_s` |
//! | memory bandwidth | `memory_bytes_per_s` | requests are served one after the other, and the core waits |
//! | cache | `cache_bytes` | an item whose link held more when it was sent passes through memory |
//! | core to core | `transfer_bytes_per_s` | of an item that another core has written, or that was evicted |
//! | NUMA | `nodes`, `numa_factor` | multiplies the two above between nodes |
//! | preemption | `time_slice_s`, `competitors` | tasks take turns on cores, where there are more of them than cores |
//!
//! Variation of service times, bounded links, reordering and fewer threads than stages are in every run.
//!
//! # What it lacks
//! Memory budgets, errors, branches, cells, homes of pinned threads, blocks computed by a cluster, a stage that waits in the
//! middle of an item whose results fill a link twice over, and the 20 ms after which a waiting stage is tried again. Batches
//! are items: small items do not share one. Retired replicas are not woken, as they are in a real run, to find that they
//! are retired. What has passed the slowest path to the end counts as delivered; a real run counts by the first link of each
//! stage.

mod cores;
mod engine;
mod events;
mod execution;
mod link;
mod machine;
mod plan;
mod plan_check;
mod random_plan;
mod reorder;
mod run;
mod schedule;
mod search;
mod stage_queue;
mod thread;
mod time_distribution;

pub use machine::{Competitor, SimulatedMachine, StageSchedule};
pub use plan::{CostChange, SimulatedLink, SimulatedPlan, SimulatedSource, SimulatedStage};
pub use random_plan::random_plan;
pub use run::{LinkTotals, RunTotals, SimulatedRun};
pub use search::{BestConfiguration, ConfigurationSearch, best_configuration};
pub use time_distribution::TimeDistribution;
