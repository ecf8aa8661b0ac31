//! The controller on plans with a closed-form optimum.

use std::collections::HashSet;

use super::formula_plan::{ENDLESS, FormulaPlan, limits, options, settle, start};
use isochrony_tune::controller::Bottleneck;
use isochrony_tune::{Configuration, ConfigurationLimits, Controller, Outcome};

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
            controller.observe(&plan.window(&configuration), ENDLESS);
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
        controller.observe(&plan.window(&configuration), ENDLESS);
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
            controller.observe(&plan.window(&configuration), ENDLESS);
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
        controller.observe(&plan.window(&configuration), ENDLESS);
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

#[test]
fn tasks_get_the_size_of_the_greatest_throughput_within_the_limits() {
    for (seed, best, most) in [
        (1, 1 << 22, 1 << 24),
        (2, 1 << 16, 1 << 24),
        (3, 1 << 19, 1 << 24),
        (4, 1 << 24, 1 << 21),
    ] {
        let mut plan = FormulaPlan::new(&[4e-6], 2, seed);
        plan.best_task = f64::from(best);
        let first = Configuration {
            task_bytes: 1 << 19,
            ..start(1, 2, 2)
        };
        let limits = ConfigurationLimits {
            min_task_bytes: 1 << 14,
            max_task_bytes: most,
            ..limits(&[2], 2)
        };
        let mut controller = Controller::new(first, limits, options(2)).unwrap();
        settle(&mut controller, &mut plan, 2000);
        let kept = controller.kept();
        assert_eq!(kept.task_bytes, u64::min(best as u64, most), "{kept}");
        assert_eq!((kept.workers, kept.replicas[0]), (2, 2));
    }
}

#[test]
fn task_sizes_that_a_trial_cannot_tell_apart_are_not_tried() {
    for (factor, sizes) in [(1.4, 1), (1.6, 3)] {
        let now = 1_u64 << 19;
        let [min_task_bytes, max_task_bytes] =
            [1.0 / factor, factor].map(|factor| (now as f64 * factor) as u64);
        let first = Configuration {
            task_bytes: now,
            replicas: vec![2],
            link_bytes: Vec::new(),
            ..start(2, 2, 2)
        };
        let limits = ConfigurationLimits {
            min_task_bytes,
            max_task_bytes,
            ..limits(&[2], 2)
        };
        let mut plan = FormulaPlan::new(&[4e-6], 2, 1);
        plan.best_task = now as f64;
        let mut controller = Controller::new(first, limits, options(2)).unwrap();
        settle(&mut controller, &mut plan, 2000);
        let tried = controller.decisions().iter().map(|one| one.to.task_bytes);
        let mut tried: Vec<u64> = tried.chain([now]).collect();
        tried.sort_unstable();
        tried.dedup();
        assert_eq!(tried.len(), sizes, "{tried:?}");
    }
}

#[test]
fn plans_in_stages_have_no_task_size() {
    let mut controller = Controller::new(start(2, 1, 1), limits(&[1, 1], 2), options(2)).unwrap();
    settle(
        &mut controller,
        &mut FormulaPlan::new(&[4e-6, 5e-6], 2, 1),
        2000,
    );
    let tried = controller.decisions().iter().map(|one| one.to.task_bytes);
    assert_eq!(tried.max(), Some(0));
}
