//! The flow model against oracles.

mod allocation;
mod errors;
mod known_answers;
mod linear_program;
mod random_graphs;

use isochrony_tune::{FlowGraph, Route, Server, Source};

fn chain(servers: Vec<Server>) -> FlowGraph {
    let routes = (1..servers.len())
        .map(|to| route(to - 1, to, 1.0))
        .collect();
    FlowGraph {
        servers,
        routes,
        sources: vec![source(0, None)],
        ..FlowGraph::default()
    }
}

fn route(from: usize, to: usize, probability: f64) -> Route {
    Route {
        from,
        to,
        probability,
    }
}

fn source(server: usize, rate: Option<f64>) -> Source {
    Source {
        server,
        rate,
        weight: 1.0,
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}
