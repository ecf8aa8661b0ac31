//! Failures and interrupts, and resumed runs.

use super::*;

#[test]
fn a_failure_skips_its_dependents_and_a_resumed_run_does_only_those() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let failing = Arc::new(AtomicUsize::new(1));
    let fails = failing.clone();
    let (executor, _room) = adder(&store, with(2, 1 << 30), move |name| {
        if fails.load(Ordering::Relaxed) == 1 && name == "square b 7" {
            return Err("no luck".into());
        }
        assert!(
            fails.load(Ordering::Relaxed) == 0 || name != "add 9",
            "as a test"
        );
        Ok(())
    });
    let failure = run(&executor, false).unwrap_err();
    assert_eq!(failure.error.code(), "tasklet_failed");
    let message = failure.to_string();
    assert!(message.contains("\"square b 7\" failed: no luck (and 1 others failed); 1 tasklet that depends on a failed one was not run"), "{message}");
    let report = failure.report.unwrap();
    let why = |name: &str| {
        report
            .tasklets
            .iter()
            .find(|one| one.name == name)
            .unwrap()
            .error
            .clone()
            .unwrap()
    };
    assert_eq!(why("add 7"), "it needs \"square b 7\", which failed");
    assert_eq!(why("add 9"), "it panicked: as a test");
    assert_eq!(
        (
            count(&report, "failed"),
            count(&report, "not_run"),
            count(&report, "done")
        ),
        (2, 1, 3 * PARTS as usize - 3)
    );
    assert_eq!(
        store
            .signal("sum")
            .unwrap()
            .gaps()
            .iter()
            .map(|gap| gap.range())
            .collect::<Vec<_>>(),
        [range(7), range(9)]
    );

    failing.store(0, Ordering::Relaxed);
    let report = run(&executor, true).unwrap();
    // Two sums, and the scratch that they need again.
    assert_eq!(
        (count(&report, "done"), count(&report, "kept")),
        (6, 3 * PARTS as usize - 6)
    );
    assert_eq!(
        report.notes,
        ["114 of 120 tasklets are kept from an earlier run"]
    );
    check_sums(&store.signal("sum").unwrap());
    assert_eq!(
        report.tasklets[2 * PARTS as usize].value(),
        Some(expected(0).into())
    );
    assert_eq!(
        count(&run(&executor, true).unwrap(), "kept"),
        3 * PARTS as usize
    );
    let refused = run(&executor, false).unwrap_err();
    assert_eq!(
        (refused.error.code(), refused.report.is_none()),
        ("output_occupied", true)
    );
}

#[test]
fn a_failure_stops_the_rest_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let mut options = with(1, 1 << 30);
    (options.keep_going, options.order) = (false, OrderPolicy::Given);
    let (executor, _room) = adder(&store, options, |name| match name {
        "square a 3" => Err("no luck".into()),
        _ => Ok(()),
    });
    let report = run(&executor, false).unwrap_err().report.unwrap();
    assert_eq!(
        (count(&report, "done"), count(&report, "stopped")),
        (3, 3 * PARTS as usize - 5)
    );
}

#[test]
fn an_interrupted_run_ends_soon_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let ran = Arc::new(AtomicUsize::new(0));
    let pressed = Arc::new(AtomicUsize::new(0));
    let (counted, waited) = (ran.clone(), pressed.clone());
    let (executor, _room) = adder(&store, with(2, 1 << 14), move |_| {
        // So the interrupt is in time on any machine.
        if counted.fetch_add(1, Ordering::Relaxed) >= 40 {
            std::thread::sleep(Duration::from_millis(20));
            while waited.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    });
    let failure = executor
        .run(false, &mut |progress| {
            let goes_on = progress.tasklets.done() < 30;
            pressed.store(usize::from(!goes_on), Ordering::Relaxed);
            goes_on
        })
        .unwrap_err();
    assert_eq!(failure.error.code(), "interrupted");
    assert!(count(&failure.report.unwrap(), "stopped") > 0);
    let before = ran.load(Ordering::Relaxed);
    let report = run(&executor, true).unwrap();
    check_sums(&store.signal("sum").unwrap());
    assert!(count(&report, "kept") > 0, "{before} had run");
}

#[test]
fn changed_tasklets_and_dependents_run_again_and_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let sum = store.signal("sum").unwrap();
    let log = Log::default();
    let made = |function: &str| {
        let mut executor = Executor::new(ExecutorOptions::default()).unwrap();
        for part in 0..3 {
            let log = log.clone();
            let function = if part == 0 { function } else { "fill" };
            let fill = Tasklet::new(format!("fill {part}"), function, move |context| {
                log.lock().unwrap().push(context.name().to_owned());
                context.write(0, 0, &[part; 500])?;
                Ok(ReturnValue::Nothing)
            });
            let fill = fill.writes(SignalRange::new(&store, &sum, range(part.into())));
            executor.add(if part == 2 {
                fill.after("fill 0")
            } else {
                fill
            });
        }
        executor
    };
    run(&made("fill"), true).unwrap();
    log.lock().unwrap().clear();
    let executor = made("fill better");
    assert!(
        executor
            .explain(true)
            .unwrap()
            .contains("note: tasklet \"fill 0\" changed since")
    );
    let report = run(&executor, true).unwrap();
    assert_eq!(*log.lock().unwrap(), ["fill 0", "fill 2"]);
    assert_eq!(report.notes.len(), 2);
    let samples = store
        .signal("sum")
        .unwrap()
        .select(0..3 * PART)
        .unwrap()
        .counts(-1i32)
        .unwrap();
    assert_eq!([samples[0], samples[600], samples[1400]], [0, 1, 2]);
}
