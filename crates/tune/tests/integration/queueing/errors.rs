//! Every error of the queueing models: code and message.

use isochrony_tune::{Queue, TuneError};

#[test]
fn values_outside_their_range_are_named() {
    let cases: [(Result<Queue, TuneError>, &str); 7] = [
        (
            Queue::mm1(0.0, 1.0),
            "arrival_rate=0 is refused; it must be finite and above 0",
        ),
        (
            Queue::md1(1.0, -1.0),
            "service_time=-1 is refused; it must be finite and above 0",
        ),
        (
            Queue::mm1(f64::NAN, 1.0),
            "arrival_rate=NaN is refused; it must be finite and above 0",
        ),
        (
            Queue::mm1(200.0, 1.0),
            "arrival_rate * service_time=200 is refused; it must be above 0 and at most 100: a server as busy as that is never idle",
        ),
        (
            Queue::mg1(1.0, 0.5, -0.1),
            "service_scv=-0.1 is refused; it must be 0 to 100",
        ),
        (
            Queue::mg1(1.0, 0.5, 101.0),
            "service_scv=101 is refused; it must be 0 to 100",
        ),
        (
            Queue::gg1(1.0, 0.5, f64::NAN, 1.0),
            "arrival_scv=NaN is refused; it must be 0 to 100",
        ),
    ];
    for (found, text) in cases {
        let error = found.unwrap_err();
        assert_eq!(error.code(), "parameter");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn queues_without_a_steady_state_say_what_to_do() {
    for load in [1.0, 1.5] {
        let queue = Queue::gg1(load, 1.0, 0.5, 0.5).unwrap();
        let found = [
            queue.mean_wait(),
            queue.mean_queue_length(),
            queue.mean_items(),
            queue.probability(2),
        ];
        for error in found.map(|result| result.unwrap_err()) {
            assert_eq!(error.code(), "unstable");
            assert_eq!(
                error.to_string(),
                format!(
                    "utilization={load} leaves the queue without a steady state, which needs less than 1; lower \
                     arrival_rate or service_time, or bound the queue with a capacity"
                )
            );
        }
    }
}

#[test]
fn capacities_and_fractions_outside_their_range_are_named() {
    let poisson = Queue::md1(0.5, 1.0).unwrap();
    let general = Queue::gg1(0.5, 1.0, 2.0, 1.0).unwrap();
    let text = |error: TuneError| error.to_string();
    assert_eq!(
        text(poisson.with_capacity(0).unwrap_err()),
        "capacity=0 is refused; it must be 1 to 65536"
    );
    assert_eq!(
        text(general.with_capacity(1).unwrap_err()),
        "capacity=1 is refused; it must be 2 to 65536 for arrivals other than Poisson"
    );
    assert_eq!(
        text(poisson.probability(70_000).unwrap_err()),
        "items=70000 is refused; it must be at most 65536"
    );
    for fraction in [0.0, 1.0, f64::NAN] {
        let error = poisson.smallest_capacity(fraction).unwrap_err();
        assert_eq!(
            text(error),
            format!("fraction={fraction} is refused; it must be above 0 and below 1")
        );
    }
}

#[test]
fn buffers_beyond_the_largest_are_an_error() {
    let error = Queue::mm1(1.0, 1.0)
        .unwrap()
        .smallest_capacity(0.999_999)
        .unwrap_err();
    assert_eq!(error.code(), "buffer_too_large");
    assert_eq!(
        error.to_string(),
        "fraction=0.999999 needs more than 65536 items at utilization=1; lower fraction, or serve items more evenly"
    );
}
