//! Exact models against a simulation.

use isochrony_tune::Queue;

use super::simulator::{Station, Times};

const ITEMS: usize = 20_000;

const POISSON: Times = Times::Erlang(1);

fn queue(station: &Station) -> Queue {
    Queue::gg1(
        station.load,
        1.0,
        station.arrivals.scv(),
        station.service.scv(),
    )
    .unwrap()
}

#[test]
fn waits_and_states_of_unbounded_queues_lie_within_the_intervals() {
    let services = [
        Times::Erlang(1),
        Times::Constant,
        Times::Erlang(3),
        Times::Hyperexponential(4.0),
        Times::Lognormal(2.0),
    ];
    for (seed, service) in services.into_iter().enumerate() {
        for load in [0.3, 0.6, 0.8] {
            let station = Station {
                load,
                arrivals: POISSON,
                service,
            };
            let found = station.lose(usize::MAX, ITEMS, seed as u64);
            let queue = queue(&station);
            let wait = queue.mean_wait().unwrap();
            assert!(
                found.wait.contains(wait),
                "{station:?}: wait {wait}, {:?}",
                found.wait
            );
            assert!(
                found.wait.half_width < 0.25 * found.wait.mean,
                "{station:?}: {:?}",
                found.wait
            );
            // Exact for gamma-distributed service only.
            if matches!(service, Times::Constant | Times::Erlang(_)) {
                for (items, seen) in found.seen.iter().enumerate() {
                    let share = queue.probability(items).unwrap();
                    assert!(
                        seen.contains(share),
                        "{station:?}: p({items}) {share}, {seen:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn finite_queues_lie_within_the_intervals() {
    for (seed, service) in [Times::Erlang(1), Times::Constant, Times::Erlang(3)]
        .into_iter()
        .enumerate()
    {
        for load in [0.6, 0.95, 1.4] {
            for capacity in [1, 2, 4, 9] {
                let station = Station {
                    load,
                    arrivals: POISSON,
                    service,
                };
                let found = station.lose(capacity, ITEMS, 100 + seed as u64);
                let finite = queue(&station).with_capacity(capacity).unwrap();
                let (blocking, throughput) = (finite.blocking_probability(), finite.throughput());
                assert!(
                    found.blocked.contains(blocking),
                    "{station:?}: blocking {blocking}, {:?}",
                    found.blocked
                );
                assert!(
                    found.throughput.contains(throughput),
                    "{station:?}: {throughput}, {:?}",
                    found.throughput
                );
                assert!(
                    found.wait.contains(finite.mean_wait()),
                    "{station:?}: {}, {:?}",
                    finite.mean_wait(),
                    found.wait
                );
                for (items, seen) in found.seen.iter().enumerate() {
                    let share = finite.probability(items);
                    assert!(
                        seen.contains(share),
                        "{station:?}: p({items}) {share}, {seen:?}"
                    );
                }
                // A waiting Poisson producer is as fast: it and the server hold an item each.
                if capacity >= 2 {
                    let waiting = station.wait(capacity - 2, ITEMS, 200 + seed as u64);
                    assert!(
                        waiting.contains(throughput),
                        "{station:?}: waits {throughput}, {waiting:?}"
                    );
                }
            }
        }
    }
}
