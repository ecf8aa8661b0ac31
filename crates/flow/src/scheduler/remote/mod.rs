//! Tasks on the workers of a cluster. The cluster's library stays outside: it comes in through [`TaskCluster`].
//!
//! ```text
//!  client                                                        worker process, one open store
//!  caller's thread: sequential part, sinks                       PreparedTasks: the plan, split as on the client
//!      ^ results, in the order of the recording                      |            |
//!  reorder buffer (as for threads)                               TaskRunner   TaskRunner      a thread and replicas each
//!      ^ complete       | next_task                                  ^            ^
//!  Dispatcher: a thread per slot  == batch of tasks, as bytes ======>|            |
//!                                 <== their results ==================
//! ```
//!
//! A worker is given plans and options, not tasks: it prepares and splits them by itself. Each batch carries a number of the
//! client's split plan ([`task_hash`](runner::task_hash)), and a worker that has another refuses it.
//!
//! **Results have the same bits** as with threads, since tasks are the same and the same reorder buffer puts their results in
//! order, on processors of one kind.
//!
//! **Memory.** A result's estimate counts from when its task is handed out, as with threads. A worker that refuses memory to
//! a task says so, and the task is repeated with fewer in flight.
//!
//! **Two batches** are on their way to each slot, so that it computes one while the other travels.
//!
//! **Leaving.** A slot that is draining is sent nothing more; when what it has is received, it leaves. Nothing is repeated.
//!
//! **Losses.** The tasks of a slot that is lost are handed out again, to another. It does not count as short of memory.
//! While there is no slot the run waits; how long is up to the [`TaskCluster`].
//!
//! **Caches.** If hosts have caches, [`TaskCluster::placement`] says so. Tasks then go to hosts that have what they read, within
//! the in-flight window, and answers tell what changed in the caches ([`placed_tasks`]). Order and results stay as they are.
//!
//! **Feeds.** What is received or made in the client's process runs there in stages ([`stages`](super::stages)). Slots compute
//! blocks of stages that have replicas: a message has the samples of a block and those around it, and its results return
//! through the reorder buffer of the stage. Recordings that stay with the client are stand-ins in a worker, which has the same
//! stages of the same plan.
//!
//! | step | files |
//! |---|---|
//! | bytes of a message; what is in it | `message`; `events`, `tasks`, `blocks`, `results` |
//! | worker | `runner` |
//! | client | `dispatcher`; `placed_tasks`, `placement_state` |
//! | parts of a plan beside their sensors | `host` |

mod blocks;
mod dispatcher;
mod events;
pub(crate) mod host;
mod message;
mod placed_tasks;
mod placement_state;
mod results;
mod runner;
mod tasks;

use std::time::Duration;

pub use isochrony_placement::DispatchOptions;

use crate::Cause;

pub(super) use blocks::{BlockBatch, PlacedBlock};
pub(super) use dispatcher::Dispatcher;
pub(super) use events::StreamTable;
pub use host::{HostError, HostInbox, HostRequest, HostRun, SendBuffer};
pub use results::CauseCodec;
pub(super) use results::ResultCodec;
pub use runner::{PreparedTasks, RunnerContext, SnapshotCheck, TaskRunner, TaskRunnerError};
pub(super) use runner::{block_hash, collecting};

/// Workers that execute tasks of a plan.
pub trait TaskCluster: std::fmt::Debug + Send + Sync {
    /// A slot that nobody drives yet, as soon as there is one; None after `wait`. `is_needed`: nothing goes on without one,
    /// so that it is an error if there is none for long.
    ///
    /// # Errors
    /// There will be none: a run without any ends with this error.
    fn next_slot(
        &self,
        wait: Duration,
        is_needed: bool,
    ) -> Result<Option<Box<dyn RemoteSlot>>, Cause>;

    /// Slots that there may be, from which the in-flight window follows.
    fn slots(&self) -> usize;

    /// Slots of workers that are there when the run begins. Others join later, if the cluster grows.
    fn present_slots(&self) -> usize {
        self.slots()
    }

    /// How much is left to do, so that the cluster can grow or shrink: tasks, and seconds that they would take one slot, if
    /// any task was timed. Called several times a second.
    fn set_demand(&self, _tasks: u64, _slot_seconds: Option<f64>) {}

    /// How tasks are placed by what the caches of hosts hold; None: hosts have none, and a free slot gets the next task.
    fn placement(&self) -> Option<DispatchOptions> {
        None
    }

    /// Ends all calls of slots with [`SlotError::Stopped`]: the run has ended.
    fn stop(&self);

    /// Starts a part of a plan on a host, and sends what it gives to the request's inbox until the inbox is done or
    /// [`stop`](Self::stop) is called.
    ///
    /// # Errors
    /// There is no such host, or it cannot run the plan.
    fn open_host(&self, request: HostRequest) -> Result<(), Cause> {
        Err(format!(
            "this cluster cannot execute a part of a plan on {}",
            request.host
        )
        .into())
    }

    /// How exceptions travel.
    fn causes(&self) -> &dyn CauseCodec;
}

/// A thread of a worker of a cluster.
pub trait RemoteSlot: Send {
    /// Where it is, for reports and errors.
    fn name(&self) -> &str;

    /// Has a [`TaskRunner`] there execute a batch of tasks or blocks, after those that were sent before.
    ///
    /// # Errors
    /// [`SlotError`].
    fn send(&mut self, batch: &[u8]) -> Result<(), SlotError>;

    /// Waits for the results of the oldest batch that was sent.
    ///
    /// # Errors
    /// [`SlotError`].
    fn receive(&mut self) -> Result<Vec<u8>, SlotError>;

    /// What the cache of its host has, as a [`CacheReport`](isochrony_store::shard_cache::CacheReport) in bytes; None: it has
    /// no cache. Called once, before anything is sent.
    fn cache_report(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Whether it is to leave: it is sent nothing more.
    fn is_draining(&self) -> bool {
        false
    }

    /// It was draining, and all that was sent to it has been received.
    fn leave(&mut self) {}
}

/// Why a slot gave no results.
#[derive(Debug)]
pub enum SlotError {
    /// Its worker is gone: others repeat the tasks.
    Lost,
    /// The run has ended.
    Stopped,
    /// The run ends with this error.
    Failed(Cause),
}

#[cfg(test)]
mod tests {
    use isochrony_segment::{SigSeg, Stream};
    use isochrony_time::{Rate, TimebaseId};
    use serde_json::{Map, Value, json};

    use crate::{Catalog, Contract, Plan, Segments, Stat};

    fn parameters(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    /// A new one must be added to that test: it shows that a partial result means the same in another process.
    #[test]
    fn partial_results_of_all_reducible_operators_are_tried_in_tests_of_the_cluster() {
        let rate = Rate::new(100, 1).unwrap();
        let stream = Stream::new("p", TimebaseId(0), rate).intern();
        let samples = SigSeg::from_slice(&[0.5_f32; 100], 0, stream).unwrap();
        let scan = Plan::scan(Segments::new([samples]).unwrap());
        let windows = scan.rewindow(8).unwrap();
        let rows = windows.stats([Stat::Mean]).unwrap();
        let catalog = Catalog::standard();
        let given = [
            Map::new(),
            parameters(json!({"names": ["mean"]})),
            parameters(json!({"keys": [], "aggregates": {"n": ["mean", "count"]}})),
        ];
        let mut found = Vec::new();
        for name in catalog.names() {
            let declaration = catalog.get(name).unwrap();
            for input in [&scan, &windows, &rows] {
                for parameters in &given {
                    let Ok(plan) = input.apply(declaration, parameters.clone(), &[]) else {
                        continue;
                    };
                    if matches!(plan.node.properties.contract, Contract::Reducible { .. }) {
                        found.push(name);
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, ["count", "group_by", "stats"]);
    }
}
