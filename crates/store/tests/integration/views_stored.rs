//! Views after appends, gaps, fills, marks, in-place writes, reopening and cache crashes.

use std::path::Path;

use isochrony_segment::DType;
use isochrony_store::views::{Measure, bucket};
use isochrony_store::{CreateOptions, Mode, Signal, Store};
use isochrony_time::{Rate, civil};
use proptest::prelude::*;

fn open(path: &Path, mode: Mode) -> Store {
    Store::open(path, mode).expect("the store opens")
}

fn noise(seed: u64, n: usize) -> Vec<i16> {
    (0..n as u64)
        .map(|i| {
            let x = (seed << 32 ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((x >> 17) as i16).wrapping_mul((x >> 48) as i16)
        })
        .collect()
}

fn check(signal: &Signal, model: &[Option<i16>], start: i64, end: i64, pixels: usize) {
    let view = signal.view(start..end, pixels).expect("a view");
    let columns = &view.columns;
    assert_eq!(columns.start.first(), Some(&start));
    assert_eq!(columns.end.last(), Some(&end));
    let (min, max) = (
        columns.min.samples::<i16>().expect("i16"),
        columns.max.samples::<i16>().expect("i16"),
    );
    for k in 0..columns.len() {
        let part = &model[columns.start[k] as usize..columns.end[k] as usize];
        let values: Vec<i64> = part.iter().flatten().map(|x| i64::from(*x)).collect();
        assert_eq!(columns.count[k], values.len() as u64, "column {k}");
        let fraction = 1.0 - values.len() as f64 / part.len() as f64;
        assert!((columns.gap_fraction[k] - fraction).abs() < 1e-12);
        let Some((low, high)) = values.iter().min().zip(values.iter().max()) else {
            continue;
        };
        assert_eq!(
            (i64::from(min[k]), i64::from(max[k])),
            (*low, *high),
            "column {k}"
        );
        let n = values.len() as f64;
        let mean = values.iter().sum::<i64>() as f64 / n;
        let std = (values
            .iter()
            .map(|x| (*x as f64 - mean).powi(2))
            .sum::<f64>()
            / n)
            .sqrt();
        assert!(
            (columns.mean[k] - mean).abs() < 1e-7 && (columns.std[k] - std).abs() < 1e-6,
            "column {k}"
        );
    }
}

fn check_all(signal: &Signal, model: &[Option<i16>]) {
    let end = model.len() as i64;
    for (start, end) in [
        (0, end),
        (end / 3, end / 2),
        (end / 2, end / 2 + 5000),
        (end - 70_000, end),
    ] {
        let (start, end) = (start.max(0), end.min(model.len() as i64));
        if start < end {
            check(signal, model, start, end, 97);
        }
    }
}

#[test]
fn views_follow_every_change_and_survive_reopening() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    let mut options = CreateOptions::new(DType::I16, Rate::new(2000, 1).expect("a rate"));
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").expect("a time"));
    let writer = store.create("s", &options).expect("a signal");
    let mut model: Vec<Option<i16>> = Vec::new();
    // 5 MB in blocks of odd lengths separated by gaps: three levels, several flushes.
    for round in 0..40u64 {
        let samples = noise(round, 60_000 + 977 * round as usize);
        writer.append(&samples).expect("appended");
        model.extend(samples.iter().copied().map(Some));
        if round % 7 == 3 {
            writer.append_gap(40_000).expect("a gap");
            model.extend([None; 40_000]);
        }
        if round % 5 == 0 {
            store.commit(round % 2 == 0).expect("committed");
        }
    }
    store.commit(true).expect("committed");
    check_all(&store.signal("s").expect("the signal"), &model);
    check_all(
        &open(&path, Mode::Read).signal("s").expect("the signal"),
        &model,
    );

    writer.mark_invalid(100_000..300_000).expect("marked");
    model[100_000..300_000].fill(None);
    check_all(&store.signal("s").expect("the signal"), &model);
    store.commit(true).expect("committed");
    check_all(&store.signal("s").expect("the signal"), &model);
    check_all(
        &open(&path, Mode::Read).signal("s").expect("the signal"),
        &model,
    );

    let samples = noise(99, 30_000);
    let at = (1_000_000..)
        .find(|at| model[*at..at + 30_000].iter().all(Option::is_some))
        .expect("a full stretch");
    writer.write(at as i64, &samples).expect("written in place");
    store.commit(true).expect("committed");
    for (slot, sample) in model[at..].iter_mut().zip(&samples) {
        *slot = Some(*sample);
    }
    check_all(&store.signal("s").expect("the signal"), &model);
    store.close().expect("closed");
    for mode in [Mode::Read, Mode::ReadWrite] {
        let store = open(&path, mode);
        check_all(&store.signal("s").expect("the signal"), &model);
        let report = store.verify(&isochrony_store::VerifyOptions {
            deep: true,
            ..Default::default()
        });
        assert_eq!(report.expect("verified").findings, []);
    }
}

#[test]
fn a_lost_or_old_cache_is_only_slower() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    let writer = store
        .create(
            "s",
            &CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate")),
        )
        .expect("a signal");
    let samples = noise(5, 3_000_000);
    writer.append(&samples).expect("appended");
    store.commit(true).expect("committed");
    store.close().expect("closed");
    let model: Vec<_> = samples.iter().copied().map(Some).collect();
    let views = path.join("s/views");
    assert!(views.join("512/moments/c/0/0").exists());
    std::fs::remove_dir_all(&views).expect("removed");
    check_all(
        &open(&path, Mode::Read).signal("s").expect("the signal"),
        &model,
    );
    let store = open(&path, Mode::ReadWrite);
    let writer = store.writer("s").expect("a writer");
    writer.append(&samples[..10]).expect("appended");
    store.commit(true).expect("committed");
    let mut model = model;
    model.extend(samples[..10].iter().copied().map(Some));
    check_all(&store.signal("s").expect("the signal"), &model);
    store.close().expect("closed");
    assert!(
        views.join("512/moments/c/0/0").exists(),
        "views were built anew"
    );
}

#[test]
fn views_take_little_room_and_none_for_short_signals() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    let options = CreateOptions::new(DType::I16, Rate::new(2000, 1).expect("a rate"));
    store
        .create("short", &options)
        .expect("a signal")
        .append(&noise(1, 20_000))
        .expect("appended");
    store
        .create("long", &options)
        .expect("a signal")
        .append(&noise(2, 16 << 20))
        .expect("appended");
    store.commit(true).expect("committed");
    store.close().expect("closed");
    let info = open(&path, Mode::Read).info(None).expect("info");
    let [long, short] = info.signals.as_slice() else {
        panic!("two signals")
    };
    assert!(
        (long.views.allocated as f64) < 0.05 * long.raw_bytes as f64,
        "{long:?}"
    );
    assert!(short.views.files <= 1, "{short:?}");
    assert!(short.data.allocated < 150_000, "{short:?}");
}

#[test]
fn columns_carry_civil_time_and_units() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("a.iso"), Mode::Create);
    let mut options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").expect("a time"));
    options.calibration = Some((-0.5, 10.0));
    options.unit = "kPa".into();
    let writer = store.create("s", &options).expect("a signal");
    writer.append(&[2i16, 4, 6, 8]).expect("appended");
    let signal = store.signal("s").expect("the signal");
    let view = signal.view(0..4, 2).expect("a view");
    let civil_edges = view.civil.clone().expect("civil times");
    let at = |text| civil::parse(text).expect("a time");
    assert_eq!(
        civil_edges.start,
        [at("2020-01-01T00:00:00Z"), at("2020-01-01T00:00:00.02Z")]
    );
    assert_eq!(
        civil_edges.end,
        [at("2020-01-01T00:00:00.02Z"), at("2020-01-01T00:00:00.04Z")]
    );
    let values = view.physical(DType::I16).expect("values");
    assert_eq!((values.min, values.max), (vec![8.0, 6.0], vec![9.0, 7.0]));
    assert_eq!((values.mean, values.std), (vec![8.5, 6.5], vec![0.5, 0.5]));
    let span = at("2020-01-01T00:00:00.01Z")..at("2020-01-01T00:00:00.03Z");
    let view = signal.view(span, 10).expect("a view");
    assert_eq!(
        (view.columns.start, view.columns.end),
        (vec![1, 2], vec![2, 3])
    );
    assert_eq!(
        signal.view(0..4, 0).expect_err("no pixels").code(),
        "invalid_option"
    );
}

#[test]
fn decimated_levels_are_signals() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("a.iso"), Mode::Create);
    let mut options = CreateOptions::new(DType::I16, Rate::new(2000, 1).expect("a rate"));
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").expect("a time"));
    let writer = store.create("s", &options).expect("a signal");
    let samples = noise(3, 1_000_000);
    writer.append(&samples).expect("appended");
    writer.append_gap(100_000).expect("a gap");
    writer.append(&samples[..100_000]).expect("appended");
    store.commit(true).expect("committed");
    let signal = store.signal("s").expect("the signal");
    let level = signal.decimated(1).expect("a level");
    assert_eq!(level.bucket(), bucket(DType::I16, 1));
    assert_eq!(
        level.rate().expect("a rate"),
        Rate::new(2000, 4096).expect("a rate")
    );
    let segments = level
        .read(Measure::Max, 0..level.end_index())
        .expect("read");
    assert_eq!(segments.len(), 2);
    let values = segments[0].to_vec::<i16>().expect("i16");
    for (k, value) in values.iter().enumerate().take(244) {
        assert_eq!(Some(value), samples[k * 4096..(k + 1) * 4096].iter().max());
    }
    let time = level.time_of(2).expect("a time").value;
    assert_eq!(time, signal.time_of(8192).expect("a time").value);
    assert_eq!(
        signal
            .decimated(signal.levels())
            .expect_err("too high")
            .code(),
        "invalid_option"
    );
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Gap(i64),
    Mark(f64, usize),
    Write(f64, usize),
    Commit(bool),
    Reopen,
    LoseCache,
    /// Seals or unseals.
    Seal,
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![1usize..3000, 3000usize..200_000];
    prop_oneof![
        5 => length.clone().prop_map(Step::Append),
        1 => (1i64..200_000).prop_map(Step::Gap),
        1 => (0.0..1.0, length.clone()).prop_map(|(at, n)| Step::Mark(at, n)),
        1 => (0.0..1.0, 1usize..4000).prop_map(|(at, n)| Step::Write(at, n)),
        2 => any::<bool>().prop_map(Step::Commit),
        1 => Just(Step::Reopen),
        1 => Just(Step::LoseCache),
        1 => Just(Step::Seal),
    ]
}

/// The record names whole shards, with samples after its rows.
#[test]
fn a_writer_finds_no_damage_after_samples_behind_the_known_rows_were_taken_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let mut store = open(&path, Mode::Create);
    store
        .create(
            "s",
            &CreateOptions::new(DType::I16, Rate::new(2000, 1).expect("a rate")),
        )
        .expect("a signal");
    let writer = store.writer("s").expect("a writer");
    writer.append(&noise(1, 65_536)).expect("appended");
    store.commit(true).expect("committed");
    writer.write(0, &noise(2, 1)).expect("written");
    store.commit(true).expect("committed");
    drop(writer);
    store.close().expect("closed");
    store = open(&path, Mode::ReadWrite);
    let writer = store.writer("s").expect("a writer");
    writer.append(&noise(3, 89_008)).expect("appended");
    writer.mark_invalid(65_536..65_537).expect("marked");
    store.commit(true).expect("committed");
    let options = isochrony_store::VerifyOptions {
        deep: true,
        ..Default::default()
    };
    assert_eq!(store.verify(&options).expect("verified").findings, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_history_of_a_stored_signal_has_exact_views_and_no_damage(steps in prop::collection::vec(step(), 1..16)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.iso");
        let mut store = open(&path, Mode::Create);
        store.create("s", &CreateOptions::new(DType::I16, Rate::new(2000, 1).expect("a rate"))).expect("a signal");
        let (mut model, mut committed) = (Vec::<Option<i16>>::new(), Vec::new());
        store.commit(true).expect("committed");
        for (seed, step) in steps.iter().enumerate() {
            let writer = store.writer("s").expect("a writer");
            let grows = matches!(step, Step::Append(_) | Step::Gap(_) | Step::Write(..));
            if grows && !store.signal("s").expect("the signal").codec().is_empty() {
                store.unseal("s").expect("unsealed");
                committed.clone_from(&model);
            }
            let end = model.len();
            let place = |part: f64, n: usize| ((end as f64 * part) as usize, ((end as f64 * part) as usize + n).min(end));
            match *step {
                Step::Append(n) => {
                    let samples = noise(seed as u64, n);
                    writer.append(&samples).expect("appended");
                    model.extend(samples.into_iter().map(Some));
                }
                Step::Gap(n) => {
                    writer.append_gap(n).expect("a gap");
                    model.resize(end + n as usize, None);
                }
                Step::Mark(part, n) => {
                    let (from, to) = place(part, n);
                    writer.mark_invalid(from as i64..to as i64).expect("marked");
                    model[from..to].fill(None);
                }
                Step::Write(part, n) => {
                    // Committed, so that their shard exists.
                    store.commit(false).expect("committed");
                    let (from, to) = place(part, n);
                    if from < to && model[from..to].iter().all(Option::is_some) {
                        let samples = noise(seed as u64 + 1000, to - from);
                        writer.write(from as i64, &samples).expect("written");
                        model[from..to].iter_mut().zip(samples).for_each(|(slot, x)| *slot = Some(x));
                    }
                    committed.clone_from(&model);
                    store.commit(false).expect("committed");
                    committed.clone_from(&model);
                }
                Step::Commit(publish) => {
                    store.commit(publish).expect("committed");
                    committed.clone_from(&model);
                }
                Step::Seal => {
                    if store.signal("s").expect("the signal").codec().is_empty() {
                        store.seal("s", "zstd:1".parse().expect("a codec")).expect("sealed");
                    } else {
                        store.unseal("s").expect("unsealed");
                    }
                    committed.clone_from(&model);
                }
                Step::Reopen | Step::LoseCache => {
                    drop(writer);
                    store.close().expect("closed");
                    if matches!(step, Step::LoseCache) {
                        let _ = std::fs::remove_dir_all(path.join("s/views"));
                    }
                    store = open(&path, Mode::ReadWrite);
                    model.clone_from(&committed);
                }
            }
            if seed % 3 == 2 && !model.is_empty() {
                check_all(&store.signal("s").expect("the signal"), &model);
            }
        }
        if !model.is_empty() {
            check_all(&store.signal("s").expect("the signal"), &model);
        }
        store.commit(true).expect("committed");
        if !model.is_empty() {
            check_all(&open(&path, Mode::Read).signal("s").expect("the signal"), &model);
        }
        let options = isochrony_store::VerifyOptions { deep: true, ..Default::default() };
        prop_assert_eq!(store.verify(&options).expect("verified").findings, []);
    }
}
