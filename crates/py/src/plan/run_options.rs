//! Run options, as Python passes them.

use std::path::PathBuf;

use isochrony_flow::{FunctionPlace, GivenSettings, RunError, RunOptions, Tuning, TuningMode};
use isochrony_store::{StoreError, Strategy};
use isochrony_tune::{Configuration, TuneError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::control::NativeControl;
use crate::errors::Result;

/// `isochrony.running.options.RunOptions`.
#[derive(Default)]
pub(crate) struct PythonRunOptions {
    /// References are set by the run.
    pub(super) settings: RunOptions<'static>,
    pub(super) control: Option<Py<NativeControl>>,
    /// `isochrony.cluster.ClusterRun`.
    pub(super) cluster: Option<Py<PyAny>>,
    pub(super) tuning: Option<TuningRequest>,
}

/// `isochrony.tuning.TuningRequest`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TuningRequest {
    mode: String,
    has_fixed_workers: bool,
    configuration: Option<Configuration>,
    status: Option<PathBuf>,
    #[serde(default)]
    pin: Option<bool>,
    #[serde(default)]
    io: Option<Vec<String>>,
    #[serde(default)]
    cuts: Option<Vec<usize>>,
    #[serde(default)]
    places: Option<Vec<String>>,
}

pub(crate) fn tuning_mode(request: &str) -> PyResult<TuningMode> {
    let request = serde_json::from_str::<TuningRequest>(request);
    let request = request.map_err(|error| PyTypeError::new_err(error.to_string()))?;
    Ok(request.mode())
}

impl TuningRequest {
    fn mode(&self) -> TuningMode {
        match (&*self.mode, &self.configuration) {
            ("change", Some(start)) => TuningMode::ChangeFrom(start.clone()),
            (_, Some(configuration)) => TuningMode::Apply(configuration.clone()),
            ("change", None) => TuningMode::Change,
            ("recommend", None) => TuningMode::Recommend,
            _ => TuningMode::Measure,
        }
    }

    pub(super) fn tuning(&self) -> Result<Tuning> {
        let strategies = self.io.as_ref().map(|names| {
            let strategies = names.iter().map(|name| Strategy::parse(name));
            strategies.collect::<std::result::Result<Vec<_>, _>>()
        });
        let given = GivenSettings {
            pin: self.pin,
            io: strategies.transpose().map_err(StoreError::from)?,
            cuts: self.cuts.clone(),
            places: self.places.as_deref().map(places).transpose()?,
        };
        let tuning = Tuning::new(self.mode(), self.has_fixed_workers).with_settings(given);
        Ok(match &self.status {
            None => tuning,
            Some(path) => tuning.with_status(path.clone()),
        })
    }
}

fn places(names: &[String]) -> Result<Vec<FunctionPlace>> {
    let place = |(at, name): (usize, &String)| {
        let found = FunctionPlace::parse(name).filter(|&place| place != FunctionPlace::Any);
        found.ok_or_else(|| {
            RunError::from(TuneError::Parameter {
                parameter: format!("places[{at}]"),
                got: format!("{name:?}"),
                allowed: "\"auto\", \"threads\", \"processes\" or \"inline\"".into(),
            })
        })
    };
    let places: std::result::Result<_, RunError> = names.iter().enumerate().map(place).collect();
    Ok(places?)
}

impl<'py> FromPyObject<'_, 'py> for PythonRunOptions {
    type Error = PyErr;

    /// By name, so new settings need no code here.
    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let settings = options.getattr("settings")?.cast_into::<PyDict>()?;
        Ok(Self {
            settings: RunOptions::deserialize(setting(settings.as_any())?)
                .map_err(|error| PyTypeError::new_err(error.to_string()))?,
            control: options.getattr("control")?.extract()?,
            cluster: options.getattr("cluster")?.extract()?,
            tuning: options
                .getattr("tuning")?
                .extract::<Option<String>>()?
                .map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(|error| PyTypeError::new_err(error.to_string()))?,
        })
    }
}

/// Numbers, flags, and tables of them.
fn setting(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(table) = value.cast::<PyDict>() {
        let entries = table
            .iter()
            .map(|(name, value)| Ok((name.extract()?, setting(&value)?)));
        return Ok(Value::Object(entries.collect::<PyResult<Map<_, _>>>()?));
    }
    Ok(if let Ok(flag) = value.extract::<bool>() {
        json!(flag)
    } else if let Ok(number) = value.extract::<u64>() {
        json!(number)
    } else if let Ok(number) = value.extract::<f64>() {
        json!(number)
    } else {
        json!(value.extract::<String>()?)
    })
}

/// The initial options of a run, defaults included, as JSON; `control`: whether it has one.
#[pyfunction(name = "_effective_options")]
pub(crate) fn effective_options(options: PythonRunOptions) -> Result<String> {
    let settings = serde_json::to_value(options.settings);
    let mut settings = settings.map_err(|error| PyValueError::new_err(error.to_string()))?;
    settings["control"] = options.control.is_some().into();
    Ok(settings.to_string())
}
