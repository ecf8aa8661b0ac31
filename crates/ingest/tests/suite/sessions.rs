//! Sessions fed as importers may feed them.

use isochrony_ingest::{Block, Problem, Session, SessionOptions, Spec};
use isochrony_segment::DType;
use isochrony_store::{Mode, Signal, Store};
use isochrony_time::{Fixed, Rate, Stamp};

const SECOND: i64 = 1_000_000_000;

fn spec() -> Spec {
    Spec::new(DType::I32, Rate::from_hz(100).unwrap())
}

fn stamp(ns: i64) -> Option<Stamp> {
    Some(Stamp::new(
        Fixed::from_int(1_267_401_600 * SECOND + ns),
        Fixed::from_int(1000),
    ))
}

fn feed(session: &mut Session, signal: &str, source: &str, samples: &[i32], at: Option<Stamp>) {
    let bytes = bytemuck::cast_slice(samples);
    session
        .block(&Block {
            signal,
            spec: &spec(),
            bytes,
            stamp: at,
            source,
        })
        .unwrap();
}

fn samples(signal: &Signal) -> Vec<i32> {
    let selection = signal.select(0..signal.end_index()).unwrap();
    selection
        .segments()
        .map(|segment| segment.unwrap().to_vec::<i32>().unwrap())
        .collect::<Vec<_>>()
        .concat()
}

fn ramp(from: i32) -> Vec<i32> {
    (from..from + 200).collect()
}

fn store(folder: &tempfile::TempDir) -> Store {
    Store::open(folder.path().join("a.iso"), Mode::Append).unwrap()
}

#[test]
fn blocks_of_many_signals_and_sources_become_signals() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    for file in 0..5 {
        let source = format!("/data/day/file{file}");
        for channel in ["x", "y"] {
            // The second block has no stamp; a pause of 3 s before file 3.
            let at = i64::from(file) * 4 * SECOND + if file >= 3 { 3 * SECOND } else { 0 };
            feed(&mut session, channel, &source, &ramp(file * 400), stamp(at));
            feed(
                &mut session,
                channel,
                &source,
                &ramp(file * 400 + 200),
                None,
            );
        }
        session.done(&source, 1234, Some(77)).unwrap();
    }
    session.reject_as(Problem {
        path: "/data/day/bad".into(),
        code: "refused",
        reason: "no header".into(),
    });
    let summary = session.finish().unwrap();
    assert_eq!((summary.files, summary.bytes), (5, 5 * 2 * 400 * 4));
    assert_eq!(
        summary.problem("/data/day/bad").unwrap().reason,
        "no header"
    );
    assert!(!summary.is_clean());
    for told in &summary.signals {
        assert_eq!(
            (told.files, told.samples, told.gaps, told.runs),
            (5, 2000, 1, 1),
            "{}",
            told.name
        );
        let (start, end) = told.time_span.unwrap();
        assert!((end.to_f64() - start.to_f64() - 23e9).abs() < 1e5);
    }
    for name in ["x", "y"] {
        let signal = store.signal(name).unwrap();
        assert_eq!(samples(&signal), (0..2000).collect::<Vec<_>>());
        assert_eq!(
            signal
                .gaps()
                .iter()
                .map(|gap| (gap.start, gap.length))
                .collect::<Vec<_>>(),
            [(1200, 300)]
        );
    }

    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    assert!(session.known("/data/day/file3", 1234, Some(77)).unwrap());
    assert!(!session.known("/data/day/file3", 1234, Some(78)).unwrap());
    assert!(!session.known("/data/day/file3", 1235, Some(77)).unwrap());
    assert!(!session.known("/data/day/file9", 1234, Some(77)).unwrap());
    feed(
        &mut session,
        "x",
        "/data/day/file3",
        &ramp(1200),
        stamp(15 * SECOND),
    );
    session.done("/data/day/file3", 1234, Some(78)).unwrap();
    assert!(session.known("/data/day/file3", 1234, Some(78)).is_ok());
    let summary = session.finish().unwrap();
    assert_eq!(
        (summary.files, summary.duplicates, summary.bytes),
        (0, 0, 0)
    );
    assert!(summary.is_clean());
    assert_eq!(summary.signals[0].skipped, 1);
    assert_eq!(store.signal("x").unwrap().sample_count(), 2000);
}

#[test]
fn a_held_block_is_judged_by_the_next_stamp() {
    // The second stamp is 2 s late; the block follows.
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    for block in 0..30 {
        let off = if block == 20 { 2 * SECOND } else { 0 };
        let source = format!("f{block}");
        feed(
            &mut session,
            "x",
            &source,
            &ramp(block * 200),
            stamp(i64::from(block) * 2 * SECOND + off),
        );
        session.done(&source, 800, None).unwrap();
    }
    let summary = session.finish().unwrap();
    assert_eq!((summary.signals[0].gaps, summary.signals[0].runs), (0, 1));
    let signal = store.signal("x").unwrap();
    let outliers: Vec<_> = signal
        .events()
        .filter(|event| event.kind == "stamp_outlier")
        .collect();
    assert_eq!(outliers.len(), 1);
    assert_eq!((outliers[0].start, outliers[0].end), (4000, 4200));
}

#[test]
fn rejects_blocks_that_do_not_fit_their_signal_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    feed(&mut session, "x", "good", &ramp(0), stamp(0));
    session.done("good", 1, None).unwrap();
    let mut refused = |change: &dyn Fn(&mut Spec), signal: &str, bytes: &[u8]| {
        let mut spec = spec();
        change(&mut spec);
        let block = Block {
            signal,
            spec: &spec,
            bytes,
            stamp: stamp(2 * SECOND),
            source: "bad",
        };
        let error = session.block(&block).unwrap_err();
        assert!(!error.is_fatal(), "{error}");
        session.reject("bad", &error);
        error.code()
    };
    assert_eq!(
        refused(&|spec| spec.format = DType::I16.into(), "x", &[0; 8]),
        "mismatch"
    );
    assert_eq!(
        refused(
            &|spec| spec.rate = Rate::from_hz(200).unwrap(),
            "x",
            &[0; 8]
        ),
        "mismatch"
    );
    assert_eq!(
        refused(&|spec| spec.calibration = Some((2.0, 0.0)), "x", &[0; 8]),
        "mismatch"
    );
    assert_eq!(refused(&|_| (), "x", &[0; 7]), "partial_sample");
    assert_eq!(refused(&|_| (), "x", &[]), "empty_block");
    assert_eq!(refused(&|_| (), "../x", &[0; 8]), "invalid_name");
    assert_eq!(refused(&|_| (), "x/y", &[0; 8]), "signal_inside_signal");
    // A rate within a thousandth is equal.
    let close = Spec {
        rate: Rate::new(1_000_001, 10_000).unwrap(),
        ..spec()
    };
    let bytes = bytemuck::cast_slice(&[1_i32, 2]);
    session
        .block(&Block {
            signal: "x",
            spec: &close,
            bytes,
            stamp: stamp(2 * SECOND),
            source: "late",
        })
        .unwrap();
    session.done("late", 8, None).unwrap();
    let summary = session.finish().unwrap();
    assert_eq!((summary.files, summary.problems.len()), (2, 7));
    assert_eq!(
        samples(&store.signal("x").unwrap()),
        [ramp(0), vec![1, 2]].concat()
    );
    assert_eq!(store.names().unwrap(), ["x"]);
}

#[test]
fn samples_without_any_stamp_have_an_index_and_no_civil_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    for block in 0..3 {
        feed(&mut session, "x", "song.wav", &ramp(block * 200), None);
    }
    session.done("song.wav", 2400, Some(1)).unwrap();
    let summary = session.finish().unwrap();
    assert_eq!(
        (summary.signals[0].samples, summary.signals[0].time_span),
        (600, None)
    );
    assert!(summary.signals[0].rate.is_none());
}

#[test]
fn refuses_invalid_options() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let good = SessionOptions::default;
    for options in [
        SessionOptions {
            value_jump: Some(f64::NAN),
            ..good()
        },
        SessionOptions {
            alpha: Some(2.0),
            ..good()
        },
        SessionOptions {
            alpha: Some(f64::NAN),
            ..good()
        },
        SessionOptions {
            gap_slip_ns: Some(-1),
            ..good()
        },
        SessionOptions {
            max_gap_ns: Some(0),
            ..good()
        },
    ] {
        let refused = Session::new(&store, options).err().unwrap();
        assert_eq!(refused.code(), "invalid_option");
    }
}

#[test]
fn an_initial_rate_sizes_gaps_before_the_rate_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let day = 86_400 * SECOND;
    let gap = |name: &str, initial_rate: Option<Rate>| {
        let options = SessionOptions {
            initial_rate,
            ..SessionOptions::default()
        };
        let mut session = Session::new(&store, options).unwrap();
        feed(&mut session, name, "a", &ramp(0), stamp(0));
        feed(&mut session, name, "b", &ramp(200), stamp(day));
        session.done("a", 1, None).unwrap();
        session.done("b", 1, None).unwrap();
        session.finish().unwrap();
        let signal = store.signal(name).unwrap();
        let gaps: Vec<_> = signal.gaps().iter().map(|gap| gap.length).collect();
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        gaps[0]
    };
    // 50 ppm of a day at 100 Hz are 432 samples.
    let fast = gap("fast", Some(Rate::new(100_005, 1000).unwrap()));
    let nominal = gap("nominal", None);
    assert!((nominal - (8_640_000 - 200)).abs() <= 1, "{nominal}");
    assert!((fast - (8_640_432 - 200)).abs() <= 1, "{fast}");
    let far = SessionOptions {
        initial_rate: Some(Rate::from_hz(900).unwrap()),
        ..SessionOptions::default()
    };
    let mut session = Session::new(&store, far).unwrap();
    let block = Block {
        signal: "far",
        spec: &spec(),
        bytes: &[0; 8],
        stamp: None,
        source: "c",
    };
    assert_eq!(session.block(&block).unwrap_err().code(), "invalid_option");
}

/// In a new session, with stamps in seconds.
fn import(
    store: &Store,
    size: u64,
    blocks: &[(Vec<i32>, Option<i64>)],
) -> Result<u64, isochrony_ingest::IngestError> {
    let mut session = Session::new(store, SessionOptions::default())?;
    if session.known("/data/a", size, Some(7))? {
        return Ok(session.finish()?.skipped);
    }
    for (samples, at) in blocks {
        session.block(&Block {
            signal: "s",
            spec: &spec(),
            bytes: bytemuck::cast_slice(samples),
            stamp: at.and_then(|seconds| stamp(seconds * SECOND)),
            source: "/data/a",
        })?;
    }
    session.done("/data/a", size, Some(7))?;
    assert!(session.finish()?.is_clean());
    Ok(0)
}

#[test]
fn only_new_samples_of_a_grown_source_are_stored() {
    for stamped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let at = |seconds: i64| stamped.then_some(seconds);
        import(
            &store,
            1,
            &[((0..100).collect(), at(0)), ((100..250).collect(), at(1))],
        )
        .unwrap();
        // In other blocks.
        import(
            &store,
            2,
            &[((0..200).collect(), at(0)), ((200..330).collect(), at(2))],
        )
        .unwrap();
        import(&store, 3, &[((0..400).collect(), at(0))]).unwrap();
        // Touched only.
        import(&store, 4, &[((0..400).collect(), at(0))]).unwrap();
        assert_eq!(import(&store, 4, &[]).unwrap(), 1);
        let signal = store.signal("s").unwrap();
        assert_eq!(samples(&signal), (0..400).collect::<Vec<_>>(), "{stamped}");
        assert_eq!(signal.state().runs.len(), 1);
    }
}

#[test]
fn a_gap_in_a_source_that_grew_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let before = || {
        vec![
            ((0..100).collect(), Some(0)),
            ((100..200).collect(), Some(5)),
        ]
    };
    import(&store, 1, &before()).unwrap();
    let mut grown = before();
    grown.push(((200..300).collect(), Some(6)));
    import(&store, 2, &grown).unwrap();
    let signal = store.signal("s").unwrap();
    assert_eq!(samples(&signal), (0..300).collect::<Vec<_>>());
    assert_eq!(signal.gaps().len(), 1);
}

#[test]
fn equal_samples_at_another_time_are_not_duplicates() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    import(&store, 1, &[((0..100).collect(), Some(0))]).unwrap();
    import(&store, 2, &[((0..100).collect(), Some(3600))]).unwrap();
    let signal = store.signal("s").unwrap();
    assert_eq!(signal.sample_count(), 200);
}

#[test]
fn a_source_changed_other_than_by_growing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    import(&store, 1, &[((0..100).collect(), None)]).unwrap();
    let mut changed: Vec<i32> = (0..150).collect();
    changed[70] = -1;
    let error = import(&store, 2, &[(changed, None)]).unwrap_err();
    assert_eq!(error.code(), "rewritten");
    assert!(!error.is_fatal());
    assert!(error.to_string().contains("first 70 samples"));
    assert_eq!(store.signal("s").unwrap().sample_count(), 100);
}

#[test]
fn a_block_repeated_within_its_source_does_not_end_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    for first in [0, 100, 0, 0, 100] {
        let ramp: Vec<i32> = (first..first + 100).collect();
        let at = stamp(i64::from(first / 100) * SECOND);
        feed(&mut session, "s", "/data/a", &ramp, at);
    }
    session.done("/data/a", 1, None).unwrap();
    let summary = session.finish().unwrap();
    assert_eq!(summary.problems.list[0].code, "repeated");
    assert!(summary.problems.list[0].is_kept());
    let signal = store.signal("s").unwrap();
    assert_eq!(samples(&signal), (0..200).collect::<Vec<_>>());
    let imports = signal.events().filter(|event| event.kind == "import");
    for event in imports {
        assert_eq!((event.start, event.end), (0, 200));
    }
}
