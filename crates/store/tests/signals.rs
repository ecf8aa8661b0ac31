//! The public API, one behaviour a test.

use isochrony_segment::DType;
use isochrony_store::{
    Backfilled, CreateOptions, Method, Mode, Overlap, RunReason, SignalWriter, Span, Store, Values,
};
use isochrony_time::{
    Fixed, Placement, Prefer, Range, Rate, Round, RunId, Stamp, Time, TimebaseId, civil,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const SECOND: i64 = 1_000_000_000;
const T0: i64 = 1_267_401_600 * SECOND;

fn new_store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    (folder, store)
}

fn options(hz: u64) -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(hz).unwrap());
    options.start = Some(at(0));
    options
}

/// Time in ns after the start.
fn at(ns: i64) -> Fixed {
    Fixed::from_int(T0 + ns)
}

fn exact(ns: i64) -> Stamp {
    Stamp::new(at(ns), Fixed::ZERO)
}

fn values(writer: &SignalWriter, range: std::ops::Range<i64>) -> Vec<i16> {
    let signal = writer.signal().unwrap();
    signal.select(range).unwrap().counts(-1i16).unwrap()
}

fn bytes(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

fn code<T>(result: Result<T, isochrony_store::StoreError>) -> &'static str {
    result.err().map_or("none", |error| error.code())
}

#[test]
fn modes_refuse_what_they_must() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    assert_eq!(code(Store::open(&path, Mode::Read)), "not_a_store");
    assert_eq!(code(Store::open(&path, Mode::ReadWrite)), "not_a_store");
    drop(Store::open(&path, Mode::Append).unwrap());
    assert_eq!(code(Store::open(&path, Mode::Create)), "store_exists");
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    assert_eq!(code(Store::open(&path, Mode::ReadWrite)), "locked");
    store.create("x", &options(10)).unwrap();
    store.commit(true).unwrap();
    let reader = Store::open(&path, Mode::Read).unwrap();
    assert_eq!(code(reader.create("y", &options(10))), "read_only");
    assert_eq!(code(reader.writer("x")), "read_only");
    assert_eq!(code(reader.commit(true)), "read_only");
    reader.close().unwrap();
    assert_eq!(code(reader.names()), "closed");
    assert!(reader.is_closed());
}

#[test]
fn names_are_listed_found_renamed_and_removed() {
    let (_folder, store) = new_store();
    for name in ["stn_2/pressure", "stn_1/pressure", "stn_1/flow"] {
        store.create(name, &options(10)).unwrap();
    }
    store.commit(true).unwrap();
    assert_eq!(
        store.names().unwrap(),
        ["stn_1/flow", "stn_1/pressure", "stn_2/pressure"]
    );
    assert_eq!(
        store.find("stn_*/pressure").unwrap(),
        ["stn_1/pressure", "stn_2/pressure"]
    );
    assert_eq!(store.find("**/flow").unwrap(), ["stn_1/flow"]);
    let error = store.signal("stn_1/presure").unwrap_err().to_string();
    assert!(error.contains("stn_1/pressure"), "{error}");

    assert_eq!(
        code(store.create("stn_1/flow", &options(10))),
        "signal_exists"
    );
    assert_eq!(
        code(store.create("stn_1/flow/deep", &options(10))),
        "signal_inside_signal"
    );
    assert_eq!(
        code(store.create("stn_1", &options(10))),
        "signal_inside_signal"
    );
    assert_eq!(code(store.create("../up", &options(10))), "invalid_name");
    assert_eq!(
        code(store.rename("stn_1/flow", "stn_2/pressure")),
        "signal_exists"
    );
    let writer = store.writer("stn_1/flow").unwrap();
    store.rename("stn_1/flow", "other/flow").unwrap();
    assert_eq!(writer.signal().unwrap().name(), "other/flow");
    writer.append(&[1i16]).unwrap();
    store.remove("stn_2/pressure").unwrap();
    store.commit(true).unwrap();
    assert_eq!(store.names().unwrap(), ["other/flow", "stn_1/pressure"]);
}

#[test]
fn overwriting_replaces_a_signal_whose_views_stay_valid() {
    let (_folder, store) = new_store();
    let old = store.create("x", &options(10)).unwrap();
    old.append(&[1i16, 2, 3]).unwrap();
    store.commit(true).unwrap();
    let segment = store
        .signal("x")
        .unwrap()
        .select(0..3)
        .unwrap()
        .as_segment()
        .unwrap();
    let mut anew = options(10);
    anew.overwrite = true;
    let new = store.create("x", &anew).unwrap();
    new.append(&[9i16]).unwrap();
    store.commit(true).unwrap();
    assert_eq!(values(&new, 0..1), [9]);
    assert_eq!(segment.to_vec::<i16>().unwrap(), [1, 2, 3]);
    assert_eq!(code(old.append(&[1i16])), "signal_removed");
}

#[test]
fn a_segment_outlives_signal_and_store() {
    let (folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2, 3]).unwrap();
    store.commit(true).unwrap();
    let segment = writer
        .signal()
        .unwrap()
        .select(1..3)
        .unwrap()
        .as_segment()
        .unwrap();
    store.close().unwrap();
    drop((writer, store));
    drop(folder);
    assert_eq!(segment.to_vec::<i16>().unwrap(), [2, 3]);
}

#[test]
fn scratch_signals_are_written_in_place_and_vanish() {
    let (_folder, store) = new_store();
    let scratch = store.scratch(&options(10)).unwrap();
    scratch.append(&[1i16, 2, 3]).unwrap();
    scratch.append_gap(2).unwrap();
    scratch.append(&[4i16]).unwrap();
    scratch.write(1, &[7i16]).unwrap();
    assert_eq!(values(&scratch, 0..6), [1, 7, 3, -1, -1, 4]);
    assert_eq!(store.names().unwrap(), Vec::<String>::new());
    let tmp = store.path().join(".isochrony/tmp");
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 1);
    drop(scratch);
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);

    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let scratch = reader.scratch(&options(10)).unwrap();
    scratch.append(&[5i16]).unwrap();
    assert_eq!(values(&scratch, 0..1), [5]);
}

#[test]
fn writing_in_place_keeps_what_segments_show() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2, 3, 4]).unwrap();
    store.commit(true).unwrap();
    let before = writer
        .signal()
        .unwrap()
        .select(0..4)
        .unwrap()
        .as_segment()
        .unwrap();
    writer.write(1, &[8i16, 9]).unwrap();
    writer.append(&[5i16]).unwrap();
    assert_eq!(values(&writer, 0..5), [1, 8, 9, 4, 5]);
    store.commit(true).unwrap();
    assert_eq!(before.to_vec::<i16>().unwrap(), [1, 2, 3, 4]);
    assert_eq!(values(&writer, 0..5), [1, 8, 9, 4, 5]);
    let path = store.path().to_path_buf();
    store.close().unwrap();
    drop((writer, store));
    let store = Store::open(path, Mode::Read).unwrap();
    let signal = store.signal("x").unwrap();
    assert_eq!(
        signal.select(0..5).unwrap().counts(0i16).unwrap(),
        [1, 8, 9, 4, 5]
    );
}

#[test]
fn rejects_writing_where_there_is_nothing() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2]).unwrap();
    writer.append_gap(3).unwrap();
    assert_eq!(code(writer.write(1, &[1i16, 2])), "write_into_gap");
    assert_eq!(code(writer.write(4, &[1i16, 2])), "out_of_bounds");
    assert_eq!(code(writer.write(0, &[1.0f32])), "dtype_mismatch");
    assert_eq!(code(writer.append(&[1.0f32])), "dtype_mismatch");
    assert_eq!(code(writer.append_bytes(&[1, 2, 3])), "partial_sample");
    assert_eq!(code(writer.mark_invalid(3..9)), "out_of_bounds");
    assert_eq!(code(writer.append_gap(0)), "invalid_length");
    assert_eq!(code(writer.append_gap(i64::MAX)), "invalid_length");
    let signal = writer.signal().unwrap();
    assert_eq!(code(signal.select(0..9)), "out_of_bounds");
    let (three, two) = (3, 2);
    assert_eq!(code(signal.select(three..two)), "invalid_range");
}

#[test]
fn one_array_over_a_gap_is_an_error_that_names_it() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2]).unwrap();
    writer.append_gap(30).unwrap();
    writer.append(&[3i16]).unwrap();
    let selection = writer.signal().unwrap().select(0..33).unwrap();
    let error = selection.as_segment().unwrap_err().to_string();
    assert!(error.contains("30 samples at index 2"), "{error}");
    assert!(error.contains("2010-03-01T00:00:00.2"), "{error}");
    let holes = selection.holes().unwrap();
    assert_eq!(holes.len(), 1);
    assert_eq!(holes[0].times.start, at(SECOND / 5));
    assert_eq!(holes[0].times.duration_ns(), Fixed::from_int(3 * SECOND));
    assert_eq!(holes[0].gap.unwrap().range(), 2..32);
}

#[test]
fn calibrated_values_are_physical_and_gaps_take_the_fill() {
    let (_folder, store) = new_store();
    let mut kpa = options(10);
    kpa.unit = "kPa".into();
    kpa.calibration = Some((0.5, 100.0));
    let writer = store.create("x", &kpa).unwrap();
    writer.append(&[2i16]).unwrap();
    writer.append_gap(1).unwrap();
    writer.append(&[4i16]).unwrap();
    let signal = writer.signal().unwrap();
    let Values::Real(values) = signal.select(0..3).unwrap().values(f64::NAN).unwrap() else {
        panic!("complex values of a real signal");
    };
    assert_eq!((values[0], values[2]), (101.0, 102.0));
    assert!(values[1].is_nan());
    assert_eq!(signal.unit(), "kPa");
    writer.set_calibration("Pa", None).unwrap();
    let Values::Real(values) = writer
        .signal()
        .unwrap()
        .select(0..3)
        .unwrap()
        .values(0.0)
        .unwrap()
    else {
        panic!("complex values of a real signal");
    };
    assert_eq!(values, [2.0, 0.0, 4.0]);
}

#[test]
fn a_stated_start_is_exact_and_follows_on_without_stamps() {
    let (_folder, store) = new_store();
    let mut third = options(1);
    third.rate = Rate::new(44_100_000, 1001).unwrap();
    let writer = store.create("x", &third).unwrap();
    let signal = writer.signal().unwrap();
    assert_eq!(signal.time_of(0).unwrap().value, at(0));
    writer.append(&vec![0i16; 100_000]).unwrap();
    writer.append_gap(7).unwrap();
    writer.append(&[1i16]).unwrap();
    let signal = writer.signal().unwrap();
    for index in [0i64, 1, 99_999, 100_007] {
        let exact = at(0)
            .checked_add(third.rate.duration_ns(index).unwrap())
            .unwrap();
        let off = signal
            .time_of(index)
            .unwrap()
            .value
            .checked_sub(exact)
            .unwrap();
        assert!(
            off.to_f64().abs() < 1e-6,
            "sample {index} is off by {off} ns"
        );
    }
    assert!(signal.time_of(100_003).unwrap().in_gap);
}

#[test]
fn stamps_decide_between_gap_and_clock_step() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(100)).unwrap();
    let block = vec![1i16; 100];
    assert_eq!(writer.append_at(&block, &exact(0)).unwrap().index, 0);
    assert_eq!(writer.append_at(&block, &exact(SECOND)).unwrap().index, 100);
    let after = writer.append_at(&block, &exact(4 * SECOND)).unwrap();
    assert!(
        matches!(
            after.placement,
            Placement::Gap {
                samples: Some(200),
                ..
            }
        ),
        "{after:?}"
    );
    assert_eq!((after.index, after.new_run), (400, None));
    let back = writer.append_at(&block, &exact(2 * SECOND)).unwrap();
    assert_eq!(
        (back.index, back.new_run),
        (500, Some(RunReason::BackwardStep))
    );
    let signal = writer.signal().unwrap();
    assert_eq!(signal.gaps().len(), 1);
    let runs = signal.runs().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].civil, Some((at(0), at(5 * SECOND))));
    assert!((runs[0].rate.unwrap().hz - 100.0).abs() < 1e-3);
    assert!((signal.true_rate().unwrap().unwrap().hz - 100.0).abs() < 1e-3);
    // 2 s to 3 s lies in the first run's gap and in the second run's samples: samples win.
    let found = signal
        .index_of(&Time::civil(at(5 * SECOND / 2)), Round::Nearest, None)
        .unwrap();
    assert_eq!(found.index, 550);
    let first = Some(Prefer::Run(runs[0].id));
    let found = signal
        .index_of(&Time::civil(at(5 * SECOND / 2)), Round::Nearest, first)
        .unwrap();
    assert_eq!((found.index, found.in_gap), (250, true));
}

#[test]
fn a_gap_beyond_max_gap_takes_one_chunk_and_keeps_its_duration() {
    let (_folder, store) = new_store();
    let mut small = options(100);
    small.max_gap_ns = 10 * SECOND;
    let writer = store.create("x", &small).unwrap();
    let chunk = 32_768;
    writer.append(&[1i16; 100]).unwrap();
    let hour = 3_600 * SECOND;
    let gap = writer.append_gap_duration(Fixed::from_int(hour)).unwrap();
    assert_eq!(gap.range(), 100..100 + chunk);
    writer.append(&[2i16; 100]).unwrap();
    let stamped = writer.append_at(&[3i16; 100], &exact(3 * hour)).unwrap();
    assert!(
        matches!(stamped.placement, Placement::Gap { samples: None, .. }),
        "{stamped:?}"
    );
    assert_eq!(stamped.index, 200 + 2 * chunk);
    let signal = writer.signal().unwrap();
    let time = |index: i64| {
        signal
            .time_of(index)
            .unwrap()
            .value
            .checked_sub(at(0))
            .unwrap()
            .to_f64()
    };
    let resumed = time(100 + chunk) - (SECOND + hour) as f64;
    assert!(resumed.abs() < 1e3, "off by {resumed} ns");
    assert!((time(stamped.index) - 3.0 * hour as f64).abs() < 1e3);
    let second = signal.select(at(hour)..at(2 * hour)).unwrap();
    assert_eq!(second.sample_count(), 100);
    // The same after reopening.
    let path = store.path().to_path_buf();
    store.commit(true).unwrap();
    store.close().unwrap();
    drop((writer, store));
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    let next = writer
        .append_at(&[4i16], &exact(3 * hour + SECOND))
        .unwrap();
    assert_eq!(next.placement, Placement::Contiguous);
}

#[test]
fn late_samples_fill_their_gap_or_become_a_run() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(100)).unwrap();
    writer.append_at(&[1i16; 100], &exact(SECOND)).unwrap();
    writer.append_at(&[2i16; 100], &exact(6 * SECOND)).unwrap();
    let late = bytes(&[3; 100]);
    let filled = writer.backfill(&late, &exact(4 * SECOND)).unwrap();
    assert!(
        matches!(filled, Backfilled::Filled { samples: 100, .. }),
        "{filled:?}"
    );
    assert_eq!(
        writer
            .matches(&late, &exact(4 * SECOND))
            .unwrap()
            .map(|range| range.end - range.start),
        Some(100)
    );
    assert_eq!(writer.matches(&late, &exact(2 * SECOND)).unwrap(), None);
    assert_eq!(
        writer
            .matches(&bytes(&[4; 100]), &exact(4 * SECOND))
            .unwrap(),
        None
    );
    // Overlapping what is there, then following on it.
    let over = writer
        .backfill(&bytes(&[5; 100]), &exact(3 * SECOND / 2))
        .unwrap();
    let Backfilled::Appended(over) = over else {
        panic!("{over:?}")
    };
    assert_eq!(over.new_run, Some(RunReason::Overlap));
    let on = writer
        .backfill(&bytes(&[6; 200]), &exact(5 * SECOND / 2))
        .unwrap();
    let on_run = match on {
        Backfilled::Appended(on) => on.run,
        other => panic!("{other:?}"),
    };
    assert_eq!(on_run, over.run);
    // What is live goes on with its own clock.
    let live = writer.append(&[7i16; 100]).unwrap();
    assert_eq!(live.new_run, Some(RunReason::Resumed));
    let signal = writer.signal().unwrap();
    let time = signal.time_of(live.index).unwrap().value;
    assert_eq!(time, at(7 * SECOND));
    let first = signal.select(at(SECOND)..at(3 * SECOND)).unwrap();
    let flat = |selection: &isochrony_store::Selection| -> Vec<i16> {
        selection
            .segments()
            .flat_map(|segment| segment.unwrap().to_vec::<i16>().unwrap())
            .collect()
    };
    let ones = flat(&first);
    assert_eq!((ones.len(), ones[0], ones[99], ones[100]), (200, 1, 1, 5));
    let last = flat(
        &signal
            .select_with(at(SECOND)..at(3 * SECOND), Overlap::Last)
            .unwrap(),
    );
    assert_eq!((last.len(), last[49], last[50]), (200, 1, 5));
    let all = signal
        .select_with(at(SECOND)..at(3 * SECOND), Overlap::All)
        .unwrap();
    assert_eq!(all.sample_count(), 250);
}

#[test]
fn ranges_may_be_given_in_any_timebase() {
    let (_folder, store) = new_store();
    let a = store.create("a", &options(100)).unwrap();
    let b = store.create("b", &options(10)).unwrap();
    a.append(&(0..1000).map(|k| k as i16).collect::<Vec<_>>())
        .unwrap();
    b.append_at(&[1i16; 100], &exact(SECOND / 20)).unwrap();
    let (a, b) = (a.signal().unwrap(), b.signal().unwrap());
    let part = a.select(Span::Of(&b, 10..20)).unwrap();
    assert_eq!(part.parts()[0].range, 105..205);
    assert!(a.contiguous(Span::Of(&b, 10..20)).unwrap());
    assert!(!a.in_bounds(Span::Of(&b, 10..101)).unwrap());
    let graph = store.graph().unwrap();
    let id = graph.id("b").unwrap();
    let range = Range::new(Time::new(10, id), Time::new(20, id)).unwrap();
    let part = a.select(Span::In(&graph, range)).unwrap();
    assert_eq!(part.parts()[0].range, 105..205);
    let there = graph
        .convert(Time::new(10, id), graph.id("a").unwrap())
        .unwrap();
    assert_eq!(there.value, Fixed::from_int(105));
    assert_eq!(
        graph
            .convert(Time::new(0, id), TimebaseId::CIVIL)
            .unwrap()
            .value,
        at(SECOND / 20)
    );
    let mut unknown = options(10);
    unknown.start = None;
    let c = store.create("c", &unknown).unwrap();
    c.append(&[1i16; 10]).unwrap();
    let c = c.signal().unwrap();
    assert_eq!(code(c.time_of(0)), "no_civil_time");
    assert_eq!(code(a.select(Span::Of(&c, 0..5))), "no_civil_time");
}

#[test]
fn a_run_of_one_signal_is_no_run_of_another_of_whatever_store() {
    let stepped = |store: &Store, name: &str| {
        let writer = store.create(name, &options(100)).unwrap();
        writer.append(&[0i16; 1000]).unwrap();
        writer.append_at(&[1i16; 1000], &exact(4 * SECOND)).unwrap();
        writer.signal().unwrap()
    };
    let (_folder, store) = new_store();
    let (_other_folder, other) = new_store();
    let signals = [
        stepped(&store, "a"),
        stepped(&store, "b"),
        stepped(&other, "a"),
    ];
    for (k, one) in signals.iter().enumerate() {
        let time = one.time_of(1200).unwrap();
        assert_eq!(time.run, Some(RunId(1)));
        for (l, another) in signals.iter().enumerate() {
            let found = another.index_of(&time, Round::Nearest, None);
            if k == l {
                assert_eq!(found.unwrap().index, 1200);
            } else {
                assert_ne!(one.timebase(), another.timebase());
                assert_eq!(code(found), "ambiguous");
            }
        }
    }
}

#[test]
fn events_are_found_by_range_and_ids_never_come_back() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[0i16; 100]).unwrap();
    let fields = |text: &str| Map::from_iter([("note".to_owned(), json!(text))]);
    let long = writer.add_event("burst", 10..60, &fields("long")).unwrap();
    let point = writer
        .add_event("mark", 30..30, &fields("instant"))
        .unwrap();
    let late = writer.add_event("burst", 80..90, &fields("late")).unwrap();
    let kinds = |range: std::ops::Range<i64>| -> Vec<u64> {
        let signal = writer.signal().unwrap();
        signal
            .events_in(range)
            .unwrap()
            .into_iter()
            .map(|event| event.id)
            .collect()
    };
    assert_eq!(kinds(30..31), [long, point]);
    assert_eq!(kinds(31..80), [long]);
    assert_eq!(kinds(0..100), [long, point, late]);
    assert_eq!(kinds(90..100), Vec::<u64>::new());
    writer.remove_event(late).unwrap();
    assert_eq!(code(writer.remove_event(late)), "no_such_event");
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    let path = store.path().to_path_buf();
    store.close().unwrap();
    drop((writer, store));
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    let events: Vec<_> = writer.signal().unwrap().events().cloned().collect();
    assert_eq!(events.len(), 2);
    let stored: Value = serde_json::from_str(&events[0].fields).unwrap();
    assert_eq!(
        (events[0].kind.as_str(), &stored["note"]),
        ("burst", &json!("long"))
    );
    assert!(writer.add_event("new", 0..1, &Map::new()).unwrap() > late);
}

#[test]
fn attributes_of_signals_and_store_survive() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    let mine = Map::from_iter([("seed".to_owned(), json!({"network": "IV", "gain": 1.5}))]);
    writer.set_attributes(&mine).unwrap();
    store.set_attributes(&mine).unwrap();
    let ours = Map::from_iter([("isochrony".to_owned(), json!(1))]);
    assert_eq!(code(writer.set_attributes(&ours)), "invalid_attributes");
    assert_eq!(code(store.set_attributes(&ours)), "invalid_attributes");
    store.commit(true).unwrap();
    let path = store.path().to_path_buf();
    store.close().unwrap();
    drop((writer, store));
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    assert_eq!(store.signal("x").unwrap().attributes(), mine);
    assert_eq!(store.attributes().unwrap(), mine);
}

#[test]
fn gather_puts_signals_of_any_rate_on_one_grid() {
    let (_folder, store) = new_store();
    let ramp = store.create("stn_1/ramp", &options(100)).unwrap();
    ramp.append(&(0..100).map(|k| k as i16 * 10).collect::<Vec<_>>())
        .unwrap();
    ramp.append_gap(100).unwrap();
    ramp.append(&[7i16; 100]).unwrap();
    let slow = store.create("stn_2/slow", &options(10)).unwrap();
    slow.append_at(
        &(0..30).map(|k| k as i16 * 100).collect::<Vec<_>>(),
        &exact(0),
    )
    .unwrap();
    let names = store.find("stn_*/*").unwrap();
    let rate = Rate::from_hz(20).unwrap();
    let grid = store
        .gather(&names, at(0)..at(3 * SECOND), rate, Method::Linear)
        .unwrap();
    assert_eq!((grid.columns, grid.names.len()), (60, 2));
    let (ramp, slow) = (grid.row(0), grid.row(1));
    for k in 0..60 {
        let t = k as f64 / 20.0;
        let expected = if t <= 0.99 {
            t * 1000.0
        } else if t < 2.0 {
            f64::NAN
        } else {
            7.0
        };
        let same = |a: f64, b: f64| (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-3;
        assert!(
            same(ramp[k], expected),
            "ramp at {t}: {} not {expected}",
            ramp[k]
        );
        let expected = if t <= 2.9 { t * 1000.0 } else { f64::NAN };
        assert!(
            same(slow[k], expected),
            "slow at {t}: {} not {expected}",
            slow[k]
        );
    }
    // A grid that is off by a quarter of a sample takes the nearest one.
    let off = at(SECOND / 400)..at(SECOND / 400 + SECOND);
    let nearest = store
        .gather(
            &names[..1],
            off,
            Rate::from_hz(100).unwrap(),
            Method::Nearest,
        )
        .unwrap();
    let expected: Vec<f64> = (0..100).map(|k| f64::from(k) * 10.0).collect();
    assert_eq!(nearest.row(0), expected);
    let none = store
        .gather(
            &names,
            at(-9 * SECOND)..at(-8 * SECOND),
            rate,
            Method::Nearest,
        )
        .unwrap();
    assert!(none.values.iter().all(|value| value.is_nan()));
    let huge = Rate::from_hz(1_000_000_000).unwrap();
    assert_eq!(
        code(store.gather(&names, at(0)..at(i64::MAX - T0), huge, Method::Nearest)),
        "too_large"
    );
}

#[test]
fn a_requested_run_keeps_the_rate_but_not_the_time() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(100)).unwrap();
    writer.append_at(&[1i16; 100], &exact(0)).unwrap();
    let run = writer.begin_run().unwrap();
    let stamped = writer.append_at(&[2i16; 100], &exact(90 * SECOND)).unwrap();
    assert_eq!((stamped.run, stamped.index), (run, 100));
    let signal = writer.signal().unwrap();
    assert_eq!(signal.gaps().len(), 0);
    assert!(!signal.contiguous(99..101).unwrap());
    assert_eq!(
        code(signal.select(0..200).unwrap().as_segment()),
        "clock_step_in_selection"
    );
    assert_eq!(signal.runs().unwrap()[1].reason, RunReason::Requested);
    assert_eq!(signal.time_of(100).unwrap().value, at(90 * SECOND));
    // Without a stamp nothing is known of when its samples were.
    writer.begin_run().unwrap();
    writer.append(&[3i16; 100]).unwrap();
    let signal = writer.signal().unwrap();
    assert_eq!(code(signal.time_of(200)), "no_civil_time");
    assert_eq!(
        signal
            .select(at(0)..at(3600 * SECOND))
            .unwrap()
            .sample_count(),
        200
    );
    let told = writer
        .append_at(&[4i16; 100], &exact(200 * SECOND))
        .unwrap();
    assert_eq!((told.index, told.new_run), (300, None));
    assert_eq!(
        writer.signal().unwrap().time_of(200).unwrap().value,
        at(199 * SECOND)
    );
}

#[test]
fn a_signal_without_samples_answers_questions() {
    let (_folder, store) = new_store();
    let signal = store.create("x", &options(100)).unwrap().signal().unwrap();
    assert_eq!((signal.sample_count(), signal.end_index()), (0, 0));
    assert_eq!(signal.time_of(0).unwrap().value, at(0));
    assert!(!signal.in_bounds(at(0)..at(SECOND)).unwrap());
    assert!(signal.contiguous(0..0).unwrap());
    assert!(
        signal
            .select(0..0)
            .unwrap()
            .as_segment()
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        signal.select(at(0)..at(SECOND)).unwrap().segments().count(),
        0
    );
    let rate = Rate::from_hz(10).unwrap();
    let none = store
        .gather(&["x"], at(0)..at(SECOND), rate, Method::Nearest)
        .unwrap();
    assert!(none.values.iter().all(|value| value.is_nan()));
    assert_eq!(signal.true_rate().unwrap(), None);
}

#[test]
fn a_reader_follows_what_is_committed_and_no_more() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2]).unwrap();
    store.commit(false).unwrap();
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let mut signal = reader.signal("x").unwrap();
    assert_eq!(signal.end_index(), 2);
    writer.append(&[3i16]).unwrap();
    assert!(!signal.refresh().unwrap());
    store.commit(false).unwrap();
    let before = signal.clone();
    assert!(signal.refresh().unwrap());
    assert_eq!((before.end_index(), signal.end_index()), (2, 3));
    assert_eq!(
        signal.select(0..3).unwrap().counts(0i16).unwrap(),
        [1, 2, 3]
    );
    assert_eq!(
        civil::format(signal.time_of(2).unwrap().value),
        "2010-03-01T00:00:00.200Z"
    );
}

#[test]
fn a_commit_never_holds_half_an_append() {
    let (_folder, store) = new_store();
    let names = ["a", "b", "c"];
    let writers = names.map(|name| store.create(name, &options(100)).unwrap());
    store.commit(false).unwrap();
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let block = [1i16; 10];
    let blocks = 60i64;
    std::thread::scope(|scope| {
        for writer in &writers {
            let block = &block;
            scope.spawn(move || {
                for k in 0..blocks {
                    // Every other block comes after a gap.
                    let stamp = exact((k * 10 + k / 2 * 30) * SECOND / 100);
                    writer.append_at(block, &stamp).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..40 {
                store.commit(false).unwrap();
            }
        });
        for _ in 0..200 {
            reader.refresh().unwrap();
            for name in names {
                let signal = reader.signal(name).unwrap();
                let state = signal.state();
                assert_eq!(signal.sample_count() % 10, 0);
                assert_eq!(state.points.len() as i64 * 10, signal.sample_count());
                assert_eq!(
                    state.runs.last().map(|run| run.end),
                    Some(signal.end_index())
                );
                assert_eq!(signal.gaps().len(), (state.points.len().max(1) - 1) / 2);
                let all = signal
                    .select(0..signal.end_index())
                    .unwrap()
                    .counts(1i16)
                    .unwrap();
                assert!(
                    all.iter().all(|&value| value == 1),
                    "no torn or missing sample"
                );
            }
        }
    });
    store.commit(false).unwrap();
    reader.refresh().unwrap();
    assert!(
        names
            .iter()
            .all(|name| reader.signal(name).unwrap().sample_count() == blocks * 10)
    );
}
