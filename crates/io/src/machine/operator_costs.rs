//! Measured operator costs of this machine, and the accuracy of predictions. A JSON file beside the machine's profile.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::profile::{Machine, Profile, replace_file};
use super::quartiles::Quartiles;
use crate::error::{ErrorContext, IoError};

const FORMAT: u32 = 1;
const FILE: &str = "operators.json";
const MAX_PREDICTIONS: usize = 200;

/// Measured costs of operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorCosts {
    /// Format version: 1.
    pub format: u32,
    /// The measured machine.
    pub machine: Machine,
    /// By operator.
    pub operators: Vec<MeasuredOperator>,
    /// Checked predictions, oldest first.
    pub predictions: Vec<CheckedPrediction>,
}

/// Cost of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredOperator {
    /// Operator, parameters and input types.
    pub key: String,
    /// Seconds per input sample; for rows and ranges, per source sample.
    pub seconds_per_sample: Quartiles,
}

/// A predicted and a measured throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CheckedPrediction {
    /// Samples per second.
    pub predicted: f64,
    /// Samples per second.
    pub measured: f64,
}

impl OperatorCosts {
    /// Without measurements.
    #[must_use]
    pub fn none() -> Self {
        Self {
            format: FORMAT,
            machine: Machine::here(),
            operators: Vec::new(),
            predictions: Vec::new(),
        }
    }

    /// Path beside the machine's profile, if any.
    #[must_use]
    pub fn path() -> Option<PathBuf> {
        Some(Profile::path()?.with_file_name(FILE))
    }

    /// The file's content if of this machine; else empty.
    ///
    /// # Errors
    /// [`IoError::BadProfile`], or a system error.
    pub fn load(path: &Path) -> Result<Self, IoError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::none()),
            Err(error) => return Err(error).with_path("read", path),
        };
        let bad = |reason: String| IoError::BadProfile {
            path: path.to_owned(),
            reason,
        };
        let costs: Self = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        if costs.format != FORMAT {
            return Err(bad(format!("its format is {}, not {FORMAT}", costs.format)));
        }
        match costs.machine.is_like(&Machine::here()) {
            true => Ok(costs),
            false => Ok(Self::none()),
        }
    }

    /// Replaces the file atomically; creates its folders.
    ///
    /// # Errors
    /// A system error.
    pub fn save(&self, path: &Path) -> Result<(), IoError> {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        replace_file(path, &text)
    }

    /// The cost of an operator, if measured.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<Quartiles> {
        let mut all = self.operators.iter();
        Some(all.find(|one| one.key == key)?.seconds_per_sample)
    }

    /// Adds or replaces the cost of an operator.
    pub fn note(&mut self, measured: MeasuredOperator) {
        self.operators.retain(|one| one.key != measured.key);
        self.operators.push(measured);
    }

    /// Adds the result of a prediction.
    pub fn check(&mut self, prediction: CheckedPrediction) {
        self.predictions.push(prediction);
        let surplus = self.predictions.len().saturating_sub(MAX_PREDICTIONS);
        self.predictions.drain(..surplus);
    }

    /// Relative absolute error of the predictions.
    #[must_use]
    pub fn prediction_error(&self) -> Option<Quartiles> {
        let errors = self.predictions.iter();
        Quartiles::of(
            errors
                .map(|one| (one.predicted / one.measured - 1.0).abs())
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(key: &str, seconds: f64) -> MeasuredOperator {
        MeasuredOperator {
            key: key.into(),
            seconds_per_sample: Quartiles::exact(seconds),
        }
    }

    #[test]
    fn costs_are_read_back_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/operators.json");
        assert_eq!(OperatorCosts::load(&path).unwrap(), OperatorCosts::none());
        let mut costs = OperatorCosts::none();
        costs.note(measured("power", 1e-9));
        costs.note(measured("iir", 3e-9));
        costs.note(measured("power", 2e-9));
        assert_eq!(costs.of("power"), Some(Quartiles::exact(2e-9)));
        assert_eq!(costs.of("fir"), None);
        assert_eq!(costs.prediction_error(), None);
        for (predicted, measured) in [(110.0, 100.0), (100.0, 100.0), (80.0, 100.0)] {
            costs.check(CheckedPrediction {
                predicted,
                measured,
            });
        }
        assert!((costs.prediction_error().unwrap().median - 0.1).abs() < 1e-12);
        costs.save(&path).unwrap();
        assert_eq!(OperatorCosts::load(&path).unwrap(), costs);
    }

    #[test]
    fn costs_of_another_machine_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operators.json");
        let mut costs = OperatorCosts::none();
        costs.note(measured("power", 1e-9));
        costs.machine.cpu = "an abacus".into();
        costs.save(&path).unwrap();
        assert_eq!(OperatorCosts::load(&path).unwrap(), OperatorCosts::none());
    }

    #[test]
    fn broken_files_are_errors_with_their_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operators.json");
        for text in ["{", "{\"format\": 1}"] {
            std::fs::write(&path, text).unwrap();
            let error = OperatorCosts::load(&path).unwrap_err().to_string();
            assert!(error.contains("operators.json"), "{error}");
        }
    }
}
