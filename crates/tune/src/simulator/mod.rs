//! Discrete-event simulator of plans.
//!
//! A [`SimulatedRun`] takes [`Configuration`](crate::Configuration)s and returns [`Window`](crate::Window)s like a real
//! run, deterministic by seed.
//!
//! # What it mirrors
//! Queue entries are stages and replicas. A free thread takes a ready entry (`StageSchedule`), executes a burst and
//! puts it back. Entries wait for input or room; a full link has room once half is free, and accepts all results of an
//! item beyond its capacity. Results of replicas leave in order, through a reorder buffer of three items per possible
//! replica. A stage whose inputs have different sources takes from the lagging one, and waits for it; else it takes
//! what comes.
//!
//! # Effects beyond a flow model
//! | effect | parameter of [`SimulatedMachine`] | cost |
//! |---|---|---|
//! | hand-over | `hand_over_s` | of each burst, also without work |
//! | wake-up | `wake_s`, `spin_s` | of a thread idle for longer than `spin_s` |
//! | memory bandwidth | `memory_bytes_per_s` | requests are served one by one; the core waits |
//! | cache | `cache_bytes` | an item whose link held more when sent passes through memory |
//! | core to core | `transfer_bytes_per_s` | of an item evicted or written by another core |
//! | NUMA | `nodes`, `numa_factor` | multiplies the two above between nodes |
//! | preemption | `time_slice_s`, `competitors` | tasks take turns on too few cores |
//!
//! Always simulated: varying service times, bounded links, reordering, fewer threads than stages.
//!
//! # What it lacks
//! Memory budgets, errors, branches, cells, pinned threads, blocks computed by a cluster, a stage that waits within an
//! item whose results fill a link twice over, and the 20 ms poll of waiting stages. Batches are items. Retired replicas
//! are not woken. Items past the slowest path to the end count as delivered; a real run counts by the first link of
//! each stage.

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
