//! Oracle: continuous-time Markov chains, by balance equations.

use isochrony_tune::Queue;
use proptest::prelude::*;

use super::near;

/// Stationary probabilities for transitions `(from, to, rate)`, by Gaussian elimination; the sum of 1 replaces the last
/// equation.
fn stationary(states: usize, transitions: &[(usize, usize, f64)]) -> Vec<f64> {
    let mut rows = vec![vec![0.0; states + 1]; states];
    for &(from, to, rate) in transitions {
        rows[to][from] += rate;
        rows[from][from] -= rate;
    }
    rows[states - 1] = vec![1.0; states + 1];
    for k in 0..states {
        let largest = (k..states).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs()));
        rows.swap(k, largest.unwrap());
        let pivot = rows[k].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = row[k] / pivot[k];
            if i != k && factor != 0.0 {
                row[k..]
                    .iter_mut()
                    .zip(&pivot[k..])
                    .for_each(|(value, above)| *value -= factor * above);
            }
        }
    }
    (0..states).map(|k| rows[k][states] / rows[k][k]).collect()
}

/// For Erlang service of `phases` exponential phases (scv 1/phases).
fn erlang_service(
    arrival_rate: f64,
    service_time: f64,
    phases: usize,
    capacity: usize,
) -> Vec<f64> {
    let phase_rate = phases as f64 / service_time;
    // State 0 is empty; `n` items with `left` phases of the first are `(n - 1) * phases + left`.
    let state = |items: usize, left: usize| {
        if items == 0 {
            0
        } else {
            (items - 1) * phases + left
        }
    };
    let mut transitions = vec![(0, state(1, phases), arrival_rate)];
    for items in 1..=capacity {
        for left in 1..=phases {
            let here = state(items, left);
            if items < capacity {
                transitions.push((here, state(items + 1, left), arrival_rate));
            }
            let after = if left > 1 {
                state(items, left - 1)
            } else {
                state(items - 1, phases)
            };
            transitions.push((here, after, phase_rate));
        }
    }
    let chain = stationary(capacity * phases + 1, &transitions);
    let mut shares = vec![chain[0]];
    shares.extend(
        chain[1..]
            .chunks(phases)
            .map(|phases| phases.iter().sum::<f64>()),
    );
    shares
}

fn check_finite(
    queue: Queue,
    arrival_rate: f64,
    service_time: f64,
    shares: &[f64],
) -> Result<(), TestCaseError> {
    let capacity = shares.len() - 1;
    let finite = queue.with_capacity(capacity).unwrap();
    prop_assert_eq!(finite.capacity(), capacity);
    for (items, &share) in shares.iter().enumerate() {
        prop_assert!(
            near(finite.probability(items), share, 1e-9),
            "p({}): {} not {}",
            items,
            finite.probability(items),
            share
        );
    }
    let served = arrival_rate * (1.0 - shares[capacity]);
    let waiting: f64 = shares
        .iter()
        .enumerate()
        .skip(2)
        .map(|(items, share)| (items - 1) as f64 * share)
        .sum();
    let pairs = [
        ("blocking", finite.blocking_probability(), shares[capacity]),
        ("throughput", finite.throughput(), served),
        ("waiting", finite.mean_queue_length(), waiting),
        (
            "items",
            finite.mean_items(),
            waiting + served * service_time,
        ),
        ("wait", finite.mean_wait(), waiting / served),
        (
            "none waiting",
            finite.probability_waiting(0),
            shares[0] + shares[1],
        ),
        (
            "one waiting",
            finite.probability_waiting(1),
            shares.get(2).copied().unwrap_or(0.0),
        ),
        ("beyond", finite.probability(capacity + 1), 0.0),
    ];
    for (what, found, expected) in pairs {
        prop_assert!(
            near(found, expected, 1e-8),
            "{}: {} not {}",
            what,
            found,
            expected
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn exponential_service_equals_the_birth_death_chain(load in 0.05..4.0f64, capacity in 1..=30usize, rate in 0.1..1e4f64) {
        let service_time = load / rate;
        let queue = Queue::mm1(rate, service_time).unwrap();
        check_finite(queue, rate, service_time, &erlang_service(rate, service_time, 1, capacity))?;
    }

    /// Erlang service is gamma-distributed: the model is exact.
    #[test]
    fn erlang_service_equals_its_chain(load in 0.05..4.0f64, phases in 2..=5usize, capacity in 1..=14usize) {
        let queue = Queue::mg1(10.0, load / 10.0, 1.0 / phases as f64).unwrap();
        check_finite(queue, 10.0, load / 10.0, &erlang_service(10.0, load / 10.0, phases, capacity))?;
    }
}

#[test]
fn equal_rates_are_no_special_case() {
    for capacity in [1, 2, 7] {
        let shares = erlang_service(3.0, 1.0 / 3.0, 1, capacity);
        check_finite(Queue::mm1(3.0, 1.0 / 3.0).unwrap(), 3.0, 1.0 / 3.0, &shares).unwrap();
    }
}

#[test]
fn unbounded_queues_equal_chains_with_ample_room() {
    for (load, phases, capacity) in [(0.3, 1, 60), (0.6, 1, 110), (0.6, 2, 70), (0.4, 4, 40)] {
        let queue = Queue::mg1(5.0, load / 5.0, 1.0 / phases as f64).unwrap();
        let shares = erlang_service(5.0, load / 5.0, phases, capacity);
        for (items, share) in shares.iter().enumerate().take(capacity / 4) {
            let found = queue.probability(items).unwrap();
            assert!(
                (found / share - 1.0).abs() < 1e-7,
                "p({items}): {found} not {}",
                share
            );
        }
        let items: f64 = shares
            .iter()
            .enumerate()
            .map(|(items, share)| items as f64 * share)
            .sum();
        assert!(near(queue.mean_items().unwrap(), items, 1e-9));
        assert!(near(queue.mean_queue_length().unwrap(), items - load, 1e-9));
        assert!(near(queue.mean_wait().unwrap(), (items - load) / 5.0, 1e-9));
        assert!(near(
            queue.probability_waiting(0).unwrap(),
            shares[0] + shares[1],
            1e-9
        ));
        assert!(near(queue.probability_waiting(2).unwrap(), shares[3], 1e-9));
    }
}
