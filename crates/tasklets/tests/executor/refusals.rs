//! Refusals of a run and of a function's output.

use super::*;

#[test]
fn declared_outputs_must_be_written_completely() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let sum = store.signal("sum").unwrap();
    let message = |function: fn(
        &mut isochrony_tasklets::TaskletContext<'_>,
    ) -> Result<ReturnValue, isochrony_tasklets::Cause>| {
        let mut executor = Executor::new(ExecutorOptions::default()).unwrap();
        executor.add(Tasklet::new("t", "f", function).writes(SignalRange::new(
            &store,
            &sum,
            100..200,
        )));
        let message = run(&executor, false).unwrap_err().to_string();
        assert_eq!(store.signal("sum").unwrap().sample_count(), 0);
        message
    };
    let missing = message(|context| {
        context.write(0, 0, &[1; 40])?;
        context.write(0, 60, &[1; 40])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(
        missing.contains("without writing samples 140..160 of sum"),
        "{missing}"
    );
    let beyond = message(|context| {
        context.write(0, 61, &[1; 40])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(
        beyond.contains("its output 0 is 100 samples of 4 bytes"),
        "{beyond}"
    );
    let other = message(|context| {
        context.write(0, 0, &[1.0f32; 100])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(
        other.contains("writes float32 samples, but its output 0 is of int32 samples"),
        "{other}"
    );
    let twice = message(|context| {
        context.write(0, 0, &[1; 100])?;
        context.write(0, 50, &[1; 10])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(twice.contains("already holds"), "{twice}");
}

#[test]
fn impossible_runs_are_refused_before_any_tasklet() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let (a, sum) = (store.signal("a").unwrap(), store.signal("sum").unwrap());
    let refused = |tasklets: Vec<Tasklet>, resume: bool| {
        let mut executor = Executor::new(ExecutorOptions::default()).unwrap();
        tasklets
            .into_iter()
            .for_each(|tasklet| executor.add(tasklet));
        let failure = run(&executor, resume).unwrap_err();
        assert!(failure.report.is_none());
        failure.error.code()
    };
    let tasklet = |name: &str| Tasklet::new(name, "f", |_| Ok(ReturnValue::Nothing));
    assert_eq!(
        refused(
            vec![tasklet("t").writes(SignalRange::new(&store, &a, 0..10))],
            false
        ),
        "output_occupied"
    );
    assert_eq!(
        refused(
            vec![tasklet("t").reads(SignalRange::new(&store, &sum, 0..10))],
            false
        ),
        "nobody_writes"
    );
    assert_eq!(
        refused(
            vec![tasklet("t").reads(SignalRange::new(&store, &a, 0..PART * PARTS + 1))],
            false
        ),
        "out_of_bounds"
    );
    assert_eq!(
        refused(
            vec![tasklet("t").reads(SignalRange::new(&store, &a, 0..10))],
            true
        ),
        "bad_option"
    );
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    assert_eq!(
        refused(
            vec![tasklet("t").writes(SignalRange::new(&reader, &sum, 0..10))],
            false
        ),
        "not_writable"
    );
    assert_eq!(Executor::new(with(0, 0)).unwrap_err().code(), "bad_option");
}

fn filling_sum(store: &Store, options: ExecutorOptions) -> Executor {
    let sum = store.signal("sum").unwrap();
    let mut executor = Executor::new(options).unwrap();
    let fill = Tasklet::new("t", "f", |context| {
        context.write(0, 0, &[7; 10])?;
        Ok(ReturnValue::Nothing)
    });
    executor.add(fill.writes(SignalRange::new(store, &sum, 0..10)));
    executor
}

fn journal_refused(store: &Store, options: ExecutorOptions) -> String {
    let executor = filling_sum(store, options);
    let (send, receive) = std::sync::mpsc::channel();
    // Opening a pipe may block for ever.
    std::thread::spawn(move || send.send(run(&executor, false).map(|_| ())));
    let done = receive.recv_timeout(Duration::from_secs(60));
    let refused = done.expect("it hangs").unwrap_err();
    assert_eq!(store.signal("sum").unwrap().sample_count(), 0);
    refused.to_string()
}

#[test]
fn journals_of_a_store_are_opened_without_leaving_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let journals = store.path().join(".isochrony/tasklets");
    let fill = || _ = run(&filling_sum(&store, with(1, 0)), false).unwrap();
    fill();
    let journal = std::fs::read_dir(&journals).unwrap().next();
    let journal = journal.unwrap().unwrap().path();
    store.writer("sum").unwrap().mark_invalid(0..10).unwrap();
    store.commit(true).unwrap();
    let victim = folder.path().join("thesis");
    std::fs::write(&victim, "text").unwrap();
    std::fs::remove_file(&journal).unwrap();
    std::os::unix::fs::symlink(&victim, &journal).unwrap();
    let message = journal_refused(&store, with(1, 0));
    assert!(message.contains("a symbolic link"), "{message}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "text");

    std::fs::remove_file(&journal).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&journal).status();
    assert!(made.unwrap().success());
    let message = journal_refused(&store, with(1, 0));
    assert!(message.contains("a pipe"), "{message}");

    std::fs::remove_dir_all(&journals).unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, &journals).unwrap();
    let message = journal_refused(&store, with(1, 0));
    assert!(message.contains("a symbolic link"), "{message}");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);

    std::fs::remove_file(&journals).unwrap();
    fill();
    assert!(journal.is_file());
}

#[test]
fn a_named_journal_is_a_regular_file_outside_stores() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let manifest = store.path().join(".isochrony/MANIFEST");
    let before = std::fs::read(&manifest).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(store.path().join("a"), &link).unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (path, why) in [
        (manifest.clone(), "a file outside of stores"),
        (store.path().join("new/journal"), "a file outside of stores"),
        (link.join("journal"), "a file outside of stores"),
        (pipe, "a pipe"),
        (folder.path().into(), "a folder"),
    ] {
        let mut options = with(1, 0);
        options.journal = Some(path.clone());
        let message = journal_refused(&store, options);
        assert!(message.contains(why), "{}: {message}", path.display());
    }
    assert_eq!(std::fs::read(&manifest).unwrap(), before);
    assert!(!store.path().join("new").exists());
    let (file, link) = (folder.path().join("file"), folder.path().join("mine"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut options = with(1, 0);
    options.journal = Some(link);
    run(&filling_sum(&store, options), false).unwrap();
    assert_ne!(std::fs::read(&file).unwrap(), b"");
}
