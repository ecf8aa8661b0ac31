//! The controller on plans with a closed-form optimum.

use std::collections::HashSet;

use isochrony_tune::controller::Bottleneck;
use isochrony_tune::{
    Configuration, ConfigurationLimits, Controller, ControllerOptions, LinkWindow, Outcome,
    StageWindow, Window,
};

/// Stages share threads; throughput is a formula, with noise.
struct FormulaPlan {
    costs: Vec<f64>,
    cores: usize,
    /// Loss of speed per further busy thread, as a fraction.
    contention: f64,
    noise: f64,
    /// Per second; None: unlimited.
    arrivals: Option<f64>,
    /// Per thousand samples; stages take turns if a link holds fewer than two items.
    item_bytes: f64,
    random: fastrand::Rng,
}

impl FormulaPlan {
    fn new(costs: &[f64], cores: usize, seed: u64) -> Self {
        Self {
            costs: costs.to_vec(),
            cores,
            contention: 0.0,
            noise: 0.03,
            arrivals: None,
            item_bytes: 0.0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn rate(&self, configuration: &Configuration) -> f64 {
        let takes_turns =
            (configuration.link_bytes.iter()).any(|&bytes| (bytes as f64) < 2.0 * self.item_bytes);
        let threads = match takes_turns {
            true => 1.0,
            false => configuration.workers.min(self.cores) as f64,
        };
        let speed = 1.0 / (1.0 + self.contention * (threads - 1.0));
        let stages = self.costs.iter().zip(&configuration.replicas);
        let stage = stages
            .map(|(cost, &replicas)| replicas as f64 / cost)
            .fold(f64::INFINITY, f64::min);
        let all: f64 = self.costs.iter().sum();
        speed * stage.min(threads / all)
    }

    fn window(&mut self, configuration: &Configuration) -> Window {
        let elapsed_s = 0.05;
        // A sum of twelve uniform numbers has deviation 1.
        let normal = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
        let rate = self.rate(configuration) * (self.noise * normal).exp();
        let starved = self.arrivals.is_some_and(|arrivals| rate > arrivals);
        let rate = self.arrivals.map_or(rate, |arrivals| rate.min(arrivals));
        let threads = configuration.workers.min(self.cores) as f64;
        let slowness = 1.0 + self.contention * (threads - 1.0);
        let busy = |cost: &f64| StageWindow {
            busy_s: rate * elapsed_s * cost * slowness,
            items: rate * elapsed_s / 1000.0,
            ..StageWindow::default()
        };
        let stages: Vec<StageWindow> = self.costs.iter().map(busy).collect();
        let busy: f64 = stages.iter().map(|stage| stage.busy_s).sum();
        Window {
            elapsed_s,
            delivered: rate * elapsed_s,
            starved,
            cpu_s: busy + 0.05 * elapsed_s * threads,
            stages,
            links: (1..self.costs.len())
                .map(|to| LinkWindow {
                    from: to - 1,
                    to,
                    bytes: self.item_bytes * rate * elapsed_s / 1000.0,
                    occupancy: (rate / self.rate(configuration)).powi(4).min(1.0),
                })
                .collect(),
        }
    }
}

fn start(stages: usize, workers: usize, replicas: usize) -> Configuration {
    Configuration {
        workers,
        replicas: vec![replicas; stages],
        link_bytes: vec![1 << 20; stages - 1],
    }
}

fn limits(replicas: &[usize], workers: usize) -> ConfigurationLimits {
    ConfigurationLimits {
        min_workers: 1,
        workers,
        replicas: replicas.to_vec(),
        min_link_bytes: 1 << 12,
        max_link_bytes: 1 << 26,
    }
}

fn options(cores: usize) -> ControllerOptions {
    ControllerOptions {
        cores,
        ..ControllerOptions::default()
    }
}

fn settle(controller: &mut Controller, plan: &mut FormulaPlan, most: usize) -> usize {
    for windows in 0..most {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), None);
        if controller.is_settled() {
            return windows + 1;
        }
    }
    panic!(
        "not settled after {most} windows: {:#?}",
        controller.decisions()
    );
}

fn kept(controller: &Controller) -> usize {
    let decisions = controller.decisions().iter();
    decisions.filter(|one| one.outcome == Outcome::Kept).count()
}

#[test]
fn threads_that_gain_only_with_larger_links_get_both() {
    for (seed, link_bytes) in (0..20).flat_map(|seed| [(seed, 1 << 14), (seed, 1 << 18)]) {
        for workers in [1, 2] {
            let mut plan = FormulaPlan::new(&[4e-6, 5e-6, 3e-6], 2, seed);
            plan.item_bytes = f64::from(1 << 19);
            let start = Configuration {
                link_bytes: vec![link_bytes; 2],
                ..start(3, workers, 1)
            };
            let mut controller = Controller::new(start, limits(&[1; 3], 2), options(2)).unwrap();
            settle(&mut controller, &mut plan, 2000);
            let part = plan.rate(controller.kept()) / (2.0 / 12e-6);
            assert!(part > 0.95, "seed {seed}: {part} of the best");
            assert!(kept(&controller) <= 3, "seed {seed}: {}", kept(&controller));
        }
    }
}

#[test]
fn what_noise_left_undecided_is_tried_again() {
    for seed in 0..20 {
        let mut plan = FormulaPlan::new(&[4e-6, 5e-6], 2, seed);
        plan.noise = 0.8;
        let mut controller =
            Controller::new(start(2, 1, 1), limits(&[1, 1], 2), options(2)).unwrap();
        settle(&mut controller, &mut plan, 2000);
        plan.noise = 0.03;
        for _ in 0..1000 {
            let configuration = controller.configuration().clone();
            controller.observe(&plan.window(&configuration), None);
        }
        let part = plan.rate(controller.kept()) / plan.rate(&start(2, 2, 1));
        assert!(part > 0.95, "seed {seed}: {part} of the best");
        assert!(kept(&controller) <= 3, "seed {seed}: {}", kept(&controller));
    }
}

#[test]
fn trials_without_gain_are_repeated_four_times_at_most() {
    // The second thread gains nothing.
    let mut plan = FormulaPlan::new(&[4e-6, 5e-6], 1, 3);
    plan.noise = 0.3;
    let mut controller = Controller::new(start(2, 1, 1), limits(&[1, 1], 2), options(2)).unwrap();
    for _ in 0..20_000 {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), None);
    }
    let mut retries = Vec::new();
    for trials in controller
        .decisions()
        .split(|one| one.outcome != Outcome::Rejected && one.outcome != Outcome::Undecided)
    {
        let tried: HashSet<&Configuration> = trials.iter().map(|one| &one.to).collect();
        retries.push(trials.len() - tried.len());
    }
    assert_eq!(retries.iter().max(), Some(&4), "{retries:?}");
}

#[test]
fn reaches_the_optimum_from_one_thread() {
    for seed in 0..20 {
        let costs = [1e-6, 8e-6, 2e-6, 5e-6, 0.5e-6];
        let mut plan = FormulaPlan::new(&costs, 16, seed);
        let limits = limits(&[1, 16, 16, 16, 1], 16);
        let mut controller = Controller::new(start(5, 1, 1), limits, options(16)).unwrap();
        settle(&mut controller, &mut plan, 2000);
        // Stage 0 has one replica: a million samples per second. All cores: 16 / 16.5e-6, a little less.
        let best = 16.0 / 16.5e-6;
        let reached = plan.rate(controller.kept());
        assert!(reached > 0.95 * best, "seed {seed}: {reached} of {best}");
        assert!(kept(&controller) <= 3, "seed {seed}: {}", kept(&controller));
    }
}

#[test]
fn noise_alone_changes_nothing_for_the_worse() {
    let mut kept_changes = 0;
    for seed in 0..100 {
        let mut plan = FormulaPlan::new(&[4e-6], 2, seed);
        plan.noise = 0.06;
        let configuration = start(1, 2, 1);
        let before = plan.rate(&configuration);
        let mut controller = Controller::new(configuration, limits(&[1], 2), options(2)).unwrap();
        settle(&mut controller, &mut plan, 500);
        kept_changes += kept(&controller);
        assert!(plan.rate(controller.kept()) >= 0.999 * before);
    }
    // Confidence 0.975, tested up to four times for a few candidates.
    assert!(kept_changes <= 15, "{kept_changes}");
}

#[test]
fn goes_back_where_threads_hinder_each_other() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 5);
    // Two threads do as much as one, eight less than half of it.
    plan.contention = 1.2;
    let limits = limits(&[8, 8], 8);
    let mut controller = Controller::new(start(2, 8, 8), limits, options(8)).unwrap();
    settle(&mut controller, &mut plan, 2000);
    let best = (1..=8).map(|workers| plan.rate(&start(2, workers, 8)));
    let best = best.fold(0.0, f64::max);
    let reached = plan.rate(controller.kept());
    assert!(reached >= 0.95 * best, "{reached} of {best}");
}

#[test]
fn a_stage_that_becomes_ten_times_dearer_is_settled_within_three_changes() {
    for seed in 0..20 {
        let mut plan = FormulaPlan::new(&[1e-6, 2e-6, 1e-6], 16, seed);
        let limits = limits(&[4, 16, 4], 16);
        let mut controller = Controller::new(start(3, 2, 1), limits, options(16)).unwrap();
        settle(&mut controller, &mut plan, 2000);
        let before = kept(&controller);
        let decided = controller.decisions().len();
        plan.costs[1] = 2e-5;
        let mut changed = false;
        for _ in 0..2000 {
            let configuration = controller.configuration().clone();
            controller.observe(&plan.window(&configuration), None);
            let mut later = controller.decisions()[decided..].iter();
            changed |= later.any(|one| one.outcome == Outcome::LoadChanged);
            if changed && controller.is_settled() {
                break;
            }
        }
        assert!(changed, "seed {seed}: not noticed");
        let best = (16.0f64 / 2.2e-5).min(16.0 / 2e-5);
        let reached = plan.rate(controller.kept());
        assert!(reached > 0.95 * best, "seed {seed}: {reached} of {best}");
        let changes = kept(&controller) - before;
        assert!(changes <= 3, "seed {seed}: {changes} changes");
    }
}

#[test]
fn a_feed_that_is_kept_up_with_takes_fewer_threads() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 9);
    plan.arrivals = Some(4e5);
    let limits = limits(&[8, 8], 8);
    let mut controller = Controller::new(start(2, 8, 4), limits, options(8)).unwrap();
    assert_eq!(controller.bottleneck(), None);
    settle(&mut controller, &mut plan, 4000);
    assert_eq!(controller.bottleneck(), Some(Bottleneck::Sources));
    let workers = controller.kept().workers;
    assert!(workers < 4, "{workers}: {:#?}", controller.decisions());
    assert!(plan.rate(controller.kept()) > 4e5, "it no longer keeps up");
}

#[test]
fn a_short_run_has_no_trials() {
    let mut plan = FormulaPlan::new(&[1e-6, 3e-6], 4, 1);
    let mut controller = Controller::new(start(2, 1, 1), limits(&[4, 4], 4), options(4)).unwrap();
    for _ in 0..20 {
        let configuration = controller.configuration().clone();
        assert_eq!(configuration, start(2, 1, 1));
        controller.observe(&plan.window(&configuration), Some(1.0));
    }
    let [decision] = controller.decisions() else {
        panic!("{:#?}", controller.decisions());
    };
    assert_eq!(decision.outcome, Outcome::TooShort);
    assert!(decision.predicted_gain.unwrap() > 1.0);
    assert!(!decision.alternatives.is_empty());
    assert!(decision.to_string().contains("the run ends too soon"));
}

#[test]
fn recommends_what_the_model_expects_most_of_and_changes_nothing() {
    let mut plan = FormulaPlan::new(&[1e-6, 4e-6], 8, 2);
    plan.noise = 0.0;
    let mut controller = Controller::new(start(2, 1, 1), limits(&[1, 8], 8), options(8)).unwrap();
    assert_eq!(controller.recommendation(), None);
    let configuration = start(2, 1, 1);
    controller.note(&plan.window(&configuration));
    let (best, gain) = controller.recommendation().unwrap();
    // Stage 0 does at most a million samples per second, which takes five threads.
    assert_eq!((best.workers, &best.replicas[..]), (5, &[1, 5][..]));
    assert!((gain - 4.0).abs() < 1e-9, "{gain}");
    assert_eq!(*controller.configuration(), configuration);
}

#[test]
fn a_value_that_the_user_gave_is_fixed() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 5);
    plan.contention = 1.2;
    let limits = ConfigurationLimits {
        min_workers: 6,
        workers: 6,
        ..limits(&[8, 8], 8)
    };
    let mut controller = Controller::new(start(2, 6, 8), limits, options(8)).unwrap();
    settle(&mut controller, &mut plan, 2000);
    assert!(controller.decisions().iter().all(|one| one.to.workers == 6));
}

#[test]
fn names_the_bottleneck_and_what_one_more_would_gain() {
    let mut plan = FormulaPlan::new(&[1e-6, 4e-6], 8, 2);
    plan.noise = 0.0;
    let mut controller = Controller::new(start(2, 8, 1), limits(&[1, 8], 8), options(8)).unwrap();
    let configuration = controller.configuration().clone();
    for _ in 0..2 {
        controller.observe(&plan.window(&configuration), None);
    }
    let Some(Bottleneck::Stage {
        stage,
        replica_gain,
    }) = controller.bottleneck()
    else {
        panic!("{:?}", controller.bottleneck());
    };
    assert_eq!(stage, 1);
    assert!((replica_gain - 1.0).abs() < 1e-9, "{replica_gain}");
}

#[test]
fn refuses_configurations_of_other_plans_and_values_outside_the_limits() {
    let new = |start: Configuration| {
        Controller::new(start, limits(&[1, 4], 8), options(8))
            .err()
            .map(|error| (error.code(), error.to_string()))
    };
    let (code, message) = new(start(3, 1, 1)).unwrap();
    assert_eq!(code, "other_plan");
    assert!(message.starts_with("the configuration has 3 stages and the plan has 2"));
    let (code, message) = new(start(2, 9, 1)).unwrap();
    assert_eq!(
        (code, &*message),
        ("parameter", "workers=9 is refused; it must be 1 to 8")
    );
    let (_, message) = new(start(2, 1, 3)).unwrap();
    assert_eq!(message, "replicas[0]=3 is refused; it must be 1 to 1");
    assert_eq!(new(start(2, 8, 1)), None);
}

#[test]
fn a_configuration_prints_compares_and_is_read_back() {
    let configuration = start(2, 3, 2);
    assert_eq!(
        configuration.to_string(),
        "workers=3, replicas=[2, 2], link_bytes=[1048576]"
    );
    let text = serde_json::to_string(&configuration).unwrap();
    assert_eq!(
        serde_json::from_str::<Configuration>(&text).unwrap(),
        configuration
    );
    let unknown = r#"{"workers":1,"replicas":[],"link_bytes":[],"threads":4}"#;
    assert!(serde_json::from_str::<Configuration>(unknown).is_err());
}

/// On a machine where a second thread hardly helps, the model, which knows no contention, expects twice the throughput.
#[test]
fn a_model_that_errs_more_than_no_change_drives_nothing_more() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 5);
    plan.contention = 0.9;
    let limits = limits(&[8, 8], 8);
    let mut controller = Controller::new(start(2, 1, 8), limits, options(8)).unwrap();
    assert!(controller.model_check().is_trusted);
    assert_eq!(controller.model_check().trials, 0);
    settle(&mut controller, &mut plan, 4000);
    let check = controller.model_check();
    assert!(!check.is_trusted, "{check}");
    assert!(check.model_error.unwrap() > 0.3 && check.model_error > check.plain_error);
    // The first proposal is the model's; after its failure none has a prediction.
    let decisions = controller.decisions();
    assert!(decisions[0].predicted_gain.unwrap() > 3.0, "{decisions:#?}");
    assert!(decisions.len() > 4, "{decisions:#?}");
    for later in &decisions[1..] {
        assert_eq!(later.predicted_gain, None, "{later}");
        assert!(!later.reason.contains("model"), "{later}");
    }
    let best = (1..=8).map(|workers| plan.rate(&start(2, workers, 8)));
    let best = best.fold(0.0, f64::max);
    let reached = plan.rate(controller.kept());
    assert!(reached >= 0.95 * best, "{reached} of {best}");
}

#[test]
fn a_model_whose_predictions_hold_stays_trusted() {
    for seed in 0..20 {
        let mut plan = FormulaPlan::new(&[1e-6, 8e-6, 2e-6], 16, seed);
        let limits = limits(&[1, 16, 16], 16);
        let mut controller = Controller::new(start(3, 1, 1), limits, options(16)).unwrap();
        settle(&mut controller, &mut plan, 2000);
        let check = controller.model_check();
        assert!(check.is_trusted && check.trials > 1, "seed {seed}: {check}");
        assert!(
            check.model_error < check.plain_error,
            "seed {seed}: {check}"
        );
    }
}

/// Local search alone climbs to the best within its bounds.
#[test]
fn local_search_alone_finds_threads_and_replicas() {
    for seed in 0..20 {
        let mut plan = FormulaPlan::new(&[1e-6, 6e-6], 8, seed);
        // Twelve times slower than it says of itself: every prediction of the model is wrong after the first change.
        plan.contention = 0.12;
        let limits = limits(&[1, 8], 8);
        let mut controller = Controller::new(start(2, 1, 1), limits.clone(), options(8)).unwrap();
        settle(&mut controller, &mut plan, 4000);
        let all = (1..=8).flat_map(|workers| (1..=8).map(move |replicas| (workers, replicas)));
        let best = all
            .map(|(workers, replicas)| Configuration {
                workers,
                replicas: vec![1, replicas],
                link_bytes: vec![1 << 20],
            })
            .map(|one| plan.rate(&one))
            .fold(0.0, f64::max);
        let reached = plan.rate(controller.kept());
        assert!(reached >= 0.95 * best, "seed {seed}: {reached} of {best}");
    }
}

#[test]
fn fewer_threads_are_tried_late_and_within_the_latency() {
    // One thread is busy 80 % of the time: what comes waits 0.41 * 1 MiB / (100 MB/s) = 4.3 ms. With two: 0.27 ms.
    for (latency_s, expected) in [(1e-3, 2), (1e-2, 1)] {
        let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 9);
        plan.arrivals = Some(4e5);
        plan.item_bytes = 250_000.0;
        let options = ControllerOptions {
            latency_s: Some(latency_s),
            ..options(8)
        };
        let mut controller = Controller::new(start(2, 2, 1), limits(&[1, 1], 2), options).unwrap();
        let mut waited = 0;
        while controller.decisions().is_empty() && *controller.configuration() == start(2, 2, 1) {
            controller.observe(&plan.window(&start(2, 2, 1)), None);
            waited += 1;
            assert!(!controller.is_settled());
        }
        assert!(waited > options.quiet_windows, "{waited} windows");
        settle(&mut controller, &mut plan, 4000);
        let workers = controller.kept().workers;
        assert_eq!(workers, expected, "{:#?}", controller.decisions());
    }
}

#[test]
fn links_do_not_grow_against_the_latency() {
    let largest = |latency_s: Option<f64>| {
        let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 1, 3);
        // A million bytes per second: a link of 1 MiB holds what comes in a second.
        plan.item_bytes = 2000.0;
        let options = ControllerOptions {
            latency_s,
            ..options(1)
        };
        let mut controller = Controller::new(start(2, 1, 1), limits(&[1, 1], 1), options).unwrap();
        settle(&mut controller, &mut plan, 4000);
        let tried = controller.decisions().iter();
        tried.map(|one| one.to.link_bytes[0]).max().unwrap()
    };
    assert_eq!(largest(None), 2 << 20);
    assert_eq!(largest(Some(0.1)), 512 << 10);
    let of_a_long_latency = largest(Some(1.5));
    assert!(
        (1_400_000..=1_600_000).contains(&of_a_long_latency),
        "{of_a_long_latency}"
    );
}

/// Windows until `is_done`.
fn run_until(
    controller: &mut Controller,
    plan: &mut FormulaPlan,
    is_done: impl Fn(&Controller) -> bool,
) -> usize {
    for windows in 0..4000 {
        if is_done(controller) {
            return windows;
        }
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), None);
    }
    let decisions = controller.decisions().iter();
    panic!(
        "{:#?}",
        decisions.map(ToString::to_string).collect::<Vec<_>>()
    );
}

#[test]
fn a_feed_that_grows_gets_threads_at_once_and_loses_them_late() {
    for seed in 0..10 {
        let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, seed);
        plan.arrivals = Some(4e5);
        let options = options(8);
        let mut controller = Controller::new(start(2, 2, 8), limits(&[8, 8], 8), options).unwrap();
        settle(&mut controller, &mut plan, 4000);
        assert!(plan.rate(controller.kept()) < 1e6, "{}", controller.kept());
        let capacity = |controller: &Controller| {
            let plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 0);
            plan.rate(controller.kept())
        };
        let mut applied = Vec::new();
        for round in 0..2 {
            plan.arrivals = Some(2.2e6);
            let windows = run_until(&mut controller, &mut plan, |one| capacity(one) > 2.2e6);
            // A trial alone takes thirteen.
            assert!(
                windows <= 5,
                "seed {seed}, round {round}: {windows} windows"
            );
            let decisions = controller.decisions().iter().rev();
            let last = decisions.take(1).next().unwrap().clone();
            assert_eq!(last.outcome, Outcome::Applied);
            applied.push(last);
            run_until(&mut controller, &mut plan, Controller::is_settled);
            assert!(capacity(&controller) > 2.2e6);
            plan.arrivals = Some(4e5);
            let quiet = run_until(&mut controller, &mut plan, |one| capacity(one) < 2e6);
            assert!(quiet > 2 * options.quiet_windows, "{quiet} windows");
            run_until(&mut controller, &mut plan, Controller::is_settled);
            assert!(capacity(&controller) < 1e6, "{}", controller.kept());
        }
        assert!(applied[0].reason.contains("the model predicts"));
        assert_eq!(applied[1].reason, "it was kept at such a load");
        assert_eq!(applied[1].predicted_gain, None);
    }
}

#[test]
fn a_change_at_once_that_is_worse_is_rolled_back() {
    for seed in 0..10 {
        let mut plan = FormulaPlan::new(&[2e-6, 1e-9], 8, seed);
        plan.noise = 0.001;
        let limits = limits(&[1, 8], 8);
        let mut controller = Controller::new(start(2, 1, 1), limits, options(8)).unwrap();
        settle(&mut controller, &mut plan, 4000);
        let settled = controller.kept().clone();
        // The second stage costs ten times as much, and each further thread makes the plan slower.
        plan.costs[1] = 1e-5;
        plan.contention = 20.0;
        let before = controller.decisions().len();
        let is_back = |one: &Controller| {
            let mut later = one.decisions()[before..].iter();
            later.any(|one| one.outcome == Outcome::RolledBack)
        };
        let windows = run_until(&mut controller, &mut plan, is_back);
        assert!(windows <= 10, "seed {seed}: {windows} windows");
        assert_eq!(*controller.kept(), settled);
        let decision = controller.decisions().last().unwrap();
        assert!(decision.predicted_gain.unwrap() > 0.1);
        assert!(decision.gain.unwrap().mean < 0.0);
        assert!(decision.to_string().contains("went back from workers="));
        settle(&mut controller, &mut plan, 4000);
        let best = (1..=8).map(|workers| plan.rate(&start(2, workers, 8)));
        let best = best.fold(0.0, f64::max);
        let reached = plan.rate(controller.kept());
        assert!(reached >= 0.95 * best, "seed {seed}: {reached} of {best}");
    }
}

/// Soon after threads were added, something else takes their cores: the configuration before is tried first.
#[test]
fn after_a_fall_the_configuration_before_is_tried_first() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 4, 1);
    plan.noise = 0.001;
    let mut controller = Controller::new(start(2, 1, 4), limits(&[4, 4], 4), options(4)).unwrap();
    settle(&mut controller, &mut plan, 4000);
    let decisions = controller.decisions().iter();
    let last = decisions.rev().find(|one| one.outcome == Outcome::Kept);
    let before = last.unwrap().from.clone();
    let decided = controller.decisions().len();
    plan.contention = 5.0;
    run_until(&mut controller, &mut plan, |one| {
        one.decisions().len() >= decided + 2
    });
    let [changed, back, ..] = &controller.decisions()[decided..] else {
        panic!("{:#?}", controller.decisions());
    };
    assert_eq!(changed.outcome, Outcome::LoadChanged);
    assert_eq!(back.to, before);
    assert_eq!(back.outcome, Outcome::Kept);
    assert_eq!(back.reason, "throughput fell after the last change");
    assert!(back.gain.unwrap().low.unwrap() > 0.0);
}
