use isochrony_expr::Expr;
use isochrony_flow::{
    Break, Catalog, Cause, EventSink, IfExists, Item, OpError, OpErrorKind, Plan, PlanError,
    PortType, Segments, SharedFactory, SharedRecording, SignalLocation, SignalSink, Sink,
    SinkFactory, SinkWriter, StoredRecording, json,
};
use isochrony_segment::{DType, SigSeg, Stream};
use isochrony_store::{CreateOptions, Mode, Signal, Store};
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
    Plan::scan(StoredRecording::new(
        store.path(),
        store.signal("p").unwrap(),
    ))
}

fn to(store: &Store, name: &str) -> SignalSink {
    SignalSink::new(SignalLocation::new(store, name), IfExists::Refuse)
}

/// To a thousandth of the source's period.
fn starts_at(signal: &Signal, expected: &[(i64, f64)]) {
    for &(index, seconds) in expected {
        let off = signal.time_of(index).unwrap().value.to_f64() - (T0 as f64 + seconds * 1e9);
        assert!(off.abs() <= 1e5, "{index}: {off} ns");
    }
}

#[test]
fn a_signal_of_window_values_lies_where_the_windows_began() {
    let (_folder, store) = made();
    let windows = scan(&store).rewindow(20).unwrap();
    let max = windows.map(&Expr::input().max()).unwrap();
    max.sink(to(&store, "max")).unwrap().run().unwrap();
    let kept = store.signal("max").unwrap();
    assert_eq!((kept.rate().num(), kept.rate().den()), (1, 2));
    assert_eq!(kept.dtype(), DType::I32);
    // The gap lasts two and a half of the new samples.
    let gap = kept.gaps().get(0).unwrap();
    assert_eq!((gap.start, gap.length, kept.end_index()), (5, 3, 13));
    // Three samples by index, so after it the line of time starts anew.
    starts_at(&kept, &[(0, 0.0), (4, 8.0), (8, 15.0), (12, 23.0)]);
    assert!(!store.has_pending());
}

#[test]
fn windows_of_another_phase_are_added_at_their_own_times() {
    let (_folder, store) = made();
    let signal = store.signal("p").unwrap();
    let add = |from: i64| {
        let part = StoredRecording::new(store.path(), signal.clone())
            .ranges(std::iter::once(from..from + 40));
        let params = json!({"window": 20, "anchor": "range"});
        let windows = Plan::scan(part)
            .then::<isochrony_flow::operators::Rewindow>(params.as_object().unwrap().clone())
            .unwrap();
        let max = windows.map(&Expr::input().max()).unwrap();
        let to = SignalSink::new(SignalLocation::new(&store, "max"), IfExists::Append);
        max.sink(to).unwrap().run().unwrap();
        store.signal("max").unwrap()
    };
    add(0);
    // Half a second after the expected window: a gap, whose length in samples is at least one.
    let later = add(45);
    assert_eq!((later.state().runs.len(), later.end_index()), (1, 5));
    starts_at(&later, &[(1, 2.0), (3, 4.5), (4, 6.5)]);
    let gap = add(156);
    assert_eq!((gap.state().runs.len(), gap.end_index()), (1, 11));
    starts_at(&gap, &[(4, 6.5), (9, 15.6), (10, 17.6)]);
    // A tenth of a second before the end: no line goes through both.
    let overlapping = add(195);
    assert_eq!(overlapping.state().runs.len(), 2);
    assert_eq!(overlapping.state().runs.get(1).unwrap().start, 11);
    starts_at(&overlapping, &[(10, 17.6), (11, 19.5), (12, 21.5)]);
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
    let kept = SignalSink::new(SignalLocation::at(&path, "high"), IfExists::Overwrite);
    let events = EventSink::new(SignalLocation::at(&path, "p"), "high").value("by", json!("test"));
    let plan = high
        .sink(kept)
        .unwrap()
        .sink(events.computed("peak", Expr::input().max()))
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
    assert_eq!(events.len(), 5);
    assert_eq!((events[0].start, events[0].end), (200, 210));
    assert_eq!(events[0].fields, r#"{"by":"test","peak":159}"#);
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
        .sink(to(&store, "mean"))
        .unwrap();
    let plan = plan
        .sink(
            EventSink::new(SignalLocation::new(&store, "p"), "seen")
                .computed("m", Expr::input().max()),
        )
        .unwrap();
    let saved = plan.to_json().unwrap();
    let kept = store.clone();
    let other = store.clone();
    let catalog = Catalog::standard()
        .with_factory(SignalSink::NAME, move |saved, _| {
            SignalSink::resolve(saved, Some(&kept))
        })
        .with_factory(EventSink::NAME, move |saved, _| {
            EventSink::resolve(saved, Some(&other))
        });
    let resolve = |map: &serde_json::Map<String, serde_json::Value>| {
        StoredRecording::resolve(map, Some(&store))
    };
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
fn a_signal_that_the_execution_creates_gets_events() {
    let (_folder, store) = made();
    let events = || EventSink::new(SignalLocation::new(&store, "copy"), "high").created_by_run();
    let loud = |plan: Plan| {
        let windows = plan.rewindow(10).unwrap();
        windows.filter(&Expr::input().mean().gt(150)).unwrap()
    };
    let copied = scan(&store).sink(to(&store, "copy")).unwrap();
    loud(copied).sink(events()).unwrap().run().unwrap();
    let copy = store.signal("copy").unwrap();
    let found: Vec<_> = copy.events().map(|event| event.start).collect();
    assert_eq!(found, [200, 210, 220, 230, 240]);
    assert_eq!(store.signal("p").unwrap().events().count(), 0);

    let nowhere = EventSink::new(SignalLocation::new(&store, "none"), "high").created_by_run();
    let error = loud(scan(&store)).sink(nowhere).unwrap().run().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has created \"none\"; put annotate behind sink"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_kept_is_refused_and_says_why() {
    let (_folder, store) = made();
    let plan = scan(&store);
    let error = plan.sink(to(&store, "p")).unwrap_err();
    assert_eq!(error.code(), "writes_its_input");
    for part in ["sink", "\"p\"", "another name"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let overlapping = plan.rewindow_every(10, 5).unwrap();
    let error = overlapping.sink(to(&store, "x")).unwrap_err();
    assert_eq!(error.code(), "input_type");
    let events = || EventSink::new(SignalLocation::new(&store, "p"), "x");
    let error = plan.sink(events()).unwrap_err();
    assert!(error.to_string().contains("windows or ranges"), "{error}");
    let ranges = overlapping
        .then::<isochrony_flow::operators::ToRanges>(serde_json::Map::new())
        .unwrap();
    let error = ranges.sink(events().computed("m", Expr::input().max()));
    assert!(error.unwrap_err().to_string().contains("before ranges"));
    plan.sink(to(&store, "copy")).unwrap().run().unwrap();
    let error = plan.sink(to(&store, "copy")).unwrap().run().unwrap_err();
    assert!(error.to_string().contains("copy"), "{error}");
    assert_eq!(store.signal("copy").unwrap().sample_count(), 200);
    let append = SignalSink::new(SignalLocation::new(&store, "copy"), IfExists::Append);
    let doubled = plan.map(&(Expr::input() / 2)).unwrap();
    let error = doubled.sink(append).unwrap().run().unwrap_err();
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
        .apply_factory(SharedFactory::new(SinkFactory::new(to(&store, "a"))), &[])
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
        .sink(to(&store, "none"))
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(store.signal("none").unwrap().sample_count(), 0);
}

struct FailsAtSecond(SignalSink);

impl Sink for FailsAtSecond {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn label(&self) -> String {
        self.0.label()
    }

    fn accepts(&self, port: &PortType) -> Result<(), PlanError> {
        self.0.accepts(port)
    }

    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError> {
        let writer = self.0.open(port, reads)?;
        Ok(Box::new(SecondFails { writer, items: 0 }))
    }

    fn saved(&self) -> Result<serde_json::Map<String, serde_json::Value>, PlanError> {
        self.0.saved()
    }
}

struct SecondFails {
    writer: Box<dyn SinkWriter>,
    items: u32,
}

impl SinkWriter for SecondFails {
    fn write(&mut self, item: &Item) -> Result<u64, OpError> {
        self.items += 1;
        if self.items == 2 {
            return Err(OpErrorKind::Failed(Cause::from("the second item does not fit")).into());
        }
        self.writer.write(item)
    }

    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        self.writer.on_break(why)
    }

    fn commit(&mut self) -> Result<(), OpError> {
        self.writer.commit()
    }

    fn finish(&mut self) -> Result<(), OpError> {
        self.writer.finish()
    }
}

#[test]
fn a_sink_that_fails_commits_what_it_has() {
    let (_folder, store) = made();
    let target = FailsAtSecond(to(&store, "copy"));
    let plan = scan(&store).sink(target).unwrap();
    let error = plan.run().unwrap_err();
    assert!(error.to_string().contains("the second item"), "{error}");
    let reading = Store::open(store.path(), Mode::Read).unwrap();
    let copy = reading.signal("copy").unwrap();
    let samples = copy
        .select(0..copy.end_index())
        .unwrap()
        .counts(-1i32)
        .unwrap();
    assert_eq!(samples, (0..100).collect::<Vec<i32>>());
}
