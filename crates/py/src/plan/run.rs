//! `Plan.collect` and `Plan.run`.

use isochrony_flow::{Plan, Report};
use pyo3::prelude::*;

use super::NativePlan;
use super::report::NativeReport;
use super::results::{GatheredObject, object};
use super::run_options::PythonRunOptions;
use super::running::execute;
use crate::errors::Result;

#[pymethods]
impl NativePlan {
    /// Runs this plan and others as one and returns their results. `progress` is called with samples done and in total.
    #[pyo3(signature = (others=vec![], options=None, progress=None))]
    fn collect<'py>(
        &self,
        py: Python<'py>,
        others: Vec<PyRef<'_, Self>>,
        options: Option<PythonRunOptions>,
        progress: Option<Py<PyAny>>,
    ) -> Result<(Vec<GatheredObject<'py>>, NativeReport)> {
        let plans = self.all(&others);
        let owners = self.owners(&others);
        let options = options.unwrap_or_default();
        let ((gathered, mut report), processes) =
            execute(py, &plans, owners, &options, progress, Plan::collect_all)?;
        report.processes = processes;
        check_prediction(py, &plans, &report);
        let gathered = gathered.into_iter().zip(&plans);
        let objects = gathered.map(|(one, plan)| object(py, plan, one));
        Ok((objects.collect::<Result<_>>()?, report.into()))
    }

    /// Runs this plan and others as one and drops the results.
    #[pyo3(signature = (others=vec![], options=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        others: Vec<PyRef<'_, Self>>,
        options: Option<PythonRunOptions>,
        progress: Option<Py<PyAny>>,
    ) -> Result<NativeReport> {
        let plans = self.all(&others);
        let owners = self.owners(&others);
        let options = options.unwrap_or_default();
        let (mut report, processes) =
            execute(py, &plans, owners, &options, progress, Plan::run_all)?;
        report.processes = processes;
        check_prediction(py, &plans, &report);
        Ok(report.into())
    }
}

/// Detached: it plans tasks once more, which may read tables of a remote store.
fn check_prediction(py: Python<'_>, plans: &[Plan], report: &Report) {
    if let [plan] = plans {
        crate::interpreter::detach(py, || plan.check_prediction(report));
    }
}
