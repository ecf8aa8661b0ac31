//! Known formulas, limits and symmetries.

use isochrony_tune::{Queue, queueing::MAX_CAPACITY};
use proptest::prelude::*;

use super::near;

/// Erlang's alternating formula for M/D/1 (Saaty, Elements of Queueing Theory, 1961). Returns the sum and a bound of
/// its rounding error.
fn erlang_md1(load: f64, items: i32) -> (f64, f64) {
    let power = |base: f64, n: i32| (1..=n).fold(1.0, |product, k| product * base / f64::from(k));
    let mut terms = vec![(f64::from(items) * load).exp()];
    for k in 1..items {
        let sign = if (items - k) % 2 == 0 { 1.0 } else { -1.0 };
        let base = f64::from(k) * load;
        terms.push(sign * base.exp() * (power(base, items - k) + power(base, items - k - 1)));
    }
    if items == 1 {
        terms = vec![load.exp(), -1.0];
    }
    let size: f64 = terms.iter().map(|term: &f64| term.abs()).sum();
    let sum: f64 = terms.iter().sum();
    ((1.0 - load) * sum, 64.0 * f64::EPSILON * size)
}

#[test]
fn constant_service_has_erlangs_state_probabilities() {
    for load in [0.1, 0.5, 0.8, 0.95] {
        let queue = Queue::md1(load, 1.0).unwrap();
        assert!(near(queue.probability(0).unwrap(), 1.0 - load, 1e-12));
        for items in 1..=12 {
            let (expected, error) = erlang_md1(load, items);
            let found = queue.probability(items as usize).unwrap();
            assert!(
                (found - expected).abs() <= error,
                "load {load}, p({items}): {found} not {expected} ± {error}"
            );
        }
    }
}

/// Equation 4.7: the number of items beyond which each has a probability below 10⁻⁷.
#[test]
fn exponential_tail_is_that_of_dissertation_equation_4_7() {
    for load in [0.3f64, 0.7, 0.95] {
        let queue = Queue::mm1(load, 1.0).unwrap();
        let size = (1e-7 / (1.0 - load)).ln() / load.ln() - 1.0;
        let next = size.ceil() as usize + 1;
        assert!(queue.probability(next).unwrap() <= 1e-7);
        assert!(queue.probability(next - 1).unwrap() > 1e-7 * 0.999_999);
    }
}

#[test]
fn probabilities_sum_to_one_and_have_the_pollaczek_khinchine_mean() {
    for scv in [0.0, 0.3, 2.0, 6.0] {
        for load in [0.2, 0.7, 0.9] {
            let queue = Queue::mg1(load, 1.0, scv).unwrap();
            let shares: Vec<f64> = (0..1500)
                .map_while(|items| queue.probability(items).ok().filter(|p| *p > 1e-14))
                .collect();
            let sum: f64 = shares.iter().sum();
            let mean: f64 = shares
                .iter()
                .enumerate()
                .map(|(items, share)| items as f64 * share)
                .sum();
            assert!(near(sum, 1.0, 1e-10), "scv {scv}, load {load}: sum {sum}");
            assert!(
                near(mean, queue.mean_items().unwrap(), 1e-8),
                "scv {scv}, load {load}: mean {mean}"
            );
        }
    }
}

/// For exponential service the wait is `σ / (1 - σ)` service times, where `σ = A(μ (1 - σ))` with the transform `A` of
/// inter-arrival times (Kleinrock I, section 6.4).
#[test]
fn general_arrivals_wait_no_longer_than_kingman_says_and_as_long_near_saturation() {
    let exact_wait = |load: f64, phases: f64| {
        let mut sigma = 0.5;
        for _ in 0..200_000 {
            let transform = (1.0 + (1.0 - sigma) / (load * phases)).powf(-phases);
            sigma = transform;
        }
        sigma / (1.0 - sigma)
    };
    for (phases, scv) in [(2.0, 0.5), (4.0, 0.25), (10.0, 0.1)] {
        for (load, most) in [(0.5, 1.75), (0.8, 1.16), (0.95, 1.03), (0.99, 1.006)] {
            let found = Queue::gg1(load, 1.0, scv, 1.0)
                .unwrap()
                .mean_wait()
                .unwrap();
            let ratio = found / exact_wait(load, phases);
            assert!(
                ratio >= 1.0 && ratio <= most,
                "phases {phases}, load {load}: {ratio}"
            );
        }
    }
}

fn any_queue() -> impl Strategy<Value = (f64, f64, f64)> {
    let scv = || prop_oneof![Just(0.0), Just(1.0), 0.0..6.0f64];
    (0.05..3.0f64, scv(), scv())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn finite_probabilities_are_a_distribution_and_balance((load, arrivals, service) in any_queue(), capacity in 2..60usize) {
        let finite = Queue::gg1(load, 1.0, arrivals, service).unwrap().with_capacity(capacity).unwrap();
        let shares: Vec<f64> = (0..=capacity).map(|items| finite.probability(items)).collect();
        prop_assert!(shares.iter().all(|&share| (0.0..=1.0).contains(&share)), "{:?}", shares);
        prop_assert!(near(shares.iter().sum(), 1.0, 1e-9));
        prop_assert!(near(load * (1.0 - finite.blocking_probability()), finite.throughput(), 1e-9));
    }

    /// Free slots move against the items.
    #[test]
    fn exchanging_producer_and_server_leaves_the_throughput(
        load in 0.05..3.0f64,
        arrivals in 0.05..0.95f64,
        service in 1.05..6.0f64,
        capacity in 2..60usize,
    ) {
        let queue = Queue::gg1(load, 1.0, arrivals, service).unwrap();
        let exchanged = Queue::gg1(1.0, 1.0 / load, service, arrivals).unwrap();
        let pair = [queue, exchanged].map(|queue| queue.with_capacity(capacity).unwrap().throughput());
        prop_assert!(near(pair[0], pair[1], 1e-12 / (load - 1.0).abs().max(1e-4)), "{:?}", pair);
    }

    #[test]
    fn smallest_capacity_is_enough_and_one_less_is_not((load, arrivals, service) in any_queue(), fraction in 0.3..0.995f64) {
        let queue = Queue::gg1(load, 1.0, arrivals, service).unwrap();
        let capacity = queue.smallest_capacity(fraction).unwrap();
        let reached = |capacity| queue.with_capacity(capacity).map(|finite| finite.throughput() / load.min(1.0));
        prop_assert!(reached(capacity).unwrap() >= fraction * (1.0 - 1e-12));
        if let Ok(less) = reached(capacity - 1) {
            prop_assert!(less < fraction * (1.0 + 1e-12), "{} of {} suffice", capacity - 1, capacity);
        }
    }

    #[test]
    fn much_room_approaches_the_unbounded_queue(load in 0.05..0.9f64, arrivals in 0.0..4.0f64, service in 0.0..4.0f64) {
        let queue = Queue::gg1(load, 1.0, arrivals, service).unwrap();
        let finite = queue.with_capacity(2000).unwrap();
        prop_assert!(near(finite.throughput(), load, 1e-9));
        prop_assert!(near(finite.mean_wait(), queue.mean_wait().unwrap(), 1e-6));
        for items in [0, 1, 5] {
            prop_assert!(near(finite.probability(items), queue.probability(items).unwrap(), 1e-9));
        }
    }

    #[test]
    fn equal_rates_are_the_limit_of_nearly_equal_ones(arrivals in 0.0..4.0f64, service in 0.0..4.0f64, capacity in 2..200usize) {
        let throughput = |load| {
            let queue = Queue::gg1(load, 1.0, arrivals, service).unwrap();
            queue.with_capacity(capacity).unwrap().throughput()
        };
        for load in [1.0 - 1e-9, 1.0 + 1e-9, 1.0 - f64::EPSILON, 1.0 + f64::EPSILON] {
            prop_assert!(near(throughput(load), throughput(1.0), 1e-6));
        }
    }
}

#[test]
fn constant_producer_and_constant_server_never_wait() {
    for load in [0.4, 1.0, 2.5] {
        let finite = Queue::gg1(load, 1.0, 0.0, 0.0)
            .unwrap()
            .with_capacity(2)
            .unwrap();
        assert!(
            near(finite.throughput(), f64::min(load, 1.0), 1e-12),
            "load {load}: {}",
            finite.throughput()
        );
    }
}

#[test]
fn extreme_loads_stay_within_the_range_of_numbers() {
    for scv in [0.0, 0.5, 3.0, 100.0] {
        let busy = Queue::mg1(100.0, 1.0, scv).unwrap();
        for capacity in [1, 2, 50, 3000] {
            let finite = busy.with_capacity(capacity).unwrap();
            let throughput = finite.throughput();
            // With room for one item the server idles a hundredth of a service time between items.
            assert!(
                (100.0 / 101.0 - 1e-12..=1.0).contains(&throughput),
                "scv {scv}: {throughput}"
            );
            let sum: f64 = (0..=capacity).map(|items| finite.probability(items)).sum();
            assert!(
                near(sum, 1.0, 1e-9),
                "scv {scv}, capacity {capacity}: {sum}"
            );
        }
        let idle = Queue::mg1(1e-9, 1.0, scv)
            .unwrap()
            .with_capacity(3)
            .unwrap();
        assert!(near(idle.throughput() * 1e9, 1.0, 1e-6));
    }
    let queue = Queue::gg1(0.5, 1.0, 3.0, 0.0).unwrap();
    assert_eq!(
        queue
            .with_capacity(MAX_CAPACITY)
            .unwrap()
            .blocking_probability(),
        0.0
    );
}
