//! Raw imports end to end, against recordings whose truth is known.

mod common;

use std::path::Path;

use common::{Recorder, SECOND, write};
use isochrony_ingest::{RawOptions, Summary, import_raw};
use isochrony_store::{EventRow, Mode, RunReason, Signal, Store};

const START: i128 = 1_267_401_600 * SECOND;
const MICRO: i128 = 1000;

fn import(store: &Store, source: &Path) -> Summary {
    import_raw(store, source, &RawOptions::preset("censam").unwrap(), None).unwrap()
}

fn new_store(folder: &Path) -> Store {
    Store::open(folder.join("water.iso"), Mode::Append).unwrap()
}

/// All samples of a signal in storage order, without gaps.
fn samples(signal: &Signal) -> Vec<i16> {
    let selection = signal.select(0..signal.end_index()).unwrap();
    let parts = selection
        .segments()
        .map(|segment| segment.unwrap().to_vec::<i16>().unwrap());
    parts.collect::<Vec<_>>().concat()
}

fn gaps(signal: &Signal) -> Vec<(i64, i64)> {
    signal
        .gaps()
        .iter()
        .map(|gap| (gap.start, gap.length))
        .collect()
}

fn events(signal: &Signal, kind: &str) -> Vec<EventRow> {
    signal
        .events()
        .filter(|event| event.kind == kind)
        .cloned()
        .collect()
}

#[test]
fn drift_and_outages_give_true_rate_and_gaps_of_the_true_length() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut truth = Vec::new();
    for (station, ppm) in [("stn_10", 31.0), ("stn_11", -12.5)] {
        let mut recorder = Recorder::new(START, 2000.0, ppm, 6000, MICRO);
        recorder.record(60);
        let first = (recorder.recorded as i64, recorder.outage(41_234) as i64);
        recorder.record(50);
        let second = (
            recorder.recorded as i64 + first.1,
            recorder.outage(700) as i64,
        );
        recorder.record(40);
        recorder.write(&source, station, "pressure");
        truth.push((station, recorder, [first, second]));
    }
    let store = new_store(folder.path());
    let summary = import(&store, &source);
    assert!(summary.is_clean(), "{:?}", summary.problems);
    assert_eq!(summary.files, 300);
    assert_eq!(summary.bytes, 2 * 150 * 12_000);
    for ((station, recorder, expected), told) in truth.iter().zip(&summary.signals) {
        let signal = store.signal(&format!("{station}/pressure")).unwrap();
        assert_eq!(samples(&signal), recorder.samples(), "{station}");
        let found = gaps(&signal);
        assert_eq!(found.len(), 2, "{station}: {found:?}");
        let mut shift = 0;
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.0, expected.0 + shift, "{station}: position");
            assert!(
                (found.1 - expected.1).abs() <= 1,
                "{station}: {found:?} for {expected:?}"
            );
            shift += found.1 - expected.1;
        }
        let rate = told.rate.unwrap();
        assert!(
            (rate.hz / recorder.rate() - 1.0).abs() < 1e-6,
            "{station}: {rate:?} for {}",
            recorder.rate()
        );
        assert_eq!(
            (told.gaps, told.runs, told.files, told.samples),
            (2, 1, 150, 900_000)
        );
        assert_eq!(signal.state().points.len(), 150);
        // Provenance covers every sample.
        let covered: i64 = events(&signal, "import")
            .iter()
            .map(|event| event.end - event.start)
            .sum();
        assert_eq!(covered, signal.end_index());
    }
}

#[test]
fn a_backward_step_begins_a_run_and_keeps_every_sample() {
    for step in [-2, -45, -400] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        let mut recorder = Recorder::new(START, 2000.0, 5.0, 60_000, MICRO);
        recorder.record(20).step(step * SECOND + 123_457).record(20);
        recorder.write(&source, "s", "p");
        let store = new_store(folder.path());
        let summary = import(&store, &source);
        assert!(summary.is_clean(), "{step}: {:?}", summary.problems);
        let signal = store.signal("s/p").unwrap();
        assert_eq!(samples(&signal), recorder.samples(), "{step}");
        let runs = signal.runs().unwrap();
        let found: Vec<_> = runs
            .iter()
            .map(|run| (run.start, run.end, run.reason))
            .collect();
        let half = 20 * 60_000;
        assert_eq!(
            found,
            [
                (0, half, RunReason::First),
                (half, 2 * half, RunReason::BackwardStep)
            ],
            "{step}"
        );
        assert_eq!(gaps(&signal), []);
        let steps = events(&signal, "clock_step");
        assert_eq!(steps.len(), 1);
        let fields: serde_json::Value = serde_json::from_str(&steps[0].fields).unwrap();
        let back = fields["back_ns"].as_i64().unwrap() as i128;
        assert!(
            (back + step * SECOND + 123_457).abs() < 20_000,
            "{step}: {back}"
        );
    }
}

#[test]
fn stamps_to_the_second_give_no_gap_and_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START + 123_456_789, 2000.0, -80.0, 60_000, SECOND);
    recorder.record(150);
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    let summary = import(&store, &source);
    let told = &summary.signals[0];
    assert_eq!((told.gaps, told.runs, told.samples), (0, 1, 150 * 60_000));
    let rate = told.rate.unwrap();
    assert!(
        (rate.hz - recorder.rate()).abs() / recorder.rate() * 1e6 <= rate.uncertainty_ppm,
        "{rate:?}"
    );
    let signal = store.signal("s/p").unwrap();
    for file in recorder.files.iter().step_by(17) {
        let time = signal.time_of(file.first as i64).unwrap();
        let error = (time.value.to_f64() - file.wall_ns as f64).abs();
        assert!(error < 1e9, "{error}");
    }
}

#[test]
fn bad_files_are_reported_and_nothing_else_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.record(30);
    recorder.write(&source, "s", "p");
    // The same file once more, below another folder.
    let copy = &recorder.files[7];
    let bytes: Vec<u8> = copy
        .samples
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect();
    let original = recorder.path("s", "p", copy);
    let duplicate = original.replace("/2010/", "/2011/");
    write(&source, &duplicate, &bytes);
    write(&source, "s/2010/060/p/notes.txt", b"hello");
    write(&source, "s/2010/060/p/t_1267401600000000.raw", b"hell");
    write(&source, "s/2010/060/p/s_1267401900000000.raw", b"");
    write(&source, "s/2010/060/p/s_1267401990000000.raw", b"odd");
    #[cfg(unix)]
    {
        // Reading a folder as a file fails even for those who may read everything.
        std::os::unix::fs::symlink(
            "/nonexistent",
            source.join("s/2010/060/p/s_1267402000000000.raw"),
        )
        .unwrap();
    }
    let store = new_store(folder.path());
    let summary = import(&store, &source);
    let code = |path: &str| summary.problem(path).map(|problem| problem.code);
    let twice = [code(&original), code(&duplicate)];
    assert!(
        twice.contains(&Some("duplicate")) && twice.contains(&None),
        "{:?}",
        summary.problems
    );
    assert_eq!(code("s/2010/060/p/notes.txt"), Some("misnamed"));
    assert_eq!(
        code("s/2010/060/p/t_1267401600000000.raw"),
        Some("field_disagrees")
    );
    assert_eq!(
        code("s/2010/060/p/s_1267401900000000.raw"),
        Some("empty_file")
    );
    assert_eq!(
        code("s/2010/060/p/s_1267401990000000.raw"),
        Some("partial_sample")
    );
    #[cfg(unix)]
    assert_eq!(code("s/2010/060/p/s_1267402000000000.raw"), Some("io"));
    assert_eq!((summary.files, summary.duplicates), (30, 1));
    let signal = store.signal("s/p").unwrap();
    assert_eq!(samples(&signal), recorder.samples());
    assert_eq!((gaps(&signal).len(), signal.state().runs.len()), (0, 1));

    // Partial takes the whole samples of the odd one, 93 s later; everything else is known.
    let mut options = RawOptions::preset("censam").unwrap();
    options.partial = true;
    let again = import_raw(&store, &source, &options, None).unwrap();
    assert_eq!((again.files, again.known), (1, 31));
    let signal = store.signal("s/p").unwrap();
    assert_eq!(signal.sample_count(), 30 * 6000 + 1);
    assert_eq!(samples(&signal)[30 * 6000], i16::from_le_bytes(*b"od"));
}

#[test]
fn late_files_fill_their_gap_and_overlapping_ones_become_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut recorder = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
    recorder.record(60);
    for (number, file) in recorder.files.iter().enumerate() {
        let root = if (30..33).contains(&number) {
            &second
        } else {
            &first
        };
        recorder.write_file(root, "s", "p", file);
    }
    // Other samples of the time of files 40 and 41.
    let mut other = Recorder::new(
        recorder.files[40].wall_ns + 500_000_000,
        2000.0,
        3.0,
        6000,
        MICRO,
    );
    other.recorded = 1_000_000;
    other.record(1);
    other.write(&second, "s", "p");
    let store = new_store(folder.path());
    let summary = import(&store, &first);
    assert_eq!(gaps(&store.signal("s/p").unwrap()), [(30 * 6000, 3 * 6000)]);
    assert!(summary.is_clean());
    let summary = import(&store, &second);
    let signal = store.signal("s/p").unwrap();
    assert_eq!(gaps(&signal), []);
    assert_eq!(
        samples(&signal),
        [recorder.samples(), other.samples()].concat()
    );
    let runs: Vec<_> = signal
        .runs()
        .unwrap()
        .iter()
        .map(|run| run.reason)
        .collect();
    assert_eq!(runs, [RunReason::First, RunReason::Overlap]);
    assert_eq!(summary.problems.len(), 1);
    assert_eq!(summary.problems.list[0].code, "overlap");
    assert_eq!(events(&signal, "overlap").len(), 1);
    // Every file is known now, also below another root.
    let moved = folder.path().join("moved");
    std::fs::rename(&second, &moved).unwrap();
    let again = import(&store, &moved);
    assert_eq!((again.files, again.known, again.problems.len()), (0, 4, 0));
}

#[test]
fn running_again_imports_only_what_is_new_or_grew() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
    recorder.record(10).record_samples(2000);
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    assert_eq!(import(&store, &source).files, 11);
    // The last file is completed, and more come.
    let mut longer = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
    longer.record(30);
    longer.write(&source, "s", "p");
    let summary = import(&store, &source);
    assert_eq!(
        (summary.files, summary.known, summary.bytes),
        (20, 10, 2 * (4000 + 19 * 6000))
    );
    let signal = store.signal("s/p").unwrap();
    assert_eq!(samples(&signal), longer.samples());
    assert_eq!((gaps(&signal).len(), signal.state().runs.len()), (0, 1));
    let summary = import(&store, &source);
    assert_eq!((summary.files, summary.known, summary.bytes), (0, 30, 0));
}

#[test]
fn a_file_dated_1970_costs_no_index() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut early = Recorder::new(5 * SECOND, 2000.0, 0.0, 6000, MICRO);
    early.record(1);
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.recorded = 6000;
    recorder.record(30);
    early.write(&source, "s", "p");
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    import(&store, &source);
    let signal = store.signal("s/p").unwrap();
    assert_eq!(
        samples(&signal),
        [early.samples(), recorder.samples()].concat()
    );
    assert!(signal.end_index() < 400_000, "{}", signal.end_index());
}

#[test]
fn big_endian_files_and_value_jumps() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    for (number, level) in [10_i16, 11, 500, 501].into_iter().enumerate() {
        let bytes = level.to_be_bytes().repeat(200);
        write(
            &source,
            &format!("a/{}.raw", 1_267_401_600 + 2 * number),
            &bytes,
        );
    }
    let store = new_store(folder.path());
    let layout = "{station}/{epoch}.raw".parse().unwrap();
    let rate = isochrony_time::Rate::from_hz(100).unwrap();
    let order = isochrony_segment::ByteOrder::Big;
    let mut options = RawOptions::new(layout, isochrony_segment::DType::I16, order, rate);
    options.session.value_jump = Some(100.0);
    import_raw(&store, &source, &options, None).unwrap();
    let signal = store.signal("a").unwrap();
    let expected: Vec<i16> = [10, 11, 500, 501]
        .into_iter()
        .flat_map(|level| vec![level; 200])
        .collect();
    assert_eq!(samples(&signal), expected);
    let jumps = events(&signal, "value_jump");
    assert_eq!(
        jumps
            .iter()
            .map(|event| (event.start, event.end))
            .collect::<Vec<_>>(),
        [(400, 400)]
    );
}

#[test]
fn progress_ends_with_everything_and_cancel_stops_between_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.record(40);
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    let mut options = RawOptions::preset("censam").unwrap();
    options.session.commit_bytes = 1;
    options.cancel.cancel();
    let summary = import_raw(&store, &source, &options, None).unwrap();
    assert!(summary.cancelled && summary.files == 0);
    options.cancel = isochrony_ingest::Cancel::default();
    let mut last = None;
    let mut tell = |progress: &isochrony_ingest::Progress| last = Some(*progress);
    let summary = import_raw(&store, &source, &options, Some(&mut tell)).unwrap();
    let last = last.unwrap();
    assert_eq!((last.done_files, last.total_files), (40, 40));
    assert_eq!(
        (last.done_bytes, last.total_bytes),
        (40 * 12_000, 40 * 12_000)
    );
    assert_eq!(summary.files, 40);
}

#[test]
fn a_store_that_is_only_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    new_store(folder.path()).close().unwrap();
    let store = Store::open(folder.path().join("water.iso"), Mode::Read).unwrap();
    let error = import_raw(
        &store,
        folder.path(),
        &RawOptions::preset("censam").unwrap(),
        None,
    )
    .unwrap_err();
    assert_eq!(error.code(), "read_only");
}
