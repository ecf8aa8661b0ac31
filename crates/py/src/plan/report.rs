//! What a run says of itself, as `isochrony.report` takes it.

use isochrony_flow::Report;

/// Per operator name, items, samples, gaps and useful seconds; how signals were read; per worker tasks, samples and busy
/// seconds; per task its first index, the one behind it, its worker and seconds; where Python functions
/// were called; per worker process its worker, number, blocks, busy seconds and end; bursts, seconds, bytes at most; as a table.
pub(super) type ReportParts = (
    Vec<(&'static str, u64, u64, u64, f64)>,
    Vec<String>,
    Vec<(u64, u64, f64)>,
    Vec<(i64, i64, usize, f64)>,
    Vec<String>,
    Vec<(Option<usize>, u32, u64, f64, Option<String>)>,
    u64,
    f64,
    u64,
    String,
);

/// A report in plain values.
pub(super) fn parts(report: &Report) -> ReportParts {
    let operators = report.operators.iter().map(|one| {
        let useful = one.useful.as_secs_f64();
        (one.name, one.items, one.samples, one.gaps, useful)
    });
    (
        operators.collect(),
        report.reads.iter().map(ToString::to_string).collect(),
        (report.workers.iter())
            .map(|one| (one.work.items, one.samples, one.work.busy.as_secs_f64()))
            .collect(),
        (report.tasks.iter())
            .map(|one| {
                (
                    one.range.start,
                    one.range.end,
                    one.worker,
                    one.elapsed.as_secs_f64(),
                )
            })
            .collect(),
        report.places.clone(),
        (report.processes.iter())
            .map(|one| {
                let busy = one.busy.as_secs_f64();
                (one.worker, one.pid, one.blocks, busy, one.ended.clone())
            })
            .collect(),
        report.bursts,
        report.elapsed.as_secs_f64(),
        report.peak_bytes,
        report.to_string(),
    )
}
