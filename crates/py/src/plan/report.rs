//! The report of a run, with the fields of `isochrony/running/report.py`.

use isochrony_flow::{
    BranchReport, ChangeReport, LinkReport, PlanWorkerReport, ProcessReport, Report,
    StageMeasurement, StageReport, TuningReport,
};
use pyo3::prelude::*;

/// A report, converted on request: most callers of `collect` ignore it.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeReport(Report);

impl From<Report> for NativeReport {
    fn from(report: Report) -> Self {
        Self(report)
    }
}

#[pymethods]
impl NativeReport {
    /// Why the result is empty.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }

    /// The fields of `isochrony.running.report.Report`.
    fn fields(&self) -> ReportFields {
        (&self.0).into()
    }
}

/// `isochrony.running.report.Report`.
#[derive(IntoPyObject)]
struct ReportFields {
    operators: Vec<OperatorFields>,
    reads: Vec<String>,
    workers: Vec<WorkerFields>,
    tasks: Vec<TaskFields>,
    stages: Vec<StageFields>,
    links: Vec<LinkFields>,
    threads: Vec<ThreadFields>,
    changes: Vec<ChangeFields>,
    branches: Vec<BranchFields>,
    pinned_cpus: Vec<Option<usize>>,
    places: Vec<String>,
    processes: Vec<ProcessFields>,
    /// As JSON.
    tuning: Option<String>,
    notes: Vec<String>,
    bursts: u64,
    elapsed_s: f64,
    peak_bytes: u64,
    engine_share: Option<f64>,
    /// Count, median, 99th percentile and maximum.
    latency: Option<(u64, f64, f64, f64)>,
    #[pyo3(item("_text"))]
    text: String,
}

/// `isochrony.running.report.OperatorReport`.
#[derive(IntoPyObject)]
struct OperatorFields {
    name: &'static str,
    items: u64,
    samples: u64,
    gaps: u64,
    skipped: u64,
    useful_s: f64,
    threads: usize,
}

/// `isochrony.running.report.WorkerReport`.
#[derive(IntoPyObject)]
struct WorkerFields {
    tasks: u64,
    samples: u64,
    busy_s: f64,
    host: Option<String>,
    sent_bytes: u64,
    received_bytes: u64,
    lost: bool,
    local_bytes: u64,
    peer_bytes: u64,
    storage_bytes: u64,
    cache_hits: u64,
}

/// `isochrony.running.report.TaskReport`.
#[derive(IntoPyObject)]
struct TaskFields {
    start: i64,
    end: i64,
    worker: usize,
    elapsed_s: f64,
}

/// `isochrony.running.report.StageReport`.
#[derive(IntoPyObject)]
struct StageFields {
    number: usize,
    replica: Option<usize>,
    operators: Vec<usize>,
    items: u64,
    bytes: u64,
    cpu_s: f64,
    busy_s: f64,
    input_wait_s: f64,
    output_wait_s: f64,
    core_wait_s: f64,
}

/// `isochrony.running.report.LinkReport`.
#[derive(IntoPyObject)]
struct LinkFields {
    stages: (usize, usize),
    bytes: u64,
    capacity: u64,
    gain: f64,
    occupancy: Vec<u64>,
    mean_occupancy: f64,
}

impl From<&StageReport> for StageFields {
    fn from(stage: &StageReport) -> Self {
        Self {
            number: stage.number,
            replica: stage.replica,
            operators: stage.operators.clone(),
            items: stage.items,
            bytes: stage.bytes,
            cpu_s: stage.cpu.as_secs_f64(),
            busy_s: stage.time.busy.as_secs_f64(),
            input_wait_s: stage.time.input.as_secs_f64(),
            output_wait_s: stage.time.output.as_secs_f64(),
            core_wait_s: stage.time.core.as_secs_f64(),
        }
    }
}

impl From<&LinkReport> for LinkFields {
    fn from(link: &LinkReport) -> Self {
        Self {
            stages: (link.from, link.to),
            bytes: link.bytes,
            capacity: link.capacity,
            gain: link.gain,
            occupancy: link.occupancy.to_vec(),
            mean_occupancy: link.mean_occupancy(),
        }
    }
}

/// `isochrony.running.report.Measurement`.
#[derive(IntoPyObject)]
pub(super) struct MeasurementFields {
    elapsed_s: f64,
    stages: Vec<StageFields>,
    links: Vec<LinkFields>,
}

impl From<&StageMeasurement> for MeasurementFields {
    fn from(measured: &StageMeasurement) -> Self {
        Self {
            elapsed_s: measured.elapsed.as_secs_f64(),
            stages: measured.stages.iter().map(StageFields::from).collect(),
            links: measured.links.iter().map(LinkFields::from).collect(),
        }
    }
}

/// `isochrony.tuning.TuningReport`, with decisions and bottleneck as text.
pub(crate) fn tuning_json(tuning: &TuningReport) -> String {
    let places = tuning.places.iter().map(ToString::to_string);
    let decisions = tuning.decisions.iter().map(ToString::to_string);
    serde_json::json!({
        "tuning": tuning,
        "places": places.collect::<Vec<_>>(),
        "decisions": decisions.collect::<Vec<_>>(),
        "bottleneck": tuning.bottleneck.map(|bottleneck| bottleneck.to_string()),
        "model": tuning.model.map(|model| model.name()),
        "model_reason": tuning.model.map(|model| model.to_string()),
    })
    .to_string()
}

/// `isochrony.running.report.ChangeReport`, with parameters as JSON.
#[derive(IntoPyObject)]
struct ChangeFields {
    operator: &'static str,
    node: usize,
    parameters: String,
    at: Option<i64>,
}

impl From<&ChangeReport> for ChangeFields {
    fn from(change: &ChangeReport) -> Self {
        Self {
            operator: change.operator,
            node: change.node,
            parameters: serde_json::Value::Object(change.params.clone()).to_string(),
            at: change.from,
        }
    }
}

/// `isochrony.running.report.BranchReport`.
#[derive(IntoPyObject)]
struct BranchFields {
    operator: &'static str,
    tap: &'static str,
    node: usize,
    at: Option<i64>,
    until: Option<i64>,
    items: u64,
}

impl From<&BranchReport> for BranchFields {
    fn from(branch: &BranchReport) -> Self {
        Self {
            operator: branch.operator,
            tap: branch.tap,
            node: branch.node,
            at: branch.from,
            until: branch.upto,
            items: branch.items,
        }
    }
}

/// `isochrony.running.report.ThreadReport`.
#[derive(IntoPyObject)]
struct ThreadFields {
    cpu_s: Option<f64>,
    involuntary_switches: Option<u64>,
    elapsed_s: f64,
}

/// `isochrony.running.report.ProcessReport`.
#[derive(IntoPyObject)]
pub(crate) struct ProcessFields {
    worker: Option<usize>,
    pid: u32,
    blocks: u64,
    busy_s: f64,
    ended: Option<String>,
}

impl From<&ProcessReport> for ProcessFields {
    fn from(process: &ProcessReport) -> Self {
        Self {
            worker: process.worker,
            pid: process.pid,
            blocks: process.blocks,
            busy_s: process.busy.as_secs_f64(),
            ended: process.ended.clone(),
        }
    }
}

impl From<&Report> for ReportFields {
    fn from(report: &Report) -> Self {
        let operators = report.operators.iter().map(|operator| OperatorFields {
            name: operator.name,
            items: operator.items,
            samples: operator.samples,
            gaps: operator.gaps,
            skipped: operator.skipped,
            useful_s: operator.useful.as_secs_f64(),
            threads: operator.threads,
        });
        let cache = |worker: &PlanWorkerReport| worker.cache.unwrap_or_default();
        let workers = report.workers.iter().map(|worker| WorkerFields {
            tasks: worker.work.items,
            samples: worker.samples,
            busy_s: worker.work.busy.as_secs_f64(),
            host: worker.host.clone(),
            sent_bytes: worker.sent_bytes,
            received_bytes: worker.received_bytes,
            lost: worker.lost,
            local_bytes: cache(worker).local_bytes,
            peer_bytes: cache(worker).peer_bytes,
            storage_bytes: cache(worker).storage_bytes,
            cache_hits: cache(worker).hits,
        });
        let tasks = report.tasks.iter().map(|task| TaskFields {
            start: task.range.start,
            end: task.range.end,
            worker: task.worker,
            elapsed_s: task.elapsed.as_secs_f64(),
        });
        let threads = report.threads.iter().map(|thread| ThreadFields {
            cpu_s: thread.cpu.map(|cpu| cpu.as_secs_f64()),
            involuntary_switches: thread.involuntary_switches,
            elapsed_s: thread.elapsed.as_secs_f64(),
        });
        Self {
            operators: operators.collect(),
            reads: report.reads.iter().map(ToString::to_string).collect(),
            workers: workers.collect(),
            tasks: tasks.collect(),
            stages: report.stages.iter().map(StageFields::from).collect(),
            links: report.links.iter().map(LinkFields::from).collect(),
            threads: threads.collect(),
            changes: report.changes.iter().map(ChangeFields::from).collect(),
            branches: report.branches.iter().map(BranchFields::from).collect(),
            pinned_cpus: report.pinned_cpus.clone(),
            places: report.places.clone(),
            processes: report.processes.iter().map(ProcessFields::from).collect(),
            tuning: report.tuning.as_ref().map(tuning_json),
            notes: report.notes.clone(),
            bursts: report.bursts,
            elapsed_s: report.elapsed.as_secs_f64(),
            peak_bytes: report.peak_bytes,
            engine_share: report.engine_share(),
            latency: report.latency.map(|latency| {
                let [median, p99, max] =
                    [latency.median, latency.p99, latency.max].map(|time| time.as_secs_f64());
                (latency.count, median, p99, max)
            }),
            text: report.to_string(),
        }
    }
}
