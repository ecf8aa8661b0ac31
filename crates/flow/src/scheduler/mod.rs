//! Executes plans on one or many cores: [`Plan::collect`](crate::Plan::collect) and its siblings.
//!
//! Replication follows from operators' declarations alone.
//!
//! ```text
//!                    SplitPlan (split, scan_groups, subgraph_builder, task_contract, overlap, task_size)
//!                   /                                                        \
//!     ParallelSubgraph: scans + operators                        SequentialPart: the rest of the plan
//!
//!  recording   next_task    +----------+   complete    +-------------------------+  next_result   +-----------------+
//!  in portions -----------> | worker 0 | ------------> | reorder buffer          | -------------> | caller's thread |
//!  (partition)              | replica  |               |  #4 finished, buffered  |  (gather:      | SequentialPart, |
//!              -----------> | worker 1 | ------------> |  #5 in flight           |   exits in     | sinks, Python   |
//!                           | replica  |               |  #6 finished, buffered  |   read order)  | functions       |
//!                           +----------+               +-------------------------+                +-----------------+
//! ```
//!
//! A worker waits when `window` tasks of each subgraph are in flight or buffered, or when the buffered bytes plus an
//! estimate per task in flight reach an eighth of the memory budget. The oldest task is always handed out, and the
//! caller's thread waits for no other.
//!
//! Replicas' blocks, buffered results and the sequential part share the memory budget; samples as read do not count. A
//! task that is refused memory gives up its own and is retried with fewer in flight.
//!
//! | step | files |
//! |---|---|
//! | entry points of a plan | `run`, `repeated`, `auto_workers` |
//! | plan splitting (pure) | `split`, `scan_groups`, `subgraph`, `subgraph_builder`, `task_contract`, `sequential` |
//! | task sizes and overlap (pure) | `task_size`, `output_estimate`, `overlap`, `partition` |
//! | threads, scheduler, reorder buffer | `parallel`, `reorder`, `task_queue`, `task_output`, `running_tasks` |
//! | workers | `worker`, `replica`, `parallel_subgraph`, `boundary`, `scan_input` |
//! | combination of results | `gather` |
//! | explain, costs of operators, prediction | `explain`, `characterise`, `operator_key`, `prediction`, `worker_gain` |
//! | where Python functions are called | `function_places` |
//!
//! **Results are bit-identical for any number of workers.** A window belongs to the task in whose portion it begins, a
//! sample to the one in whose portion it lies. A task also reads the context that operators need, never across a break;
//! surplus results are trimmed. At its end a fan-in discards items that wait for partners. Windows are counted from the
//! anchor of their contiguous range. A settling operator (a recursive filter) is replicated within a granted tolerance;
//! its bits depend on the cuts, so one worker uses the same tasks.
//!
//! The reported error is the one that a single pass meets first.

mod auto_workers;
mod boundary;
pub(crate) mod characterise;
mod explain;
mod function_places;
mod gather;
mod measured_costs;
mod notes;
mod operator_key;
mod output_estimate;
mod overlap;
mod parallel;
mod parallel_subgraph;
mod partition;
pub(crate) mod prediction;
pub(crate) mod remote;
mod reorder;
pub(crate) mod repeated;
mod replica;
mod run;
mod running_tasks;
mod scan_groups;
mod scan_input;
mod sequential;
mod split;
mod stages;
mod subgraph;
mod subgraph_builder;
mod task_contract;
mod task_output;
mod task_queue;
mod task_size;
mod task_sizes;
mod worker;
mod worker_gain;

use isochrony_runtime::sync;
