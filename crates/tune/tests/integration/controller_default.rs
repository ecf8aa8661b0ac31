//! What the controller knows of runs that are not tuned, of other programs, and of runs whose end it cannot see.

use super::formula_plan::{ENDLESS, FormulaPlan, limits, options, settle, start};
use isochrony_tune::{Configuration, ConfigurationLimits, Controller, Outcome};

/// Steps to it are too small to be seen in the noise.
#[test]
fn the_configuration_of_a_run_that_is_not_tuned_is_reached_through_noise() {
    for (with_default, reached) in [(true, 20), (false, 10)] {
        let mut near = 0;
        for seed in 0..20 {
            let mut plan = FormulaPlan::new(&[4e-6], 2, seed);
            plan.noise = 0.2;
            plan.best_task = f64::from(1 << 22);
            let first = Configuration {
                task_bytes: 1 << 14,
                ..start(1, 2, 2)
            };
            let default = Configuration {
                task_bytes: 1 << 22,
                ..first.clone()
            };
            let limits = ConfigurationLimits {
                min_task_bytes: 1 << 14,
                max_task_bytes: 1 << 24,
                ..limits(&[2], 2)
            };
            let mut controller = Controller::new(first, limits, options(2)).unwrap();
            if with_default {
                controller = controller.with_default(default.clone());
            }
            settle(&mut controller, &mut plan, 2000);
            near += i32::from(plan.rate(controller.kept()) >= 0.8 * plan.rate(&default));
        }
        match with_default {
            true => assert_eq!(near, reached),
            false => assert!(near <= reached, "{near}: the noise hides nothing"),
        }
    }
}

#[test]
fn a_default_that_loses_is_tried_a_few_times_for_each_load() {
    let mut plan = FormulaPlan::new(&[4e-6, 5e-6], 1, 3);
    plan.contention = 0.5;
    plan.item_bytes = f64::from(1 << 16);
    let default = start(2, 2, 1);
    let mut controller = Controller::new(start(2, 1, 1), limits(&[1, 1], 2), options(2))
        .unwrap()
        .with_default(default.clone());
    for _ in 0..400 {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), ENDLESS);
    }
    let loads = |one: &&isochrony_tune::Decision| one.outcome == Outcome::LoadChanged;
    let loads = 1 + controller.decisions().iter().filter(loads).count();
    let tried = controller.decisions().iter();
    let tried = tried.filter(|one| one.to == default && one.outcome != Outcome::LoadChanged);
    // At most four trials are repeated, and these, since the model promises much.
    let tried = tried.count();
    assert!((1..=5 * loads).contains(&tried), "{tried} in {loads} loads");
    assert_eq!(controller.kept().workers, 1);
}

#[test]
fn what_another_program_hid_is_tried_again() {
    for seed in 0..20 {
        let mut plan = FormulaPlan::new(&[4e-6, 5e-6], 2, seed);
        let mut controller =
            Controller::new(start(2, 1, 1), limits(&[1, 1], 2), options(2)).unwrap();
        // A second thread would only take turns with the other program, and lose by that.
        plan.contention = 1.2;
        settle(&mut controller, &mut plan, 2000);
        assert_eq!(controller.kept().workers, 1, "seed {seed}");
        // One thread is as fast as before, so nothing shows that the other program has ended.
        plan.contention = 0.0;
        for _ in 0..200 {
            let configuration = controller.configuration().clone();
            controller.observe(&plan.window(&configuration), ENDLESS);
        }
        assert_eq!(controller.kept().workers, 2, "seed {seed}");
    }
}

/// Of a run of unknown length half has passed, as far as anyone can tell.
#[test]
fn a_run_of_unknown_length_waits_with_steps_that_promise_nothing() {
    let mut plan = FormulaPlan::new(&[4e-6, 5e-6], 2, 5);
    plan.item_bytes = f64::from(1 << 16);
    let mut controller = Controller::new(start(2, 2, 1), limits(&[1, 1], 2), options(2)).unwrap();
    let mut elapsed = 0.0;
    let mut first = None;
    for _ in 0..400 {
        let configuration = controller.configuration().clone();
        let window = plan.window(&configuration);
        elapsed += window.elapsed_s;
        controller.observe(&window, None);
        if first.is_none() && *controller.configuration() != start(2, 2, 1) {
            first = Some(elapsed);
        }
    }
    // Six times the shortest trial, of 13 windows of 0.05 s.
    let first = first.expect("it tries something in the end");
    assert!((3.9..4.5).contains(&first), "after {first} s");

    // Twice the speed is worth a trial at once.
    let mut plan = FormulaPlan::new(&[4e-6, 5e-6], 2, 5);
    let mut controller = Controller::new(start(2, 1, 1), limits(&[1, 1], 2), options(2)).unwrap();
    for _ in 0..20 {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), None);
    }
    assert_eq!(controller.kept().workers, 2);
}
