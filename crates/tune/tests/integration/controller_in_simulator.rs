//! The controller on simulated plans.

use super::formula_plan::ENDLESS;
use isochrony_tune::simulator::{
    Competitor, CostChange, SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource,
    SimulatedStage, TimeDistribution, best_configuration, random_plan,
};
use isochrony_tune::{Configuration, Controller, ControllerOptions, Outcome};

const WINDOW_S: f64 = 0.25;

fn ones(plan: &SimulatedPlan) -> Configuration {
    Configuration {
        workers: 1,
        replicas: vec![1; plan.stages.len()],
        link_bytes: vec![1 << 20; plan.links.len()],
        task_bytes: 0,
        batch_tasks: 0,
    }
}

fn controller(plan: &SimulatedPlan, cores: usize) -> Controller {
    let limits = plan.limits(cores, 1 << 16, 1 << 24);
    let options = ControllerOptions {
        cores,
        ..ControllerOptions::default()
    };
    Controller::new(ones(plan), limits, options).unwrap()
}

fn tune(
    controller: &mut Controller,
    run: &mut SimulatedRun,
    is_done: impl Fn(&Controller, &SimulatedRun) -> bool,
) {
    for _ in 0..3000 {
        if is_done(controller, run) {
            return;
        }
        let window = run.window(WINDOW_S);
        let next = controller.observe(&window, ENDLESS).clone();
        run.configure(&next).unwrap();
    }
    let decisions = controller.decisions().iter();
    panic!(
        "not settled: {:#?}",
        decisions.map(ToString::to_string).collect::<Vec<_>>()
    );
}

fn rate(plan: &SimulatedPlan, machine: &SimulatedMachine, configuration: &Configuration) -> f64 {
    let mut run =
        SimulatedRun::new(plan.clone(), machine.clone(), configuration.clone(), 9).unwrap();
    run.window(1.0);
    run.window(4.0).rate()
}

fn chain(times: &[f64], replicas: &[usize]) -> SimulatedPlan {
    let stages = times.iter().zip(replicas).enumerate();
    let stages = stages.map(|(at, (&mean_s, &replicas))| {
        let service = TimeDistribution::Lognormal { mean_s, cv: 0.3 };
        let stage = SimulatedStage::new(format!("stage {at}"), service).with_replicas(replicas);
        match at {
            0 => stage.with_source(SimulatedSource::Endless),
            _ => stage,
        }
    });
    SimulatedPlan::chain(stages.collect(), 1 << 17)
}

#[test]
fn reaches_most_of_the_best_configuration_of_random_plans() {
    let (mut logs, mut worst) = (0.0, f64::INFINITY);
    const PLANS: u64 = 12;
    for seed in 0..PLANS {
        let plan = random_plan(seed, 8);
        let machine = SimulatedMachine::typical(8);
        let best = best_configuration(&plan, &machine).unwrap();
        let mut controller = controller(&plan, 8);
        let mut run = SimulatedRun::new(plan.clone(), machine.clone(), ones(&plan), seed).unwrap();
        tune(&mut controller, &mut run, |controller, _| {
            controller.is_settled()
        });
        let best = rate(&plan, &machine, &best.configuration);
        let part = rate(&plan, &machine, controller.kept()) / best;
        logs += part.ln();
        worst = f64::min(worst, part);
    }
    let mean = (logs / PLANS as f64).exp();
    assert!(mean > 0.95 && worst > 0.85, "{mean} {worst}");
}

#[test]
fn an_operator_that_becomes_ten_times_dearer_takes_at_most_three_changes() {
    let mut plan = chain(&[100e-6, 200e-6, 100e-6], &[1, 16, 1]);
    let at_s = 120.0;
    plan.changes.push(CostChange {
        stage: 1,
        at_s,
        factor: 10.0,
    });
    let machine = SimulatedMachine::typical(16);
    let mut controller = controller(&plan, 16);
    let mut run = SimulatedRun::new(plan.clone(), machine, ones(&plan), 5).unwrap();
    tune(&mut controller, &mut run, |controller, run| {
        controller.is_settled() && run.now() < at_s
    });
    let before = controller.decisions().len();
    let noticed = |controller: &Controller| {
        let later = &controller.decisions()[before..];
        later.iter().any(|one| one.outcome == Outcome::LoadChanged)
    };
    tune(&mut controller, &mut run, |controller, _| {
        noticed(controller) && controller.is_settled()
    });
    let later = &controller.decisions()[before..];
    let kept = later.iter().filter(|one| one.outcome == Outcome::Kept);
    assert!(kept.count() <= 3, "{later:#?}");
    // 2 ms on up to 13 threads: the model's optimum is 6,250 per second.
    let reached = run.window(4.0).rate();
    assert!(reached > 0.9 * 6250.0, "{reached} {:?}", controller.kept());
}

#[test]
fn a_competitor_that_starts_midway_takes_at_most_three_changes() {
    let plan = chain(&[100e-6, 400e-6, 100e-6], &[1, 4, 1]);
    let mut machine = SimulatedMachine::typical(4);
    let from_s = 120.0;
    machine.competitors.push(Competitor {
        threads: 1,
        start_s: from_s,
        end_s: f64::INFINITY,
    });
    let mut controller = controller(&plan, 4);
    let mut run = SimulatedRun::new(plan.clone(), machine, ones(&plan), 5).unwrap();
    tune(&mut controller, &mut run, |controller, run| {
        controller.is_settled() && run.now() < from_s
    });
    let before = controller.decisions().len();
    tune(&mut controller, &mut run, |controller, run| {
        run.now() > from_s + 60.0 && controller.is_settled()
    });
    let later = &controller.decisions()[before..];
    let kept = later.iter().filter(|one| one.outcome == Outcome::Kept);
    assert!(kept.count() <= 3, "{later:#?}");
    let noticed = later.iter().any(|one| one.outcome == Outcome::LoadChanged);
    assert!(noticed, "{later:#?}");
    // What each number of threads reaches beside it, one after another.
    let reached = run.window(4.0).rate();
    let mut best: f64 = 0.0;
    for workers in 1..=4 {
        let configuration = Configuration {
            workers,
            replicas: vec![1, 4, 1],
            link_bytes: controller.kept().link_bytes.clone(),
            task_bytes: 0,
            batch_tasks: 0,
        };
        run.configure(&configuration).unwrap();
        run.window(1.0);
        best = best.max(run.window(4.0).rate());
    }
    assert!(reached > 0.9 * best, "{reached} of {best}");
}

/// A feed of 3,000 items per second, whose second stage becomes eight times dearer: one thread no longer suffices.
#[test]
fn a_feed_gets_threads_at_once_when_items_cost_more() {
    let mut plan = chain(&[50e-6, 100e-6, 50e-6], &[1, 8, 1]);
    let interval = TimeDistribution::Constant {
        mean_s: 1.0 / 3000.0,
    };
    plan.stages[0].source = Some(SimulatedSource::Arrivals {
        interval,
        items: None,
    });
    let at_s = 60.0;
    plan.changes.push(CostChange {
        stage: 1,
        at_s,
        factor: 8.0,
    });
    let machine = SimulatedMachine::typical(8);
    let mut controller = controller(&plan, 8);
    let mut run = SimulatedRun::new(plan.clone(), machine, ones(&plan), 5).unwrap();
    tune(&mut controller, &mut run, |controller, run| {
        controller.is_settled() && run.now() < at_s
    });
    assert_eq!(
        controller.kept().workers,
        1,
        "{:#?}",
        controller.decisions()
    );
    let before = controller.decisions().len();
    // 2.7 threads compute all the time.
    tune(&mut controller, &mut run, |controller, _| {
        controller.kept().workers >= 3 && controller.kept().replicas[1] >= 3
    });
    let seconds = run.now() - at_s;
    assert!(seconds < 10.0 * WINDOW_S, "{seconds} s");
    let later = &controller.decisions()[before..];
    assert_eq!(later[0].outcome, Outcome::LoadChanged, "{later:#?}");
    assert_eq!(later[1].outcome, Outcome::Applied, "{later:#?}");
    tune(&mut controller, &mut run, |controller, _| {
        controller.is_settled()
    });
    let rate = run.window(4.0).rate();
    assert!(
        (rate / 3000.0 - 1.0).abs() < 0.02,
        "{rate}: {:#?}",
        controller.decisions()
    );
}
