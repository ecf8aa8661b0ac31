//! The classifiers trust links that fit a model.

use isochrony_tune::trust::{LinkFeatures, Model, TrustClassifier};
use isochrony_tune::{FiniteQueue, Queue};

const SENT: f64 = 100_000.0;

/// Exactly a finite queue of the given utilization.
fn ideal(queue: Queue, capacity: usize, items: u64, cvs: [f64; 2]) -> LinkFeatures {
    let finite = queue.with_capacity(capacity + 2).unwrap();
    let busy = finite.throughput();
    LinkFeatures {
        items,
        capacity,
        interarrival_s: 1.0 / queue.utilization(),
        interarrival_cv: cvs[0],
        service_s: 1.0,
        service_cv: cvs[1],
        writer_wait_share: 1.0 - busy / queue.utilization(),
        reader_wait_share: 1.0 - busy,
        reader_output_wait_share: 0.0,
        occupancy: seen(&finite, capacity),
    }
}

fn seen(finite: &FiniteQueue, capacity: usize) -> [u64; 9] {
    let mut counts = [0; 9];
    for n in 0..=capacity + 1 {
        let waiting = n.saturating_sub(1).min(capacity);
        counts[8 * waiting / capacity] += (SENT * finite.probability(n)).round() as u64;
    }
    counts
}

fn margin(features: &LinkFeatures, model: Model) -> f64 {
    let scores = TrustClassifier::builtin()
        .unwrap()
        .scores(features)
        .unwrap();
    scores
        .iter()
        .find(|score| score.model == model)
        .unwrap()
        .margin
}

#[test]
fn a_link_that_is_the_model_is_trusted() {
    for (load, capacity) in [(0.3, 8), (0.5, 16), (0.6, 32)] {
        let exponential = ideal(Queue::mm1(load, 1.0).unwrap(), capacity, 15_000, [1.0, 1.0]);
        assert!(margin(&exponential, Model::Mm1k) >= 0.0, "{exponential:?}");
        let constant = ideal(Queue::md1(load, 1.0).unwrap(), capacity, 15_000, [1.0, 0.0]);
        assert!(margin(&constant, Model::Md1k) >= 0.0, "{constant:?}");
    }
}

#[test]
fn the_margin_falls_as_measurements_leave_the_model() {
    // A stage after the reader holds it up: no model of the link alone knows that.
    let queue = Queue::mm1(0.6, 1.0).unwrap();
    let mut features = ideal(queue, 16, 15_000, [1.0, 1.0]);
    let mut margins = [[0.0; 4]; 4];
    for (step, margins) in margins.iter_mut().enumerate() {
        features.reader_output_wait_share = 0.1 * step as f64;
        features.reader_wait_share = 0.4 - features.reader_output_wait_share;
        *margins = Model::ALL.map(|model| margin(&features, model));
    }
    for pair in margins.windows(2) {
        for (before, after) in pair[0].iter().zip(pair[1]) {
            assert!(after < *before, "{margins:?}");
        }
    }

    // Sends move from an empty link to a full one.
    let mut features = ideal(queue, 16, 15_000, [1.0, 1.0]);
    let mut margins = Vec::new();
    for _ in 0..4 {
        margins.push(margin(&features, Model::Mm1k));
        let moved = features.occupancy[0] / 8;
        features.occupancy[0] -= moved;
        features.occupancy[7] += moved;
    }
    assert!(margins.is_sorted_by(|a, b| a > b), "{margins:?}");
    assert!(margins[0] >= 0.0 && margins[3] < 0.0, "{margins:?}");
}

#[test]
fn predictions_are_those_of_the_queue_with_the_held_items() {
    let features = ideal(Queue::mm1(0.8, 1.0).unwrap(), 6, 1_000, [1.0, 1.0]);
    // M/M/1 with room for 8: the reader and a waiting writer hold an item each.
    let weights: Vec<f64> = (0..=8).map(|n| 0.8f64.powi(n)).collect();
    let sum: f64 = weights.iter().sum();
    let prediction = Model::Mm1k.predict(&features, 6).unwrap();
    assert!((prediction.throughput - (1.0 - weights[0] / sum)).abs() < 1e-12);
    let items = (2..=7).map(|n| (n - 1) as f64 * weights[n]).sum::<f64>() + 6.0 * weights[8];
    assert!((prediction.mean_items.unwrap() - items / sum).abs() < 1e-12);
    let flow = Model::Flow.predict(&features, 6).unwrap();
    assert!((flow.throughput - 0.8).abs() < 1e-12 && flow.mean_items.is_none());
    let error = Model::Mm1k.predict(&features, usize::MAX).unwrap_err();
    assert_eq!(error.code(), "parameter");
}
