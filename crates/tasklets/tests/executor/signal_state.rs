//! Functions see the current state of signals that the run does not write.

use super::*;

type Seen = Arc<Mutex<Vec<(String, Vec<i32>)>>>;

/// Reads all of a signal; -1 without samples.
fn reader_tasklet(name: &str, store: &Store, signal: &str, seen: &Seen) -> Tasklet {
    let (signal, seen) = (store.signal(signal).unwrap(), Arc::clone(seen));
    let range = 0..signal.end_index();
    Tasklet::new(name, "look", move |context| {
        let samples = context.input(0)?.counts(-1i32)?;
        let name = context.name().to_owned();
        seen.lock().unwrap().push((name, samples));
        Ok(ReturnValue::Nothing)
    })
    .reads(SignalRange::new(store, &signal, range))
}

fn given(tasklets: impl IntoIterator<Item = Tasklet>) -> Executor {
    let mut options = with(1, 0);
    (options.order, options.prefetch) = (OrderPolicy::Given, 0);
    let mut executor = Executor::new(options).unwrap();
    tasklets.into_iter().for_each(|one| executor.add(one));
    executor
}

fn half_filled(folder: &Path) -> Store {
    let store = Store::open(folder.join("a.iso"), Mode::Create).unwrap();
    let writer = store.create("g", &options()).unwrap();
    writer.append(&[1, 2]).unwrap();
    writer.append_gap(2).unwrap();
    store.commit(true).unwrap();
    store
}

#[test]
fn each_handle_shows_its_own_state_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = half_filled(folder.path());
    let other = Store::open(store.path(), Mode::Read).unwrap();
    store.writer("g").unwrap().fill(2, &[3, 4]).unwrap();
    for writer_first in [false, true] {
        let seen = Seen::default();
        let mut both = vec![
            reader_tasklet("reader", &other, "g", &seen),
            reader_tasklet("writer", &store, "g", &seen),
        ];
        if writer_first {
            both.reverse();
        }
        run(&given(both), false).unwrap();
        for (name, samples) in seen.lock().unwrap().iter() {
            let expected = if name == "writer" {
                [1, 2, 3, 4]
            } else {
                [1, 2, -1, -1]
            };
            assert_eq!(samples, &expected, "{name}, {writer_first}");
        }
    }
}

#[test]
fn an_input_that_is_a_gap_for_one_handle_is_valid_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = half_filled(folder.path());
    let other = Store::open(store.path(), Mode::Read).unwrap();
    let hidden = store.create("h", &options()).unwrap();
    hidden.append_gap(2).unwrap();
    store.commit(true).unwrap();
    let _ = other.refresh().unwrap();
    hidden.fill(0, &[7, 8]).unwrap();
    let seen = Seen::default();
    run(
        &given([reader_tasklet("writer", &store, "h", &seen)]),
        false,
    )
    .unwrap();
    assert_eq!(seen.lock().unwrap()[0].1, [7, 8]);
    let refused = run(
        &given([reader_tasklet("reader", &other, "h", &seen)]),
        false,
    )
    .unwrap_err();
    assert_eq!(refused.error.code(), "nobody_writes");
}

#[test]
fn tasklets_after_another_see_its_undeclared_effects() {
    let folder = tempfile::tempdir().unwrap();
    let store = half_filled(folder.path());
    let other = Store::open(store.path(), Mode::Read).unwrap();
    let seen = Seen::default();
    let writer = store.writer("g").unwrap();
    let first = Tasklet::new("first", "fill", move |_| {
        writer.fill(2, &[3, 4])?;
        Ok(ReturnValue::Nothing)
    });
    let whole = store.clone();
    let commits = Tasklet::new("commits", "commit", move |_| {
        whole.commit(true)?;
        Ok(ReturnValue::Nothing)
    });
    let tasklets = [
        reader_tasklet("before", &store, "g", &seen),
        first.after("before"),
        reader_tasklet("filled", &store, "g", &seen).after("first"),
        reader_tasklet("not committed", &other, "g", &seen).after("first"),
        commits.after("not committed"),
        reader_tasklet("committed", &other, "g", &seen).after("commits"),
    ];
    run(&given(tasklets), false).unwrap();
    let seen: Vec<Vec<i32>> = (seen.lock().unwrap().iter())
        .map(|(_, samples)| samples.clone())
        .collect();
    let (before, behind) = (vec![1, 2, -1, -1], vec![1, 2, 3, 4]);
    assert_eq!(seen, [&before, &behind, &before, &behind].map(Clone::clone));
}

#[test]
fn inputs_sealed_or_checkpointed_meanwhile_read_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let other = Store::open(store.path(), Mode::Read).unwrap();
    let seen = Seen::default();
    let seals = store.clone();
    // Before the input was selected, and between that and reading.
    let during = other.signal("b").unwrap().select(0..PART).unwrap();
    let first = Tasklet::new("seals", "seal", move |_| {
        for name in ["a", "b"] {
            seals.seal(name, isochrony_store::Codec::default())?;
            seals.commit(true)?;
            seals.checkpoint()?;
        }
        Ok(ReturnValue::Nothing)
    });
    let tasklets = [
        first,
        reader_tasklet("a", &other, "a", &seen).after("seals"),
    ];
    run(&given(tasklets), false).unwrap();
    let expected: Vec<i32> = (0..PART * PARTS).map(|index| sample(0, index)).collect();
    assert_eq!(seen.lock().unwrap()[0].1, expected);
    let samples = during.counts(-1i32).unwrap();
    assert_eq!(
        samples[..],
        (0..PART)
            .map(|index| sample(1, index))
            .collect::<Vec<i32>>()[..]
    );
}

#[test]
fn a_caller_that_panics_ends_the_run() {
    for in_caller in [false, true] {
        let (says, hears) = std::sync::mpsc::channel();
        let run = std::thread::spawn(move || {
            let folder = tempfile::tempdir().unwrap();
            let store = recorded(&folder.path().join("a.iso"));
            let mut options = with(1, 1 << 30);
            // The prefetcher waits for started tasklets.
            (options.prefetch, options.in_caller) = (1, in_caller);
            let (executor, _) = adder(&store, options, |_| Ok(()));
            let run = std::panic::AssertUnwindSafe(|| {
                executor.run(false, &mut |_| panic!("as a test")).is_ok()
            });
            says.send(std::panic::catch_unwind(run).is_err()).unwrap();
        });
        let panicked = hears.recv_timeout(Duration::from_secs(60));
        assert_eq!(panicked, Ok(true), "{in_caller}: it waits for ever");
        run.join().unwrap();
    }
}
