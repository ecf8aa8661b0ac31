//! [`TuningSession`]: tunes one run by [`TuningMode`] and reports.
//!
//! No clock or thread. Plans pass measured [`Window`]s to [`TuningSession::observe`]; for anything else with counters,
//! [`PolledTuning`] makes the windows.

mod polled;

pub use polled::{MAX_WINDOW_S, MIN_RESULTS, MIN_WINDOW_S, PolledTuning, RunCounters};

use serde::{Deserialize, Serialize};

use crate::controller::{Bottleneck, ModelCheck};
use crate::{
    Configuration, ConfigurationLimits, Controller, ControllerOptions, Decision, PlaceDecision,
    StartSettings, TuneError, Window,
};

/// How a run is tuned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningMode {
    /// Changes the configuration where trials show a gain.
    Change,
    /// The same, from this configuration.
    ChangeFrom(Configuration),
    /// Changes nothing; reports the model's recommendation.
    Recommend,
    /// Changes nothing; only measures.
    Measure,
    /// Applies a configuration, then changes nothing.
    Apply(Configuration),
}

impl TuningMode {
    /// The configuration at the start; None: the run's own.
    #[must_use]
    pub fn start(&self) -> Option<&Configuration> {
        match self {
            Self::ChangeFrom(configuration) | Self::Apply(configuration) => Some(configuration),
            Self::Change | Self::Recommend | Self::Measure => None,
        }
    }

    /// The mode for a run with the configuration `own`, as [`Configuration::fitted_to`].
    #[must_use]
    pub fn fitted_to(&self, own: &Configuration, limits: &ConfigurationLimits) -> Self {
        match self {
            Self::ChangeFrom(start) => Self::ChangeFrom(start.fitted_to(own, limits)),
            Self::Apply(start) => Self::Apply(start.fitted_to(own, limits)),
            Self::Change | Self::Recommend | Self::Measure => self.clone(),
        }
    }

    /// Whether configurations are tried or recommended.
    fn chooses(&self) -> bool {
        match self {
            Self::Change | Self::ChangeFrom(_) | Self::Recommend => true,
            Self::Measure | Self::Apply(_) => false,
        }
    }
}

/// What a tuning found and did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct TuningReport {
    /// Last or recommended; None if one thread executed the plan.
    pub configuration: Option<Configuration>,
    /// Chosen before the start, or recommended.
    pub start: StartSettings,
    /// How the places of functions were decided before the start, in plan order.
    pub places: Vec<PlaceDecision>,
    /// What is recommended about cuts, task size and messages to slots, or why nothing can be said about them.
    pub advice: Vec<String>,
    /// Predicted gain of the recommendation, as a share.
    pub predicted_gain: Option<f64>,
    /// What limited the plan at the end.
    pub bottleneck: Option<Bottleneck>,
    /// Samples per second in the last windows.
    pub rate: f64,
    /// Samples per second predicted from their costs.
    pub predicted_rate: Option<f64>,
    /// What chose the candidates, and why; None before the first window, and where nothing chooses any.
    pub model: Option<ModelCheck>,
    /// Windows observed.
    pub windows: usize,
    /// The newest decisions, in order.
    pub decisions: Vec<Decision>,
}

/// Tunes one run.
pub struct TuningSession {
    mode: TuningMode,
    controller: Controller,
    report: TuningReport,
}

impl TuningSession {
    /// Begins with the mode's configuration, else with `own`, the configuration of the run if it is not tuned.
    ///
    /// # Errors
    /// [`TuneError::OtherPlan`], or [`TuneError::Parameter`] for the configuration or the options.
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
        let start = start.unwrap_or_else(|| own.clone());
        let controller = Controller::new(start, limits, options)?.with_default(own);
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

    /// Takes a window under [`configuration`](Self::configuration) and returns the configuration for the next one.
    /// `remaining_s`: seconds left at the present rate; None if unknown.
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
        report.model = (self.mode.chooses()).then(|| self.controller.model_check());
        let decisions = self.controller.decisions();
        // Most windows bring none, and each has several configurations.
        if decisions.last() != report.decisions.last() {
            report.decisions = decisions.to_vec();
        }
        report.configuration = Some(self.controller.kept().clone());
        if self.mode == TuningMode::Recommend
            && let Some((best, gain)) = self.controller.recommendation()
        {
            report.configuration = Some(best);
            report.predicted_gain = Some(gain);
        }
        self.configuration()
    }

    /// A cluster has this many slots now, of which at least `min_used` are used. Call before
    /// [`observe`](Self::observe).
    pub fn set_slots(&mut self, slots: usize, min_used: usize) {
        self.controller.set_slots(slots, min_used);
        self.report.configuration = Some(self.controller.kept().clone());
    }

    /// Most slots of a cluster that are worth having; None: all.
    #[must_use]
    pub fn enough_slots(&self) -> Option<usize> {
        match &self.mode {
            TuningMode::Apply(_) => self.controller.used_slots(),
            _ => self.controller.enough_slots(),
        }
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> &TuningReport {
        &self.report
    }
}
