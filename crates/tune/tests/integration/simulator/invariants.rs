//! Invariants of every run.

use fastrand::Rng;
use isochrony_tune::simulator::{
    RunTotals, SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource,
    SimulatedStage, StageSchedule, TimeDistribution, random_plan,
};
use isochrony_tune::{Configuration, Window};

use super::{assert_close, exponential};

/// Several sources and links; the simulator may refuse it.
fn random_graph(seed: u64) -> SimulatedPlan {
    let mut random = Rng::with_seed(seed);
    let count = random.usize(2..9);
    let mut links = Vec::new();
    let mut is_source = vec![false; count];
    for (to, is_source) in is_source.iter_mut().enumerate() {
        *is_source = to == 0 || random.u8(..4) == 0;
        let inputs = if *is_source {
            0
        } else {
            random.usize(1..=3.min(to))
        };
        let mut froms: Vec<usize> = (0..to).collect();
        random.shuffle(&mut froms);
        links.extend(froms[..inputs].iter().map(|&from| (from, to)));
    }
    for from in 0..count - 1 {
        if links.iter().all(|link| link.0 != from) {
            links.push((from, count - 1));
        }
    }
    let stages = (0..count).map(|number| {
        let inputs = links.iter().filter(|link| link.1 == number).count();
        let can = inputs == 1 && !is_source[number] && number + 1 < count;
        let items = random.u64(1..200);
        SimulatedStage {
            source: is_source[number].then_some(SimulatedSource::Finite { items }),
            max_replicas: if can { random.usize(1..5) } else { 1 },
            burst_items: random.usize(1..5),
            in_order: random.u8(..4) > 0,
            ..SimulatedStage::new("any", exponential(random.f64() * 0.001))
        }
    });
    SimulatedPlan {
        stages: stages.collect(),
        links: links
            .iter()
            .map(|&(from, to)| SimulatedLink {
                from,
                to,
                gain: [0.3, 0.5, 1.0, 1.0, 1.0, 2.0, 2.5][random.usize(..7)],
                item_bytes: random.u64(1..1000),
            })
            .collect(),
        changes: Vec::new(),
    }
}

fn random_machine(random: &mut Rng, cores: usize) -> SimulatedMachine {
    let schedule = match random.u8(..4) {
        0 => StageSchedule::ThreadPerStage,
        1 => StageSchedule::CacheWeightedStealing {
            threshold: random.usize(..3),
        },
        _ => StageSchedule::NearestToEnd,
    };
    match random.bool() {
        true => SimulatedMachine::ideal(cores),
        false => SimulatedMachine {
            schedule,
            ..SimulatedMachine::typical(cores)
        },
    }
}

fn random_configuration(random: &mut Rng, plan: &SimulatedPlan) -> Configuration {
    let stages = plan.stages.iter();
    let replicas = stages.map(|stage| random.usize(1..=stage.max_replicas));
    Configuration {
        replicas: replicas.collect(),
        workers: random.usize(1..7),
        link_bytes: plan.links.iter().map(|_| random.u64(1..1500)).collect(),
        task_bytes: 0,
        batch_tasks: 0,
    }
}

fn assert_conserved(plan: &SimulatedPlan, totals: &RunTotals, is_over: bool) {
    let mut received = vec![0; plan.stages.len()];
    for (link, of_link) in plan.links.iter().zip(&totals.links) {
        assert_eq!(of_link.sent, of_link.received + of_link.held);
        received[link.to] += of_link.received;
        let given = (link.gain * totals.computed[link.from] as f64).floor() as u64;
        match is_over {
            true => assert_eq!((of_link.sent, of_link.held), (given, 0)),
            // Results may wait in the reorder buffer; without one, later items may come first.
            false => {
                let computed =
                    totals.computed[link.from] + plan.stages[link.from].max_replicas as u64;
                assert!(of_link.sent <= (link.gain * computed as f64).floor() as u64);
            }
        }
    }
    for (stage, received) in received.iter().enumerate() {
        let taken = received + totals.given[stage];
        let in_flight = taken - totals.computed[stage];
        assert!(in_flight <= plan.stages[stage].max_replicas as u64);
        assert!(!is_over || in_flight == 0);
    }
}

#[test]
fn random_graphs_with_tiny_links_end_and_lose_nothing() {
    let (mut accepted, mut seed) = (0, 0);
    while accepted < 300 {
        seed += 1;
        assert!(seed < 3000, "{accepted} graphs of {seed}");
        let plan = random_graph(seed);
        if plan.check().is_err() {
            continue;
        }
        accepted += 1;
        let mut random = Rng::with_seed(seed);
        let cores = random.usize(1..6);
        let machine = random_machine(&mut random, cores);
        let start = random_configuration(&mut random, &plan);
        let mut run = SimulatedRun::new(plan.clone(), machine, start, seed).unwrap();
        for _ in 0..random.usize(..6) {
            run.window(random.f64() * 0.02);
            assert_conserved(&plan, &run.totals(), false);
            let next = random_configuration(&mut random, &plan);
            run.configure(&next).unwrap();
        }
        assert!(run.run_to_end().is_finite(), "seed {seed} hangs: {plan:?}");
        let totals = run.totals();
        assert_conserved(&plan, &totals, true);
        let given: u64 = totals.given.iter().sum();
        assert_eq!(totals.window.delivered, given as f64, "seed {seed}");
        let finite = |stage: &SimulatedStage| match stage.source {
            Some(SimulatedSource::Finite { items }) => items,
            _ => 0,
        };
        assert_eq!(given, plan.stages.iter().map(finite).sum::<u64>());
    }
}

#[test]
fn the_time_that_items_spend_in_links_obeys_littles_law() {
    for seed in 0..40 {
        let plan = finite_plan(seed, 8, 500);
        let start = plan.configuration(6, 4 << 20);
        let machine = SimulatedMachine::typical(8);
        let mut run = SimulatedRun::new(plan, machine, start, seed).unwrap();
        assert!(run.run_to_end().is_finite());
        // Little's law times the elapsed time.
        for link in run.totals().links {
            assert!((link.item_seconds - link.wait_s).abs() <= 1e-9 * link.wait_s.max(1e-3));
        }
    }
}

fn finite_plan(seed: u64, cores: usize, items: u64) -> SimulatedPlan {
    let mut plan = random_plan(seed, cores);
    plan.stages[0].source = Some(SimulatedSource::Finite { items });
    plan
}

fn windows(seed: u64, seconds: f64) -> (Vec<Window>, Window, Configuration) {
    let plan = finite_plan(7, 8, 2000);
    let mut start = plan.configuration(8, 1 << 20);
    let replicas = start.replicas.iter_mut().zip(&plan.stages);
    replicas.for_each(|(replicas, stage)| *replicas = stage.max_replicas.min(2));
    let machine = SimulatedMachine::typical(8);
    let mut run = SimulatedRun::new(plan, machine, start.clone(), seed).unwrap();
    let mut windows = Vec::new();
    while !run.is_over() {
        windows.push(run.window(seconds));
    }
    assert_eq!(run.window(seconds).elapsed_s, 0.0);
    (windows, run.totals().window, start)
}

#[test]
fn the_same_seed_gives_the_same_windows() {
    let first = windows(5, 0.01);
    assert!(first.0.len() > 10);
    assert_eq!(first, windows(5, 0.01));
    assert_ne!(first, windows(6, 0.01));
}

#[test]
fn windows_add_up_to_the_run_and_their_length_changes_nothing() {
    let (short, totals, configuration) = windows(5, 0.003);
    let (long, of_long, _) = windows(5, 0.1);
    assert!(short.len() > 3 * long.len());
    for windows in [&short, &long] {
        let mut sum = Window::default();
        windows.iter().for_each(|window| sum.add(window));
        assert_windows_equal(&sum, &totals);
    }
    assert_windows_equal(&of_long, &totals);
    for window in short.iter().chain(&long) {
        for (stage, &replicas) in window.stages.iter().zip(&configuration.replicas) {
            let sum = stage.busy_s + stage.input_wait_s + stage.output_wait_s + stage.core_wait_s;
            assert!(sum <= replicas as f64 * window.elapsed_s + 1e-9);
        }
        let occupancies = window.links.iter().map(|link| link.occupancy);
        assert!(
            occupancies
                .into_iter()
                .all(|part| (0.0..=1.0).contains(&part))
        );
        assert!(window.cpu_s <= 8.0 * window.elapsed_s + 1e-9);
    }
}

#[track_caller]
fn assert_windows_equal(found: &Window, expected: &Window) {
    let numbers = |window: &Window| -> Vec<f64> {
        let stages = window.stages.iter().flat_map(|stage| {
            let waits = [stage.input_wait_s, stage.output_wait_s, stage.core_wait_s];
            [stage.items, stage.busy_s].into_iter().chain(waits)
        });
        let links = window.links.iter();
        let links = links.flat_map(|link| [link.bytes, link.occupancy]);
        let own = [window.elapsed_s, window.delivered, window.cpu_s];
        own.into_iter().chain(stages).chain(links).collect()
    };
    for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0));
    }
}

#[test]
fn items_take_the_same_time_in_every_configuration() {
    let plan = finite_plan(11, 8, 800);
    let busy = |workers: usize, replicas: usize| -> Vec<f64> {
        let mut start = plan.configuration(workers, 1 << 18);
        let pairs = start.replicas.iter_mut().zip(&plan.stages);
        pairs.for_each(|(count, stage)| *count = replicas.min(stage.max_replicas));
        let machine = SimulatedMachine::ideal(16);
        let mut run = SimulatedRun::new(plan.clone(), machine, start, 9).unwrap();
        assert!(run.run_to_end().is_finite());
        let stages = run.totals().window.stages;
        stages.iter().map(|stage| stage.busy_s).collect()
    };
    let one = busy(1, 1);
    for (one, other) in one.iter().zip(busy(16, 8)) {
        assert_close(other, *one, 1e-9);
    }
    let varies =
        |stage: &SimulatedStage| !matches!(stage.service, TimeDistribution::Constant { .. });
    assert!(plan.stages.iter().any(varies));
}
