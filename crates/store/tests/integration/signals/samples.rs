//! Samples: segments, scratch signals, in-place writes, values over gaps and in units.

use super::*;

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

fn under_construction(path: &std::path::Path) -> Vec<std::ffi::OsString> {
    let names = std::fs::read_dir(path.join(".isochrony/tmp")).unwrap();
    names.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_write_that_is_given_up_leaves_no_copy_of_its_shard() {
    let (_folder, store) = new_store();
    let writer = store.create("a", &options(100)).unwrap();
    writer.append(&[1i16; 1000]).unwrap();
    store.commit(true).unwrap();
    let path = store.path().to_path_buf();
    writer.write(5, &[7i16; 10]).unwrap();
    writer.write(8, &[8i16; 10]).unwrap();
    assert_eq!(under_construction(&path).len(), 2);
    store.commit(true).unwrap();
    assert!(under_construction(&path).is_empty(), "committing left one");
    writer.write(5, &[9i16; 10]).unwrap();
    writer.write(8, &[9i16; 10]).unwrap();
    store.close().unwrap();
    assert!(under_construction(&path).is_empty(), "closing left one");
}
