//! A read is bound to an identity: whatever a writer does, a handle shows the samples as of its opening, or an error
//! says that they are gone.

mod copies;
mod damage;
mod older_shards;
mod processes;
mod replayed_marks;
mod sent;
mod snapshots;
mod tables;
mod views;
mod windows;

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, Store, StoreError};
use isochrony_time::Rate;
use serde_json::{Map, Value};

/// `made` distinguishes signals.
fn options(made: i16) -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let mut attributes = Map::new();
    attributes.insert("made".into(), made.into());
    options.attributes = attributes;
    options.overwrite = true;
    options
}

/// Signals have no sample in common.
fn samples(made: i16, count: usize) -> Vec<i16> {
    (0..count)
        .map(|at| made * 1000 + (at % 997) as i16)
        .collect()
}

fn read(signal: &Signal) -> Result<Vec<i16>, StoreError> {
    signal.select(0..signal.end_index())?.counts(-1i16)
}

fn made(signal: &Signal) -> i16 {
    let made = signal.attributes().get("made").and_then(Value::as_i64);
    i16::try_from(made.unwrap()).unwrap()
}

fn on_disk() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    (folder, store)
}
