//! Raw imports end to end, against recordings with known truth.

mod clock;
mod files;
mod repeated;

use std::path::Path;

use super::common::{Recorder, SECOND, write};
use isochrony_ingest::{RawOptions, Summary, import_raw};
use isochrony_store::{EventRow, Mode, RunReason, Signal, Store};

const START: i128 = 1_267_401_600 * SECOND;
const MICRO: i128 = 1000;

fn import(store: &Store, source: &Path) -> Summary {
    import_raw(store, source, &RawOptions::preset("censam").unwrap(), None).unwrap()
}

fn new_store(folder: &Path) -> Store {
    Store::open(folder.join("water.iso"), Mode::Append).unwrap()
}

fn samples(signal: &Signal) -> Vec<i16> {
    let selection = signal.select(0..signal.end_index()).unwrap();
    let parts = selection
        .segments()
        .map(|segment| segment.unwrap().to_vec::<i16>().unwrap());
    parts.collect::<Vec<_>>().concat()
}

fn gaps(signal: &Signal) -> Vec<(i64, i64)> {
    signal
        .gaps()
        .iter()
        .map(|gap| (gap.start, gap.length))
        .collect()
}

fn events(signal: &Signal, kind: &str) -> Vec<EventRow> {
    signal
        .events()
        .filter(|event| event.kind == kind)
        .cloned()
        .collect()
}

#[test]
fn progress_ends_with_everything_and_cancel_stops_between_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.record(40);
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    let mut options = RawOptions::preset("censam").unwrap();
    options.session.commit_bytes = 1;
    options.interrupt.request();
    let summary = import_raw(&store, &source, &options, None).unwrap();
    assert!(summary.cancelled && summary.files == 0);
    options.interrupt = isochrony_ingest::Interrupt::default();
    let mut last = None;
    let mut tell = |now: &isochrony_ingest::ImportProgress| {
        let all = |one: &isochrony_ingest::Progress| (one.done(), one.total());
        last = Some((all(&now.files), all(&now.bytes)));
    };
    let summary = import_raw(&store, &source, &options, Some(&mut tell)).unwrap();
    let bytes = 40 * 12_000;
    assert_eq!(last, Some(((40, Some(40)), (bytes, Some(bytes)))));
    assert_eq!(summary.files, 40);
}

#[test]
fn a_read_only_store_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    new_store(folder.path()).close().unwrap();
    let store = Store::open(folder.path().join("water.iso"), Mode::Read).unwrap();
    let error = import_raw(
        &store,
        folder.path(),
        &RawOptions::preset("censam").unwrap(),
        None,
    )
    .unwrap_err();
    assert_eq!(error.code(), "read_only");
}
