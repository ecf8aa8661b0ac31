//! Samples in an array of the caller's, and what waits for a commit.

use isochrony_dsp::convert::ValueType;
use isochrony_segment::Complex64;
use isochrony_store::{Fill, Selection};

use super::*;

/// 1, 3, a gap of 3, 9, a gap of 1.
fn gappy(store: &Store) -> (SignalWriter, Selection) {
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 3]).unwrap();
    writer.append_gap(3).unwrap();
    writer.append(&[9i16]).unwrap();
    writer.append_gap(1).unwrap();
    let selection = writer.signal().unwrap().select(0..7).unwrap();
    (writer, selection)
}

#[test]
fn gaps_are_filled_as_asked() {
    let (_folder, store) = new_store();
    let (_writer, selection) = gappy(&store);
    let mut out = [0f32; 7];
    selection.values_into(Fill::Value(-1.0), &mut out).unwrap();
    assert_eq!(out, [1.0, 3.0, -1.0, -1.0, -1.0, 9.0, -1.0]);
    selection
        .values_into(Fill::Forward(None), &mut out)
        .unwrap();
    assert_eq!(out, [1.0, 3.0, 3.0, 3.0, 3.0, 9.0, 9.0]);
    let line = Fill::Interpolate {
        edge: 0.5,
        between: f32::between,
    };
    selection.values_into(line, &mut out).unwrap();
    assert_eq!(out, [1.0, 3.0, 4.5, 6.0, 7.5, 9.0, 0.5]);
    let mut counts = [0i16; 7];
    selection
        .counts_into(Fill::Forward(None), &mut counts)
        .unwrap();
    assert_eq!(counts, [1, 3, 3, 3, 3, 9, 9]);
}

#[test]
fn refuses_gaps_that_nothing_fills_and_arrays_that_do_not_fit() {
    let (_folder, store) = new_store();
    let (writer, selection) = gappy(&store);
    let error = selection
        .values_into(Fill::Refuse, &mut [0f64; 7])
        .unwrap_err();
    assert_eq!(error.code(), "gap_in_selection");
    assert!(
        error.to_string().contains("3 samples at index 2"),
        "{error}"
    );
    let inside = writer.signal().unwrap().select(3..6).unwrap();
    let error = inside
        .counts_into(Fill::Forward(None), &mut [0i16; 3])
        .unwrap_err();
    assert!(
        error.to_string().contains("2 samples at index 3"),
        "{error}"
    );
    inside
        .counts_into(Fill::Forward(Some(7)), &mut [0i16; 3])
        .unwrap();
    assert!(
        selection
            .values_into(Fill::Value(0.0), &mut [0f64; 6])
            .is_err()
    );
    assert!(
        selection
            .counts_into(Fill::Value(0), &mut [0i32; 7])
            .is_err()
    );
    let complex = Fill::Value(Complex64::default());
    assert!(
        selection
            .values_into(complex, &mut [Complex64::default(); 7])
            .is_err()
    );
}

#[test]
fn what_waits_for_a_commit_is_counted() {
    let (_folder, store) = new_store();
    assert_eq!(store.pending_signals(), []);
    let (writer, _) = gappy(&store);
    assert_eq!(store.pending_signals(), [("x".to_owned(), 3)]);
    store.commit(true).unwrap();
    assert_eq!(store.pending_signals(), []);
    writer.append(&[5i16; 4]).unwrap();
    assert_eq!(store.pending_signals(), [("x".to_owned(), 4)]);
    writer.mark_invalid(0..2).unwrap();
    assert_eq!(store.pending_signals(), [("x".to_owned(), 2)]);
    store.rename("x", "y").unwrap();
    assert_eq!(store.pending_signals(), [("y".to_owned(), 2)]);
    store.remove("y").unwrap();
    assert!(store.has_pending() && store.pending_signals().is_empty());
}
