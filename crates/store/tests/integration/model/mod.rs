//! The store on a real disk against a model with one cell per index.
//!
//! Lengths and times are multiples of ten samples of a common grid, so no decision of gap detection is close.

mod damage;
mod plain;
mod steps;

use isochrony_store::{Mode, Overlap, Signal, Store};
use isochrony_time::Fixed;
use plain::{GRID, Plain};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use steps::{Pair, Step, civil, step};

const TIMES: usize = 500;

impl Pair {
    fn compare(&self, windows: &[(i64, i64)]) {
        self.compare_in(self.store(), windows);
    }

    fn compare_in(&self, store: &Store, windows: &[(i64, i64)]) {
        let mut names: Vec<&str> = self.plains.iter().map(|plain| &*plain.name).collect();
        names.sort_unstable();
        assert_eq!(store.names().unwrap(), names);
        for plain in &self.plains {
            compare_signal(plain, &store.signal(&plain.name).unwrap(), windows);
        }
    }
}

fn compare_signal(plain: &Plain, signal: &Signal, windows: &[(i64, i64)]) {
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
        compare_window(plain, signal, a, b);
    }
    let every = (plain.sample_count() as usize / TIMES).max(1);
    for (index, time) in plain.sample_times().step_by(every) {
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

fn compare_window(plain: &Plain, signal: &Signal, a: i64, b: i64) {
    // In thousandths of the signal.
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

    // A quarter of a sample off the grid.
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

/// Cases mostly wait for syncs. All but the first are on a file system in memory, if any: durability is not tested
/// here.
const PARALLEL_CASES: u32 = 16;

/// More at night: `PROPTEST_CASES`.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(128)
}

fn folder(on_disk: bool) -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if !on_disk && let Ok(folder) = tempfile::tempdir_in(memory) {
        return folder;
    }
    tempfile::tempdir().unwrap()
}

fn live(on_disk: bool, steps: &[(usize, Step)], windows: &[(i64, i64)]) {
    let folder = folder(on_disk);
    let mut pair = Pair::new(&folder.path().join("model.iso"));
    for (count, (which, step)) in steps.iter().enumerate() {
        pair.take(*which, step);
        if count % 6 == 5 {
            pair.compare(&windows[..1]);
        }
    }
    pair.compare(windows);
    pair.commit(true);
    let reader = Store::open(&pair.path, Mode::Read).unwrap();
    pair.compare_in(&reader, &windows[..1]);
    pair.commit_and_reopen();
    pair.compare(windows);
}

#[test]
fn the_store_does_what_the_model_says() {
    let run = |on_disk: bool| {
        let config = ProptestConfig {
            cases: cases().div_ceil(PARALLEL_CASES),
            max_shrink_iters: 2_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let steps = proptest::collection::vec((0usize..16, step()), 1..50);
        let windows = proptest::collection::vec((0i64..=1000, 0i64..=1000), 4);
        let result = TestRunner::new(config).run(&(steps, windows), |(steps, windows)| {
            live(on_disk, &steps, &windows);
            Ok(())
        });
        result.unwrap_or_else(|failure| panic!("{failure}"));
    };
    std::thread::scope(|threads| {
        for number in 0..PARALLEL_CASES {
            threads.spawn(move || run(number == 0));
        }
    });
}
