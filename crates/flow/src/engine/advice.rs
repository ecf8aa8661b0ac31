//! [`Advice`]: what a run with `TuningMode::Recommend` says about cuts, task size and messages to slots, which it
//! does not change.

use isochrony_tune::TuningReport;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Advice {
    /// The recommendation, or why there is none.
    pub(crate) text: String,
    pub(crate) change: Option<AdvisedChange>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdvisedChange {
    pub(crate) value: AdvisedValue,
    /// Predicted, as a share of the throughput.
    pub(crate) gain: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AdvisedValue {
    /// Stage of each operator.
    Cuts(Vec<usize>),
    TaskBytes(u64),
    BatchTasks(usize),
}

impl Advice {
    pub(crate) fn none(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            change: None,
        }
    }

    /// Adds it to the recommended configuration.
    pub(crate) fn add_to(self, report: &mut TuningReport) {
        report.advice.push(self.text);
        let Some((change, configuration)) = self.change.zip(report.configuration.as_mut()) else {
            return;
        };
        let mut other_gain = report.predicted_gain.unwrap_or(0.0);
        match change.value {
            AdvisedValue::Cuts(cuts) => {
                report.start.cuts = cuts;
                // Those of the run, and what they gain, are for other stages.
                configuration.replicas.clear();
                configuration.link_bytes.clear();
                other_gain = 0.0;
            }
            AdvisedValue::TaskBytes(bytes) => configuration.task_bytes = bytes,
            AdvisedValue::BatchTasks(tasks) => configuration.batch_tasks = tasks,
        }
        let gain = (1.0 + other_gain) * (1.0 + change.gain) - 1.0;
        report.predicted_gain = Some(gain);
    }
}
