//! The whole store, on a real disk, against a model that keeps one cell per index.
//!
//! All lengths and times are multiples of ten samples of a common grid, so that no decision of gap detection is close:
//! the model then knows exactly where every sample must be, and when it was.

mod plain;

use std::path::Path;

use isochrony_segment::DType;
use isochrony_store::{Backfilled, CreateOptions, Mode, Overlap, SignalWriter, Store};
use isochrony_time::{Fixed, Rate, Stamp};
use plain::{GRID, Plain, T0};
use proptest::prelude::*;

const NAME: &str = "net/station/channel";

#[derive(Debug, Clone)]
enum Step {
    Append(i64),
    /// Samples, and how far their stamp is from the expected time.
    AppendAt(i64, i64),
    Gap(i64),
    GapDuration(i64),
    /// Samples, and time before the live end in parts of a thousand of all time so far.
    Backfill(i64, i64),
    Mark(i64, i64),
    Write(i64, i64),
    Rename(u8),
    Commit(bool),
    Checkpoint,
    /// Commit, close, open again.
    Reopen,
    /// Lose what was not committed.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let n = || (0i64..9).prop_map(|n| n * 10);
    let delta = prop_oneof![
        Just(0),
        (1i64..30).prop_map(|d| d * 10),
        (-20i64..0).prop_map(|d| d * 10)
    ];
    prop_oneof![
        4 => n().prop_map(Step::Append),
        6 => (n(), delta).prop_map(|(n, delta)| Step::AppendAt(n, delta)),
        2 => (1i64..20).prop_map(|n| Step::Gap(n * 10)),
        1 => (1i64..20).prop_map(|n| Step::GapDuration(n * 10)),
        5 => (n(), -100i64..1100).prop_map(|(n, back)| Step::Backfill(n, back)),
        2 => (0i64..1000, 0i64..12).prop_map(|(at, n)| Step::Mark(at, n * 10)),
        2 => (0i64..1000, 1i64..50).prop_map(|(at, n)| Step::Write(at, n)),
        1 => any::<u8>().prop_map(Step::Rename),
        3 => any::<bool>().prop_map(Step::Commit),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ]
}

struct Pair {
    store: Option<Store>,
    plain: Plain,
    committed: Plain,
    next_value: i16,
}

fn civil(time: i64) -> Fixed {
    Fixed::from_int(time * GRID)
}

impl Pair {
    fn new(path: &Path) -> Self {
        let store = Store::open(path, Mode::Create).unwrap();
        let mut options = CreateOptions::new(DType::I16, Rate::from_hz(1000).unwrap());
        options.start = Some(civil(T0));
        store.create(NAME, &options).unwrap();
        store.commit(true).unwrap();
        let plain = Plain::new(NAME);
        Self {
            store: Some(store),
            committed: plain.clone(),
            plain,
            next_value: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn writer(&self) -> SignalWriter {
        self.store().writer(&self.plain.name).unwrap()
    }

    fn samples(&mut self, n: i64) -> Vec<i16> {
        (0..n)
            .map(|_| {
                self.next_value = self.next_value.wrapping_add(1);
                self.next_value
            })
            .collect()
    }

    fn take(&mut self, path: &Path, step: &Step) {
        match *step {
            Step::Append(n) => {
                let samples = self.samples(n);
                self.writer().append(&samples).unwrap();
                self.plain.append(&samples);
            }
            Step::AppendAt(n, delta) => {
                let samples = self.samples(n);
                let time = self.plain.live_next + delta;
                let stamp = Stamp::new(civil(time), Fixed::ZERO);
                self.writer().append_at(&samples, &stamp).unwrap();
                self.plain.append_at(&samples, time);
            }
            Step::Gap(n) => {
                let gap = self.writer().append_gap(n).unwrap();
                assert_eq!((gap.start, gap.length), (self.plain.end(), n));
                self.plain.gap(n);
            }
            Step::GapDuration(n) => {
                let gap = self
                    .writer()
                    .append_gap_duration(Fixed::from_int(n * GRID))
                    .unwrap();
                assert_eq!(gap.length, n);
                self.plain.gap(n);
            }
            Step::Backfill(n, back) => {
                if n == 0 {
                    return;
                }
                let samples = self.samples(n);
                let reach = (self.plain.live_next - T0).max(0);
                let time = T0 + (reach * back / 1000).div_euclid(10) * 10;
                let stamp = Stamp::new(civil(time), Fixed::ZERO);
                let bytes: Vec<u8> = samples.iter().flat_map(|x| x.to_le_bytes()).collect();
                let got = self.writer().backfill(&bytes, &stamp).unwrap();
                let index = self.plain.backfill(&samples, time);
                match got {
                    Backfilled::Filled { index: at, .. } => assert_eq!(at, index),
                    Backfilled::Appended(at) => assert_eq!(at.index, index),
                    other => panic!("{other:?}"),
                }
                let found = self.writer().matches(&bytes, &stamp).unwrap();
                assert!(found.is_some(), "what was just stored is a duplicate");
            }
            Step::Mark(at, n) => {
                let start = (self.plain.end() * at / 1000).div_euclid(10) * 10;
                let end = (start + n).min(self.plain.end());
                self.writer().mark_invalid(start..end).unwrap();
                self.plain.mark(start..end);
            }
            Step::Write(at, n) => {
                let start = self.plain.end() * at / 1000;
                let end = self.plain.valid_until(start, start + n);
                let samples = self.samples(end - start);
                self.writer().write(start, &samples).unwrap();
                self.plain.write(start, &samples);
            }
            Step::Rename(k) => {
                let to = format!("net/other{k}/channel");
                if to != self.plain.name {
                    self.store().rename(&self.plain.name, &to).unwrap();
                    self.plain.name = to;
                }
            }
            Step::Commit(publish) => {
                self.store().commit(publish).unwrap();
                self.committed = self.plain.clone();
            }
            Step::Checkpoint => {
                self.store().commit(true).unwrap();
                self.store().checkpoint().unwrap();
                self.committed = self.plain.clone();
            }
            Step::Reopen => {
                self.store().commit(true).unwrap();
                self.committed = self.plain.clone();
                self.reopen(path);
            }
            Step::Crash => self.reopen(path),
        }
    }

    fn reopen(&mut self, path: &Path) {
        self.store.take().unwrap().close().unwrap();
        self.plain = self.committed.clone();
        self.store = Some(Store::open(path, Mode::ReadWrite).unwrap());
    }

    fn compare(&self, windows: &[(i64, i64)]) {
        let plain = &self.plain;
        assert_eq!(
            self.store().names().unwrap(),
            std::slice::from_ref(&plain.name)
        );
        let signal = self.store().signal(&plain.name).unwrap();
        assert_eq!(signal.end_index(), plain.end());
        assert_eq!(signal.sample_count(), plain.sample_count());
        let gaps: Vec<_> = signal.gaps().iter().map(|gap| gap.range()).collect();
        assert_eq!(gaps, plain.gaps());
        let runs: Vec<_> = signal
            .state()
            .runs
            .iter()
            .map(|run| run.start..run.end)
            .collect();
        assert_eq!(runs, plain.run_ranges());
        let all = signal.select(0..plain.end()).unwrap();
        assert_eq!(all.counts(i16::MIN).unwrap(), plain.filled(i16::MIN));

        let segments: Vec<_> = all.segments().collect::<Result<_, _>>().unwrap();
        let ranges: Vec<_> = segments.iter().map(|segment| segment.range()).collect();
        assert_eq!(ranges, plain.stretches());

        for &(a, b) in windows {
            self.compare_window(&signal, a, b);
        }
        for (index, time) in plain.sample_times() {
            let got = signal.time_of(index).unwrap();
            let off = got.value.checked_sub(civil(time)).unwrap().to_f64();
            assert!(
                off.abs() < GRID as f64 / 4.0,
                "sample {index} is off by {off} ns"
            );
            let back = signal.index_of(&got, Default::default(), None).unwrap();
            assert_eq!(back.index, index);
        }
    }

    fn compare_window(&self, signal: &isochrony_store::Signal, a: i64, b: i64) {
        let plain = &self.plain;
        // By index, in thousandths of the signal.
        let (low, high) = (a.min(b), a.max(b));
        let range = plain.end() * low / 1000..plain.end() * high / 1000;
        assert_eq!(
            signal.contiguous(range.clone()).unwrap(),
            plain.contiguous(&range),
            "{range:?}"
        );
        let part = signal.select(range.clone()).unwrap();
        assert_eq!(
            part.counts(-1i16).unwrap(),
            &plain.filled(-1)[range.start as usize..range.end as usize]
        );
        assert_eq!(part.as_segment().is_ok(), plain.contiguous(&range));

        // By time, a quarter of a sample off the grid.
        let (first, last) = plain.time_bounds();
        let time = |thousandth: i64| first - 5 + (last - first + 10) * thousandth / 1000;
        let span = time(low)..time(high);
        let quarter = Fixed::from_int(GRID / 4);
        let at = |time: i64| civil(time).checked_sub(quarter).unwrap();
        for overlap in [Overlap::First, Overlap::Last, Overlap::All] {
            let selection = signal
                .select_with(at(span.start)..at(span.end), overlap)
                .unwrap();
            let mut values: Vec<i16> = Vec::new();
            for segment in selection.segments() {
                values.extend(segment.unwrap().to_vec::<i16>().unwrap());
            }
            assert_eq!(
                values,
                plain.by_time(&span, overlap),
                "{span:?} {overlap:?}"
            );
            assert_eq!(selection.sample_count(), values.len() as i64);
        }
    }
}

/// More at night: `PROPTEST_CASES`.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(128)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn the_store_does_what_the_model_says(
        steps in proptest::collection::vec(step(), 1..40),
        windows in proptest::collection::vec((0i64..=1000, 0i64..=1000), 4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.iso");
        let mut pair = Pair::new(&path);
        for (count, step) in steps.iter().enumerate() {
            pair.take(&path, step);
            if count % 6 == 5 {
                pair.compare(&windows[..1]);
            }
        }
        pair.compare(&windows);
        // What was committed is what a reader in another place sees.
        pair.store().commit(true).unwrap();
        pair.committed = pair.plain.clone();
        let reader = Store::open(&path, Mode::Read).unwrap();
        let signal = reader.signal(&pair.plain.name).unwrap();
        prop_assert_eq!(signal.select(0..signal.end_index()).unwrap().counts(i16::MIN).unwrap(), pair.plain.filled(i16::MIN));
        pair.reopen(&path);
        pair.compare(&windows);
    }
}
