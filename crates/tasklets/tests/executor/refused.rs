//! What is refused: before a run, and of what a function wrote.

use super::*;

#[test]
fn what_was_declared_is_what_must_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let sum = store.signal("sum").unwrap();
    let said = |function: fn(
        &mut isochrony_tasklets::TaskletContext<'_>,
    ) -> Result<ReturnValue, isochrony_tasklets::Cause>| {
        let mut executor = Executor::new(ExecutorOptions::default()).unwrap();
        executor.add(Tasklet::new("t", "f", function).writes(SignalRange::new(
            &store,
            &sum,
            100..200,
        )));
        let said = run(&executor, false).unwrap_err().to_string();
        assert_eq!(store.signal("sum").unwrap().sample_count(), 0);
        said
    };
    let missing = said(|context| {
        context.write(0, 0, &[1; 40])?;
        context.write(0, 60, &[1; 40])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(
        missing.contains("without writing samples 140..160 of sum"),
        "{missing}"
    );
    let beyond = said(|context| {
        context.write(0, 61, &[1; 40])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(
        beyond.contains("its output 0 is 100 samples of 4 bytes"),
        "{beyond}"
    );
    let other = said(|context| {
        context.write(0, 0, &[1.0f32; 100])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(
        other.contains("writes float32 samples, but its output 0 is of int32 samples"),
        "{other}"
    );
    let twice = said(|context| {
        context.write(0, 0, &[1; 100])?;
        context.write(0, 50, &[1; 10])?;
        Ok(ReturnValue::Nothing)
    });
    assert!(twice.contains("already holds"), "{twice}");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is() {
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
