//! Examples worked by hand, including those of the RaftLib dissertation.

use isochrony_tune::{FlowGraph, FlowModel, Limit, Resources, Server, Source, SourceRule};

use super::{chain, close, route, source};

/// Figures 4.6 and 4.7: A splits 2 to 1 to B and C, which meet in D. Flows in MB/s.
#[test]
fn dissertation_figure_4_7_has_these_flows() {
    let names = ["A", "AB", "AC", "B", "C", "BD", "CD", "D"];
    let mut servers: Vec<Server> = names.map(|name| Server::new(name, 0.001)).into();
    // Kernel C alone takes 40 MB/s; three kernels on its core leave 13.33 (figure 4.5).
    servers[4].service_time = 3.0 / 40.0;
    let routes = [
        (0, 1, 2.0 / 3.0),
        (0, 2, 1.0 / 3.0),
        (1, 3, 1.0),
        (2, 4, 1.0),
        (3, 5, 1.0),
        (4, 6, 1.0),
        (5, 7, 1.0),
        (6, 7, 1.0),
    ];
    let model = FlowModel::new(FlowGraph {
        servers,
        routes: routes
            .map(|(from, to, share)| route(from, to, share))
            .into(),
        sources: vec![source(0, Some(26.7))],
        ..FlowGraph::default()
    })
    .unwrap();
    let printed = [26.7, 17.84, 8.92, 17.84, 8.92, 17.84, 8.92, 26.7];
    let solution = model.solve();
    for ((name, rate), printed) in names.iter().zip(&solution.server_rates).zip(printed) {
        assert!(
            (rate / printed - 1.0).abs() < 0.003,
            "{name}: {rate}, printed {printed}"
        );
    }
    assert!(close(solution.server_utilizations[4], 8.9 / (40.0 / 3.0)));
}

/// Equation 4.8.
#[test]
fn busy_servers_on_one_core_divide_its_rate() {
    let mut graph = chain(
        ["a", "b", "c"]
            .map(|name| Server::new(name, 1.0 / 40.0))
            .into(),
    );
    graph.resources.cores = Some(1.0);
    let solution = FlowModel::new(graph).unwrap().solve();
    assert!(close(solution.source_rates[0], 40.0 / 3.0));
    assert_eq!(solution.bottleneck, Limit::Cores);
    assert_eq!(solution.core_utilization, Some(1.0));
}

/// Figure 4.1: RGB2YCbCr copies every pixel to three stages.
#[test]
fn a_split_with_gain_three_gives_every_branch_each_item() {
    let mut split = Server::new("RGB2YCbCr", 0.1);
    split.gain = 3.0;
    let mut servers = vec![split];
    servers.extend(["Y", "Cb", "Cr"].map(|name| Server::new(name, 0.2)));
    servers.push(Server::new("encode", 0.1));
    let third = 1.0 / 3.0;
    let mut routes: Vec<_> = (1..=3).map(|to| route(0, to, third)).collect();
    routes.extend((1..=3).map(|from| route(from, 4, 1.0)));
    let graph = FlowGraph {
        servers,
        routes,
        sources: vec![source(0, None)],
        ..FlowGraph::default()
    };
    let model = FlowModel::new(graph).unwrap();
    let expected = [1.0, 1.0, 1.0, 1.0, 3.0];
    assert!(
        model
            .visits(0)
            .unwrap()
            .iter()
            .zip(expected)
            .all(|(&a, b)| close(a, b))
    );
    assert_eq!(model.solve().bottleneck, Limit::Server(4));
    assert!(close(model.solve().source_rates[0], 1.0 / 0.3));
    assert!(close(model.replica_gains()[4], 5.0 - 1.0 / 0.3));
}

#[test]
fn feedback_multiplies_visits_by_the_geometric_series() {
    // A quarter of the output of `check` returns: each item is checked 1 / (1 - 1/4) times.
    let mut graph = chain(vec![Server::new("read", 0.1), Server::new("check", 0.3)]);
    graph.routes.push(route(1, 1, 0.25));
    let model = FlowModel::new(graph).unwrap();
    assert!(close(model.visits(0).unwrap()[1], 4.0 / 3.0));
    assert!(close(model.solve().source_rates[0], 2.5));
}

#[test]
fn each_limit_is_named_with_its_values() {
    let mut graph = chain(vec![Server::new("read", 0.01), Server::new("filter", 0.04)]);
    graph.servers[0].bytes_per_item = 1e6;
    graph.servers[1].replicas = 2;
    let solve = |graph: &FlowGraph| {
        let model = FlowModel::new(graph.clone()).unwrap();
        let solution = model.solve();
        (solution.source_rates[0], model.explain(solution.bottleneck))
    };
    let (rate, text) = solve(&graph);
    assert!(close(rate, 50.0));
    assert_eq!(
        text,
        "server 1 (filter) is at its largest utilization of 1, with replicas=2 and service_time=0.04 s; add a \
         replica, or make it faster"
    );
    graph.resources.max_utilization = 0.9;
    assert!(close(solve(&graph).0, 45.0));
    graph.servers[1].holds_lock = true;
    let (rate, text) = solve(&graph);
    assert!(close(rate, 25.0));
    assert!(
        text.starts_with("the interpreter's lock is always held;"),
        "{text}"
    );
    graph.resources.disk_bytes_per_second = Some(20e6);
    let (rate, text) = solve(&graph);
    assert!(close(rate, 20.0));
    assert!(
        text.starts_with("the disk transfers all the 20000000 bytes/s"),
        "{text}"
    );
    graph.resources.cores = Some(0.5);
    let (rate, text) = solve(&graph);
    assert!(close(rate, 10.0));
    assert!(text.starts_with("all 0.5 cores are busy;"), "{text}");
    graph.sources[0].rate = Some(3.0);
    let (rate, text) = solve(&graph);
    assert!(close(rate, 3.0));
    assert_eq!(
        text,
        "source 0 has no more than 3 items/s arriving; the plan can take more"
    );
}

/// The second source passes a slow server, which holds back a join only.
#[test]
fn source_rule_decides_who_waits_for_the_slow_source() {
    let sources = [(0, 1.0), (1, 2.0)].map(|(server, weight)| Source {
        server,
        rate: None,
        weight,
    });
    let mut graph = FlowGraph {
        servers: vec![
            Server::new("fast", 0.1),
            Server::new("slow", 1.0),
            Server::new("merge", 0.125),
        ],
        routes: vec![route(0, 2, 1.0), route(1, 2, 1.0)],
        sources: sources.into(),
        ..FlowGraph::default()
    };
    let solution = FlowModel::new(graph.clone()).unwrap().solve();
    assert_eq!(solution.source_rates, [0.5, 1.0]);
    assert_eq!(solution.source_limits, [Limit::Server(1); 2]);
    graph.source_rule = SourceRule::MaxMinFair;
    let model = FlowModel::new(graph).unwrap();
    let solution = model.solve();
    assert!(close(solution.source_rates[0], 7.0) && close(solution.source_rates[1], 1.0));
    assert_eq!(solution.source_limits, [Limit::Server(2), Limit::Server(1)]);
    assert_eq!(solution.bottleneck, Limit::Server(1));
    // The merge is full: the fast source loses what the slow one gains.
    assert!(close(1.0 + model.replica_gains()[1], 1.0));
}

#[test]
fn servers_that_no_item_reaches_are_idle() {
    let mut graph = chain(vec![Server::new("read", 0.5), Server::new("write", 0.1)]);
    graph.servers.push(Server::new("unused", 7.0));
    graph.resources = Resources::default();
    let solution = FlowModel::new(graph).unwrap().solve();
    assert_eq!(solution.server_rates, [2.0, 2.0, 0.0]);
    assert_eq!(solution.server_utilizations[2], 0.0);
}
