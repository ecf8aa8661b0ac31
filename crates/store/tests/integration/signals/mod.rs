//! The public API, one behaviour a test.

mod fills;
mod names;
mod ranges;
mod samples;
mod stamps;
mod values;
mod whole_changes;

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
