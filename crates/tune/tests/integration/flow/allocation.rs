//! Oracle: every allocation of a small budget.

use isochrony_tune::{FlowGraph, FlowModel, Limit, Server};
use proptest::prelude::*;

use super::chain;
use super::random_graphs::{graph, spectral_radius};

/// Infinite if arrivals limit all.
fn level(graph: &FlowGraph) -> f64 {
    let solution = FlowModel::new(graph.clone()).unwrap().solve();
    let held = (0..graph.sources.len())
        .filter(|&index| !matches!(solution.source_limits[index], Limit::Arrivals(_)))
        .map(|index| solution.source_rates[index] / graph.sources[index].weight);
    held.fold(f64::INFINITY, f64::min)
}

fn each_allocation(
    graph: &mut FlowGraph,
    server: usize,
    budget: u32,
    visit: &mut impl FnMut(&FlowGraph),
) {
    let Some(current) = graph.servers.get(server) else {
        return visit(graph);
    };
    let count = current.replicas;
    let (uses_core, replicable) = (current.uses_core, current.replicable);
    let range = if uses_core && replicable {
        1..=budget
    } else {
        count..=count
    };
    for replicas in range {
        graph.servers[server].replicas = replicas;
        if let Some(left) = budget.checked_sub(if uses_core { replicas } else { 0 }) {
            each_allocation(graph, server + 1, left, visit);
        }
    }
    graph.servers[server].replicas = count;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_allocation_is_faster_and_none_as_fast_is_smaller(
        mut graph in graph(),
        fixed in prop::collection::vec(0..4u32, 7),
        budget in 1..=11u32,
    ) {
        prop_assume!(spectral_radius(&graph) < 0.97);
        for (server, fixed) in graph.servers.iter_mut().zip(fixed) {
            server.replicable = fixed > 0;
        }
        let Ok(model) = FlowModel::new(graph.clone()) else { return Ok(()) };
        let mut every = Vec::new();
        each_allocation(&mut graph.clone(), 0, budget, &mut |tried| {
            let cores = tried.servers.iter().filter(|server| server.uses_core).map(|server| server.replicas);
            every.push((level(tried), cores.sum::<u32>()));
        });
        let allocation = match model.allocate(budget) {
            Ok(allocation) => allocation,
            Err(error) => {
                prop_assert_eq!((error.code(), every.len()), ("budget_too_small", 0));
                return Ok(());
            }
        };
        let mut chosen = graph.clone();
        let mut cores = 0;
        for (server, &replicas) in chosen.servers.iter_mut().zip(&allocation.replicas) {
            server.replicas = replicas;
            cores += if server.uses_core { replicas } else { 0 };
        }
        let found = level(&chosen);
        let best = every.iter().map(|entry| entry.0).fold(0.0, f64::max);
        prop_assert!(found >= best * (1.0 - 1e-9), "{} of {}", found, best);
        let as_fast = every.iter().filter(|entry| entry.0 >= found * (1.0 - 1e-9));
        let fewest = as_fast.map(|entry| entry.1).min().unwrap();
        prop_assert_eq!(cores, fewest);
        prop_assert_eq!(&allocation.solution, &FlowModel::new(chosen).unwrap().solve());
    }
}

#[test]
fn spends_cores_on_the_slowest_stage_until_another_is_slowest() {
    let model = FlowModel::new(chain(vec![Server::new("a", 1.0), Server::new("b", 4.0)])).unwrap();
    for (budget, replicas) in [
        (2, [1, 1]),
        (3, [1, 2]),
        (5, [1, 4]),
        (6, [1, 4]),
        (7, [2, 5]),
        (10, [2, 8]),
    ] {
        assert_eq!(
            model.allocate(budget).unwrap().replicas,
            replicas,
            "{budget} cores"
        );
    }
}

#[test]
fn spends_nothing_where_the_interpreter_lock_is_the_bottleneck() {
    let mut python = Server::new("python", 2.0);
    python.holds_lock = true;
    let model = FlowModel::new(chain(vec![Server::new("read", 1.0), python])).unwrap();
    let allocation = model.allocate(16).unwrap();
    assert_eq!(allocation.replicas, [1, 1]);
    assert_eq!(allocation.solution.source_rates, [0.5]);
}
