//! Discrete-event simulator of a plan in stages, on machines of up to some hundred cores.
//!
//! A [`SimulatedRun`] takes [`Configuration`](crate::Configuration)s and returns [`Window`](crate::Window)s as a real
//! run does. It uses no clock and no threads, and is deterministic by seed.
//!
//! # What it mirrors
//! Queue entries are stages and replicas. A free thread takes the ready entry nearest to the end of the plan, executes
//! a burst of it and puts it back; only the caller's thread takes the last stage, and that first. An entry waits for
//! input or room and is notified; a full link has room once half of it is free. A link accepts all results of an item,
//! even beyond its capacity. Replicas take the next item of their link; their results leave in order, through a reorder
//! buffer of three items per possible replica. A stage whose inputs come from different sources takes from the lagging
//! one, and waits for it; one whose inputs share a source takes what comes.
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
//! Every run has varying service times, bounded links, reordering and fewer threads than stages.
//!
//! # What it lacks
//! Memory budgets, errors, branches, cells, homes of pinned threads, blocks computed by a cluster, a stage that waits
//! within an item whose results fill a link twice over, and the 20 ms poll of waiting stages. Batches are items.
//! Retired replicas are not woken. Items that passed the slowest path to the end count as delivered; a real run counts
//! by the first link of each stage.

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
