//! Clock corrections: what they change, what stays, and their durability.

use std::path::Path;

use isochrony_segment::DType;
use isochrony_store::{
    Backfilled, ClockComparison, CorrectionOptions, CreateOptions, Mode, RecordedAt,
    SignalSnapshot, Store, StoreError, VerifyOptions, backup, verify,
};
use isochrony_time::{FitShape, Fixed, PointFitOptions, Prefer, Rate, Round, RunId, Stamp, Time};

const S: i64 = 1_000_000_000;
const START: i64 = 1_267_401_600 * S;

fn int(x: i64) -> Fixed {
    Fixed::from_int(x)
}

fn options() -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    options.start = Some(int(START));
    options
}

fn samples(count: usize) -> Vec<i16> {
    (0..count).map(|k| (k * 7 % 1000) as i16).collect()
}

/// True time in whole ns, by a recorder that is 2 ppm fast.
fn true_ns(index: i64) -> i64 {
    START + index * 10_000_000 - index * 20
}

fn at(index: i64, civil: i64) -> ClockComparison {
    ClockComparison {
        at: RecordedAt::Index(int(index)),
        civil: int(civil),
        uncertainty: Some(int(100)),
        to: None,
    }
}

fn made(path: &Path, count: usize) -> Store {
    let store = Store::open(path, Mode::Create).unwrap();
    let writer = store.create("obs", &options()).unwrap();
    writer.append(&samples(count)).unwrap();
    store.commit(true).unwrap();
    store
}

fn is_true(store: &Store) -> bool {
    let signal = store.signal("obs").unwrap();
    let civil = signal.empirical().unwrap().unwrap();
    let offs = (0..signal.end_index()).step_by(701).map(|index| {
        let time = signal.time_of(index).unwrap();
        let off = time
            .value
            .checked_sub(int(true_ns(index)))
            .unwrap()
            .to_f64();
        let back = signal.index_of(&Time::civil(time.value), Round::Nearest, None);
        assert_eq!(back.unwrap().index, index);
        off.abs() <= civil.uncertainty_ns(index) && off.abs() < 1.0
    });
    let offs: Vec<bool> = offs.collect();
    assert!(offs[1..].iter().all(|is_true| *is_true == offs[1]));
    offs[1]
}

fn findings(path: &Path) -> Vec<String> {
    let report = verify(path, &VerifyOptions::default()).unwrap();
    report
        .findings
        .iter()
        .map(|found| format!("{found:?}"))
        .collect()
}

#[test]
fn corrects_keeps_and_removes_a_skew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sea.iso");
    for (count, checkpoints) in [(5_000, false), (5_000, true), (700_000, true)] {
        let _ = std::fs::remove_dir_all(&path);
        let store = made(&path, count);
        let end = count as i64;
        let before = store.signal("obs").unwrap();
        assert!(!is_true(&store));
        let writer = store.writer("obs").unwrap();
        let points = [at(0, true_ns(0)), at(end, true_ns(end))];
        let correction = writer
            .correct_clock(&points, &CorrectionOptions::default())
            .unwrap();
        assert_eq!(correction.fit().shape(), FitShape::Line);
        assert!(is_true(&store));
        assert_eq!(
            before.time_of(end - 1).unwrap().value,
            int(START + (end - 1) * 10_000_000)
        );
        store.commit(true).unwrap();
        if checkpoints {
            store.checkpoint().unwrap();
        }
        store.close().unwrap();
        assert_eq!(findings(&path), Vec::<String>::new());
        let store = Store::open(&path, Mode::Read).unwrap();
        assert!(is_true(&store), "{count}");
        let signal = store.signal("obs").unwrap();
        let kept = &signal.clock_corrections().unwrap()[0];
        assert_eq!((kept.id(), kept.is_removed()), (0, false));
        assert_eq!(kept.comparisons().collect::<Vec<_>>(), points);
        let runs = signal.runs().unwrap();
        let rate = runs[0].rate.unwrap();
        assert!((rate.hz - 100.0002).abs() < 1e-6, "{}", rate.hz);
        assert!((100.0..101.0).contains(&runs[0].uncertainty_ns.unwrap()));
        let segment = signal
            .select(0..end)
            .unwrap()
            .segments()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(segment.to_vec::<i16>().unwrap(), samples(count));
        // The true second 20 begins 4 samples' worth of 10 us before the recorder's.
        let first = signal.index_of(&Time::civil(int(true_ns(2_000))), Round::Exact, None);
        assert_eq!(first.unwrap().index, 2_000);
        let sent = signal.snapshot().unwrap().to_bytes().unwrap();
        let sent = SignalSnapshot::from_bytes(&sent).unwrap().open().unwrap();
        assert_eq!(sent.time_of(4_999).unwrap(), signal.time_of(4_999).unwrap());
        store.close().unwrap();
        let copy = folder.path().join("copy.iso");
        let _ = std::fs::remove_dir_all(&copy);
        backup(&path, &copy, &mut |_| {}).unwrap();
        assert!(is_true(&Store::open(&copy, Mode::Read).unwrap()));

        let store = Store::open(&path, Mode::ReadWrite).unwrap();
        let writer = store.writer("obs").unwrap();
        writer.remove_clock_correction(0).unwrap();
        writer.remove_clock_correction(0).unwrap();
        assert!(!is_true(&store));
        store.commit(true).unwrap();
        store.checkpoint().unwrap();
        store.close().unwrap();
        backup(&path, &copy, &mut |_| {}).unwrap();
        for path in [&path, &copy] {
            let store = Store::open(path, Mode::Read).unwrap();
            assert!(!is_true(&store));
            let signal = store.signal("obs").unwrap();
            assert!(!signal.is_corrected());
            let history = signal.clock_corrections().unwrap();
            assert!(history[0].is_removed());
            assert_eq!(history[0].comparisons().collect::<Vec<_>>(), points);
            assert_eq!(findings(path), Vec::<String>::new());
        }
    }
}

#[test]
fn uncommitted_changes_are_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sea.iso");
    let store = made(&path, 5_000);
    let writer = store.writer("obs").unwrap();
    let points = [at(0, true_ns(0)), at(5_000, true_ns(5_000))];
    writer
        .correct_clock(&points, &CorrectionOptions::default())
        .unwrap();
    store.close().unwrap();
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    assert!(!is_true(&store));
    assert!(
        store
            .signal("obs")
            .unwrap()
            .clock_corrections()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_latest_correction_counts_and_removing_it_brings_back_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder.path().join("sea.iso"), 5_000);
    let writer = store.writer("obs").unwrap();
    let wrong = [at(0, START + S), at(5_000, START + 51 * S)];
    writer
        .correct_clock(&wrong, &CorrectionOptions::default())
        .unwrap();
    let first = |store: &Store| store.signal("obs").unwrap().time_of(0).unwrap().value;
    assert_eq!(first(&store), int(START + S));
    let right = [at(0, true_ns(0)), at(5_000, true_ns(5_000))];
    let right = writer
        .correct_clock(&right, &CorrectionOptions::default())
        .unwrap();
    assert_eq!(right.id(), 1);
    assert!(is_true(&store));
    writer.remove_clock_correction(1).unwrap();
    assert_eq!(first(&store), int(START + S));
}

#[test]
fn samples_that_come_later_are_placed_by_the_recorders_own_clock() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("sea.iso"), Mode::Create).unwrap();
    let mut create = options();
    create.start = None;
    let writer = store.create("obs", &create).unwrap();
    let stamp = |s: i64| Stamp::new(int(START + s * S), int(1));
    for s in [0, 10, 20, 40, 50] {
        writer.append_at(&samples(1000), &stamp(s)).unwrap();
    }
    let offset = 3600 * S;
    // An hour off: comparing stamps with corrected times would fail.
    let points = [
        at(0, true_ns(0) + offset),
        at(6_000, true_ns(6_000) + offset),
    ];
    writer
        .correct_clock(&points, &CorrectionOptions::default())
        .unwrap();
    let known = writer
        .matches(bytemuck::cast_slice(&samples(1000)), &stamp(10))
        .unwrap();
    assert_eq!(known, Some(1_000..2_000));
    let late = writer
        .backfill(bytemuck::cast_slice(&samples(1000)), &stamp(30))
        .unwrap();
    assert!(matches!(late, Backfilled::Filled { .. }), "{late:?}");
    let appended = writer.append_at(&samples(1000), &stamp(60)).unwrap();
    assert_eq!((appended.index, appended.new_run), (6_000, None));
    let signal = store.signal("obs").unwrap();
    assert_eq!((signal.gaps().len(), signal.end_index()), (0, 7_000));
    for index in [0, 3_500, 5_999] {
        let off = signal
            .time_of(index)
            .unwrap()
            .value
            .checked_sub(int(true_ns(index) + offset));
        assert!(off.unwrap().to_f64().abs() <= 102.0, "{off:?}");
    }
    let recorded = signal.as_recorded().time_of(6_000).unwrap().value;
    assert_eq!(recorded, int(START + 60 * S));
}

#[test]
fn each_clock_is_corrected_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder.path().join("sea.iso"), 5_000);
    let writer = store.writer("obs").unwrap();
    writer
        .append_at(&samples(5_000), &Stamp::new(int(START + 20 * S), int(1)))
        .unwrap();
    let message = |points: &[ClockComparison], options: &CorrectionOptions| {
        writer
            .correct_clock(points, options)
            .unwrap_err()
            .to_string()
    };
    let points = [at(0, true_ns(0)), at(4_999, true_ns(4_999))];
    let refused = message(&points, &CorrectionOptions::default());
    assert!(
        refused.contains("run 1 begins with a clock step"),
        "{refused}"
    );
    assert!(refused.contains("give run"), "{refused}");
    let of = |run| CorrectionOptions {
        run: Some(RunId(run)),
        ..CorrectionOptions::default()
    };
    let refused = message(&points, &of(1));
    assert!(
        refused.contains("point 0 at index 0, in run 0"),
        "{refused}"
    );
    let refused = message(&points, &of(7));
    assert!(
        refused.contains("no run 7") && refused.contains("0, 1"),
        "{refused}"
    );
    writer.correct_clock(&points, &of(0)).unwrap();
    let signal = store.signal("obs").unwrap();
    let time = |index| signal.time_of(index).unwrap().value;
    assert!(
        time(2_000)
            .checked_sub(int(true_ns(2_000)))
            .unwrap()
            .to_f64()
            .abs()
            < 1.0
    );
    assert_eq!(time(5_000), int(START + 20 * S));
    for (run, index) in [(0, 4_000), (1, 7_000)] {
        let prefer = Some(Prefer::Run(RunId(run)));
        let found = signal.index_of(&Time::civil(time(index)), Round::Nearest, prefer);
        assert_eq!(found.unwrap().index, index);
    }
}

#[test]
fn rejects_invalid_corrections_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder.path().join("sea.iso"), 5_000);
    let writer = store.writer("obs").unwrap();
    let code = |points: &[ClockComparison], options: CorrectionOptions| match writer
        .correct_clock(points, &options)
        .unwrap_err()
    {
        StoreError::Time(error) => error.code(),
        other => other.code(),
    };
    let plain = CorrectionOptions::default();
    assert_eq!(code(&[at(0, START)], plain), "too_few_points");
    assert_eq!(
        code(&[at(5, START), at(0, START + 1)], plain),
        "unsorted_points"
    );
    assert_eq!(
        code(&[at(0, START + S), at(4_000, START)], plain),
        "not_monotone"
    );
    let fit = PointFitOptions {
        wander: f64::NAN,
        ..PointFitOptions::default()
    };
    let wide = CorrectionOptions { fit, ..plain };
    assert_eq!(
        code(&[at(0, START), at(4_000, START + S)], wide),
        "bad_config"
    );
    let unknown = writer.remove_clock_correction(3).unwrap_err().to_string();
    assert!(unknown.contains("correction=3"), "{unknown}");
    let untimed = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let untimed = store.create("untimed", &untimed).unwrap();
    let refused = untimed
        .correct_clock(&[at(0, START), at(4_000, START + S)], &plain)
        .unwrap_err();
    assert_eq!(refused.code(), "no_civil_time");
    assert!(
        store
            .signal("obs")
            .unwrap()
            .clock_corrections()
            .unwrap()
            .is_empty()
    );
    store.commit(true).unwrap();
    let reader = Store::open(folder.path().join("sea.iso"), Mode::Read).unwrap();
    assert_eq!(
        reader.writer("obs").err().map(|error| error.code()),
        Some("read_only")
    );
}

#[test]
fn verification_finds_points_that_were_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sea.iso");
    let store = made(&path, 700_000);
    let writer = store.writer("obs").unwrap();
    let points = [at(0, true_ns(0)), at(700_000, true_ns(700_000))];
    writer
        .correct_clock(&points, &CorrectionOptions::default())
        .unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    let file = path.join("obs/timebase/corrections/c/0/0");
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    let rows = bad.len() - 256 * 17 * 8;
    bad[rows + 17 * 8 + 9 * 8] ^= 1;
    std::fs::write(&file, &bad).unwrap();
    assert!(!findings(&path).is_empty());
    std::fs::remove_file(&file).unwrap();
    assert!(!findings(&path).is_empty());
    assert_eq!(
        Store::open(&path, Mode::Read)
            .unwrap()
            .signal("obs")
            .err()
            .map(|error| error.code()),
        Some("missing_table")
    );
    std::fs::write(&file, &good).unwrap();
    assert_eq!(findings(&path), Vec::<String>::new());
}
