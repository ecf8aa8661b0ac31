use std::sync::atomic::{AtomicU64, Ordering};

use isochrony_flow::Recording as _;
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, SignalWriter, Store};
use isochrony_time::Rate;

use super::*;
use crate::{FollowOptions, FollowedSignal};

/// Samples up to idle or end, and whether it has ended.
fn read(source: &mut dyn Source) -> (u64, bool) {
    let mut samples = 0;
    loop {
        match source.pull().unwrap() {
            SourceEvent::Item(item) => samples += Item::samples(&item),
            SourceEvent::Idle => return (samples, false),
            SourceEvent::End => return (samples, true),
            _ => {}
        }
    }
}

const MS: u64 = 1_000_000;

/// 100 Hz, in parts of 10 samples.
struct FollowFixture {
    _folder: tempfile::TempDir,
    writing: Store,
    writer: SignalWriter,
    followed: FollowedSignal,
    source: FollowSource,
    clock: Arc<AtomicU64>,
    end: i64,
    indices: Vec<i64>,
    dropped: Vec<Range<i64>>,
    marks: Vec<i64>,
    is_over: bool,
}

impl FollowFixture {
    fn new(stored: usize, start: i64, options: &FollowOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.iso");
        let writing = Store::open(&path, Mode::Create).unwrap();
        let create = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = writing.create("s", &create).unwrap();
        writer.append(&vec![1i16; stored]).unwrap();
        writing.commit(true).unwrap();
        let store = Store::open(&path, Mode::Read).unwrap();
        let followed = FollowedSignal::new(&store, store.signal("s").unwrap(), options).unwrap();
        let clock = Arc::<AtomicU64>::default();
        let mut source = FollowSource::new(followed.0.clone(), start..i64::MAX, 1 << 16);
        source.clock = RunClock::Simulated(clock.clone());
        Self {
            _folder: folder,
            writing,
            writer,
            followed,
            source,
            clock,
            end: stored as i64,
            indices: Vec::new(),
            dropped: Vec::new(),
            marks: Vec::new(),
            is_over: false,
        }
    }

    fn append(&mut self, samples: usize) {
        self.writer.append(&vec![1i16; samples]).unwrap();
        self.writing.commit(true).unwrap();
        self.end += samples as i64;
    }

    fn wait(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.pull();
            self.clock.fetch_add(10 * MS, Ordering::AcqRel);
        }
        self.pull();
    }

    fn pull(&mut self) {
        loop {
            match self.source.pull().unwrap() {
                SourceEvent::Item(item) => self.indices.extend(item.range().unwrap()),
                SourceEvent::RangeStart { why, .. } => match why {
                    Some(Break::Dropped(range)) => self.dropped.push(range),
                    None | Some(Break::Gap(_)) => {}
                    why => panic!("{why:?}"),
                },
                SourceEvent::ProgressMark(upto) => self.marks.push(upto),
                SourceEvent::Idle => return,
                SourceEvent::End => {
                    self.is_over = true;
                    return;
                }
                event => panic!("{event:?}"),
            }
        }
    }

    fn append_at_rate(&mut self, parts: usize) {
        for _ in 0..parts {
            self.append(10);
            self.wait(100);
        }
    }
}

fn follow_options(lateness: u64, silence: u64) -> FollowOptions {
    FollowOptions {
        lateness: Some(Duration::from_millis(lateness)),
        silence: Some(Duration::from_millis(silence)),
        ..FollowOptions::default()
    }
}

#[test]
fn a_writer_that_pauses_is_read_after_what_was_given_up() {
    let mut written = FollowFixture::new(0, 0, &follow_options(500, 3500));
    written.append_at_rate(7);
    written.wait(3000);
    // The last part began with 60 at 600 ms; at 3700 ms samples due 500 ms earlier are given up.
    let given_up = *written.marks.last().unwrap();
    assert_eq!((written.indices.len(), given_up), (70, 320));
    // Silent for 3.1 s, and 2.5 s behind since: neither ends it.
    written.append_at_rate(100);
    assert!(!written.is_over);
    assert_eq!(
        written.indices,
        (0..70).chain(320..1070).collect::<Vec<_>>()
    );
    assert_eq!(written.dropped, [70..71, 71..320]);
    assert_eq!(*written.marks.last().unwrap(), given_up);
    let counts = written.followed.counts();
    assert_eq!((counts.samples, counts.backfilled_samples), (820, 250));
    written.wait(3500);
    assert!(written.is_over);
}

#[test]
fn samples_stored_before_the_run_do_not_defer_its_lateness() {
    for (stored, start) in [(1000, 0), (100_000, 0), (1000, 1000)] {
        let mut written = FollowFixture::new(stored, start, &follow_options(500, 5000));
        written.wait(500);
        assert!(written.marks.is_empty(), "{:?}", written.marks);
        written.wait(500);
        let stored = stored as i64;
        assert_eq!(written.marks.last(), Some(&(stored + 50)));
        assert_eq!(written.indices, (start..stored).collect::<Vec<_>>());
        written.append(100);
        written.append_at_rate(5);
        let read: Vec<i64> = (start..stored).chain(stored + 50..stored + 150).collect();
        assert_eq!(written.indices, read);
        assert_eq!(
            written.dropped,
            [stored..stored + 1, stored + 1..stored + 50]
        );
        assert_eq!(written.followed.counts().backfilled_samples, 50);
    }
}

#[test]
fn samples_that_were_never_written_are_not_backfilled() {
    let mut written = FollowFixture::new(100, 0, &follow_options(200, 60_000));
    written.wait(5000);
    assert!(written.marks.last().is_some_and(|&mark| mark > 500));
    assert_eq!(written.followed.counts().backfilled_samples, 0);
    // A commit without samples.
    let attributes = serde_json::json!({"place": "here"});
    let attributes = attributes.as_object().unwrap();
    written.writer.set_attributes(attributes).unwrap();
    written.writing.commit(true).unwrap();
    written.wait(100);
    assert_eq!(written.followed.counts().backfilled_samples, 0);
    written.append(10);
    written.wait(100);
    assert_eq!(written.followed.counts().backfilled_samples, 10);
    assert_eq!(written.indices, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_late_fill_does_not_defer_lateness() {
    let mut written = FollowFixture::new(100, 0, &follow_options(200, 60_000));
    written.writer.append_gap(50).unwrap();
    written.append(10);
    written.wait(150);
    written.writer.fill(100, &[1i16; 10]).unwrap();
    written.writing.commit(true).unwrap();
    written.wait(100);
    assert_eq!(written.marks.last(), Some(&165));
    assert_eq!(written.followed.counts().backfilled_samples, 10);
}

#[test]
fn a_range_that_ends_in_a_gap_ends_once_samples_follow_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.iso");
    let writing = Store::open(&path, Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(1000).unwrap());
    let writer = writing.create("s", &options).unwrap();
    writer.append(&[1i16; 100]).unwrap();
    writer.append_gap(100).unwrap();
    writing.commit(true).unwrap();

    let store = Store::open(&path, Mode::Read).unwrap();
    let signal = store.signal("s").unwrap();
    let followed = FollowedSignal::new(&store, signal, &FollowOptions::default()).unwrap();
    let mut source = followed.open(Some(0..150), 1 << 16).unwrap();
    assert_eq!(read(&mut *source), (100, false));
    writer.append(&[1i16; 50]).unwrap();
    writing.commit(true).unwrap();
    assert_eq!(read(&mut *source), (0, true));
    assert_eq!(followed.counts().commits, 1);

    let mut source = followed.open(Some(0..150), 1 << 16).unwrap();
    assert_eq!(read(&mut *source), (100, true));
}
