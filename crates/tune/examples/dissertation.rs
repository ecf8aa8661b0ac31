//! Prints, as JSON, counterparts of figures of chapters 4 to 7 of Beard's dissertation (2015).
//!
//! ```text
//! cargo run --profile tested -p isochrony-tune --example dissertation > bench/out/dissertation/models.json
//! ```
//!
//! Simulated, except for the measured noise of execution times. `bench/dissertation.py` compares the output with the
//! dissertation's figures.

#[allow(dead_code)] // The tests use all of it.
#[path = "../tests/integration/queue.rs"]
mod queue;
#[allow(dead_code)]
#[path = "../tests/integration/trust/rows.rs"]
mod rows;

use std::hint::black_box;
use std::time::Instant;

use isochrony_tune::noise::{NoiseKind, rank_noise_models};
use isochrony_tune::service_rate::{
    RateMethod, RateProgress, ServiceRate, ServiceRateMonitor, ServiceRateOptions,
};
use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource, SimulatedStage,
    TimeDistribution, random_plan,
};
use isochrony_tune::trust::{Model, TrustClassifier};
use isochrony_tune::{FlowModel, Queue};
use queue::{QueueSimulation, Service};
use serde_json::{Value, json};

const LINK_BYTES: u64 = 1 << 20;

fn main() {
    let printed = json!({
        "flow_model": flow_model(),
        "buffers": buffers(),
        "noise": noise(),
        "service_rate": service_rate(),
        "changes": changes(),
        "classifier": classifier(),
    });
    println!("{printed:#}");
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(part * (values.len() - 1) as f64).round() as usize]
}

fn flow_model() -> Value {
    const PLANS: u64 = 40;
    const CORES: usize = 16;
    let pairs: Vec<(f64, f64)> = (0..PLANS)
        .map(|seed| {
            let plan = random_plan(seed, CORES);
            let mut configuration = plan.configuration(CORES, LINK_BYTES);
            configuration.replicas = plan.stages.iter().map(|stage| stage.max_replicas).collect();
            let graph = plan.flow_graph(&configuration, CORES);
            let flow = FlowModel::new(graph).expect("the plan is valid").solve();
            let machine = SimulatedMachine::typical(CORES);
            let mut run =
                SimulatedRun::new(plan, machine, configuration, seed).expect("the plan is valid");
            run.window(1.0);
            (flow.source_rates[0], run.window(4.0).rate())
        })
        .collect();
    let errors: Vec<f64> = pairs
        .iter()
        .map(|(flow, seen)| (flow / seen - 1.0).abs())
        .collect();
    json!({
        "plans": PLANS,
        "cores": CORES,
        "median": quantile(&errors, 0.5),
        "p90": quantile(&errors, 0.9),
        "within_10_percent": share(errors.iter().map(|&error| error <= 0.1)),
        "r_squared": r_squared(&pairs),
        "pairs": pairs,
    })
}

fn r_squared(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
    let (first, second) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        let offsets = pairs
            .iter()
            .map(|(one, other)| (one - first, other - second));
        offsets.map(|(one, other)| of(one, other)).sum()
    };
    let joint = sum(&|one, other| one * other);
    joint * joint / (sum(&|one, _| one * one) * sum(&|_, other| other * other))
}

fn share(outcomes: impl Iterator<Item = bool>) -> f64 {
    let outcomes: Vec<bool> = outcomes.collect();
    outcomes.iter().filter(|&&one| one).count() as f64 / outcomes.len() as f64
}

/// Whether the capacity that M/M/1 gives for 95 % of the throughput suffices for other readers.
fn buffers() -> Value {
    const MEAN_S: f64 = 1e-3;
    const ITEM_BYTES: u64 = 1000;
    let mut reached = Vec::new();
    for utilization in [0.3, 0.5, 0.7, 0.8, 0.9, 0.95] {
        let queue = Queue::mm1(utilization / MEAN_S, MEAN_S).expect("it is stable");
        let capacity = queue.smallest_capacity(0.95).expect("it is stable");
        for service in [
            TimeDistribution::Constant { mean_s: MEAN_S },
            TimeDistribution::Lognormal {
                mean_s: MEAN_S,
                cv: 0.5,
            },
            TimeDistribution::Exponential { mean_s: MEAN_S },
        ] {
            let writer = TimeDistribution::Exponential {
                mean_s: MEAN_S / utilization,
            };
            let stages = vec![
                SimulatedStage::new("writer", writer).with_source(SimulatedSource::Endless),
                SimulatedStage::new("reader", service),
            ];
            let plan = SimulatedPlan::chain(stages, ITEM_BYTES);
            let start = plan.configuration(2, capacity as u64 * ITEM_BYTES);
            let mut run = SimulatedRun::new(plan, SimulatedMachine::ideal(2), start, 7)
                .expect("the plan is valid");
            run.window(5.0);
            reached.push(run.window(100.0).rate() * MEAN_S / utilization);
        }
    }
    json!({
        "links": reached.len(),
        "enough": share(reached.iter().map(|&part| part >= 0.95)),
        "least": quantile(&reached, 0.0),
    })
}

/// Nearest noise distribution, for 1 to 100 µs of work.
fn noise() -> Value {
    const RUNS: usize = 3000;
    let mut groups = Vec::new();
    for steps in [1_000, 5_000, 10_000, 50_000, 100_000] {
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let begun = Instant::now();
            let mut state = black_box(1u64);
            for _ in 0..steps {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005));
            }
            black_box(state);
            times.push(begun.elapsed().as_secs_f64());
        }
        let nominal = quantile(&times, 0.5);
        let noise: Vec<f64> = times.iter().map(|time| time - nominal).collect();
        let ranked = rank_noise_models(&noise, 40).expect("times differ");
        let divergences: Vec<Value> = ranked
            .iter()
            .map(|one| json!({"kind": one.model.kind(), "divergence": one.divergence}))
            .collect();
        groups.push(json!({"nominal_s": nominal, "ranked": divergences}));
    }
    json!({"kinds": NoiseKind::ALL, "runs": RUNS, "groups": groups})
}

const MEAN_S: f64 = 1e-3;

fn monitor(method: RateMethod) -> ServiceRateMonitor {
    let options = ServiceRateOptions {
        method,
        ..ServiceRateOptions::default()
    };
    ServiceRateMonitor::new(options).expect("the options are legal")
}

fn estimate(monitor: &mut ServiceRateMonitor, simulation: &mut QueueSimulation) -> Option<f64> {
    loop {
        let sample = simulation.sample(monitor.period_s());
        match monitor.push(sample).expect("the sample is legal") {
            RateProgress::Converged => {
                let ServiceRate::Known {
                    items_per_second, ..
                } = monitor.rate()
                else {
                    return None;
                };
                return Some(items_per_second * simulation.mean_service_s);
            }
            RateProgress::Failed => return None,
            _ => {}
        }
    }
}

fn service_rate() -> Value {
    let methods = [
        (RateMethod::UtilizationLaw, "utilization_law"),
        (RateMethod::FilteredQuantile, "filtered_quantile"),
    ];
    let rows = methods.map(|(method, name)| {
        let mut estimates = Vec::new();
        for service in Service::ALL {
            for utilization in [0.5, 0.7, 0.9, 0.98] {
                for seed in 1..=50 {
                    let mut simulation =
                        QueueSimulation::new(service, MEAN_S, utilization, 1, seed * 7_919);
                    estimates.push(estimate(&mut monitor(method), &mut simulation));
                }
            }
        }
        let known: Vec<f64> = estimates
            .iter()
            .flatten()
            .map(|rate| (rate - 1.0).abs())
            .collect();
        json!({
            "method": name,
            "attempts": estimates.len(),
            "known": known.len() as f64 / estimates.len() as f64,
            "within_10_percent": share(known.iter().map(|&error| error <= 0.1)),
            "within_20_percent": share(known.iter().map(|&error| error <= 0.2)),
        })
    });
    json!(rows)
}

/// Service times double, or fall by two fifths.
fn changes() -> Value {
    const MOST_SAMPLES: usize = 4096;
    let (mut noticed, mut both) = (Vec::new(), Vec::new());
    for service in Service::ALL {
        for (utilization, factor) in [(0.6, 2.0), (0.98, 0.6)] {
            for seed in 1..=25 {
                let mut simulation =
                    QueueSimulation::new(service, MEAN_S, utilization, 1, seed * 31);
                let mut monitor = monitor(RateMethod::UtilizationLaw);
                let first = estimate(&mut monitor, &mut simulation);
                simulation.mean_service_s *= factor;
                let changed = (0..MOST_SAMPLES).any(|_| {
                    let sample = simulation.sample(monitor.period_s());
                    let progress = monitor.push(sample).expect("the sample is legal");
                    progress == RateProgress::Changed
                });
                let second = changed
                    .then(|| estimate(&mut monitor, &mut simulation))
                    .flatten();
                let is_right =
                    |rate: Option<f64>| rate.is_some_and(|rate| (rate - 1.0).abs() <= 0.2);
                noticed.push(changed);
                both.push(is_right(first) && is_right(second));
            }
        }
    }
    json!({
        "runs": noticed.len(),
        "noticed": share(noticed.into_iter()),
        "both_phases_within_20_percent": share(both.into_iter()),
    })
}

/// Links with times of an untrained family.
fn classifier() -> Value {
    let classifier = TrustClassifier::builtin().expect("the weights are built in");
    let rows = rows::held_out();
    let models = Model::ALL.map(|model| {
        let outcomes: Vec<(bool, bool)> = rows
            .iter()
            .map(|row| {
                let trusted = classifier.scores(&row.features).is_ok_and(|scores| {
                    let mut scores = scores.iter();
                    scores.any(|one| one.model == model && one.margin >= 0.0)
                });
                (trusted, row.get(&format!("right_{}", model.name())) == 1.0)
            })
            .collect();
        let part = |of: bool| {
            let given = outcomes.iter().filter(|&&(_, right)| right == of);
            share(given.map(|&(trusted, _)| trusted))
        };
        json!({
            "model": model.name(),
            "accuracy": share(outcomes.iter().map(|(trusted, right)| trusted == right)),
            "true_positives": part(true),
            "false_positives": part(false),
        })
    });
    json!({"links": rows.len(), "models": models})
}
