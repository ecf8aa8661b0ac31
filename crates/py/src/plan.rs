//! Plans: the native half of `isochrony.plan`.
//!
//! A [`NativePlan`] wraps a plan of the engine. Operators are added by their names and parameters, so that one new
//! operator needs no code here. Runs go in a thread of their own that never takes the interpreter's lock, while the
//! calling one looks for Ctrl-C and draws progress.

use std::sync::atomic::AtomicBool;

use isochrony_flow::{
    Catalog, Gathered, Live, MEMORY, Plan, PlanError, Progress, Report, RunOptions, SEGMENT,
    Segments, Stored,
};
use isochrony_segment::{BufferMut, Calibration, DType, SigSeg, Stream};
use isochrony_time::TimebaseId;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::errors::{Raised, Result};
use crate::expr::traced;
use crate::interrupt::watched;
use crate::memory;
use crate::selection::Selection;
use crate::signal::Signal;
use crate::store::Store;
use crate::table::NativeTable;
use crate::time::RateArg;

/// Per operator name, items, samples, gaps and useful seconds; bursts, seconds, bytes at most; as a table.
type ReportParts = (
    Vec<(&'static str, u64, u64, u64, f64)>,
    u64,
    f64,
    u64,
    String,
);

/// A plan of the engine; `isochrony.Plan` is the one for people.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativePlan {
    plan: Plan,
}

impl From<Plan> for NativePlan {
    fn from(plan: Plan) -> Self {
        Self { plan }
    }
}

/// A JSON object from text that Python wrote.
fn parse(text: &str) -> Result<Value> {
    Ok(
        serde_json::from_str(text).map_err(|why| PlanError::Unreadable {
            why: format!("no JSON: {why}"),
        })?,
    )
}

fn parameters(operator: &str, text: &str) -> Result<Map<String, Value>> {
    match parse(text)? {
        Value::Object(map) => Ok(map),
        _ => Err(Raised::new(
            "PlanError",
            "parameter",
            format!("parameters of {operator} are no object; give them by name"),
        )
        .into()),
    }
}

impl NativePlan {
    fn apply(&self, name: &str, params: Map<String, Value>, others: &[Plan]) -> Result<Self> {
        let catalog = Catalog::standard();
        Ok(self.plan.apply(catalog.get(name)?, params, others)?.into())
    }

    /// Runs a plan under the options of Python.
    fn execute<T: Send>(
        &self,
        py: Python<'_>,
        memory: Option<u64>,
        optimise: bool,
        progress: Option<&Py<PyAny>>,
        run: impl FnOnce(&Plan, &RunOptions<'_>) -> std::result::Result<T, isochrony_flow::RunError>
        + Send,
    ) -> Result<T> {
        let (stop, state) = (AtomicBool::new(false), Progress::default());
        let work = || {
            let mut options = RunOptions::default();
            options.memory = memory.unwrap_or(MEMORY);
            options.optimise = optimise;
            options.interrupt = Some(&stop);
            options.progress = Some(&state);
            Ok(run(&self.plan, &options)?)
        };
        watched(py, &stop, work, |py| match progress {
            Some(progress) => progress.call1(py, (state.done(), state.total())).map(drop),
            None => Ok(()),
        })
    }
}

#[pymethods]
impl NativePlan {
    /// Reads a signal or a selection.
    #[staticmethod]
    #[pyo3(signature = (source, segment=None))]
    fn scan(py: Python<'_>, source: &Bound<'_, PyAny>, segment: Option<u64>) -> Result<Self> {
        let stored = match source.cast::<Selection>() {
            Ok(selection) => {
                let selection = selection.get();
                Stored::selection(selection.shared.store.path(), &selection.selection)
            }
            Err(_) => {
                let signal = source.cast::<Signal>().map_err(PyErr::from)?.get();
                Stored::new(signal.follower.shared.store.path(), signal.get(py)?)
            }
        };
        let segment = segment.unwrap_or(SEGMENT);
        Ok(Plan::scan_part(Live::new(stored), None, segment).into())
    }

    /// Reads an array, without a copy where it is contiguous.
    #[staticmethod]
    #[pyo3(signature = (array, rate, unit, segment=None))]
    fn array(
        array: &Bound<'_, PyAny>,
        rate: RateArg,
        unit: &str,
        segment: Option<u64>,
    ) -> Result<Self> {
        let (buffer, dtype) = memory::adopt(array, false)?;
        let stream = Stream::new("array", TimebaseId(0), rate.0)
            .with_calibration(Calibration::identity(unit))
            .intern();
        let samples = SigSeg::new(buffer, 0, dtype, stream)?;
        let Some(recording) = Segments::new([samples]) else {
            return Err(Raised::new(
                "PlanError",
                "input_type",
                "the array cannot be scanned; give a 1-D array".to_owned(),
            )
            .into());
        };
        let segment = segment.unwrap_or(SEGMENT);
        Ok(Plan::scan_part(Live::new(recording), None, segment).into())
    }

    /// Adds an operator by its name; `params` is a JSON object.
    #[pyo3(signature = (name, params="{}", others=vec![]))]
    fn then(&self, name: &str, params: &str, others: Vec<PyRef<'_, Self>>) -> Result<Self> {
        let others: Vec<Plan> = others.iter().map(|other| other.plan.clone()).collect();
        self.apply(name, parameters(name, params)?, &others)
    }

    /// Adds an operator whose one parameter is a traced function.
    fn traced(&self, name: &str, parameter: &str, function: &Bound<'_, PyAny>) -> Result<Self> {
        let expression = traced(name, function)?;
        let mut params = Map::new();
        params.insert(parameter.to_owned(), json!(expression));
        self.apply(name, params, &[])
    }

    /// What comes out, in words.
    #[getter]
    fn port(&self) -> String {
        self.plan.port().to_string()
    }

    /// "samples", "frames", "ranges", "rows" or "count".
    #[getter]
    fn kind(&self) -> &'static str {
        self.plan.port().kind()
    }

    /// The plan as written and as it will run.
    fn explain(&self) -> String {
        self.plan.explain()
    }

    /// The plan as JSON text.
    fn to_json(&self) -> Result<String> {
        let saved = self.plan.to_json()?;
        Ok(format!("{saved:#}"))
    }

    /// A plan from JSON text, over the stores that it names or over one that is open.
    #[staticmethod]
    #[pyo3(signature = (text, store=None))]
    fn from_json(py: Python<'_>, text: &str, store: Option<&Bound<'_, Store>>) -> Result<Self> {
        let saved = parse(text)?;
        let shared = store.map(|store| store.get().shared.clone());
        let resolve = |map: &Map<String, Value>| {
            Stored::resolve(map, shared.as_ref().map(|shared| &shared.store))
        };
        // Opening a store reads files.
        Ok(py
            .detach(|| Plan::from_json(&saved, &Catalog::standard(), &resolve))?
            .into())
    }

    /// Runs the plan and gathers what comes out.
    #[pyo3(signature = (memory=None, optimise=true, progress=None))]
    fn collect<'py>(
        &self,
        py: Python<'py>,
        memory: Option<u64>,
        optimise: bool,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let collect = |plan: &Plan, options: &RunOptions<'_>| plan.collect_with(options);
        let (gathered, _) = self.execute(py, memory, optimise, progress.as_ref(), collect)?;
        match gathered {
            Gathered::Count(count) => Ok(count.into_pyobject(py).map_err(PyErr::from)?.into_any()),
            Gathered::Array(array) => {
                // Rows of what was in memory, so their lengths fit.
                let columns = array.shape.get(1).map(|&columns| columns as usize);
                memory::gathered(py, array.bytes, array.dtype, columns)
            }
            Gathered::Ranges(ranges) => {
                let mut ends = BufferMut::zeroed_samples::<i64>(2 * ranges.len())?;
                for (pair, range) in ends.samples_mut::<i64>().chunks_exact_mut(2).zip(ranges) {
                    pair.copy_from_slice(&[range.start, range.end]);
                }
                Ok(memory::own(py, ends, DType::I64, Some(2))?)
            }
            Gathered::Rows(batch) => Ok(Bound::new(py, NativeTable::from(batch))?.into_any()),
            _ => Err(Raised::new(
                "PlanError",
                "input_type",
                format!(
                    "{} cannot be gathered; end the plan with count",
                    self.plan.port()
                ),
            )
            .into()),
        }
    }

    /// Runs the plan and drops what comes out.
    #[pyo3(signature = (memory=None, optimise=true, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        memory: Option<u64>,
        optimise: bool,
        progress: Option<Py<PyAny>>,
    ) -> Result<ReportParts> {
        let run = |plan: &Plan, options: &RunOptions<'_>| plan.run_with(options);
        let report = self.execute(py, memory, optimise, progress.as_ref(), run)?;
        Ok(parts(&report))
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

fn parts(report: &Report) -> ReportParts {
    let operators = report.operators.iter().map(|one| {
        let useful = one.useful.as_secs_f64();
        (one.name, one.items, one.samples, one.gaps, useful)
    });
    (
        operators.collect(),
        report.bursts,
        report.elapsed.as_secs_f64(),
        report.peak_bytes,
        report.to_string(),
    )
}
