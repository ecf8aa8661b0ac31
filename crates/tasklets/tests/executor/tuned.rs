//! Tuned executions find workers and give the same samples.

use std::sync::atomic::AtomicBool;

use isochrony_tasklets::TuningMode;
use isochrony_tune::{Configuration, Outcome};

use super::*;

fn tuned(workers: usize, tuning: TuningMode) -> ExecutorOptions {
    let mut options = ExecutorOptions::default();
    options.workers = workers;
    options.tuning = Some(tuning);
    options
}

fn configuration(workers: usize) -> Configuration {
    Configuration {
        workers,
        replicas: Vec::new(),
        link_bytes: Vec::new(),
        task_bytes: 0,
        batch_tasks: 0,
    }
}

/// Workers help on any machine.
fn sleepers(options: ExecutorOptions, count: usize) -> TaskletsReport {
    let mut executor = Executor::new(options).unwrap();
    for number in 0..count {
        executor.add(Tasklet::new(format!("{number}"), "sleep", |_| {
            std::thread::sleep(Duration::from_millis(2));
            Ok(ReturnValue::Nothing)
        }));
    }
    run(&executor, false).unwrap()
}

#[test]
fn workers_that_help_are_added() {
    let report = sleepers(tuned(4, TuningMode::ChangeFrom(configuration(1))), 2500);
    let tuning = report.tuning.expect("it was tuned");
    let first = &tuning.decisions[0];
    assert_eq!(first.outcome, Outcome::Kept, "{tuning:?}");
    assert_eq!(first.from, configuration(1));
    assert!(first.to.workers > 1);
    assert!(report.workers[1].items > 0, "{:?}", report.workers);
    assert!(tuning.configuration.unwrap().workers > 1);
}

#[test]
fn an_applied_number_of_workers_is_that_of_the_run() {
    let report = sleepers(tuned(4, TuningMode::Apply(configuration(2))), 60);
    let items: Vec<u64> = report.workers.iter().map(|worker| worker.items).collect();
    assert_eq!(items.iter().sum::<u64>(), 60);
    assert!(
        items[0] > 0 && items[1] > 0 && items[2..] == [0, 0],
        "{items:?}"
    );
    let tuning = report.tuning.expect("it was tuned");
    assert_eq!(tuning.configuration, Some(configuration(2)));
    assert!(tuning.decisions.is_empty());
}

#[test]
fn nothing_is_measured_while_tuning_is_paused() {
    for (is_paused, measures) in [(true, false), (false, true)] {
        let mut options = tuned(2, TuningMode::Measure);
        options.tuning_pause = Some(Arc::new(AtomicBool::new(is_paused)));
        let tuning = sleepers(options, 200).tuning.expect("it was tuned");
        assert_eq!(tuning.windows > 0, measures, "{tuning:?}");
    }
}

#[test]
fn a_single_worker_and_an_executor_without_tuning_have_no_such_report() {
    assert!(sleepers(tuned(1, TuningMode::Change), 3).tuning.is_none());
    assert!(sleepers(ExecutorOptions::default(), 3).tuning.is_none());
}

#[test]
fn a_failure_and_dependencies_leave_no_worker_at_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let options = tuned(4, TuningMode::Apply(configuration(1)));
    let (executor, _room) = adder(&store, options, |name| match name {
        "square a 3" => Err("no".into()),
        _ => Ok(()),
    });
    let failure = run(&executor, false).unwrap_err();
    let report = failure.report.expect("tasklets were run");
    assert_eq!(
        report
            .tasklets
            .iter()
            .filter(|one| one.state == "failed")
            .count(),
        1
    );
    assert_eq!(
        report
            .tasklets
            .iter()
            .filter(|one| one.state == "not_run")
            .count(),
        1
    );
    let sum = store.signal("sum").unwrap();
    assert_eq!(sum.sample_count(), PART * (PARTS - 1));
}

#[test]
fn a_configuration_that_the_executor_cannot_have_is_refused() {
    for (given, message) in [
        (
            configuration(5),
            "tune=a configuration with 5 workers, where the executor has 4",
        ),
        (
            Configuration {
                link_bytes: vec![65536],
                ..configuration(1)
            },
            "tune=a configuration with 1 links",
        ),
    ] {
        let error = Executor::new(tuned(4, TuningMode::Apply(given))).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
}
