//! A better rate than the nominal one (`CreateOptions::initial_rate`).

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, Store, VerifyOptions, verify};
use isochrony_time::{Fixed, Placement, Rate, Stamp};

const SECOND: i64 = 1_000_000_000;
const T0: i64 = 1_267_401_600 * SECOND;
/// Nominally 100.
const TRUE_HZ: u64 = 103;
const BLOCK: usize = 10 * TRUE_HZ as usize;
const GAP: i64 = 60 * TRUE_HZ as i64;

/// A stamp in microseconds, as in file names.
fn stamp(seconds: i64) -> Stamp {
    Stamp::new(
        Fixed::from_int(T0 + seconds * SECOND),
        Fixed::from_int(1000),
    )
}

fn options(initial_rate: Option<Rate>) -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    options.initial_rate = initial_rate;
    options
}

/// Blocks of ten seconds, with a pause of a minute in the middle; the store is reopened before each.
fn recorded(initial_rate: Option<Rate>) -> (tempfile::TempDir, Signal) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).unwrap();
    store.create("x", &options(initial_rate)).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    for block in 0..8 {
        let store = Store::open(&path, Mode::ReadWrite).unwrap();
        let at = block * 10 + if block < 4 { 0 } else { 60 };
        let writer = store.writer("x").unwrap();
        writer.append_at(&[1i16; BLOCK], &stamp(at)).unwrap();
        store.commit(true).unwrap();
        if block == 5 {
            let reader = Store::open(&path, Mode::Read).unwrap();
            let meta = reader.signal("x").unwrap().state().meta.clone();
            assert_eq!(meta.clock.initial_rate, initial_rate);
        }
        store.close().unwrap();
    }
    let store = Store::open(&path, Mode::Read).unwrap();
    let signal = store.signal("x").unwrap();
    (folder, signal)
}

#[test]
fn places_stamps_right_although_the_nominal_rate_is_wrong() {
    let (folder, signal) = recorded(Some(Rate::from_hz(TRUE_HZ).unwrap()));
    assert_eq!(signal.rate(), Rate::from_hz(100).unwrap());
    assert_eq!(signal.runs().unwrap().len(), 1);
    let gaps: Vec<_> = signal.gaps().iter().map(|gap| gap.range()).collect();
    let before = 4 * BLOCK as i64;
    assert_eq!(gaps, std::slice::from_ref(&(before..before + GAP)));
    for (index, seconds) in [
        (BLOCK as i64 / 2, 5),
        (before - BLOCK as i64 / 2, 35),
        (before + GAP, 100),
    ] {
        let off = signal.time_of(index).unwrap().value;
        let off = off
            .checked_sub(Fixed::from_int(T0 + seconds * SECOND))
            .unwrap();
        assert!(off.to_f64().abs() < 2000.0, "{off} ns at {index}");
    }
    let root = folder.path().join("a.iso");
    let text = std::fs::read_to_string(root.join("x/zarr.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let own = &json["attributes"]["isochrony"];
    assert_eq!(
        (&own["rate"], &own["clock"]["initial_rate"]),
        (&"100".into(), &"103".into())
    );
    let deep = VerifyOptions {
        signals: None,
        deep: true,
    };
    assert_eq!(verify(&root, &deep).unwrap().findings, []);
}

#[test]
fn a_wrong_nominal_rate_alone_looks_like_clock_steps() {
    let (_folder, signal) = recorded(None);
    assert!(signal.runs().unwrap().len() > 1);
}

#[test]
fn a_stated_start_and_unstamped_samples_follow_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let mut options = options(Some(Rate::from_hz(TRUE_HZ).unwrap()));
    options.start = Some(Fixed::from_int(T0));
    let writer = store.create("x", &options).unwrap();
    writer.append(&[1i16; BLOCK]).unwrap();
    // It determines the length of a gap of time; the next stamp agrees.
    let gap = writer
        .append_gap_duration(Fixed::from_int(60 * SECOND))
        .unwrap();
    assert_eq!(gap.length, GAP);
    let appended = writer.append_at(&[1i16; BLOCK], &stamp(70)).unwrap();
    assert!(
        !matches!(
            appended.placement,
            Placement::Gap { .. } | Placement::Backward { .. }
        ),
        "{appended:?}"
    );
    let time = writer
        .signal()
        .unwrap()
        .time_of(BLOCK as i64)
        .unwrap()
        .value;
    assert_eq!(time, Fixed::from_int(T0 + 10 * SECOND));
}
