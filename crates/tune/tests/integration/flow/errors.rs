//! Every error of the flow model: code and message.

use isochrony_tune::{FlowGraph, FlowModel, Server, TuneError};

use super::{chain, route, source};

fn graph() -> FlowGraph {
    chain(vec![Server::new("read", 0.1), Server::new("filter", 0.2)])
}

fn rejected(change: impl Fn(&mut FlowGraph)) -> TuneError {
    let mut graph = graph();
    change(&mut graph);
    FlowModel::new(graph).expect_err("a graph that makes no sense")
}

#[test]
fn values_outside_their_range_are_named_with_their_place() {
    type Change = fn(&mut FlowGraph);
    let cases: [(Change, &str); 13] = [
        (
            |g| g.servers[1].service_time = -1.0,
            "servers[1].service_time=-1 is refused; it must be finite and at least 0",
        ),
        (
            |g| g.servers[0].service_time = f64::NAN,
            "servers[0].service_time=NaN is refused; it must be finite and at least 0",
        ),
        (
            |g| g.servers[1].gain = -0.5,
            "servers[1].gain=-0.5 is refused; it must be finite and at least 0",
        ),
        (
            |g| g.servers[1].bytes_per_item = -8.0,
            "servers[1].bytes_per_item=-8 is refused; it must be finite and at least 0",
        ),
        (
            |g| g.servers[1].replicas = 0,
            "servers[1].replicas=0 is refused; it must be at least 1",
        ),
        (
            |g| g.routes[0].probability = 1.5,
            "routes[0].probability=1.5 is refused; it must be 0 to 1",
        ),
        (
            |g| g.routes[0].probability = -0.1,
            "routes[0].probability=-0.1 is refused; it must be 0 to 1",
        ),
        (
            |g| g.sources[0].rate = Some(0.0),
            "sources[0].rate=0 is refused; it must be finite and above 0",
        ),
        (
            |g| g.sources[0].weight = f64::INFINITY,
            "sources[0].weight=inf is refused; it must be finite and above 0",
        ),
        (
            |g| g.resources.cores = Some(-2.0),
            "resources.cores=-2 is refused; it must be finite and above 0",
        ),
        (
            |g| g.resources.disk_bytes_per_second = Some(0.0),
            "resources.disk_bytes_per_second=0 is refused; it must be finite and above 0",
        ),
        (
            |g| g.resources.max_utilization = 1.1,
            "resources.max_utilization=1.1 is refused; it must be above 0 and at most 1",
        ),
        (
            |g| {
                g.servers[0].gain = 1e200;
                g.servers[1].gain = 1e200;
                g.servers.push(Server::new("third", 0.1));
                g.routes.push(route(1, 2, 1.0));
            },
            "the product of gains on the way to servers[2]=inf is refused; it must be finite",
        ),
    ];
    for (change, start) in cases {
        let error = rejected(change);
        assert_eq!(error.code(), "parameter");
        let text = error.to_string();
        assert!(text.starts_with(start), "{text}");
    }
}

#[test]
fn unknown_servers_are_named_with_the_field() {
    let error = rejected(|graph| graph.routes[0].to = 5);
    assert_eq!(error.code(), "unknown_server");
    assert_eq!(
        error.to_string(),
        "routes[0].to=5 is not a server: the graph has 2 servers, numbered from 0; add the server or change routes[0].to"
    );
    let error = rejected(|graph| graph.sources[0].server = 2);
    assert!(
        error
            .to_string()
            .starts_with("sources[0].server=2 is not a server")
    );
}

#[test]
fn routes_that_send_more_than_all_are_rejected() {
    let error = rejected(|graph| graph.routes.push(route(0, 0, 0.5)));
    assert_eq!(error.code(), "route_sum");
    assert_eq!(
        error.to_string(),
        "the routes from server 0 (read) have probabilities that sum to 1.5, more than 1; lower them, and let gain say \
         how many items come out"
    );
}

#[test]
fn loops_that_never_drain_are_rejected() {
    // `filter` doubles items and returns half of them: as many as it took.
    for (gain, returned) in [(2.0, "1"), (3.0, "1.5")] {
        let error = rejected(|graph| {
            graph.servers[1].gain = gain;
            graph.routes.push(route(1, 0, 0.5));
        });
        assert_eq!(error.code(), "endless_loop");
        assert_eq!(
            error.to_string(),
            format!(
                "a loop never drains: server 1 (filter) gets {returned} items back for each item that it takes; lower \
                 gains or probabilities on the loop until that is below 1"
            )
        );
    }
}

#[test]
fn a_graph_needs_a_source_and_a_limit() {
    let error = rejected(|graph| graph.sources.clear());
    assert_eq!(error.code(), "no_sources");
    assert_eq!(
        error.to_string(),
        "the graph has no sources, so nothing flows; add at least one source"
    );
    let error = rejected(|graph| {
        graph
            .servers
            .iter_mut()
            .for_each(|server| server.service_time = 0.0)
    });
    assert_eq!(error.code(), "unlimited_source");
    assert_eq!(
        error.to_string(),
        "nothing limits source 0, which enters at server 0 (read); give it a rate, or give a server that it reaches a \
         service_time above 0"
    );
    let error = rejected(|graph| {
        graph.servers.push(Server::new("free", 0.0));
        graph.sources.push(source(2, None));
    });
    assert!(
        error
            .to_string()
            .starts_with("nothing limits source 1, which enters at server 2 (free)")
    );
}

#[test]
fn a_budget_below_one_core_for_each_server_is_rejected() {
    let error = FlowModel::new(graph()).unwrap().allocate(1).unwrap_err();
    assert_eq!(error.code(), "budget_too_small");
    assert_eq!(
        error.to_string(),
        "budget=1 cores are fewer than the 2 that one replica of each server needs; raise budget, or join servers"
    );
}

#[test]
fn visits_of_an_unknown_source_are_an_error() {
    let model = FlowModel::new(graph()).unwrap();
    assert_eq!(model.visits(0).unwrap(), [1.0, 1.0]);
    let text = model.visits(1).unwrap_err().to_string();
    assert_eq!(
        text,
        "source=1 is refused; it must be below the number of sources of the graph"
    );
}
