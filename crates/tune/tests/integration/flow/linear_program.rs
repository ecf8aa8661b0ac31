//! Oracle: the flow model as a linear program.

use isochrony_tune::{FlowGraph, FlowModel, Limit, SourceRule, TuneError};
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolveOptions, Variable};
use proptest::prelude::*;

use super::close;
use super::random_graphs::{graph, spectral_radius};

/// The solver's tolerance is absolute: count over many seconds.
const SECONDS: f64 = 1000.0;

#[derive(Clone, Copy)]
enum Objective {
    Level,
    Source(usize),
}

struct Optimum {
    sources: Vec<f64>,
    servers: Vec<f64>,
    level: f64,
}

/// Source `i` has exactly the rate `fixed[i]`, else at least `floor` times its weight.
fn optimum(
    graph: &FlowGraph,
    objective: Objective,
    fixed: &[Option<f64>],
    floor: f64,
) -> Result<Optimum, Error> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let free = (0.0, f64::INFINITY);
    let sought = f64::from(u8::from(matches!(objective, Objective::Level)));
    let most = if fixed.contains(&None) {
        f64::INFINITY
    } else {
        0.0
    };
    let level = problem.add_var(sought, (0.0, most));
    let sources: Vec<Variable> = (0..graph.sources.len())
        .map(|index| {
            let wanted = matches!(objective, Objective::Source(source) if source == index);
            let most = graph.sources[index].rate.unwrap_or(f64::INFINITY) * SECONDS;
            problem.add_var(f64::from(u8::from(wanted)), (0.0, most))
        })
        .collect();
    let servers: Vec<Variable> = graph
        .servers
        .iter()
        .map(|_| problem.add_var(0.0, free))
        .collect();
    let routes: Vec<Variable> = graph
        .routes
        .iter()
        .map(|_| problem.add_var(0.0, free))
        .collect();

    for (index, source) in graph.sources.iter().enumerate() {
        let rate = (sources[index], 1.0);
        let exact = graph.source_rule == SourceRule::FixedRatio;
        let relation = if exact {
            ComparisonOp::Eq
        } else {
            ComparisonOp::Ge
        };
        match (fixed[index], objective) {
            (Some(value), _) => problem.add_constraint([rate], ComparisonOp::Eq, value * SECONDS),
            (None, Objective::Level) => {
                problem.add_constraint([rate, (level, -source.weight)], relation, 0.0);
            }
            (None, Objective::Source(_)) => {
                problem.add_constraint([rate], ComparisonOp::Ge, floor * source.weight * SECONDS);
            }
        }
    }
    for (index, &server) in servers.iter().enumerate() {
        let mut row = vec![(server, 1.0)];
        let entering = graph.sources.iter().zip(&sources);
        row.extend(
            entering
                .filter(|(source, _)| source.server == index)
                .map(|(_, &rate)| (rate, -1.0)),
        );
        let arriving = graph.routes.iter().zip(&routes);
        row.extend(
            arriving
                .filter(|(route, _)| route.to == index)
                .map(|(_, &flow)| (flow, -1.0)),
        );
        problem.add_constraint(row, ComparisonOp::Eq, 0.0);
    }
    for (route, &flow) in graph.routes.iter().zip(&routes) {
        let share = graph.servers[route.from].gain * route.probability;
        problem.add_constraint(
            [(flow, 1.0), (servers[route.from], -share)],
            ComparisonOp::Eq,
            0.0,
        );
    }
    add_capacities(&mut problem, graph, &servers);

    let mut options = SolveOptions::default();
    options.tolerances.feasibility = 1e-10;
    let solution = problem
        .solve_with(options)?
        .into_solution()
        .expect("no time limit");
    let rate = |variable: Variable| solution.var_value(variable) / SECONDS;
    let values = |variables: &[Variable]| variables.iter().map(|&v| rate(v)).collect();
    Ok(Optimum {
        sources: values(&sources),
        servers: values(&servers),
        level: rate(level),
    })
}

fn add_capacities(problem: &mut Problem, graph: &FlowGraph, servers: &[Variable]) {
    let resources = &graph.resources;
    let mut shared = [Vec::new(), Vec::new(), Vec::new()];
    for (server, &rate) in graph.servers.iter().zip(servers) {
        let most = f64::from(server.replicas) * resources.max_utilization * SECONDS;
        problem.add_constraint([(rate, server.service_time)], ComparisonOp::Le, most);
        if server.uses_core {
            shared[0].push((rate, server.service_time));
        }
        if server.holds_lock {
            shared[1].push((rate, server.service_time));
        }
        shared[2].push((rate, server.bytes_per_item));
    }
    let most = [resources.cores, Some(1.0), resources.disk_bytes_per_second];
    for (row, most) in shared.into_iter().zip(most) {
        if let Some(most) = most {
            problem.add_constraint(row, ComparisonOp::Le, most * SECONDS);
        }
    }
}

/// Max-min fair rates: repeatedly the common level, then the sources that cannot exceed it.
fn by_programs(graph: &FlowGraph) -> Result<Optimum, Error> {
    let mut fixed = vec![None; graph.sources.len()];
    loop {
        let found = optimum(graph, Objective::Level, &fixed, 0.0)?;
        if graph.source_rule == SourceRule::FixedRatio {
            return Ok(found);
        }
        // Slightly lower, or rounding leaves no solution.
        let floor = found.level * (1.0 - 1e-9);
        let mut held = Vec::new();
        for (index, source) in graph.sources.iter().enumerate() {
            if fixed[index].is_some() {
                continue;
            }
            let most = match optimum(graph, Objective::Source(index), &fixed, floor) {
                Ok(more) => more.sources[index],
                Err(Error::Unbounded) => f64::INFINITY,
                Err(error) => return Err(error),
            };
            if most <= found.level * source.weight * (1.0 + 1e-6) {
                held.push(index);
            }
        }
        assert!(!held.is_empty(), "a level that nothing holds");
        for index in held {
            fixed[index] = Some(found.level * graph.sources[index].weight);
        }
        if fixed.iter().all(Option::is_some) {
            return optimum(graph, Objective::Level, &fixed, 0.0);
        }
    }
}

fn check_capacities(graph: &FlowGraph, model: &FlowModel) {
    let solution = model.solve();
    let most = 1.0 + 1e-9;
    for &utilization in &solution.server_utilizations {
        assert!(utilization <= graph.resources.max_utilization * most);
    }
    assert!(solution.lock_utilization <= most);
    assert!(solution.core_utilization.unwrap_or(0.0) <= most);
    assert!(solution.disk_utilization.unwrap_or(0.0) <= most);
    for &limit in &solution.source_limits {
        let (used, full) = match limit {
            Limit::Arrivals(index) => (
                solution.source_rates[index],
                graph.sources[index].rate.unwrap(),
            ),
            Limit::Server(index) => (
                solution.server_utilizations[index],
                graph.resources.max_utilization,
            ),
            Limit::Cores => (solution.busy_cores, graph.resources.cores.unwrap()),
            Limit::InterpreterLock => (solution.lock_utilization, 1.0),
            Limit::Disk => (solution.disk_utilization.unwrap(), 1.0),
        };
        assert!(close(used, full), "{limit:?} limits at {used} of {full}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn closed_form_equals_the_linear_program(graph in graph()) {
        let radius = spectral_radius(&graph);
        prop_assume!(!(0.97..1.002).contains(&radius));
        let model = match FlowModel::new(graph.clone()) {
            Ok(model) => model,
            Err(TuneError::EndlessLoop { returned, .. }) => {
                prop_assert!(radius > 1.0 && returned >= 1.0 - 1e-9, "radius {} returned {}", radius, returned);
                return Ok(());
            }
            Err(TuneError::UnlimitedSource { source_index, .. }) => {
                let free = vec![None; graph.sources.len()];
                let mut alone = graph.clone();
                alone.source_rule = SourceRule::MaxMinFair;
                let most = optimum(&alone, Objective::Source(source_index), &free, 0.0);
                prop_assert!(matches!(most, Err(Error::Unbounded)));
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert!(radius < 1.0, "radius {} accepted", radius);
        check_capacities(&graph, &model);
        let solution = model.solve();
        let best = by_programs(&graph).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for (&a, &b) in solution.source_rates.iter().zip(&best.sources) {
            prop_assert!(close(a, b), "sources {:?} and {:?}", solution.source_rates, best.sources);
        }
        for (&a, &b) in solution.server_rates.iter().zip(&best.servers) {
            prop_assert!(close(a, b), "servers {:?} and {:?}", solution.server_rates, best.servers);
        }
    }

    #[test]
    fn replica_gains_equal_the_program_with_a_replica_more(graph in graph()) {
        prop_assume!(spectral_radius(&graph) < 0.97);
        let Ok(model) = FlowModel::new(graph.clone()) else { return Ok(()) };
        let total = |graph: &FlowGraph| by_programs(graph).map(|best| best.sources.iter().sum::<f64>());
        let fail = |error: Error| TestCaseError::fail(error.to_string());
        let before = total(&graph).map_err(fail)?;
        for (server, gain) in model.replica_gains().into_iter().enumerate() {
            let mut larger = graph.clone();
            larger.servers[server].replicas += 1;
            let after = total(&larger).map_err(fail)?;
            prop_assert!((after - before - gain).abs() <= 1e-9 * after.max(1.0), "{} - {} is not {}", after, before, gain);
        }
    }
}
