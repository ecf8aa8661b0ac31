//! Random graphs with feedback, shared resources and up to three sources.

use isochrony_tune::{FlowGraph, Resources, Route, Server, Source, SourceRule};
use proptest::prelude::*;

fn server() -> impl Strategy<Value = Server> {
    let times = prop_oneof![1 => Just(0u32), 8 => 1..=16u32];
    let parts = (times, 1..=4u32, 0..=6u32, any::<bool>(), 0..4u32, 0..=4u32);
    parts.prop_map(|(time, replicas, gain, uses_core, lock, bytes)| Server {
        replicas,
        gain: f64::from(gain) / 4.0,
        uses_core,
        holds_lock: lock == 0,
        bytes_per_item: f64::from(bytes),
        ..Server::new("random", f64::from(time) / 8.0)
    })
}

fn source(servers: usize) -> impl Strategy<Value = Source> {
    let rate = prop::option::weighted(0.4, 1..=24u32);
    (0..servers, rate, 1..=3u32).prop_map(|(server, rate, weight)| Source {
        server,
        rate: rate.map(|rate| f64::from(rate) / 8.0),
        weight: f64::from(weight),
    })
}

fn resources() -> impl Strategy<Value = Resources> {
    let cores = prop::option::of(1..=4u32);
    let disk = prop::option::of(1..=20u32);
    (cores, disk, prop_oneof![Just(1.0), Just(0.75)]).prop_map(|(cores, disk, max_utilization)| {
        Resources {
            cores: cores.map(f64::from),
            disk_bytes_per_second: disk.map(f64::from),
            max_utilization,
        }
    })
}

/// Including backward and self-loops; the rest leaves the graph.
fn routes(servers: usize) -> impl Strategy<Value = Vec<Route>> {
    let one = (0..servers, 0..servers, 1..=8u32, any::<bool>());
    (
        prop::collection::vec(one, 0..=2 * servers),
        prop::collection::vec(0..=4u32, servers),
    )
        .prop_map(|(drawn, leaving)| {
            let mut totals: Vec<f64> = leaving.into_iter().map(f64::from).collect();
            let routes: Vec<(usize, usize, f64)> = drawn
                .into_iter()
                .map(|(a, b, weight, backward)| {
                    let (from, to) = if backward {
                        (a, b)
                    } else {
                        (a.min(b), a.max(b))
                    };
                    (from, to, f64::from(weight))
                })
                .collect();
            for &(from, _, weight) in &routes {
                totals[from] += weight;
            }
            let share = |(from, to, weight)| Route {
                from,
                to,
                probability: weight / totals[from],
            };
            routes.into_iter().map(share).collect()
        })
}

pub(crate) fn graph() -> impl Strategy<Value = FlowGraph> {
    (1..=7usize).prop_flat_map(|count| {
        let servers = prop::collection::vec(server(), count);
        let sources = prop::collection::vec(source(count), 1..=3);
        let rule = prop_oneof![Just(SourceRule::FixedRatio), Just(SourceRule::MaxMinFair)];
        (servers, routes(count), sources, rule, resources()).prop_map(
            |(servers, routes, sources, source_rule, resources)| FlowGraph {
                servers,
                routes,
                sources,
                source_rule,
                resources,
            },
        )
    })
}

/// Growth per step of items that walk the graph.
pub(crate) fn spectral_radius(graph: &FlowGraph) -> f64 {
    const STEPS: i32 = 1500;
    let mut items = vec![1.0; graph.servers.len()];
    let mut log_growth = 0.0;
    for step in 0..2 * STEPS {
        let mut next = vec![0.0; items.len()];
        for route in &graph.routes {
            next[route.to] +=
                items[route.from] * graph.servers[route.from].gain * route.probability;
        }
        let total: f64 = next.iter().sum();
        if total == 0.0 {
            return 0.0;
        }
        if step >= STEPS {
            log_growth += total.ln();
        }
        items = next.into_iter().map(|value| value / total).collect();
    }
    (log_growth / f64::from(STEPS)).exp()
}
