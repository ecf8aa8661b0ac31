//! Simulated and modelled throughput of a JSON plan.

use isochrony_tune::simulator::{SimulatedMachine, SimulatedPlan, SimulatedRun};
use isochrony_tune::{Configuration, FlowModel, TuneError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::errors::Result;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SimulationRequest {
    /// Its sources are finite.
    plan: SimulatedPlan,
    /// Costs of hand-overs, wake-ups, caches and memory; those that are left out do not apply.
    machine: SimulatedMachine,
    configurations: Vec<Configuration>,
    seed: u64,
}

/// Seconds of a simulated run, and items per second of the flow model, for each configuration.
#[pyfunction]
pub(crate) fn _simulated_runs(py: Python<'_>, request: &str) -> Result<Vec<(f64, f64)>> {
    let request: SimulationRequest =
        serde_json::from_str(request).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let runs = crate::interpreter::detach(py, || {
        let runs = request.configurations.iter();
        runs.map(|one| simulate(&request, one))
            .collect::<std::result::Result<_, TuneError>>()
    });
    Ok(runs.map_err(|error| PyValueError::new_err(error.to_string()))?)
}

fn simulate(
    request: &SimulationRequest,
    configuration: &Configuration,
) -> std::result::Result<(f64, f64), TuneError> {
    let (plan, machine) = (request.plan.clone(), request.machine.clone());
    let mut run = SimulatedRun::new(plan, machine, configuration.clone(), request.seed)?;
    let seconds = run.run_to_end();
    let graph = request
        .plan
        .flow_graph(configuration, request.machine.cores);
    let flow = FlowModel::new(graph)?.solve();
    Ok((seconds, flow.source_rates[0]))
}
