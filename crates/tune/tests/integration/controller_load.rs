//! The controller on feeds, and when the load changes.

use super::formula_plan::{ENDLESS, FormulaPlan, limits, options, settle, start};
use isochrony_tune::{
    Controller, ControllerOptions, Decision, Outcome, TuningMode, TuningSession, Window,
};

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
            controller.observe(&plan.window(&start(2, 2, 1)), ENDLESS);
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
    assert_eq!(largest(None), 4 << 20);
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
        controller.observe(&plan.window(&configuration), ENDLESS);
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

/// Beside another program throughput rises and falls. The model does not know why two threads are slower.
#[test]
fn what_lost_a_trial_is_not_applied_at_once() {
    for seed in 0..10 {
        let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 2, seed);
        plan.contention = 1.5;
        let mut controller =
            Controller::new(start(2, 2, 1), limits(&[1, 1], 2), options(2)).unwrap();
        settle(&mut controller, &mut plan, 4000);
        assert_eq!(controller.kept().workers, 1, "{}", controller.kept());
        for cost in [1.4e-6, 1e-6, 1.5e-6] {
            plan.costs = vec![cost; 2];
            let decided = controller.decisions().len();
            run_until(&mut controller, &mut plan, |one| {
                let mut later = one.decisions()[decided..].iter();
                later.any(|one| one.outcome == Outcome::LoadChanged)
            });
            run_until(&mut controller, &mut plan, Controller::is_settled);
            let later = &controller.decisions()[decided..];
            assert!(
                later.iter().all(|one| one.outcome != Outcome::Applied),
                "{later:#?}"
            );
            assert_eq!(controller.kept().workers, 1);
        }
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

/// Arrivals of a feed that one thread keeps up with, window by window.
const EVEN_FEED: [f64; 2] = [1e5, 1e5];
/// So uneven that more arrivals are no change of throughput at first: windows behind it show them.
const UNEVEN_FEED: [f64; 2] = [5e4, 2e5];

/// A feed that one thread kept up with brings more: all threads have just been applied.
fn overloaded(seed: u64, feed: [f64; 2], noise: f64, contention: f64) -> (FormulaPlan, Controller) {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, seed);
    (plan.noise, plan.contention) = (noise, contention);
    let mut controller = Controller::new(start(2, 1, 8), limits(&[8, 8], 8), options(8)).unwrap();
    for at in 0..6 {
        plan.arrivals = Some(feed[at % 2]);
        controller.observe(&plan.window(&start(2, 1, 8)), ENDLESS);
    }
    plan.arrivals = Some(1e7);
    run_until(&mut controller, &mut plan, |one| {
        is_last(one, Outcome::Applied)
    });
    assert_eq!(*controller.kept(), start(2, 8, 8));
    (plan, controller)
}

fn is_last(controller: &Controller, outcome: Outcome) -> bool {
    let last = controller.decisions().last();
    last.is_some_and(|one| one.outcome == outcome)
}

/// Contention with which eight threads do as much as one.
const NO_GAIN: f64 = 1.0;
/// With which they do 1.1 times as much.
const SMALL_GAIN: f64 = (8.0 / 1.1 - 1.0) / 7.0;

const DOUBT: &str = "it is not clear whether the change at once gained";

fn is_doubted(decision: &Decision) -> bool {
    decision.reason == DOUBT
}

#[test]
fn a_change_at_once_is_not_judged_by_a_feed_that_brings_less() {
    for seed in 0..10 {
        let (mut plan, mut controller) = overloaded(seed, EVEN_FEED, 0.03, 0.0);
        plan.arrivals = Some(2e5);
        run_until(&mut controller, &mut plan, |one| {
            !is_last(one, Outcome::Applied)
        });
        let decision = controller.decisions().last().unwrap();
        assert_eq!(decision.outcome, Outcome::Kept, "{decision}");
        assert_eq!(decision.gain, None);
        assert_eq!(*controller.kept(), start(2, 8, 8));
    }
}

#[test]
fn noise_seldom_takes_back_a_change_at_once() {
    const SEEDS: u64 = 400;
    let feeds = [
        (EVEN_FEED, "the throughput is", 0.06),
        // Windows behind the feed show the plan's noise.
        (UNEVEN_FEED, "the plan no longer keeps up", 0.02),
    ];
    for (feed, change, most) in feeds {
        for (contention, most) in [(NO_GAIN, most), (SMALL_GAIN, 0.02)] {
            let mut taken_back = 0;
            for seed in 0..SEEDS {
                let (mut plan, mut controller) = overloaded(seed, feed, 0.1, contention);
                let reason = &controller.decisions()[0].reason;
                assert!(reason.starts_with(change), "{reason}");
                run_until(&mut controller, &mut plan, |one| {
                    !is_last(one, Outcome::Applied)
                });
                taken_back += u64::from(is_last(&controller, Outcome::RolledBack));
            }
            let part = taken_back as f64 / SEEDS as f64;
            assert!(part <= most, "{change}, contention {contention}: {part}");
        }
    }
}

#[test]
fn an_unclear_change_at_once_is_not_tried_at_another_load() {
    let (mut plan, mut controller) = overloaded(1, EVEN_FEED, 0.001, NO_GAIN);
    run_until(&mut controller, &mut plan, |one| {
        is_last(one, Outcome::Kept)
    });
    // The plan keeps up again before the trial begins.
    for arrivals in [3e5, 4e5] {
        plan.arrivals = Some(arrivals);
        for _ in 0..6 {
            let configuration = controller.configuration().clone();
            controller.observe(&plan.window(&configuration), ENDLESS);
        }
    }
    assert!(is_last(&controller, Outcome::LoadChanged));
    settle(&mut controller, &mut plan, 4000);
    assert!(!controller.decisions().iter().any(is_doubted));
}

#[test]
fn no_configuration_is_tried_against_itself() {
    let (mut plan, mut controller) = overloaded(1, EVEN_FEED, 0.001, NO_GAIN);
    run_until(&mut controller, &mut plan, |one| {
        is_last(one, Outcome::Kept)
    });
    plan.arrivals = Some(3e5);
    for _ in 0..6 {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), ENDLESS);
    }
    // Throughput falls: the configuration before is tried, and kept.
    plan.contention = 5.0;
    run_until(&mut controller, &mut plan, |one| {
        *one.kept() == start(2, 1, 8)
    });
    settle(&mut controller, &mut plan, 4000);
    for one in controller.decisions() {
        assert!(
            one.outcome == Outcome::LoadChanged || one.from != one.to,
            "{one}"
        );
    }
}

#[test]
fn an_unclear_change_at_once_near_the_end_is_too_short_to_try() {
    let (mut plan, mut controller) = overloaded(1, EVEN_FEED, 0.001, NO_GAIN);
    for _ in 0..10 {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), Some(1.0));
    }
    let decision = controller.decisions().last().unwrap();
    assert_eq!(decision.outcome, Outcome::TooShort, "{decision}");
    assert!(is_doubted(decision), "{decision}");
    assert_eq!(decision.to, start(2, 1, 8));
}

#[test]
fn windows_without_results_are_one_change_of_the_load() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 1);
    plan.arrivals = Some(1e5);
    let mut controller = Controller::new(start(2, 1, 8), limits(&[8, 8], 8), options(8)).unwrap();
    for _ in 0..6 {
        controller.observe(&plan.window(&start(2, 1, 8)), ENDLESS);
    }
    // An item takes half a minute while more come.
    let empty = Window {
        delivered: 0.0,
        starved: false,
        ..plan.window(&start(2, 1, 8))
    };
    for _ in 0..600 {
        controller.observe(&empty, ENDLESS);
    }
    let [decision] = controller.decisions() else {
        panic!("{:#?}", controller.decisions());
    };
    assert_eq!(decision.outcome, Outcome::LoadChanged);
}

#[test]
fn a_report_has_the_newest_decisions() {
    let mut plan = FormulaPlan::new(&[1e-6], 1, 1);
    plan.noise = 0.0;
    let own = start(1, 1, 1);
    let session = TuningSession::new(TuningMode::Change, own.clone(), limits(&[1], 1), options(1));
    let mut session = session.unwrap();
    let (mut elapsed_s, mut longest) = (0.0, 0);
    for round in 0..1000 {
        plan.costs[0] = if round % 2 == 0 { 1e-6 } else { 2e-6 };
        for _ in 0..12 {
            let window = plan.window(&own);
            elapsed_s += window.elapsed_s;
            session.observe(&window, ENDLESS);
        }
        longest = longest.max(session.report().decisions.len());
    }
    let decisions = &session.report().decisions;
    assert_eq!((decisions.len(), longest), (128, 128));
    assert!(decisions.is_sorted_by(|one, next| one.at_s < next.at_s));
    let last_s = decisions.last().unwrap().at_s;
    assert!(elapsed_s - last_s < 1.2, "{last_s} of {elapsed_s}");
}
