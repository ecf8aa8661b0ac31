//! Python functions and classes as operators and sources.

use isochrony_flow::SharedFactory;
use pyo3::prelude::*;

use super::class_operator::ClassOperator;
use super::jit::JitOperator;
use super::json_text::parameters;
use super::owner::ObjectKeeper;
use super::python_operator::{FunctionRole, PythonOperator, parse_place};
use super::{NativePlan, columns, generate};
use crate::errors::Result;
use crate::time::{RateArg, TimeArg};

type NamedFunction = (Py<PyAny>, String, Option<String>);

#[pymethods]
impl NativePlan {
    /// Adds an operator that calls a Python function: "filter", "map" or "each". `fields` are the result's, for a map
    /// of rows; `state` and `on_break` are functions with their names and import names.
    #[pyo3(signature = (how, function, shown, import_name=None, dtype=None, width=1, counts=false, on_workers="auto", sequential=false, fields=None, state=None, on_break=None))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn python(
        &self,
        py: Python<'_>,
        how: &str,
        function: Py<PyAny>,
        shown: String,
        import_name: Option<String>,
        dtype: Option<&str>,
        width: usize,
        counts: bool,
        on_workers: &str,
        sequential: bool,
        fields: Option<Vec<columns::FieldDescription>>,
        state: Option<NamedFunction>,
        on_break: Option<NamedFunction>,
    ) -> Result<Self> {
        let kept = ObjectKeeper::default();
        let function = generate::function(function, shown, import_name, &kept);
        let other = |named: Option<NamedFunction>| {
            named
                .map(|(function, shown, import)| generate::function(function, shown, import, &kept))
        };
        let how = match (how, dtype, fields) {
            ("each", ..) => FunctionRole::Each,
            (_, _, Some(fields)) => FunctionRole::MapRows(columns::intern_fields(&fields)?),
            (_, Some(dtype), _) => FunctionRole::Map(generate::dtype(dtype)?, width),
            (_, None, _) => FunctionRole::Filter,
        };
        let factory = SharedFactory::new(PythonOperator {
            function,
            role: how,
            counts,
            on_workers: parse_place(on_workers)?,
            is_placed: false,
            sequential,
            state: other(state),
            on_break: other(on_break),
        });
        let plan = self.plan.apply_factory(factory, &[])?;
        self.of_inputs(py, plan, &[], &kept)
    }

    /// Adds an operator that is a Python class; `factory` creates it for each run, `params` are saved.
    #[pyo3(signature = (factory, shown, import_name=None, params=None, others=vec![]))]
    fn operator(
        &self,
        py: Python<'_>,
        factory: Py<PyAny>,
        shown: String,
        import_name: Option<String>,
        params: Option<&str>,
        others: Vec<PyRef<'_, Self>>,
    ) -> Result<Self> {
        let kept = ObjectKeeper::default();
        let params = params.map(|params| parameters("operator", params));
        let class = generate::function(factory, shown, import_name, &kept);
        let factory = SharedFactory::new(ClassOperator::new(class, params.transpose()?));
        let plan = self.plan.apply_factory(factory, &self.all(&others)[1..])?;
        self.of_inputs(py, plan, &others, &kept)
    }

    /// Adds an operator compiled by Numba: a filter unless a dtype is given.
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
        let kept = ObjectKeeper::default();
        let function = generate::function(function, shown, import_name, &kept);
        let dtype = dtype.map(generate::dtype).transpose()?;
        let result = dtype.map(|dtype| (dtype, width));
        let factory = JitOperator::kept(py, function, &self.plan.port(), result, counts)?;
        let plan = self.plan.apply_factory(factory, &[])?;
        self.of_inputs(py, plan, &[], &kept)
    }

    /// Reads what a function's iterators yield.
    #[staticmethod]
    #[pyo3(signature = (function, shown, import_name, dtype, rate, unit, start=None, segment=None))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn generate(
        py: Python<'_>,
        function: Py<PyAny>,
        shown: String,
        import_name: Option<String>,
        dtype: &str,
        rate: RateArg,
        unit: &str,
        start: Option<TimeArg>,
        segment: Option<u64>,
    ) -> Result<Self> {
        let kind = generate::Generator {
            dtype: generate::dtype(dtype)?,
            rate: rate.0,
            unit: unit.to_owned(),
            start: start.map(|start| start.0.value),
        };
        let kept = ObjectKeeper::default();
        let function = generate::function(function, shown, import_name, &kept);
        let plan = kind.scan(function, segment);
        Ok(Self::owned(plan, kept.owner(py, [])?))
    }
}
