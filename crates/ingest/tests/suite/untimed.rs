//! Sources without times that share a signal with others.

use isochrony_ingest::{Block, IngestError, Session, SessionOptions, Spec};
use isochrony_segment::DType;
use isochrony_store::op::RunReason;
use isochrony_store::{Mode, Store};
use isochrony_time::{Fixed, Rate, Stamp};

/// In a new session, in two blocks.
fn import(
    store: &Store,
    source: &str,
    samples: &[i32],
    at: Option<i64>,
) -> Result<(), IngestError> {
    let mut session = Session::new(store, SessionOptions::default())?;
    session.known(source, 0, None)?;
    let stamp = at.map(|ns| Stamp::new(Fixed::from_int(ns), Fixed::from_int(1000)));
    let (first, rest) = samples.split_at(samples.len() / 2);
    for (samples, stamp) in [(first, stamp), (rest, None)] {
        session.block(&Block {
            signal: "x",
            spec: &Spec::new(DType::I32, Rate::from_hz(100).unwrap()),
            bytes: bytemuck::cast_slice(samples),
            stamp,
            source,
        })?;
    }
    session.done(source, 4 * samples.len() as u64, None)?;
    session.finish().map(drop)
}

fn runs(store: &Store) -> Vec<(i64, i64, RunReason)> {
    let signal = store.signal("x").unwrap();
    let runs = signal.state().runs.iter();
    runs.map(|run| (run.start, run.end, run.reason)).collect()
}

#[test]
fn each_source_without_a_time_is_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Append).unwrap();
    import(&store, "/a", &[1, 2, 3, 4], None).unwrap();
    import(&store, "/b", &[5, 6], None).unwrap();
    let two = [(0, 4, RunReason::First), (4, 6, RunReason::Requested)];
    assert_eq!(runs(&store), two);
    import(&store, "/b", &[5, 6, 7, 8], None).unwrap();
    assert_eq!(runs(&store), [two[0], (4, 8, RunReason::Requested)]);
    import(&store, "/a", &[1, 2, 3, 4, 9, 10], None).unwrap();
    assert_eq!(runs(&store)[2], (8, 10, RunReason::Requested));
}

#[test]
fn a_signal_has_civil_time_in_all_runs_or_in_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Append).unwrap();
    let at = 1_267_401_600_000_000_000;
    import(&store, "/a", &[1, 2, 3, 4], Some(at)).unwrap();
    let error = import(&store, "/b", &[5, 6], None).unwrap_err();
    assert_eq!(error.code(), "mixed_time");
    assert_eq!(runs(&store), [(0, 4, RunReason::First)]);

    let store = Store::open(folder.path().join("b.iso"), Mode::Append).unwrap();
    import(&store, "/a", &[1, 2, 3, 4], None).unwrap();
    let error = import(&store, "/b", &[5, 6], Some(at)).unwrap_err();
    assert_eq!(error.code(), "mixed_time");
    assert_eq!(runs(&store), [(0, 4, RunReason::First)]);
}
