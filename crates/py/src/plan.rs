//! Plans: the native half of `isochrony.plan`.
//!
//! A [`NativePlan`] wraps a plan of the engine. Operators are added by their names and parameters, so that one new
//! operator needs no code here. Runs go in the calling thread, see [`running`].

use isochrony_flow::{Catalog, Kept, Live, Plan, PortType, SEGMENT, Segments, Stored};
use isochrony_segment::{Calibration, SigSeg, Stream};
use isochrony_store::Strategy;
use isochrony_time::TimebaseId;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use crate::errors::{Raised, Result};
use crate::expr::{Expr, traced};
use crate::memory;
use crate::row::Row;
use crate::selection::Selection;
use crate::signal::Signal;
use crate::store::Store;
use crate::time::{RateArg, TimeArg};

mod call;
mod control;
mod drive;
mod follow;
mod function;
mod gathered;
mod generate;
mod jit;
mod keep;
mod listen;
mod report;
mod running;
mod saved;
mod table_file;

pub(crate) use control::NativeControl;
pub(crate) use drive::NativePusher;
pub(crate) use follow::NativeFollowed;
use function::{OnWorkers, PythonOperator, Use};
pub(crate) use gathered::{Collected, object};
use jit::JitOperator;
pub(crate) use listen::NativeListener;
use report::{ReportParts, parts};
use running::{Asked, Workers, execute};
use saved::parameters;

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
        let shared = store.map(|store| store.get().shared.clone());
        // Opening a store reads files.
        let plan = py.detach(|| saved::revive(text, shared.as_ref()))?;
        Ok(plan.into())
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
