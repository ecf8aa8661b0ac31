//! Blocks that overlap stored ones in time.

use crate::common::{reasons, samples};
use isochrony_ingest::{Block, Problem, Session, SessionOptions, Spec, Summary};
use isochrony_segment::DType;
use isochrony_store::{Mode, RunReason, Signal, Store};
use isochrony_time::{Fixed, Rate, Stamp};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_267_401_600 * SECOND;

/// At one sample a second; block `n` begins `n` seconds after it.
struct Recorder {
    source: &'static str,
    /// First second and first value.
    from: i64,
    first: i32,
    blocks: i64,
}

impl Recorder {
    fn block(&self, number: i64) -> Vec<i32> {
        let first = self.first + number as i32 * 100;
        (first..first + 100).collect()
    }

    fn samples(&self) -> Vec<i32> {
        (0..self.blocks)
            .flat_map(|number| self.block(number))
            .collect()
    }
}

fn recorder(source: &'static str, from: i64, first: i32, blocks: i64) -> Recorder {
    Recorder {
        source,
        from,
        first,
        blocks,
    }
}

fn feed_block(session: &mut Session, source: &str, samples: &[i32], at_ns: Option<i64>) {
    feed_signal(session, "x", source, samples, at_ns);
}

fn feed_signal(
    session: &mut Session,
    signal: &str,
    source: &str,
    samples: &[i32],
    at_ns: Option<i64>,
) {
    let stamp = at_ns.map(|ns| Stamp::new(Fixed::from_int(START + ns), Fixed::from_int(1000)));
    let spec = Spec::new(DType::I32, Rate::from_hz(100).unwrap());
    session
        .block(&Block {
            signal,
            spec: &spec,
            bytes: bytemuck::cast_slice(samples),
            stamp,
            source,
        })
        .unwrap();
}

fn feed(session: &mut Session, recorder: &Recorder) {
    for number in 0..recorder.blocks {
        let at = (recorder.from + number) * SECOND;
        feed_block(session, recorder.source, &recorder.block(number), Some(at));
    }
    session.done(recorder.source, 4, Some(1)).unwrap();
}

fn import(recorders: &[&Recorder]) -> (tempfile::TempDir, Summary, Signal) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    recorders
        .iter()
        .for_each(|recorder| feed(&mut session, recorder));
    let summary = session.finish().unwrap();
    let signal = store.signal("x").unwrap();
    (folder, summary, signal)
}

fn kinds(signal: &Signal) -> Vec<&str> {
    let kinds = signal.events().map(|event| &*event.kind);
    kinds.filter(|kind| *kind != "import").collect()
}

fn codes(summary: &Summary) -> Vec<(&str, &str)> {
    let problems = summary.problems.list.iter();
    problems
        .map(|problem| (&*problem.path, problem.code))
        .collect()
}

fn assert_range(problem: &Problem, from: &str, to: &str) {
    let range = format!("from 2010-03-01T00:{from}");
    let reason = &problem.reason;
    assert!(reason.contains(&range), "{reason}");
    assert!(
        reason.contains(&format!("to 2010-03-01T00:{to}")),
        "{reason}"
    );
    assert!(reason.contains("\"x\""), "{reason}");
}

#[test]
fn a_source_within_the_time_of_a_recording_is_an_overlap() {
    for blocks in [1, 2, 7] {
        let first = recorder("a", 0, 0, 30);
        let beside = recorder("b", 20, 1_000_000, blocks);
        let after = recorder("c", 30, 3000, 30);
        let (_folder, summary, signal) = import(&[&first, &beside, &after]);
        assert_eq!(codes(&summary), [("b", "overlap")], "{blocks}");
        let end = format!("{:02}:{:02}", 0, 20 + blocks);
        assert_range(summary.problem("b").unwrap(), "00:20", &end);
        assert_eq!(
            reasons(&signal),
            [RunReason::First, RunReason::Overlap, RunReason::Resumed]
        );
        assert_eq!(kinds(&signal), ["overlap"]);
        let expected = [first.samples(), beside.samples(), after.samples()].concat();
        assert_eq!(samples::<i32>(&signal), expected);
        assert_eq!(signal.gaps().len(), 0);
        assert_eq!(summary.files, 3);
    }
}

#[test]
fn a_source_that_begins_before_the_end_and_outlasts_it_is_a_step_and_a_problem() {
    let (first, second) = (recorder("a", 0, 0, 60), recorder("b", 30, 500_000, 60));
    let (_folder, summary, signal) = import(&[&first, &second]);
    assert_eq!(codes(&summary), [("b", "overlap")]);
    assert_range(summary.problem("b").unwrap(), "00:30", "01:00");
    assert_eq!(
        reasons(&signal),
        [RunReason::First, RunReason::BackwardStep]
    );
    assert_eq!(kinds(&signal), ["clock_step"]);
    assert_eq!(
        samples::<i32>(&signal),
        [first.samples(), second.samples()].concat()
    );
    assert_eq!(signal.gaps().len(), 0);
    let last = signal.time_of(signal.end_index() - 1).unwrap().value;
    assert_eq!(
        last.round_i64().unwrap() - START,
        90 * SECOND - SECOND / 100
    );
}

#[test]
fn a_step_within_one_source_is_no_problem() {
    for (before, back, after) in [(60, 30, 60), (60, 30, 7), (60, 3, 2), (60, 50, 300)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let mut session = Session::new(&store, SessionOptions::default()).unwrap();
        let first = recorder("a", 0, 0, before);
        for number in 0..before {
            feed_block(
                &mut session,
                "a",
                &first.block(number),
                Some(number * SECOND),
            );
        }
        let second = recorder("a", before - back, 900_000, after);
        feed(&mut session, &second);
        let summary = session.finish().unwrap();
        let signal = store.signal("x").unwrap();
        assert!(summary.is_clean(), "{back} {after}: {:?}", summary.problems);
        assert_eq!(
            reasons(&signal),
            [RunReason::First, RunReason::BackwardStep],
            "{back} {after}"
        );
        assert_eq!(kinds(&signal), ["clock_step"]);
        assert_eq!(
            samples::<i32>(&signal),
            [first.samples(), second.samples()].concat()
        );
    }
}

#[test]
fn foreign_blocks_within_one_source_are_an_overlap_where_the_recording_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    let (recording, foreign) = (recorder("a", 0, 0, 60), recorder("a", 10, 700_000, 3));
    for number in 0..60 {
        if number == 30 {
            for number in 0..3 {
                let at = (foreign.from + number) * SECOND;
                feed_block(&mut session, "a", &foreign.block(number), Some(at));
            }
        }
        feed_block(
            &mut session,
            "a",
            &recording.block(number),
            Some(number * SECOND),
        );
    }
    session.done("a", 4, Some(1)).unwrap();
    let summary = session.finish().unwrap();
    let signal = store.signal("x").unwrap();
    assert_eq!(codes(&summary), [("a", "overlap")]);
    assert_range(summary.problem("a").unwrap(), "00:10", "00:13");
    assert_eq!(
        reasons(&signal),
        [RunReason::First, RunReason::Overlap, RunReason::Resumed]
    );
    let recorded = recording.samples();
    let expected = [&recorded[..3000], &foreign.samples()[..], &recorded[3000..]].concat();
    assert_eq!(samples::<i32>(&signal), expected);
}

#[test]
fn blocks_without_stamp_follow_the_block_before() {
    for ends_beside in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let mut session = Session::new(&store, SessionOptions::default()).unwrap();
        let first = recorder("a", 0, 0, 30);
        feed(&mut session, &first);
        let blocks = if ends_beside { 4 } else { 20 };
        let second = recorder("b", 20, 400_000, blocks);
        for number in 0..blocks {
            let at = (number == 0).then_some(20 * SECOND);
            feed_block(&mut session, "b", &second.block(number), at);
        }
        session.done("b", 4, Some(1)).unwrap();
        let summary = session.finish().unwrap();
        let signal = store.signal("x").unwrap();
        assert_eq!(codes(&summary), [("b", "overlap")]);
        let reason = if ends_beside {
            RunReason::Overlap
        } else {
            RunReason::BackwardStep
        };
        assert_eq!(reasons(&signal), [RunReason::First, reason]);
        assert_eq!(
            samples::<i32>(&signal),
            [first.samples(), second.samples()].concat()
        );
        let last = signal.time_of(signal.end_index() - 1).unwrap().value;
        let expected = (20 + blocks) * SECOND - SECOND / 100;
        assert!((last.to_f64() - (START + expected) as f64).abs() < 5e3);
    }
}

#[test]
fn repeated_blocks_are_skipped_and_reported() {
    // It begins with ten blocks of the first.
    let (first, second) = (recorder("a", 0, 0, 30), recorder("b", 20, 2000, 30));
    let (_folder, summary, signal) = import(&[&first, &second]);
    assert_eq!(codes(&summary), [("b", "repeated")]);
    assert_range(summary.problem("b").unwrap(), "00:20", "00:30");
    assert!(
        summary
            .problem("b")
            .unwrap()
            .reason
            .contains("1000 of its samples")
    );
    assert_eq!(reasons(&signal), [RunReason::First]);
    assert_eq!(samples::<i32>(&signal), (0..5000).collect::<Vec<_>>());
    // A pure copy.
    let copy = recorder("b", 5, 500, 10);
    let (_folder, summary, signal) = import(&[&first, &copy]);
    assert_eq!(codes(&summary), [("b", "duplicate")]);
    assert_eq!((summary.files, summary.duplicates), (1, 1));
    assert_eq!(samples::<i32>(&signal), first.samples());
}

#[test]
fn a_grown_source_reports_no_copies_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    for blocks in [10, 25] {
        let mut session = Session::new(&store, SessionOptions::default()).unwrap();
        assert!(!session.known("a", blocks as u64, Some(blocks)).unwrap());
        let grown = recorder("a", 0, 0, blocks);
        for number in 0..blocks {
            feed_block(
                &mut session,
                "a",
                &grown.block(number),
                Some(number * SECOND),
            );
        }
        session.done("a", blocks as u64, Some(blocks)).unwrap();
        let summary = session.finish().unwrap();
        assert!(summary.is_clean(), "{:?}", summary.problems);
    }
    let signal = store.signal("x").unwrap();
    assert_eq!(samples::<i32>(&signal), (0..2500).collect::<Vec<_>>());
    assert_eq!(signal.runs().unwrap().len(), 1);
}

#[test]
fn a_later_import_detects_overlaps_like_a_single_import() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let first = recorder("a", 0, 0, 60);
    let beside = recorder("b", 20, 600_000, 10);
    let mut codes_of = Vec::new();
    for recorder in [&first, &beside] {
        let mut session = Session::new(&store, SessionOptions::default()).unwrap();
        feed(&mut session, recorder);
        let summary = session.finish().unwrap();
        codes_of.push(
            codes(&summary)
                .iter()
                .map(|(_, code)| code.to_string())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(codes_of, [vec![], vec!["overlap".to_owned()]]);
    let signal = store.signal("x").unwrap();
    assert_eq!(reasons(&signal), [RunReason::First, RunReason::Overlap]);
    assert_eq!(
        samples::<i32>(&signal),
        [first.samples(), beside.samples()].concat()
    );
}

#[test]
fn a_due_commit_waits_for_the_blocks_that_decide() {
    // A commit is due before the clock that stepped back has passed the end of the first.
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = SessionOptions {
        commit_bytes: 59 * 400,
        ..SessionOptions::default()
    };
    let mut session = Session::new(&store, options).unwrap();
    let first = recorder("a", 0, 0, 60);
    feed(&mut session, &first);
    let parts = [
        recorder("b", 35, 100_000, 10),
        recorder("c", 45, 101_000, 10),
        recorder("d", 55, 102_000, 10),
    ];
    for part in &parts {
        let other = recorder(part.source, 0, 0, 40);
        for number in 0..40 {
            let at = part.from * 10 * SECOND + number * SECOND;
            feed_signal(
                &mut session,
                "y",
                part.source,
                &other.block(number),
                Some(at),
            );
        }
        feed(&mut session, part);
        if part.source == "c" {
            let committed = Store::open(store.path(), Mode::Read).unwrap();
            assert!(!committed.contains("y").unwrap());
        }
    }
    let summary = session.finish().unwrap();
    let signal = store.signal("x").unwrap();
    assert_eq!(
        reasons(&signal),
        [RunReason::First, RunReason::BackwardStep]
    );
    assert_eq!(codes(&summary), [("b", "overlap")]);
    assert_eq!(signal.sample_count(), 9000);
    assert_eq!(store.signal("y").unwrap().sample_count(), 12_000);
    let mut again = Session::new(&store, SessionOptions::default()).unwrap();
    for source in ["a", "b", "c", "d"] {
        assert!(again.known(source, 4, Some(1)).unwrap(), "{source}");
    }
}
