//! Whether the flow model or local search chooses the candidates.

use super::formula_plan::{ENDLESS, FormulaPlan, limits, options, settle, start};
use isochrony_tune::{Configuration, Controller};

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
                task_bytes: 0,
                batch_tasks: 0,
            })
            .map(|one| plan.rate(&one))
            .fold(0.0, f64::max);
        let reached = plan.rate(controller.kept());
        assert!(reached >= 0.95 * best, "seed {seed}: {reached} of {best}");
    }
}

/// Functions that take longer than a window may: some windows have no results.
#[test]
fn candidates_without_results_leave_errors_finite() {
    let mut plan = FormulaPlan::new(&[1e-6, 1e-6], 8, 5);
    let mut controller = Controller::new(start(2, 1, 8), limits(&[8, 8], 8), options(8)).unwrap();
    for _ in 0..200 {
        let configuration = controller.configuration().clone();
        let mut window = plan.window(&configuration);
        if configuration.workers > 1 {
            window.delivered = 0.0;
        }
        controller.observe(&window, ENDLESS);
        let check = controller.model_check();
        let text = serde_json::to_string(&check).unwrap();
        assert_eq!(text.contains("null"), check.trials == 0, "{text}");
    }
    assert!(controller.model_check().trials > 1);
    assert_eq!(controller.kept().workers, 1);
}
