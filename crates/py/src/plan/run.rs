//! Runs of plans, and what comes of them.

use isochrony_flow::Plan;
use pyo3::prelude::*;

use super::NativePlan;
use super::control::NativeControl;
use super::gathered::{Collected, object};
use super::report::{ReportParts, parts};
use super::running::{Asked, Workers, execute};
use crate::errors::Result;

#[pymethods]
impl NativePlan {
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
        let owners = self.owners(&others);
        let ran = execute(py, &plans, owners, asked, Plan::collect_all)?;
        let ((gathered, mut report), processes) = ran;
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
        let owners = self.owners(&others);
        let (mut report, processes) = execute(py, &plans, owners, asked, Plan::run_all)?;
        report.processes = processes;
        Ok(parts(&report))
    }
}
