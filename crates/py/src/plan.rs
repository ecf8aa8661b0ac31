//! Plans: the native half of `isochrony.plan`.
//!
//! A [`NativePlan`] wraps a plan of the engine. Operators are added by their names and parameters, so that one new
//! operator needs no code here. Runs go in the calling thread, see [`running`].

use std::sync::Arc;

use isochrony_flow::{
    Catalog, Gathered, Kept, Live, Plan, PlanError, PortType, Report, SEGMENT, Segments, Stored,
    ToEvents, ToSignal, ToWav,
};
use isochrony_live::ToWire;
use isochrony_segment::{BufferMut, Calibration, DType, SigSeg, Stream};
use isochrony_store::Strategy;
use isochrony_time::TimebaseId;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use crate::errors::{Raised, Result};
use crate::expr::{Expr, traced};
use crate::handle::Shared;
use crate::memory;
use crate::row::Row;
use crate::selection::Selection;
use crate::signal::Signal;
use crate::store::Store;
use crate::table::NativeTable;
use crate::time::{RateArg, TimeArg};

mod call;
mod control;
mod drive;
mod follow;
mod function;
mod generate;
mod jit;
mod keep;
mod listen;
mod running;
mod table_file;

pub(crate) use control::NativeControl;
pub(crate) use drive::NativePusher;
pub(crate) use follow::NativeFollowed;
use function::{OnWorkers, PythonOperator, Use};
use jit::JitOperator;
pub(crate) use listen::NativeListener;
use running::{Asked, Workers, execute};

/// Per operator name, items, samples, gaps and useful seconds; how signals were read; per worker tasks, samples and busy
/// seconds; per task its first index, the one behind it, its worker and seconds; where Python functions
/// were called; per worker process its worker, number, blocks, busy seconds and end; bursts, seconds, bytes at most; as a table.
type ReportParts = (
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
    /// The engine's plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The expression that a function of what comes out stands for: of the samples of a window, or of a row; of several
    /// inputs it takes an argument for each.
    fn trace(
        &self,
        name: &str,
        function: &Bound<'_, PyAny>,
        inputs: usize,
    ) -> Result<isochrony_expr::Expr> {
        let py = function.py();
        let argument = |place: u8| match self.plan.port() {
            PortType::Rows { fields, .. } => Ok(Bound::new(py, Row::from(fields))?.into_any()),
            _ => {
                let input = isochrony_expr::Expr::input_at(place);
                Ok(Bound::new(py, Expr::from(input))?.into_any())
            }
        };
        let arguments = (0..=u8::MAX).take(inputs).map(argument);
        traced(name, function, arguments.collect::<PyResult<_>>()?)
    }

    fn apply(&self, name: &str, params: Map<String, Value>, others: &[Plan]) -> Result<Self> {
        Ok(self
            .plan
            .apply(Catalog::standard().get(name)?, params, others)?
            .into())
    }

    /// This plan, and others behind it.
    fn all(&self, others: &[PyRef<'_, Self>]) -> Vec<Plan> {
        let others = others.iter().map(|other| other.plan.clone());
        std::iter::once(self.plan.clone()).chain(others).collect()
    }
}

/// A result, and of an array the index and number of rows that are next to one another.
pub(crate) type Collected<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// What a run gathered, as Python has it.
pub(crate) fn object<'py>(
    py: Python<'py>,
    plan: &Plan,
    gathered: Gathered,
) -> Result<Collected<'py>> {
    let object = match gathered {
        Gathered::Count(count) => Ok(count.into_pyobject(py).map_err(PyErr::from)?.into_any()),
        Gathered::Array(array) => {
            // Rows of what was in memory, so their lengths fit.
            let columns = array.shape.get(1).map(|&columns| columns as usize);
            let mut parts = BufferMut::zeroed_samples::<i64>(2 * array.parts.len())?;
            let pairs = parts.samples_mut::<i64>().chunks_exact_mut(2);
            for (pair, (start, rows)) in pairs.zip(array.parts) {
                pair.copy_from_slice(&[start, rows.cast_signed()]);
            }
            let parts = memory::own(py, parts, DType::I64, Some(2))?;
            let object = memory::gathered(py, array.bytes, array.dtype, columns)?;
            return Ok((object, Some(parts)));
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
                plan.port()
            ),
        )
        .into()),
    };
    object.map(|object| (object, None))
}

/// The engine's operators, those that Python functions are, and those that write, to a given store or to those that
/// they name.
fn catalog(store: Option<&Arc<Shared>>) -> Catalog {
    let (signals, events) = (store.cloned(), store.cloned());
    Catalog::standard()
        .reviving(ToSignal::NAME, move |saved, _| {
            ToSignal::resolve(saved, signals.as_ref().map(|shared| &shared.store))
        })
        .reviving(ToEvents::NAME, move |saved, _| {
            ToEvents::resolve(saved, events.as_ref().map(|shared| &shared.store))
        })
        .reviving("py", |saved, _| PythonOperator::revive(saved, "map"))
        .reviving("each", |saved, _| PythonOperator::revive(saved, "each"))
        .reviving("jit", JitOperator::revive)
        .reviving(ToWire::NAME, |saved, _| ToWire::resolve(saved))
        .reviving(ToWav::NAME, |saved, _| ToWav::resolve(saved))
        .reviving("sink_parquet", |saved, _| {
            table_file::revive("sink_parquet", saved)
        })
        .reviving("sink_ipc", |saved, _| table_file::revive("sink_ipc", saved))
}

#[pymethods]
impl NativePlan {
    /// Reads a signal or a selection, on the clock of another signal where one is given.
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
                Stored::selection(selection.shared.store.path(), &selection.selection)
            }
            Err(_) => {
                let signal = source.cast::<Signal>().map_err(PyErr::from)?.get();
                Stored::new(signal.follower.shared.store.path(), signal.get(py)?)
            }
        };
        if let Some(other) = clock {
            stored = stored.with_clock_of(&other.get().get(py)?)?;
        }
        if let Some(io) = io {
            stored = stored.io(Strategy::parse(io)?);
        }
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
        self.apply(name, parameters(name, params)?, &self.all(&others)[1..])
    }

    /// Adds an operator whose one parameter is a traced function of this plan's windows and of those of others.
    #[pyo3(signature = (name, parameter, function, others=vec![]))]
    fn traced(
        &self,
        name: &str,
        parameter: &str,
        function: &Bound<'_, PyAny>,
        others: Vec<PyRef<'_, Self>>,
    ) -> Result<Self> {
        let expression = self.trace(name, function, 1 + others.len())?;
        let mut params = Map::new();
        params.insert(parameter.to_owned(), json!(expression));
        self.apply(name, params, &self.all(&others)[1..])
    }

    /// Adds an operator to whose parameters, a JSON object, traced functions are added by name, as "fields".
    fn traced_fields(&self, name: &str, params: &str, fields: &Bound<'_, PyDict>) -> Result<Self> {
        let mut all = Map::new();
        for (field, function) in fields {
            let field: String = field.extract()?;
            let expression = self.trace(&format!("{name}({field}=...)"), &function, 1)?;
            all.insert(field, json!(expression));
        }
        let mut params = parameters(name, params)?;
        params.insert("fields".to_owned(), Value::Object(all));
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

    /// Samples from one window to the next; 1 where there are no windows.
    #[getter]
    fn hop(&self) -> u64 {
        match self.plan.port() {
            PortType::Frames { hop, .. } => hop,
            _ => 1,
        }
    }

    /// What frequencies in Hz the values of a row are of; None where rows are no spectra.
    #[getter]
    fn frequencies(&self) -> Option<Vec<f64>> {
        self.plan.frequencies()
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
            if map.contains_key("generate") {
                return generate::Kind::revive(map);
            }
            if map.contains_key("listen") {
                return listen::revive(map);
            }
            let store = shared.as_ref().map(|shared| &shared.store);
            if map.contains_key("follow") {
                return follow::revive(map, store);
            }
            Stored::resolve(map, store)
        };
        // Opening a store reads files.
        Ok(py
            .detach(|| Plan::from_json(&saved, &catalog(shared.as_ref()), &resolve))?
            .into())
    }

    /// Type of a window's values as a function sees them, and how many there are: 0 of samples without windows.
    fn row(&self, counts: bool) -> Option<(&'static str, usize)> {
        let (dtype, width) = function::seen(&self.plan.port(), counts)?;
        Some((dtype.name(), width))
    }

    /// Adds an operator that calls a Python function: "filter", "map" or "each".
    #[pyo3(signature = (how, function, shown, import_name=None, dtype=None, width=1, counts=false, on_workers="auto", sequential=false))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn python(
        &self,
        how: &str,
        function: Py<PyAny>,
        shown: String,
        import_name: Option<String>,
        dtype: Option<&str>,
        width: usize,
        counts: bool,
        on_workers: &str,
        sequential: bool,
    ) -> Result<Self> {
        let function = generate::function(function, shown, import_name);
        let how = match (how, dtype) {
            ("each", _) => Use::Each,
            (_, Some(dtype)) => Use::Map(generate::dtype(dtype)?, width),
            (_, None) => Use::Filter,
        };
        let kept = Kept::new(PythonOperator {
            function,
            how,
            counts,
            on_workers: OnWorkers::parse(on_workers)?,
            sequential,
        });
        Ok(self.plan.hold(kept, &[])?.into())
    }

    /// Adds an operator that Numba compiles: a filter where no dtype is given.
    #[pyo3(signature = (function, shown, import_name=None, dtype=None, width=1, counts=false))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn jit(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        shown: String,
        import_name: Option<String>,
        dtype: Option<&str>,
        width: usize,
        counts: bool,
    ) -> Result<Self> {
        let function = generate::function(function, shown, import_name);
        let dtype = dtype.map(generate::dtype).transpose()?;
        let result = dtype.map(|dtype| (dtype, width));
        let kept = JitOperator::kept(py, function, &self.plan.port(), result, counts)?;
        Ok(self.plan.hold(kept, &[])?.into())
    }

    /// Reads what a function's iterators make.
    #[staticmethod]
    #[pyo3(signature = (function, shown, import_name, dtype, rate, unit, start=None, segment=None))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn generate(
        function: Py<PyAny>,
        shown: String,
        import_name: Option<String>,
        dtype: &str,
        rate: RateArg,
        unit: &str,
        start: Option<TimeArg>,
        segment: Option<u64>,
    ) -> Result<Self> {
        let kind = generate::Kind {
            dtype: generate::dtype(dtype)?,
            rate: rate.0,
            unit: unit.to_owned(),
            start: start.map(|start| start.0.value),
        };
        let function = generate::function(function, shown, import_name);
        Ok(kind.scan(function, segment).into())
    }

    /// One of the outputs of the last operator.
    fn output(&self, output: u16) -> Result<Self> {
        Ok(self.plan.output(output)?.into())
    }

    /// Runs this plan and others as one and gathers what comes out of each.
    #[allow(clippy::too_many_arguments)] // Called from one place.
    #[pyo3(signature = (others=vec![], memory=None, optimise=true, progress=None, control=None, workers=Workers::default()))]
    fn collect<'py>(
        &self,
        py: Python<'py>,
        others: Vec<PyRef<'_, Self>>,
        memory: Option<u64>,
        optimise: bool,
        progress: Option<Py<PyAny>>,
        control: Option<PyRef<'_, NativeControl>>,
        workers: Workers,
    ) -> Result<(Vec<Collected<'py>>, ReportParts)> {
        let plans = self.all(&others);
        let asked = Asked {
            memory,
            optimise,
            progress,
            control: control.as_deref(),
            workers,
        };
        let ((gathered, mut report), processes) = execute(py, &plans, asked, Plan::collect_all)?;
        report.processes = processes;
        let gathered = gathered.into_iter().zip(&plans);
        let objects = gathered.map(|(one, plan)| object(py, plan, one));
        Ok((objects.collect::<Result<_>>()?, parts(&report)))
    }

    /// Runs this plan and others as one and drops what comes out.
    #[allow(clippy::too_many_arguments)] // Called from one place.
    #[pyo3(signature = (others=vec![], memory=None, optimise=true, progress=None, control=None, workers=Workers::default()))]
    fn run(
        &self,
        py: Python<'_>,
        others: Vec<PyRef<'_, Self>>,
        memory: Option<u64>,
        optimise: bool,
        progress: Option<Py<PyAny>>,
        control: Option<PyRef<'_, NativeControl>>,
        workers: Workers,
    ) -> Result<ReportParts> {
        let plans = self.all(&others);
        let asked = Asked {
            memory,
            optimise,
            progress,
            control: control.as_deref(),
            workers,
        };
        let (mut report, processes) = execute(py, &plans, asked, Plan::run_all)?;
        report.processes = processes;
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
        report.reads.iter().map(ToString::to_string).collect(),
        (report.workers.iter())
            .map(|one| (one.tasks, one.samples, one.busy.as_secs_f64()))
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
