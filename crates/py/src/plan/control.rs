//! Changes parameters and branches of running plans.

use std::sync::Arc;

use isochrony_flow::Control;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use super::NativePlan;
use super::report::MeasurementFields;
use crate::errors::Result;
use crate::expr::Expr;

/// The engine's control; `isochrony.Control`, its public class, wraps it.
#[pyclass(frozen, module = "isochrony._native")]
#[derive(Default)]
pub(crate) struct NativeControl {
    pub(super) control: Arc<Control>,
}

#[pymethods]
impl NativeControl {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Changes parameters of a plan's last operator, from an index on or (None) at once; functions are traced as when
    /// it was added.
    fn set(
        &self,
        py: Python<'_>,
        plan: PyRef<'_, NativePlan>,
        params: &Bound<'_, PyDict>,
        at: Option<i64>,
    ) -> Result<()> {
        let values = PyDict::new(py);
        let mut all: Vec<(String, Value)> = Vec::new();
        for (name, value) in params {
            let text: String = name.extract()?;
            if value.is_callable() || value.cast::<Expr>().is_ok() {
                let inputs = plan.plan.inputs().len();
                let traced =
                    plan.trace(&format!("Control.set({text}=...)"), &value, inputs, false)?;
                all.push((text, json!(traced)));
            } else {
                values.set_item(name, value)?;
            }
        }
        all.extend(crate::json::object("Control.set", &values)?);
        let plan = plan.plan.clone();
        let control = self.control.clone();
        crate::interpreter::detach(py, || {
            let params = all.iter();
            let params = params.map(|(name, value)| (name.as_str(), value.clone()));
            match at {
                Some(at) => control.set_from(&plan, at, params),
                None => control.set(&plan, params),
            }
        })?;
        Ok(())
    }

    /// Adds a branch, from an index on or (None) at once.
    fn add(&self, py: Python<'_>, branch: PyRef<'_, NativePlan>, at: Option<i64>) -> Result<()> {
        let (plan, control) = (branch.plan.clone(), self.control.clone());
        Ok(crate::interpreter::detach(py, || match at {
            Some(at) => control.add_from(&plan, at),
            None => control.add(&plan),
        })?)
    }

    /// Whether a branch was added and has not ended.
    fn has(&self, branch: PyRef<'_, NativePlan>) -> bool {
        self.control.has(&branch.plan)
    }

    /// Removes a branch, before an index or (None) at once.
    fn remove(&self, py: Python<'_>, branch: PyRef<'_, NativePlan>, at: Option<i64>) -> Result<()> {
        let (plan, control) = (branch.plan.clone(), self.control.clone());
        Ok(crate::interpreter::detach(py, || match at {
            Some(at) => control.remove_from(&plan, at),
            None => control.remove(&plan),
        })?)
    }

    /// Changes the number of replicas of a stage.
    fn set_replicas(&self, py: Python<'_>, stage: usize, replicas: usize) -> Result<()> {
        let control = self.control.clone();
        Ok(crate::interpreter::detach(py, || {
            control.set_replicas(stage, replicas)
        })?)
    }

    /// Changes the capacity of a link.
    fn set_link_capacity(&self, py: Python<'_>, link: usize, size: u64) -> Result<()> {
        let control = self.control.clone();
        Ok(crate::interpreter::detach(py, || {
            control.set_link_capacity(link, size)
        })?)
    }

    /// Measurements of stages and links so far.
    fn measurement(&self, py: Python<'_>) -> Result<MeasurementFields> {
        let control = self.control.clone();
        let measured = crate::interpreter::detach(py, || control.measurement())?;
        Ok(MeasurementFields::from(&measured))
    }
}
