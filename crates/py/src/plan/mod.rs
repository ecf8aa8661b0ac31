//! Plans: the native half of `isochrony.plan`.
//!
//! Operators are added by name and parameters, so new ones need no code here. Runs use the calling thread
//! ([`running`]).

use isochrony_flow::{
    BatchEncoder, CharacteriseOptions, Plan, PortType, SEGMENT_SAMPLES, Segments, SharedFactory,
    SharedRecording, StoredRecording,
};
use isochrony_segment::{Calibration, SigSeg, Stream};
use isochrony_store::machine::{MeasuredOperator, OperatorCosts};
use isochrony_store::{StoreError, Strategy};
use isochrony_time::TimebaseId;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use crate::declarations::catalog;
use crate::errors::{PackageError, Result};
use crate::interpreter::detach;
use crate::memory;
use crate::signal::Signal;
use crate::signal::selection::Selection;
use crate::store::Store;
use crate::time::{RateArg, TimeArg};

mod class_operator;
mod cluster;
mod columns;
mod control;
mod driven_feed;
mod follow;
mod function;
mod generate;
mod host;
mod imports;
mod jit;
mod json_text;
mod listen;
mod nesting;
mod operator_error;
mod owner;
mod pickled_exceptions;
mod python_functions;
mod python_operator;
mod received_objects;
mod report;
mod results;
mod run;
pub(crate) mod run_context;
mod run_options;
mod running;
mod saved;
mod sent_plans;
mod signal_sinks;
mod table_file;
mod tracing;

pub(crate) use cluster::{_instruction_set, NativeTaskRunner, NativeTasks};
pub(crate) use control::NativeControl;
pub(crate) use driven_feed::NativePusher;
pub(crate) use follow::NativeFollowed;
pub(crate) use host::{NativeHostInbox, NativeHostRun};
use imports::{AllowedFunctions, Imports};
use json_text::parameters;
pub(crate) use listen::NativeListener;
pub(crate) use nesting::Nesting;
use owner::Owner;
pub(crate) use report::{NativeReport, ProcessFields, tuning_json};
pub(crate) use results::object;
pub(crate) use run_options::{effective_options, tuning_mode};

/// A plan of the engine; `isochrony.Plan` is the public class.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativePlan {
    plan: Plan,
    owner: Option<Py<Owner>>,
}

impl From<Plan> for NativePlan {
    fn from(plan: Plan) -> Self {
        Self { plan, owner: None }
    }
}

impl NativePlan {
    fn owned(plan: Plan, owner: Option<Py<Owner>>) -> Self {
        Self { plan, owner }
    }

    fn of_inputs(
        &self,
        py: Python<'_>,
        plan: Plan,
        others: &[PyRef<'_, Self>],
        kept: &owner::ObjectKeeper,
    ) -> Result<Self> {
        let others = others.iter().filter_map(|other| other.owner.as_ref());
        let owner = kept.owner(py, self.owner.iter().chain(others))?;
        Ok(Self { plan, owner })
    }

    fn then_factory(&self, py: Python<'_>, factory: SharedFactory) -> Result<Self> {
        let plan = self.plan.apply_factory(factory, &[])?;
        self.of_inputs(py, plan, &[], &owner::ObjectKeeper::default())
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn apply(
        &self,
        py: Python<'_>,
        name: &str,
        params: Map<String, Value>,
        others: &[PyRef<'_, Self>],
    ) -> Result<Self> {
        let plans = &self.all(others)[1..];
        let catalog = catalog();
        let plan = self.plan.apply(catalog.get(name)?, params, plans)?;
        self.of_inputs(py, plan, others, &owner::ObjectKeeper::default())
    }

    fn all(&self, others: &[PyRef<'_, Self>]) -> Vec<Plan> {
        let others = others.iter().map(|other| other.plan.clone());
        std::iter::once(self.plan.clone()).chain(others).collect()
    }

    fn owners<'a>(&'a self, others: &'a [PyRef<'_, Self>]) -> impl Iterator<Item = &'a Py<Owner>> {
        let others = others.iter().filter_map(|other| other.owner.as_ref());
        self.owner.iter().chain(others)
    }
}

#[pymethods]
impl NativePlan {
    /// Reads a signal or a selection, optionally on the clock of another signal.
    #[staticmethod]
    #[pyo3(signature = (source, segment=None, clock=None, io=None))]
    fn scan(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        segment: Option<u64>,
        clock: Option<&Bound<'_, Signal>>,
        io: Option<&str>,
    ) -> Result<Self> {
        let mut stored = match source.cast::<Selection>() {
            Ok(selection) => {
                let selection = selection.get();
                StoredRecording::selection(selection.shared.store.path(), &selection.selection)
            }
            Err(_) => {
                let signal = source.cast::<Signal>().map_err(PyErr::from)?.get();
                StoredRecording::new(signal.follower.shared.store.path(), signal.get(py)?)
            }
        };
        if let Some(other) = clock {
            stored = stored.with_clock_of(&other.get().get(py)?)?;
        }
        if let Some(io) = io {
            stored = stored.io(Strategy::parse(io).map_err(StoreError::from)?);
        }
        let segment = segment.unwrap_or(SEGMENT_SAMPLES);
        Ok(Plan::scan_part(SharedRecording::new(stored), None, segment).into())
    }

    /// Reads an array, without a copy if contiguous. Its first sample has index 0 and a civil time, or an index of a
    /// signal on the same clock.
    #[staticmethod]
    #[pyo3(signature = (array, rate, unit, segment=None, start=None, clock=None, index=0))]
    #[allow(clippy::too_many_arguments)] // Called by `isochrony.scan` alone.
    fn array(
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        rate: RateArg,
        unit: &str,
        segment: Option<u64>,
        start: Option<TimeArg>,
        clock: Option<&Bound<'_, Signal>>,
        index: i64,
    ) -> Result<Self> {
        let (buffer, dtype) = memory::adopt(array, false)?;
        let clock = clock.map(|clock| clock.get().get(py)).transpose()?;
        let start = start.map(|start| start.0.value);
        let timebase = match (&clock, start) {
            (Some(clock), _) => clock.timebase(),
            // Arrays with the same start share a grid.
            (None, Some(start)) => TimebaseId::grid(start, rate.0)?,
            (None, None) => TimebaseId::CIVIL,
        };
        let stream = Stream::new("array", timebase, rate.0)
            .with_calibration(Calibration::identity(unit))
            .intern();
        let samples = SigSeg::new(buffer, index, dtype, stream)?;
        let recording = Segments::new([samples]).map(|segments| match (&clock, start) {
            (Some(clock), _) => segments.with_clock_of(clock),
            (None, Some(start)) => segments.starting(start),
            (None, None) => segments,
        });
        let Some(recording) = recording else {
            return Err(PackageError::new(
                "PlanError",
                "input_type",
                "the array cannot be scanned; give a 1-D array".to_owned(),
            )
            .into());
        };
        let segment = segment.unwrap_or(SEGMENT_SAMPLES);
        Ok(Plan::scan_part(SharedRecording::new(recording), None, segment).into())
    }

    /// Adds an operator by name; `params` is a JSON object.
    #[pyo3(signature = (name, params="{}", others=vec![]))]
    fn then(
        &self,
        py: Python<'_>,
        name: &str,
        params: &str,
        others: Vec<PyRef<'_, Self>>,
    ) -> Result<Self> {
        self.apply(py, name, parameters(name, params)?, &others)
    }

    /// Adds an operator whose parameter is a traced function of windows of this plan and others.
    #[pyo3(signature = (name, parameter, function, others=vec![], wrap=false))]
    fn traced(
        &self,
        name: &str,
        parameter: &str,
        function: &Bound<'_, PyAny>,
        others: Vec<PyRef<'_, Self>>,
        wrap: bool,
    ) -> Result<Self> {
        let expression = self.trace(name, function, 1 + others.len(), wrap)?;
        let mut params = Map::new();
        params.insert(parameter.to_owned(), json!(expression));
        self.apply(function.py(), name, params, &others)
    }

    /// Adds an operator by name; traced functions are added to its parameters, a JSON object, by name, as "fields".
    fn traced_fields(
        &self,
        name: &str,
        params: &str,
        fields: &Bound<'_, PyDict>,
        wrap: bool,
    ) -> Result<Self> {
        let mut all = Map::new();
        for (field, function) in fields {
            let field: String = field.extract()?;
            let expression = self.trace(&format!("{name}({field}=...)"), &function, 1, wrap)?;
            all.insert(field, json!(expression));
        }
        let mut params = parameters(name, params)?;
        params.insert("fields".to_owned(), Value::Object(all));
        self.apply(fields.py(), name, params, &[])
    }

    /// Description of the output.
    #[getter]
    fn port(&self) -> String {
        self.plan.port().to_string()
    }

    /// "samples", "frames", "ranges", "rows" or "count".
    #[getter]
    fn kind(&self) -> &'static str {
        self.plan.port().kind()
    }

    /// Samples between window starts; 1 without windows.
    #[getter]
    fn hop(&self) -> u64 {
        match self.plan.port() {
            PortType::Frames { hop, .. } => hop,
            _ => 1,
        }
    }

    /// Whether rows are spectra of complex samples; None if they are no spectra.
    #[getter]
    fn complex_spectra(&self) -> Option<bool> {
        self.plan.complex_spectra()
    }

    /// Frequencies in Hz of a row's values; None if rows are no spectra.
    #[getter]
    fn frequencies(&self) -> Option<Vec<f64>> {
        self.plan.frequencies()
    }

    /// The plan as written and as optimised, and what so many workers do.
    #[pyo3(signature = (workers=2))]
    fn explain(&self, py: Python<'_>, workers: usize) -> String {
        crate::interpreter::detach(py, || self.plan.explain_for(workers))
    }

    /// Measures the costs of single operators; returns JSON; `save` keeps them for predictions.
    fn characterise(
        &self,
        py: Python<'_>,
        samples: u64,
        repeats: usize,
        save: bool,
    ) -> Result<String> {
        let mut options = CharacteriseOptions::default();
        (options.samples, options.repeats) = (samples, repeats);
        let costs = crate::interpreter::detach(py, || self.plan.characterise(&options))?;
        if let Some(path) = OperatorCosts::path().filter(|_| save) {
            let mut known = OperatorCosts::load(&path).unwrap_or_else(|_| OperatorCosts::none());
            for cost in &costs {
                known.note(MeasuredOperator {
                    key: cost.key.clone(),
                    seconds_per_sample: cost.seconds_per_sample,
                });
            }
            known.save(&path).map_err(StoreError::from)?;
        }
        let costs = costs.iter().map(|cost| {
            serde_json::json!({
                "node": cost.node,
                "name": cost.name,
                "items": cost.items,
                "samples": cost.samples,
                "source_samples": cost.source_samples,
                "seconds_per_sample": cost.seconds_per_sample,
            })
        });
        Ok(serde_json::Value::Array(costs.collect()).to_string())
    }

    /// The plan as JSON text.
    fn to_json(&self) -> Result<String> {
        let saved = self.plan.to_json()?;
        Ok(format!("{saved:#}"))
    }

    /// Reads a plan from JSON text, over the stores that it names or an open one. It may import the Python functions in
    /// `functions`, as "module:name", or `all_functions`.
    #[staticmethod]
    #[pyo3(signature = (text, store=None, functions=Vec::new(), all_functions=false))]
    fn from_json(
        py: Python<'_>,
        text: &str,
        store: Option<&Bound<'_, Store>>,
        functions: Vec<String>,
        all_functions: bool,
    ) -> Result<Self> {
        let shared = store.map(|store| store.get().shared.clone());
        let allowed = if all_functions {
            AllowedFunctions::All
        } else if functions.is_empty() {
            AllowedFunctions::None
        } else {
            AllowedFunctions::Named(functions)
        };
        let imports = Imports::new(allowed);
        let plan = detach(py, || saved::read_plan(text, shared.as_ref(), &imports))?;
        Ok(Self::owned(plan, imports.kept.owner(py, [])?))
    }

    /// Type and number of a window's values for a function; 0 for samples without windows.
    fn row(&self, counts: bool) -> Option<(&'static str, usize)> {
        let (dtype, width) = function::seen(&self.plan.port(), counts)?;
        Some((dtype.name(), width))
    }

    /// Sample rate of the results in Hz, numerator and denominator, if any.
    #[getter]
    fn rate(&self) -> Option<(u64, u64)> {
        let rate = self.plan.port().stream()?.rate;
        Some((rate.num(), rate.den()))
    }

    /// Whether the results are calibrated counts.
    #[getter]
    fn gives_counts(&self) -> bool {
        BatchEncoder::gives_counts(&self.plan.port())
    }

    /// Names and types of row fields; None without rows.
    fn fields(&self) -> Option<Vec<(String, String, Option<usize>)>> {
        match self.plan.port() {
            PortType::Rows { fields, .. } => Some(columns::describe_fields(fields)),
            _ => None,
        }
    }

    /// Number of outputs of the last operator.
    #[getter]
    fn outputs(&self) -> usize {
        self.plan.outputs()
    }

    /// One of the last operator's outputs.
    fn output(&self, py: Python<'_>, output: u16) -> Result<Self> {
        let owner = self.owner.as_ref().map(|owner| owner.clone_ref(py));
        Ok(Self::owned(self.plan.output(output)?, owner))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.owner.iter().try_for_each(|owner| visit.call(owner))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.plan == other.plan
    }

    fn __str__(&self) -> String {
        self.plan.to_string()
    }

    fn __repr__(&self) -> String {
        format!("NativePlan({})", self.plan)
    }
}
