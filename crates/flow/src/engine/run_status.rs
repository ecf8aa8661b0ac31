//! [`RunStatus`]: writes the state of a tuned run to a file while it lasts, for `isochrony top`.

use std::path::Path;
use std::time::{Duration, Instant};

use isochrony_runtime::Progress;
use isochrony_tune::{Configuration, TuningReport, Window};
use serde_json::json;

/// The file with the state of a run; removed at the end.
pub(super) struct RunStatus<'a> {
    path: &'a Path,
    names: Vec<String>,
    begun: Instant,
    written: Option<Instant>,
}

const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// Last decisions in a status.
const STATUS_DECISIONS: usize = 5;

impl<'a> RunStatus<'a> {
    pub(super) fn new(path: &'a Path, names: Vec<String>, begun: Instant) -> Self {
        Self {
            path,
            names,
            begun,
            written: None,
        }
    }

    /// Writes the state, at most once in [`STATUS_INTERVAL`].
    pub(super) fn write(
        &mut self,
        window: &Window,
        report: &TuningReport,
        progress: &Progress,
        configuration: &Configuration,
        slots: Option<usize>,
    ) {
        if self
            .written
            .is_some_and(|at| at.elapsed() < STATUS_INTERVAL)
        {
            return;
        }
        self.written = Some(Instant::now());
        let text = json!({
            "format": 1,
            "pid": std::process::id(),
            "elapsed_s": self.begun.elapsed().as_secs_f64(),
            "done": progress.done(),
            "total": progress.total(),
            "names": self.names,
            "window": window,
            "configuration": configuration,
            "slots": slots,
            "bottleneck": report.bottleneck.map(|bottleneck| bottleneck.to_string()),
            "predicted_rate": report.predicted_rate,
            "model": report.model.map(|model| model.name()),
            "model_reason": report.model.map(|model| model.to_string()),
            "decisions": report.decisions.iter().rev().take(STATUS_DECISIONS).rev().map(ToString::to_string).collect::<Vec<_>>(),
        });
        let part = self.path.with_extension("part");
        // A full disk must not end the run.
        let written = std::fs::write(&part, text.to_string());
        let _unused = written.and_then(|()| std::fs::rename(&part, self.path));
    }
}

impl Drop for RunStatus<'_> {
    fn drop(&mut self) {
        let _unused = std::fs::remove_file(self.path);
    }
}
