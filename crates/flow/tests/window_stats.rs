//! scan, rewindow, stats against a slow obvious implementation: lists of numbers.

use isochrony_flow::{Column, FlowError, Stat, Stretch, Tail, WindowTable, scan};
use isochrony_segment::{Calibration, Complex32, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

fn stream(scale: f64, offset: f64) -> StreamId {
    Stream::new("windows", TimebaseId(0), Rate::new(2000, 1).unwrap())
        .with_calibration(Calibration::new(scale, offset, "kPa").unwrap())
        .intern()
}

fn seg(samples: &[i16], start: i64) -> SigSeg {
    SigSeg::from_slice(samples, start, stream(1.0, 0.0)).unwrap()
}

fn row(table: &WindowTable, at: usize) -> Vec<f64> {
    table
        .columns
        .iter()
        .map(|(_, column)| column.to_f64()[at])
        .collect()
}

#[test]
fn a_gap_never_leaks_into_a_window() {
    let plan = scan([seg(&[1, 1, 1, 1, 1], 0), seg(&[9, 9, 9, 9, 9], 6)]);
    let table = plan
        .rewindow(4)
        .unwrap()
        .stats([Stat::Min, Stat::Max])
        .unwrap()
        .collect()
        .unwrap();
    assert_eq!(table.start, [0, 6]);
    assert_eq!(table.end, [4, 10]);
    assert_eq!(table.column(Stat::Min), Some(&Column::I64(vec![1, 9])));
    assert_eq!(table.column(Stat::Max), Some(&Column::I64(vec![1, 9])));
    assert_eq!(table.column(Stat::Mean), None);
}

#[test]
fn short_last_windows_are_kept_on_request() {
    let plan = scan([seg(&[1, 2, 3], 0), seg(&[7], 9)])
        .rewindow(2)
        .unwrap();
    let table = plan
        .tail(Tail::Keep)
        .stats([Stat::Count, Stat::Mean])
        .unwrap()
        .collect()
        .unwrap();
    assert_eq!(
        (table.start.as_slice(), table.end.as_slice()),
        (&[0, 2, 9][..], &[2, 3, 10][..])
    );
    assert_eq!(table.column(Stat::Count), Some(&Column::I64(vec![2, 1, 1])));
    assert_eq!(
        table.column(Stat::Mean),
        Some(&Column::F64(vec![1.5, 3.0, 7.0]))
    );
}

#[test]
fn windows_of_a_part_are_those_of_the_stretch() {
    let part = |start: i64, len: usize| Stretch {
        samples: seg(&vec![1; len], start),
        anchor: Some(100),
    };
    // Windows of 10 begin at 100, 110, ...; a part from 103 to 134 holds those at 110 and 120.
    let table = scan([part(103, 4), part(107, 27)]);
    let table = table
        .rewindow(10)
        .unwrap()
        .stats([Stat::Count])
        .unwrap()
        .collect()
        .unwrap();
    assert_eq!(table.start, [110, 120]);
    let inside = scan([part(103, 4)]).rewindow(10).unwrap().tail(Tail::Keep);
    assert!(
        inside
            .stats([Stat::Count])
            .unwrap()
            .collect()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_clock_step_without_a_gap_is_a_break() {
    let run = |start: i64, value: i16| Stretch {
        samples: seg(&[value; 3], start),
        anchor: Some(start),
    };
    let table = scan([run(0, 1), run(3, 5)]).rewindow(2).unwrap();
    let table = table.stats([Stat::Mean]).unwrap().collect().unwrap();
    assert_eq!(table.start, [0, 3]);
    assert_eq!(table.column(Stat::Mean), Some(&Column::F64(vec![1.0, 5.0])));
}

#[test]
fn calibrated_signals_are_summarised_in_their_unit() {
    let counts = [3i16, -1, 7, 4];
    for (scale, offset) in [(0.5, 10.0), (-0.1, 3.0)] {
        let values: Vec<f64> = counts
            .iter()
            .map(|&c| f64::from(c) * scale + offset)
            .collect();
        let segment = SigSeg::from_slice(&counts, 0, stream(scale, offset)).unwrap();
        let plan = scan([segment])
            .rewindow(4)
            .unwrap()
            .stats(Stat::ALL)
            .unwrap();
        let got = row(&plan.collect().unwrap(), 0);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let var = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let rms = (values.iter().map(|v| v * v).sum::<f64>() / n).sqrt();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(got[..3], [low, high, n]);
        for (got, want) in got[3..].iter().zip([mean, var.sqrt(), var, rms]) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
    }
}

#[test]
fn calibrated_complex_samples_count_by_the_magnitude_of_their_value() {
    let segment = SigSeg::from_slice(&[Complex32::new(1.0, 2.0); 2], 0, stream(2.0, 1.0)).unwrap();
    let plan = scan([segment])
        .rewindow(2)
        .unwrap()
        .stats([Stat::Mean])
        .unwrap();
    assert_eq!(row(&plan.collect().unwrap(), 0), [5.0]); // |2 (1 + 2i) + 1|
}

#[test]
fn windows_without_finite_samples_are_rows_of_nan() {
    let segment =
        SigSeg::from_slice(&[f32::NAN, f32::INFINITY, 1.0, 2.0], 0, stream(1.0, 0.0)).unwrap();
    let plan = scan([segment])
        .rewindow(2)
        .unwrap()
        .stats([Stat::Count, Stat::Max, Stat::Std])
        .unwrap();
    let table = plan.collect().unwrap();
    assert_eq!(table.column(Stat::Count), Some(&Column::I64(vec![0, 2])));
    assert!(row(&table, 0)[1..].iter().all(|v| v.is_nan()));
    assert_eq!(row(&table, 1), [2.0, 2.0, 0.5]);
}

#[test]
fn refuses_what_cannot_be_meant() {
    let plan = || scan([seg(&[1, 2], 0)]);
    assert_eq!(plan().rewindow(0).unwrap_err().code(), "window_length");
    assert_eq!(
        plan().rewindow(u64::MAX).unwrap_err().code(),
        "window_length"
    );
    let windows = plan().rewindow(1).unwrap();
    assert_eq!(windows.clone().stats([]).unwrap_err().code(), "no_stats");
    assert_eq!(
        windows.stats([Stat::Min, Stat::Min]).unwrap_err().code(),
        "repeated_stat"
    );
    assert_eq!(
        "average".parse::<Stat>().unwrap_err().code(),
        "unknown_stat"
    );
    for stat in Stat::ALL {
        assert_eq!(stat.to_string().parse::<Stat>().unwrap(), stat);
    }
}

#[test]
fn errors_of_the_source_and_of_its_segments_end_the_scan() {
    fn code<I>(items: I) -> &'static str
    where
        I: IntoIterator<Item: isochrony_flow::Scanned>,
    {
        let plan = scan(items).rewindow(1).unwrap().stats([Stat::Min]).unwrap();
        plan.collect().unwrap_err().code()
    }
    let failed: Result<SigSeg, std::io::Error> = Err(std::io::Error::other("interrupted"));
    assert_eq!(code([Ok(seg(&[1], 0)), failed]), "source_failed");
    let other = SigSeg::from_slice(&[1f32], 1, stream(1.0, 0.0)).unwrap();
    assert_eq!(code([seg(&[1], 0), other]), "mixed_streams");
    let late = Stretch {
        samples: seg(&[1], 0),
        anchor: Some(1),
    };
    assert_eq!(code([late]), "anchor_after_start");
    let none: [SigSeg; 0] = [];
    let plan = scan(none).rewindow(1).unwrap().stats([Stat::Min]).unwrap();
    assert!(plan.collect().unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Stretches cut into segments at random, which are cut into buffers at random.
    #[test]
    fn any_segmentation_gives_the_windows_of_the_stretches(
        stretches in prop::collection::vec(
            (prop::collection::vec(-1000i16..1000, 1..300), 1i64..20, prop::collection::vec(any::<(u16, bool)>(), 0..6)),
            1..5,
        ),
        window in 1u64..80,
        keep in any::<bool>(),
    ) {
        let mut segments: Vec<SigSeg> = Vec::new();
        let mut want: Vec<(i64, Vec<i16>)> = Vec::new();
        let mut at = -50;
        for (samples, gap, cuts) in &stretches {
            let whole = seg(samples, at);
            let mut ends: Vec<(i64, bool)> = cuts
                .iter()
                .map(|&(c, join)| (at + i64::from(c) * (samples.len() as i64 + 1) / 65536, join))
                .collect();
            ends.push((whole.end(), false));
            ends.sort_unstable();
            let mut from = at;
            for (part, (to, join)) in ends.into_iter().enumerate() {
                // A copy, so that appending makes a second buffer.
                let cut = whole.subseg(from..to).unwrap();
                let cut = seg(&cut.to_vec::<i16>().unwrap(), from);
                match segments.last_mut() {
                    Some(last) if join && part > 0 => last.append(cut).unwrap(),
                    _ => segments.push(cut),
                }
                from = to;
            }
            for (number, chunk) in samples.chunks(window as usize).enumerate() {
                if keep || chunk.len() as u64 == window {
                    want.push((at + (number as u64 * window) as i64, chunk.to_vec()));
                }
            }
            at += samples.len() as i64 + gap;
        }
        let tail = if keep { Tail::Keep } else { Tail::Drop };
        let plan = scan(segments).rewindow(window).unwrap().tail(tail).stats(Stat::ALL).unwrap();
        let table = plan.collect().map_err(|e: FlowError| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(table.start.clone(), want.iter().map(|w| w.0).collect::<Vec<_>>());
        for (at, (start, samples)) in want.iter().enumerate() {
            prop_assert_eq!(table.end[at], start + samples.len() as i64);
            let n = samples.len() as f64;
            let mean = samples.iter().map(|&s| f64::from(s)).sum::<f64>() / n;
            let var = samples.iter().map(|&s| (f64::from(s) - mean).powi(2)).sum::<f64>() / n;
            let got = row(&table, at);
            let min = f64::from(samples.iter().copied().min().unwrap());
            let max = f64::from(samples.iter().copied().max().unwrap());
            prop_assert_eq!(&got[..4], [min, max, n, mean]);
            prop_assert!((got[4] - var.sqrt()).abs() < 1e-9);
            prop_assert!((got[5] - var).abs() < 1e-7);
        }
    }
}
