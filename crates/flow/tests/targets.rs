//! What flows, kept in signals and events: by an open store, and by a path that a run opens.

use isochrony_expr::Expr;
use isochrony_flow::{
    Catalog, IfExists, Keep, Kept, Place, Plan, Segments, Stored, ToEvents, ToSignal, json,
};
use isochrony_segment::{DType, SigSeg, Stream};
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::{Fixed, Rate, TimebaseId};

const T0: i64 = 1_267_401_600_000_000_000;

/// Samples 0 to 99, a gap of 50, samples 100 to 199, at 10 Hz.
fn made() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let mut options = CreateOptions::new(DType::I32, Rate::from_hz(10).unwrap());
    options.start = Some(Fixed::from_int(T0));
    options.unit = "kPa".into();
    let writer = store.create("p", &options).unwrap();
    writer.append(&(0..100).collect::<Vec<i32>>()).unwrap();
    writer.append_gap(50).unwrap();
    writer.append(&(100..200).collect::<Vec<i32>>()).unwrap();
    store.commit(true).unwrap();
    (folder, store)
}

fn scan(store: &Store) -> Plan {
    Plan::scan(Stored::new(store.path(), store.signal("p").unwrap()))
}

fn to(store: &Store, name: &str) -> ToSignal {
    ToSignal::new(Place::new(store, name), IfExists::Refuse)
}

#[test]
fn a_signal_of_window_values_lies_where_the_windows_began() {
    let (_folder, store) = made();
    let windows = scan(&store).rewindow(20).unwrap();
    let max = windows.map(&Expr::input().max()).unwrap();
    max.keep(to(&store, "max")).unwrap().run().unwrap();
    let kept = store.signal("max").unwrap();
    assert_eq!((kept.rate().num(), kept.rate().den()), (1, 2));
    assert_eq!(kept.dtype(), DType::I32);
    // The gap lasts two and a half of the new samples.
    let gap = kept.gaps().get(0).unwrap();
    assert_eq!((gap.start, gap.length, kept.end_index()), (5, 3, 13));
    // One line through both stretches, half a sample apart on the index: docs/correctness_issues.md.
    let quarter = 0.25 * 2e9 + 1e3;
    for (index, seconds) in [(0, 0.0), (8, 15.0)] {
        let off = kept.time_of(index).unwrap().value.to_f64() - (T0 as f64 + seconds * 1e9);
        assert!(off.abs() <= quarter, "{index}: {off} ns");
    }
    assert!(!store.has_pending());
}

#[test]
fn a_path_is_opened_for_the_run_by_all_that_write_there() {
    let (_folder, store) = made();
    let path = store.path().to_owned();
    let signal = store.signal("p").unwrap();
    store.close().unwrap();
    let reading = Store::open(&path, Mode::Read).unwrap();
    drop(signal);
    let high = scan(&reading)
        .rewindow(10)
        .unwrap()
        .filter(&Expr::input().mean().gt(150))
        .unwrap();
    let kept = ToSignal::new(Place::at(&path, "high"), IfExists::Overwrite);
    let events = ToEvents::new(Place::at(&path, "p"), "high").value("by", json!("test"));
    let plan = high
        .keep(kept)
        .unwrap()
        .keep(events.computed("peak", Expr::input().max()))
        .unwrap();
    assert_eq!(
        plan.to_string(),
        "scan(p) -> rewindow(window=10) -> filter(predicate=s.mean() > 150) -> sink(high, overwrite=True) -> \
         annotate(p, \"high\", by=\"test\", peak=s.max())"
    );
    for _ in 0..2 {
        plan.run().unwrap();
    }
    let after = Store::open(&path, Mode::ReadWrite).unwrap();
    assert_eq!(after.signal("high").unwrap().sample_count(), 50);
    let events: Vec<_> = after.signal("p").unwrap().events().cloned().collect();
    assert_eq!(events.len(), 10);
    assert_eq!((events[0].start, events[0].end), (200, 210));
    assert_eq!(events[0].fields, r#"{"by":"test","peak":159}"#);
    // Somebody else writes there now.
    let error = plan.run().unwrap_err();
    assert_eq!(error.code(), "operator_failed");
    assert!(error.to_string().contains("sink (node 3"), "{error}");
}

#[test]
fn saved_targets_come_back_for_their_store_or_another() {
    let (_folder, store) = made();
    let windows = scan(&store).rewindow(10).unwrap();
    let plan = windows
        .map(&Expr::input().mean())
        .unwrap()
        .keep(to(&store, "mean"))
        .unwrap();
    let plan = plan
        .keep(ToEvents::new(Place::new(&store, "p"), "seen").computed("m", Expr::input().max()))
        .unwrap();
    let saved = plan.to_json().unwrap();
    let kept = store.clone();
    let other = store.clone();
    let catalog = Catalog::standard()
        .reviving(ToSignal::NAME, move |saved, _| {
            ToSignal::resolve(saved, Some(&kept))
        })
        .reviving(ToEvents::NAME, move |saved, _| {
            ToEvents::resolve(saved, Some(&other))
        });
    let resolve =
        |map: &serde_json::Map<String, serde_json::Value>| Stored::resolve(map, Some(&store));
    let again = Plan::from_json(&saved, &catalog, &resolve).unwrap();
    assert_eq!(again, plan);
    again.run().unwrap();
    assert_eq!(store.signal("mean").unwrap().sample_count(), 20);
    for (key, value, part) in [
        ("if_exists", json!("maybe"), "maybe"),
        ("signal", json!(3), "signal"),
    ] {
        let mut broken = saved.clone();
        broken["nodes"][3]["params"][key] = value;
        let error = Plan::from_json(&broken, &catalog, &resolve).unwrap_err();
        assert_eq!(error.code(), "unreadable_plan");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused_and_says_why() {
    let (_folder, store) = made();
    let plan = scan(&store);
    let error = plan.keep(to(&store, "p")).unwrap_err();
    assert_eq!(error.code(), "writes_its_input");
    for part in ["sink", "\"p\"", "another name"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let overlapping = plan.rewindow_every(10, 5).unwrap();
    let error = overlapping.keep(to(&store, "x")).unwrap_err();
    assert_eq!(error.code(), "input_type");
    let events = || ToEvents::new(Place::new(&store, "p"), "x");
    let error = plan.keep(events()).unwrap_err();
    assert!(error.to_string().contains("windows or ranges"), "{error}");
    let ranges = overlapping
        .then::<isochrony_flow::ops::ToRanges>(serde_json::Map::new())
        .unwrap();
    let error = ranges.keep(events().computed("m", Expr::input().max()));
    assert!(error.unwrap_err().to_string().contains("before ranges"));
    plan.keep(to(&store, "copy")).unwrap().run().unwrap();
    let error = plan.keep(to(&store, "copy")).unwrap().run().unwrap_err();
    assert!(error.to_string().contains("copy"), "{error}");
    assert_eq!(store.signal("copy").unwrap().sample_count(), 200);
    let append = ToSignal::new(Place::new(&store, "copy"), IfExists::Append);
    let doubled = plan.map(&(Expr::input() / 2)).unwrap();
    let error = doubled.keep(append).unwrap().run().unwrap_err();
    assert!(error.to_string().contains("cannot take float64"), "{error}");
}

#[test]
fn samples_without_civil_time_are_kept_with_their_gaps() {
    let (_folder, store) = made();
    let stream = Stream::new("a", TimebaseId(7), Rate::from_hz(5).unwrap()).intern();
    let segments = [
        SigSeg::from_slice(&[1i16, 2, 3], 10, stream).unwrap(),
        SigSeg::from_slice(&[4i16, 5], 20, stream).unwrap(),
    ];
    let plan = Plan::scan(Segments::new(segments).unwrap());
    let kept = plan
        .hold(Kept::new(Keep::new(to(&store, "a"))), &[])
        .unwrap();
    let report = kept.run().unwrap();
    assert_eq!(report.operators[1].name, "sink");
    let a = store.signal("a").unwrap();
    assert_eq!((a.sample_count(), a.end_index()), (5, 12));
    assert_eq!(
        a.gaps().get(0).map(|gap| (gap.start, gap.length)),
        Some((3, 7))
    );
    assert!(a.time_of(0).is_err());
}

#[test]
fn a_run_without_items_makes_an_empty_signal() {
    let (_folder, store) = made();
    let none = scan(&store)
        .rewindow(10)
        .unwrap()
        .filter(&Expr::input().mean().gt(1e9));
    none.unwrap()
        .keep(to(&store, "none"))
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(store.signal("none").unwrap().sample_count(), 0);
}
