//! Executes tasks on the workers of a cluster, whose library stays outside, behind [`TaskCluster`].
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
//! A worker splits plans into tasks itself. Each batch carries the client's [`task_hash`](runner::task_hash); a worker
//! with a different one refuses it.
//!
//! **Results are bit-identical** to those of threads on processors of one kind: same tasks, same reorder buffer.
//!
//! **Memory.** A result's estimate counts from when its task is handed out. If a worker refuses memory, the task is
//! repeated with fewer in flight.
//!
//! **Two batches** per slot are in flight: one is computed while the other travels.
//!
//! **Leaving.** A draining slot is sent nothing more and leaves after its last results.
//!
//! **Losses.** Tasks of a lost slot go to another; this does not count as memory shortage. Without slots the run waits
//! as long as the [`TaskCluster`] allows.
//!
//! **Caches.** With [`TaskCluster::placement`], tasks go to hosts that cache what they read, within the in-flight
//! window ([`placed_tasks`]). Order and results are unaffected.
//!
//! **Tuning** changes how many tasks a batch carries, how large they are, and how many slots are given any
//! ([`RunningCluster`](running_cluster::RunningCluster)). What messages took recommends how many tasks they should carry
//! ([`batch_advice`]).
//!
//! **Feeds** run in stages ([`stages`](super::stages)) in the client's process. Slots compute blocks of replicated
//! stages: a message has a block's samples and their context, results return through the stage's reorder buffer. A
//! worker has stand-ins for recordings that stay with the client.

mod active_slots;
mod batch_advice;
mod blocks;
mod dispatcher;
mod events;
pub(crate) mod host;
mod message;
mod placed_tasks;
mod placement_state;
mod results;
mod runner;
mod running_cluster;
mod task_counts;
mod tasks;

use std::time::Duration;

pub use isochrony_placement::DispatchOptions;

use crate::Cause;

pub(super) use batch_advice::advise_batch;
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
    /// An undriven slot, as soon as there is one; None after `wait`. `is_needed`: nothing proceeds without one, so a
    /// long wait is an error.
    ///
    /// # Errors
    /// There will be no slot; a run without any ends with this error.
    fn next_slot(
        &self,
        wait: Duration,
        is_needed: bool,
    ) -> Result<Option<Box<dyn RemoteSlot>>, Cause>;

    /// Possible slots; sets the in-flight window.
    fn slots(&self) -> usize;

    /// Slots at the start. Others join later, if the cluster grows.
    fn present_slots(&self) -> usize {
        self.slots()
    }

    /// Remaining tasks, and their seconds on one slot, if any was timed, for scaling the cluster. `enough`: more slots
    /// than these were found to be of no use. Called several times a second.
    fn set_demand(&self, _tasks: u64, _slot_seconds: Option<f64>, _enough: Option<usize>) {}

    /// Placement by host caches; None: a free slot gets the next task.
    fn placement(&self) -> Option<DispatchOptions> {
        None
    }

    /// Ends all calls of slots with [`SlotError::Stopped`].
    fn stop(&self);

    /// Starts a part of a plan on a host, which sends results to the request's inbox until that is done or
    /// [`stop`](Self::stop) is called.
    ///
    /// # Errors
    /// No such host, or it cannot run the plan.
    fn open_host(&self, request: HostRequest) -> Result<(), Cause> {
        Err(format!(
            "this cluster cannot execute a part of a plan on {}",
            request.host
        )
        .into())
    }

    /// Codec of exceptions.
    fn causes(&self) -> &dyn CauseCodec;
}

/// A thread of a worker of a cluster.
pub trait RemoteSlot: Send {
    /// Host, for reports and errors.
    fn name(&self) -> &str;

    /// Sends a batch of tasks or blocks to a [`TaskRunner`], after earlier ones.
    ///
    /// # Errors
    /// [`SlotError`].
    fn send(&mut self, batch: &[u8]) -> Result<(), SlotError>;

    /// Waits for the results of the oldest batch.
    ///
    /// # Errors
    /// [`SlotError`].
    fn receive(&mut self) -> Result<Vec<u8>, SlotError>;

    /// Cache contents of its host, as the bytes of a [`CacheReport`](isochrony_store::shard_cache::CacheReport); None:
    /// no cache. Called once, before anything is sent.
    fn cache_report(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Whether it is to leave and is sent nothing more.
    fn is_draining(&self) -> bool {
        false
    }

    /// Called when draining is complete.
    fn leave(&mut self) {}
}

/// Why a slot gave no results.
#[derive(Debug)]
pub enum SlotError {
    /// The worker is gone: others repeat the tasks.
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

    /// Add new ones to that test.
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
                    if plan.node.properties.contract == Contract::Reducible {
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
