//! Plans on cluster workers: both sides of `isochrony/cluster`, which alone uses the cluster's library.
//!
//! A client's [`PythonCluster`] provides slots. A worker's [`NativeTasks`] is a prepared plan shared by its slots, and
//! [`NativeTaskRunner`] a slot's thread.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use isochrony_dsp::spectrum::{FFT_ROUNDINGS, fft_instruction_set};
use isochrony_flow::{
    Cause, CauseCodec, DispatchOptions, HostRequest, PreparedTasks, RemoteSlot, RunOptions,
    RunnerContext, SlotError, SnapshotCheck, TaskCluster, TaskRunner, TaskRunnerError,
};
use isochrony_placement::PlacementError;
use isochrony_store::SignalId;
use isochrony_store::shard_cache::ShardCache;
use isochrony_workers::ProcessPool;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::host::host_arguments;
use super::nesting::Nesting;
use super::owner::Owner;
use super::pickled_exceptions::PickledExceptions;
use super::run_context::RunContext;
use super::run_options::PythonRunOptions;
use super::sent_plans::{OpenSnapshot, ReceivedPlans, received_for_tasks};
use crate::diffusion::NativeShardCache;
use crate::errors::{PackageError, Result};
use crate::interpreter::{attach, detach};
use crate::workers::process_pool;

/// `isochrony.cluster.ClusterRun` for the scheduler.
#[derive(Debug)]
pub(super) struct PythonCluster {
    run: Py<PyAny>,
    slots: usize,
    present_slots: usize,
    placement: Option<DispatchOptions>,
    causes: PickledExceptions,
}

impl PythonCluster {
    pub(super) fn new(run: &Bound<'_, PyAny>) -> PyResult<Self> {
        let placement: Option<(String, f64, usize)> = run.getattr("placement")?.extract()?;
        let placement = placement.map(|(policy, max_wait, max_replicas)| {
            let policy = policy.parse().map_err(|error: PlacementError| {
                let refused = PackageError::new("OptionError", error.code(), error.to_string());
                PyErr::from(crate::errors::Error::from(refused))
            })?;
            let defaults = DispatchOptions::default();
            Ok::<_, PyErr>(DispatchOptions {
                policy,
                max_wait: (max_wait.max(0.0) * 1e9) as u64,
                max_replicas,
                widespread: defaults.widespread.max(max_replicas),
                ..defaults
            })
        });
        let (slots, present_slots) = run.call_method0("slot_counts")?.extract()?;
        Ok(Self {
            slots,
            present_slots,
            placement: placement.transpose()?,
            run: run.clone().unbind(),
            causes: PickledExceptions,
        })
    }
}

impl TaskCluster for PythonCluster {
    fn next_slot(
        &self,
        wait: Duration,
        is_needed: bool,
    ) -> std::result::Result<Option<Box<dyn RemoteSlot>>, Cause> {
        attach(|py| {
            let slot = self
                .run
                .call_method1(py, "next_slot", (wait.as_secs_f64(), is_needed))
                .map_err(Box::new)?;
            if slot.is_none(py) {
                return Ok(None);
            }
            let name = slot.getattr(py, "name").and_then(|name| name.extract(py));
            let name: String = name.map_err(Box::new)?;
            Ok(Some(
                Box::new(PythonSlot { slot, name }) as Box<dyn RemoteSlot>
            ))
        })
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn present_slots(&self) -> usize {
        self.present_slots
    }

    fn placement(&self) -> Option<DispatchOptions> {
        self.placement
    }

    fn set_demand(&self, tasks: u64, slot_seconds: Option<f64>, enough: Option<usize>) {
        attach(|py| {
            drop(
                self.run
                    .call_method1(py, "set_demand", (tasks, slot_seconds, enough)),
            );
        });
    }

    fn stop(&self) {
        // Only sets flags; an exception would hide the run's error.
        attach(|py| drop(self.run.call_method0(py, "stop")));
    }

    fn open_host(&self, request: HostRequest) -> std::result::Result<(), Cause> {
        attach(|py| {
            let arguments = host_arguments(py, request).map_err(PyErr::from);
            let arguments = arguments.map_err(Box::new)?;
            let opened = self.run.call_method1(py, "open_host", arguments);
            Ok(opened.map(drop).map_err(Box::new)?)
        })
    }

    fn causes(&self) -> &dyn CauseCodec {
        &self.causes
    }
}

struct PythonSlot {
    slot: Py<PyAny>,
    name: String,
}

impl RemoteSlot for PythonSlot {
    fn name(&self) -> &str {
        &self.name
    }

    fn cache_report(&mut self) -> Option<Vec<u8>> {
        attach(|py| {
            let report = self.slot.getattr(py, "cache_report").ok()?;
            report.extract(py).ok()?
        })
    }

    fn send(&mut self, batch: &[u8]) -> std::result::Result<(), SlotError> {
        attach(|py| {
            let sent = self
                .slot
                .call_method1(py, "send", (PyBytes::new(py, batch),));
            sent.map_err(|error| SlotError::Failed(Box::new(error)))
                .map(drop)
        })
    }

    fn receive(&mut self) -> std::result::Result<Vec<u8>, SlotError> {
        attach(|py| match self.slot.call_method0(py, "receive") {
            Ok(answer) => match answer.extract::<&[u8]>(py) {
                Ok(answer) => Ok(answer.to_vec()),
                Err(_) if answer.is_truthy(py).unwrap_or(true) => Err(SlotError::Lost),
                Err(_) => Err(SlotError::Stopped),
            },
            Err(error) => Err(SlotError::Failed(Box::new(error))),
        })
    }

    fn is_draining(&self) -> bool {
        attach(|py| {
            let answer = self.slot.call_method0(py, "is_draining");
            answer.is_ok_and(|answer| answer.is_truthy(py).unwrap_or(false))
        })
    }

    fn leave(&mut self) {
        attach(|py| drop(self.slot.call_method0(py, "leave")));
    }
}

/// Plans prepared in a worker of a cluster.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeTasks {
    prepared: Arc<PreparedTasks>,
    settings: RunOptions<'static>,
    shared: Arc<dyn Any + Send + Sync>,
    processes: Arc<FunctionProcesses>,
    check: Arc<SnapshotCheck>,
    cache: Option<Arc<ShardCache>>,
    /// Keeps the plans' objects.
    _objects: Vec<Arc<Py<PyAny>>>,
}

#[pymethods]
impl NativeTasks {
    /// Prepares plans as their client did. `text` and `objects`: the result of `NativePlan.sent_for_tasks`. `threads`:
    /// maximum number of runners. `cache`: of this host, for their stores.
    #[new]
    #[pyo3(signature = (text, objects, collects, options, threads, cache=None))]
    fn new(
        py: Python<'_>,
        text: &str,
        objects: Vec<(String, Bound<'_, PyAny>)>,
        collects: bool,
        options: PythonRunOptions,
        threads: usize,
        cache: Option<&NativeShardCache>,
    ) -> Result<Self> {
        let cache = cache.map(|cache| Arc::clone(&cache.shards));
        let ReceivedPlans {
            plans,
            owner,
            signals,
        } = received_for_tasks(py, text, objects)?;
        for open in &signals {
            open.store.store.set_shard_cache(cache.clone())?;
        }
        let objects = Owner::objects_of(py, owner.iter());
        let mut settings = options.settings;
        as_on_cluster(&mut settings);
        let nesting = Nesting::current();
        let processes = process_pool(threads, nesting.of_processes());
        let shared = RunContext::new(Some(Arc::clone(&processes)), nesting);
        let shared: Arc<dyn Any + Send + Sync> = Arc::new(shared);
        let prepared = detach(py, || {
            let mut options: RunOptions<'_> = settings;
            options.shared = Some(&shared);
            PreparedTasks::new(&plans, collects, &options)
        })?;
        Ok(Self {
            check: snapshot_check(signals, &prepared),
            prepared: Arc::new(prepared),
            cache,
            settings,
            shared,
            processes: Arc::new(FunctionProcesses(processes)),
            _objects: objects,
        })
    }

    /// A thread that executes tasks.
    fn runner(&self, py: Python<'_>, number: usize) -> Result<NativeTaskRunner> {
        let context = RunnerContext {
            shared: Some(Arc::clone(&self.shared)),
            causes: Arc::new(PickledExceptions),
            check: Some(Arc::clone(&self.check)),
            cache: self.cache.clone(),
        };
        let prepared = Arc::clone(&self.prepared);
        let runner = detach(py, || {
            TaskRunner::new(prepared, number, self.settings, context)
        });
        let runner = runner.map_err(|error| {
            PackageError::new(
                "RunError",
                "no_thread",
                format!("no thread can be started: {error}"),
            )
        })?;
        Ok(NativeTaskRunner {
            runner: Some(runner),
            _processes: Arc::clone(&self.processes),
        })
    }
}

/// End with the last of a prepared plan and its runners.
struct FunctionProcesses(Arc<ProcessPool>);

impl Drop for FunctionProcesses {
    fn drop(&mut self) {
        let processes = &self.0;
        attach(|py| detach(py, || drop(processes.close())));
    }
}

/// A thread of a worker of a cluster.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeTaskRunner {
    /// None while dropped.
    runner: Option<TaskRunner>,
    _processes: Arc<FunctionProcesses>,
}

/// The instruction set of Fourier transforms in this process, and the difference in roundings from other ones. All else
/// is bit-identical.
#[pyfunction]
pub(crate) fn _instruction_set() -> (&'static str, f64) {
    (fft_instruction_set(), FFT_ROUNDINGS)
}

#[pymethods]
impl NativeTaskRunner {
    /// Executes a batch of tasks or blocks, and returns their results.
    fn run<'py>(&self, py: Python<'py>, batch: Vec<u8>) -> Result<Bound<'py, PyBytes>> {
        let answer = detach(py, || match &self.runner {
            Some(runner) => runner.run(batch),
            None => Err(TaskRunnerError::Ended),
        });
        let answer = answer.map_err(|error| -> crate::errors::Error {
            let error = match error {
                TaskRunnerError::Changed(error) => return error.into(),
                other => other,
            };
            let code = match &error {
                TaskRunnerError::OtherSplit { .. } => "other_split",
                TaskRunnerError::Message(_) | TaskRunnerError::Result(_) => "unreadable_message",
                TaskRunnerError::Panicked(_) => "operator_panicked",
                _ => "interrupted",
            };
            PackageError::new("RunError", code, error.to_string()).into()
        })?;
        Ok(PyBytes::new(py, &answer))
    }

    /// Stops its work.
    fn stop(&self) {
        self.runner.iter().for_each(TaskRunner::stop);
    }
}

impl Drop for NativeTaskRunner {
    /// Waits for the thread, which may need the interpreter to release its operators' objects.
    fn drop(&mut self) {
        let runner = self.runner.take();
        attach(|py| detach(py, || drop(runner)));
    }
}

/// Whether samples below the end of a snapshot may have been replaced since the last batch; appends do not matter.
fn snapshot_check(signals: Vec<OpenSnapshot>, prepared: &PreparedTasks) -> Arc<SnapshotCheck> {
    let mut by_id: HashMap<SignalId, Vec<usize>> = HashMap::new();
    for (at, open) in signals.iter().enumerate() {
        by_id.entry(open.signal).or_default().push(at);
    }
    let mut read: Vec<Vec<usize>> = Vec::new();
    for of_subgraph in prepared.signals() {
        let mut found = Vec::new();
        for signal in of_subgraph {
            let same_id = by_id.get(&signal.id()).into_iter().flatten().copied();
            found.extend(same_id.filter(|&at| signals[at].store.store.shows(signal)));
        }
        read.push(found);
    }
    Arc::new(move |subgraph| {
        for &at in read.get(subgraph).into_iter().flatten() {
            let open = &signals[at];
            open.store.store.signal_at(&open.snapshot)?;
        }
        Ok(())
    })
}

/// Options that client and workers must share: a single worker would divide into other tasks.
pub(super) fn as_on_cluster(settings: &mut RunOptions<'_>) {
    settings.workers = settings.workers.max(2);
    settings.auto_workers = false;
    settings.pin = false;
}
