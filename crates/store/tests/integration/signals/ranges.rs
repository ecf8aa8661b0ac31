//! Ranges: timebases, events, grids of several signals.

use super::*;

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
fn runs_of_different_signals_are_never_confused() {
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
fn a_kind_of_event_with_control_characters_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16; 10]).unwrap();
    for kind in ["red\u{1b}[31m", "two\nlines", "\0"] {
        let refused = writer.add_event(kind, 0..1, &serde_json::Map::new());
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "invalid_option");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    writer
        .add_event("läuft", 0..1, &serde_json::Map::new())
        .unwrap();
}

#[test]
fn the_id_of_an_only_event_that_was_removed_does_not_come_back() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[0i16; 100]).unwrap();
    let gone = writer.add_event("burst", 10..60, &Map::new()).unwrap();
    writer.remove_event(gone).unwrap();
    store.commit(true).unwrap();
    let path = store.path().to_path_buf();
    store.close().unwrap();
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    assert_eq!(writer.signal().unwrap().events().count(), 0);
    assert!(writer.add_event("new", 0..1, &Map::new()).unwrap() > gone);
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
    // Off by a quarter of a sample: takes the nearest.
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
