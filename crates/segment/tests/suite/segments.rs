//! Segments against a simple model: a start index and a vector.

use isochrony_segment::{Calibration, Complex32, Complex64, DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

fn stream(name: &str) -> StreamId {
    Stream::new(name, TimebaseId(1), Rate::new(2000, 1).unwrap()).intern()
}

fn calibrated(scale: f64, offset: f64) -> StreamId {
    Stream::new("calibrated", TimebaseId(1), Rate::new(100, 1).unwrap())
        .with_calibration(Calibration::new(scale, offset, "kPa").unwrap())
        .intern()
}

fn seg(samples: &[i16], start: i64) -> SigSeg {
    SigSeg::from_slice(samples, start, stream("s")).unwrap()
}

#[test]
fn equal_streams_share_an_id_across_threads() {
    let ids: Vec<StreamId> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..300)
                        .map(|i| stream(&format!("n{i}")))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect()
    });
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(*id, ids[at % 300]);
        assert_eq!(id.get().name, format!("n{}", at % 300));
    }
}

#[test]
fn append_names_both_ends() {
    let mut head = seg(&[1, 2], 10);
    let error = head.append(seg(&[3], 13)).unwrap_err();
    assert_eq!(error.code(), "not_adjacent");
    let message = error.to_string();
    assert!(
        message.contains("12") && message.contains("13"),
        "{message}"
    );
    assert_eq!(head.to_vec::<i16>().unwrap(), [1, 2]);
}

#[test]
fn append_refuses_another_dtype_or_stream() {
    let mut head = seg(&[1, 2], 10);
    let floats = SigSeg::from_slice(&[1f32], 12, stream("s")).unwrap();
    assert_eq!(head.append(floats).unwrap_err().code(), "dtype_mismatch");
    let other = SigSeg::from_slice(&[1i16], 12, stream("t")).unwrap();
    assert_eq!(head.append(other).unwrap_err().code(), "stream_mismatch");
}

#[test]
fn empty_segments_are_neutral() {
    let mut all = SigSeg::empty(5, DType::I16, stream("s"));
    assert_eq!(all.as_contiguous::<i16>(), Some(&[][..]));
    assert!(all.make_mut::<i16>().unwrap().is_empty());
    assert_eq!(all.buffers().len(), 0);
    all.append(seg(&[1, 2], 5)).unwrap();
    all.append(SigSeg::empty(7, DType::I16, stream("s")))
        .unwrap();
    assert_eq!(all.buffers().len(), 1);
    assert_eq!(all.subseg(7..7).unwrap().len(), 0);
    assert!(
        seg(&[], 3)
            .subseg(3..3)
            .unwrap()
            .materialise()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn refuses_bytes_that_are_no_whole_samples_and_indices_beyond_the_end() {
    let buffer = isochrony_segment::Buffer::copy_of(&[0u8; 7]).unwrap();
    let error = SigSeg::new(buffer.clone(), 0, DType::I16, stream("s")).unwrap_err();
    assert_eq!(error.code(), "partial_sample");
    let late = SigSeg::new(buffer.clone(), i64::MAX - 6, DType::U8, stream("s")).unwrap_err();
    assert_eq!(late.code(), "index_overflow");
    let last = SigSeg::new(buffer, i64::MAX - 7, DType::U8, stream("s")).unwrap();
    assert_eq!(last.end(), i64::MAX);
    assert_eq!(
        last.relabelled(i64::MAX, stream("s")).unwrap_err().code(),
        "index_overflow"
    );
}

#[test]
fn reading_as_another_type_is_refused() {
    let counts = seg(&[1, 2], 0);
    assert_eq!(counts.as_contiguous::<u16>(), None);
    assert_eq!(counts.to_vec::<u16>().unwrap_err().code(), "dtype_mismatch");
    assert_eq!(
        counts.copy_to(&mut [0i16; 3]).unwrap_err().code(),
        "out_of_range"
    );
}

#[test]
fn calibration_applies_on_demand_and_leaves_counts_alone() {
    let counts = SigSeg::from_slice(&[-2i16, 0, 2], 7, calibrated(0.25, 10.0)).unwrap();
    let values = counts.to_physical().unwrap();
    assert_eq!(values.to_vec::<f64>().unwrap(), [9.5, 10.0, 10.5]);
    assert_eq!(values.range(), counts.range());
    assert_eq!(values.stream().calibration, Calibration::identity("kPa"));
    assert_eq!(values.stream().timebase, counts.stream().timebase);
    assert_eq!(counts.to_vec::<i16>().unwrap(), [-2, 0, 2]);
    let again = values.to_physical().unwrap();
    let address = |s: &SigSeg| s.buffers().next().map(isochrony_segment::Buffer::as_ptr);
    assert_eq!(
        address(&again),
        address(&values),
        "values are values already"
    );
}

#[test]
fn complex_counts_are_scaled_and_their_real_part_shifted() {
    let counts = SigSeg::from_slice(&[Complex32::new(1.0, 2.0)], 0, calibrated(2.0, 1.0)).unwrap();
    let values = counts.to_physical().unwrap();
    assert_eq!(
        values.to_vec::<Complex64>().unwrap(),
        [Complex64::new(3.0, 4.0)]
    );
}

#[test]
fn refuses_calibrations_that_cannot_be_inverted() {
    for (scale, offset) in [
        (0.0, 0.0),
        (f64::NAN, 0.0),
        (f64::INFINITY, 0.0),
        (1.0, f64::NAN),
    ] {
        let error = Calibration::new(scale, offset, "V").unwrap_err();
        assert_eq!(error.code(), "invalid_calibration");
    }
}

fn cuts(len: usize, at: &[u16]) -> Vec<usize> {
    let mut cuts: Vec<usize> = at.iter().map(|&a| a as usize * (len + 1) / 65536).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_cutting_and_joining_equals_the_samples(
        samples in prop::collection::vec(any::<i16>(), 0..200),
        start in -1000i64..1000,
        at in prop::collection::vec(any::<u16>(), 0..8),
        copied in prop::collection::vec(any::<bool>(), 10),
    ) {
        let whole = seg(&samples, start);
        let mut joined = SigSeg::empty(start, DType::I16, stream("s"));
        for (part, ends) in cuts(samples.len(), &at).windows(2).enumerate() {
            let range = start + ends[0] as i64..start + ends[1] as i64;
            let mut cut = whole.subseg(range.clone()).unwrap();
            prop_assert_eq!(cut.to_vec::<i16>().unwrap(), &samples[ends[0]..ends[1]]);
            if copied[part] {
                cut = SigSeg::from_slice(&samples[ends[0]..ends[1]], range.start, stream("s")).unwrap();
            }
            joined.append(cut).unwrap();
        }
        prop_assert_eq!(joined.range(), whole.range());
        prop_assert_eq!(joined.to_vec::<i16>().unwrap(), samples.clone());
        let sizes: usize = joined.buffers().map(isochrony_segment::Buffer::len).sum();
        prop_assert_eq!(sizes, samples.len() * 2);
        let one = joined.materialise().unwrap();
        prop_assert_eq!(one.as_contiguous::<i16>(), Some(&samples[..]));
        let slices: Vec<i16> = joined.as_slices::<i16>().unwrap().flat_map(|s| s.into_owned()).collect();
        prop_assert_eq!(slices, samples.clone());
        for ends in cuts(samples.len(), &at).windows(3) {
            let part = joined.subseg(start + ends[0] as i64..start + ends[2] as i64).unwrap();
            prop_assert_eq!(part.to_vec::<i16>().unwrap(), &samples[ends[0]..ends[2]]);
        }
        let mut rest = joined.clone();
        for ends in cuts(samples.len(), &at).windows(2) {
            let front = rest.split_front(start + ends[1] as i64).unwrap();
            prop_assert_eq!(front.range(), start + ends[0] as i64..start + ends[1] as i64);
            prop_assert_eq!(front.to_vec::<i16>().unwrap(), &samples[ends[0]..ends[1]]);
            prop_assert_eq!(rest.to_vec::<i16>().unwrap(), &samples[ends[1]..]);
        }
        let mut changed = joined.clone();
        changed.make_mut::<i16>().unwrap().fill(5);
        prop_assert_eq!(joined.to_vec::<i16>().unwrap(), samples.clone());
        prop_assert_eq!(changed.to_vec::<i16>().unwrap(), vec![5; samples.len()]);
    }

    #[test]
    fn ranges_outside_are_refused(start in -50i64..50, len in 0usize..50, a in -120i64..120, b in -120i64..120) {
        let samples = vec![0i16; len];
        let whole = seg(&samples, start);
        let inside = a <= b && start <= a && b <= start + len as i64;
        prop_assert_eq!(whole.subseg(a..b).is_ok(), inside);
        let mut rest = whole.clone();
        let within = start <= b && b <= start + len as i64;
        prop_assert_eq!(rest.split_front(b).is_ok(), within);
        prop_assert_eq!(rest.start(), if within { b } else { start });
    }

    #[test]
    fn calibrated_values_equal_the_formula(
        counts in prop::collection::vec(any::<i32>(), 1..600),
        scale in 1e-6f64..1e6,
        offset in -1e6f64..1e6,
    ) {
        // Plain slices: every stream would be interned for ever.
        let mut values = vec![0.0; counts.len()];
        Calibration::new(scale, offset, "V").unwrap().apply(&counts, &mut values);
        for (value, count) in values.iter().zip(&counts) {
            prop_assert_eq!(*value, f64::from(*count) * scale + offset);
        }
    }
}
