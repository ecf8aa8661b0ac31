//! [`TuningSession`]: the tuning of one run, from what the user asked for to the report.
//!
//! It holds a [`Controller`], lets it act as the [`TuningMode`] says, and keeps the [`TuningReport`]. Plans measure
//! [`Window`]s and pass them to [`TuningSession::observe`]. Whatever else can be polled while it runs has counters
//! instead: [`PolledTuning`] makes windows of them. Neither has a clock or a thread.

mod polled;

pub use polled::{MAX_WINDOW_S, MIN_RESULTS, MIN_WINDOW_S, PolledTuning, RunCounters};

use serde::{Deserialize, Serialize};

use crate::controller::Bottleneck;
use crate::{
    Configuration, ConfigurationLimits, Controller, ControllerOptions, Decision, TuneError, Window,
};

/// What a tuning does with a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningMode {
    /// Changes the configuration where trials show a gain.
    Change,
    /// The same, beginning with a configuration.
    ChangeFrom(Configuration),
    /// Changes nothing; the report has the configuration that the model recommends.
    Recommend,
    /// Changes nothing, and measures for who looks at the run from outside.
    Measure,
    /// Applies a configuration at the start, and changes nothing.
    Apply(Configuration),
}

impl TuningMode {
    /// The configuration that the run begins with; None: its own.
    #[must_use]
    pub fn start(&self) -> Option<&Configuration> {
        match self {
            Self::ChangeFrom(configuration) | Self::Apply(configuration) => Some(configuration),
            Self::Change | Self::Recommend | Self::Measure => None,
        }
    }
}

/// What a tuning found and did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct TuningReport {
    /// The configuration at the end, or the one that is recommended. None if the plan was executed by one thread.
    pub configuration: Option<Configuration>,
    /// Gain of the recommended configuration that the model predicts, as a part of the throughput.
    pub predicted_gain: Option<f64>,
    /// What limited the plan at the end.
    pub bottleneck: Option<Bottleneck>,
    /// Samples per second in the last windows.
    pub rate: f64,
    /// Samples per second that the model predicts of the last windows' costs.
    pub predicted_rate: Option<f64>,
    /// Windows in which the counters were read.
    pub windows: usize,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
}

/// Tunes one run. See the module's documentation.
pub struct TuningSession {
    mode: TuningMode,
    controller: Controller,
    report: TuningReport,
}

impl TuningSession {
    /// Begins with the mode's configuration, or else with `own`, which the run has by itself.
    ///
    /// # Errors
    /// [`TuneError::OtherPlan`], or [`TuneError::Parameter`] of the configuration or the options.
    pub fn new(
        mode: TuningMode,
        own: Configuration,
        limits: ConfigurationLimits,
        options: ControllerOptions,
    ) -> Result<Self, TuneError> {
        let start = mode.start().cloned();
        if let Some(start) = &start {
            limits.check(start, own.link_bytes.len())?;
        }
        let controller = Controller::new(start.unwrap_or(own), limits, options)?;
        let report = TuningReport {
            configuration: Some(controller.kept().clone()),
            ..TuningReport::default()
        };
        Ok(Self {
            mode,
            controller,
            report,
        })
    }

    /// The configuration for the next window.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        self.controller.configuration()
    }

    /// Takes what happened under [`configuration`](Self::configuration) since the last call, and returns the
    /// configuration for the next window. `remaining_s`: seconds that the rest of the run will take at the present rate;
    /// None if it is not known.
    pub fn observe(&mut self, window: &Window, remaining_s: Option<f64>) -> &Configuration {
        match self.mode {
            TuningMode::Change | TuningMode::ChangeFrom(_) => {
                self.controller.observe(window, remaining_s);
            }
            TuningMode::Recommend | TuningMode::Measure | TuningMode::Apply(_) => {
                self.controller.note(window);
            }
        }
        let report = &mut self.report;
        report.windows += 1;
        report.rate = window.rate();
        report.bottleneck = self.controller.bottleneck();
        report.predicted_rate = self.controller.predicted_rate();
        report.decisions = self.controller.decisions().to_vec();
        report.configuration = Some(self.controller.kept().clone());
        if self.mode == TuningMode::Recommend
            && let Some((best, gain)) = self.controller.recommendation()
        {
            report.configuration = Some(best);
            report.predicted_gain = Some(gain);
        }
        self.configuration()
    }

    /// What was found and done so far.
    #[must_use]
    pub fn report(&self) -> &TuningReport {
        &self.report
    }
}
