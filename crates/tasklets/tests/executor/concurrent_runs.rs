//! Concurrent runs with common signals or journal folders.

use super::*;

fn filling(
    store: &Store,
    name: &str,
    outputs: &[&str],
    before: impl Fn() + Send + Sync + 'static,
) -> Tasklet {
    let count = outputs.len();
    let fill = Tasklet::new(name, "fill", move |context| {
        before();
        for output in 0..count {
            context.write(output, 5, &[7; 5])?;
            context.write(output, 0, &[7; 5])?;
        }
        Ok(ReturnValue::Value(1.into()))
    });
    outputs.iter().fold(fill, |fill, output| {
        fill.writes(SignalRange::new(
            store,
            &store.signal(output).unwrap(),
            0..10,
        ))
    })
}

fn executor(options: ExecutorOptions, tasklets: impl IntoIterator<Item = Tasklet>) -> Executor {
    let mut executor = Executor::new(options).unwrap();
    tasklets
        .into_iter()
        .for_each(|tasklet| executor.add(tasklet));
    executor
}

fn with_room(folder: &tempfile::TempDir) -> Store {
    let store = recorded(&folder.path().join("a.iso"));
    store
        .create("more", &options())
        .unwrap()
        .append_gap(100)
        .unwrap();
    store.commit(true).unwrap();
    store
}

fn samples(store: &Store, name: &str) -> Vec<i32> {
    let signal = store.signal(name).unwrap();
    signal.select(0..12).unwrap().counts(-1i32).unwrap()
}

#[test]
fn a_refused_output_removes_only_its_own_samples() {
    for (signal, end) in [("sum", 12), ("more", 5)] {
        let folder = tempfile::tempdir().unwrap();
        let store = with_room(&folder);
        let other = store.clone();
        let tasklet = filling(&store, "both", &["more", "sum"], move || {
            let writer = other.writer(signal).unwrap();
            writer.fill(0, &vec![3; end]).unwrap();
        });
        let refused = run(&executor(with(1, 0), [tasklet]), false).unwrap_err();
        let message = refused.to_string();
        assert!(message.contains("already holds"), "{message}");
        let mut theirs = vec![-1; 12];
        theirs[..end].fill(3);
        assert_eq!(samples(&store, signal), theirs);
        let unharmed = if signal == "sum" { "more" } else { "sum" };
        assert_eq!(samples(&store, unharmed), [-1; 12]);
    }
}

#[test]
fn another_journal_that_claims_an_output_is_named_and_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_room(&folder);
    let one = || filling(&store, "one", &["sum"], || ());
    run(&executor(with(1, 0), [one()]), false).unwrap();
    let both = || [one(), filling(&store, "two", &["more"], || ())];
    let refused = run(&executor(with(1, 0), both()), true).unwrap_err();
    assert_eq!(refused.error.code(), "output_occupied");
    let message = refused.to_string();
    let (_, path) = message
        .split_once("resume=True and journal=")
        .expect(&message);
    let mut options = with(1, 0);
    options.journal = Some(path.split_once(", since").unwrap().0.into());
    let report = run(&executor(options, both()), true).unwrap();
    let states: Vec<&str> = report.tasklets.iter().map(|one| one.state).collect();
    assert_eq!(states, ["kept", "done"]);
}

#[test]
fn a_journal_that_another_run_writes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let first = filling(&store, "first", &["sum"], || ());
    let again = Mutex::new(executor(
        with(1, 0),
        [filling(&store, "first", &["sum"], || ())],
    ));
    let second = Tasklet::new("second", "run", move |_| {
        let refused = run(&again.lock().unwrap(), false).unwrap_err();
        // Not because its output exists: the other run continues, and wrote that.
        assert_eq!(refused.error.code(), "journal_in_use");
        Ok(ReturnValue::Nothing)
    });
    run(&executor(with(1, 0), [first, second.after("first")]), false).unwrap();
}

#[test]
fn resume_is_offered_only_for_recorded_tasklets() {
    let folder = tempfile::tempdir().unwrap();
    let fails = || Tasklet::new("fails", "f", |_| Err("no luck".into()));
    let message = run(&executor(with(1, 0), [fails()]), false).unwrap_err();
    assert!(!message.to_string().contains("resume"), "{message}");
    let unkept = |name: &str| Tasklet::new(name, "f", |_| Ok(ReturnValue::NotSerializable));
    let mut options = with(1, 0);
    options.journal = Some(folder.path().join("journal"));
    let tasklets = [fails(), unkept("first"), unkept("second")];
    let failure = run(&executor(options, tasklets), false).unwrap_err();
    assert!(
        failure.to_string().ends_with("run again with resume=True"),
        "{failure}"
    );
    assert_eq!(
        failure.report.unwrap().notes,
        [
            "tasklet \"first\" and 1 more returned what no journal keeps: with resume they are run again"
        ]
    );
}

#[test]
fn json_is_kept_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[1180591620717411303424, 0.1000000000000000055511151231257827, -0.0]";
    for state in ["done", "kept"] {
        let mut options = with(1, 0);
        options.journal = Some(folder.path().join("journal"));
        let gives = Tasklet::new("gives", "f", move |_| Ok(ReturnValue::Json(text.into())));
        let report = run(&executor(options, [gives]), true).unwrap();
        assert_eq!(report.tasklets[0].state, state);
        assert_eq!(report.tasklets[0].json.as_deref(), Some(text));
    }
}

#[test]
fn claims_are_noted_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let journal = folder.path().join("journal");
    let mut lines = Vec::new();
    for _ in 0..2 {
        let mut options = with(1, 0);
        options.journal = Some(journal.clone());
        run(
            &executor(options, [filling(&store, "one", &["sum"], || ())]),
            true,
        )
        .unwrap();
        lines.push(std::fs::read_to_string(&journal).unwrap());
    }
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[0].matches("claim").count(), 1);
}

#[test]
fn a_panic_outside_of_tasklets_ends_the_run() {
    let (says, hears) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let executor = Executor::new(with(3, 0)).unwrap();
        let mut executor = executor.with_thread_wrapper(|work| {
            work();
            panic!("as a test");
        });
        executor.add(Tasklet::new("t", "f", |_| Ok(ReturnValue::Nothing)));
        let run = std::panic::AssertUnwindSafe(|| run(&executor, false).is_ok());
        let ended = std::panic::catch_unwind(run);
        says.send(ended.is_err()).unwrap();
    });
    let panicked = hears.recv_timeout(Duration::from_secs(60));
    assert_eq!(
        panicked,
        Ok(true),
        "the run waits for a worker that is gone"
    );
    worker.join().unwrap();
}
