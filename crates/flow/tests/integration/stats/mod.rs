use isochrony_flow::arrow::array::RecordBatch;
use isochrony_flow::arrow::array::cast::AsArray;
use isochrony_flow::arrow::array::types::{Float64Type, Int64Type};
use isochrony_flow::operators::Rewindow;
use isochrony_flow::{Catalog, Plan, SEGMENT_SAMPLES, Segments, SharedRecording, Stat, json};
use isochrony_segment::{Calibration, Complex32, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

mod steps;

fn stream(scale: f64, offset: f64) -> StreamId {
    Stream::new("windows", TimebaseId(0), Rate::new(2000, 1).unwrap())
        .with_calibration(Calibration::new(scale, offset, "kPa").unwrap())
        .intern()
}

fn seg(samples: &[i16], start: i64) -> SigSeg {
    SigSeg::from_slice(samples, start, stream(1.0, 0.0)).unwrap()
}

fn scan(segments: impl IntoIterator<Item = SigSeg>) -> Plan {
    Plan::scan(Segments::new(segments).unwrap())
}

fn table(plan: &Plan) -> RecordBatch {
    plan.collect().unwrap().rows().unwrap().clone()
}

fn ints(table: &RecordBatch, name: &str) -> Vec<i64> {
    let column = table.column_by_name(name).unwrap();
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn floats(table: &RecordBatch, name: &str) -> Vec<f64> {
    let column = table.column_by_name(name).unwrap();
    match column.as_primitive_opt::<Float64Type>() {
        Some(floats) => floats.values().to_vec(),
        None => ints(table, name).into_iter().map(|x| x as f64).collect(),
    }
}

fn keep(plan: &Plan, window: u64) -> Plan {
    let params = json!({"window": window, "tail": "keep"});
    let catalog = Catalog::standard();
    plan.apply(
        catalog.get("rewindow").unwrap(),
        params.as_object().unwrap().clone(),
        &[],
    )
    .unwrap()
}

#[test]
fn a_gap_never_leaks_into_a_window() {
    let plan = scan([seg(&[1, 1, 1, 1, 1], 0), seg(&[9, 9, 9, 9, 9], 6)]);
    let plan = plan
        .rewindow(4)
        .unwrap()
        .stats([Stat::Min, Stat::Max])
        .unwrap();
    let table = table(&plan);
    let names: Vec<&str> = table
        .schema_ref()
        .fields()
        .iter()
        .map(|f| f.name().as_str())
        .collect();
    assert_eq!(names, ["start", "end", "min", "max"]);
    assert_eq!(ints(&table, "start"), [0, 6]);
    assert_eq!(ints(&table, "end"), [4, 10]);
    assert_eq!(ints(&table, "min"), [1, 9]);
    assert_eq!(ints(&table, "max"), [1, 9]);
    let unit = table
        .schema_ref()
        .field_with_name("min")
        .unwrap()
        .metadata()
        .clone();
    assert_eq!(
        unit.get("unit").map(|unit| unit.to_string()),
        Some("kPa".into())
    );
    assert_eq!(
        plan.to_string(),
        r#"scan(windows) -> rewindow(window=4) -> stats(names=["min","max"])"#
    );
}

#[test]
fn short_last_windows_are_kept_on_request() {
    let plan = keep(&scan([seg(&[1, 2, 3], 0), seg(&[7], 9)]), 2);
    let table = table(&plan.stats([Stat::Count, Stat::Mean]).unwrap());
    assert_eq!(ints(&table, "start"), [0, 2, 9]);
    assert_eq!(ints(&table, "end"), [2, 3, 10]);
    assert_eq!(ints(&table, "count"), [2, 1, 1]);
    assert_eq!(floats(&table, "mean"), [1.5, 3.0, 7.0]);
}

#[test]
fn windows_of_a_part_begin_with_it_or_are_those_of_the_stretch() {
    // Windows of 10 begin at 100, 110, ...; a part from 103 to 134 holds those at 110 and 120.
    let whole = SharedRecording::new(Segments::new([seg(&[1; 50], 100)]).unwrap());
    let part = Plan::scan_part(whole, Some(103..134), 4);
    let params = json!({"window": 10, "anchor": "run"});
    let own = part.then::<Rewindow>(params.as_object().unwrap().clone());
    let starts = |plan: &Plan| ints(&table(&plan.stats([Stat::Count]).unwrap()), "start");
    assert_eq!(starts(&own.unwrap()), [110, 120]);
    assert_eq!(starts(&part.rewindow(10).unwrap()), [103, 113, 123]);
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
        let table = table(
            &scan([segment])
                .rewindow(4)
                .unwrap()
                .stats(Stat::ALL)
                .unwrap(),
        );
        let got: Vec<f64> = Stat::ALL
            .iter()
            .map(|stat| floats(&table, stat.name())[0])
            .collect();
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
    let table = table(
        &scan([segment])
            .rewindow(2)
            .unwrap()
            .stats([Stat::Mean])
            .unwrap(),
    );
    assert_eq!(floats(&table, "mean"), [5.0]); // |2 (1 + 2i) + 1|
}

#[test]
fn windows_without_finite_samples_are_rows_of_nan() {
    let segment =
        SigSeg::from_slice(&[f32::NAN, f32::INFINITY, 1.0, 2.0], 0, stream(1.0, 0.0)).unwrap();
    let plan = scan([segment]).rewindow(2).unwrap();
    let table = table(&plan.stats([Stat::Count, Stat::Max, Stat::Std]).unwrap());
    assert_eq!(ints(&table, "count"), [0, 2]);
    assert!(floats(&table, "max")[0].is_nan() && floats(&table, "std")[0].is_nan());
    assert_eq!(
        (floats(&table, "max")[1], floats(&table, "std")[1]),
        (2.0, 0.5)
    );
}

#[test]
fn overlapping_windows_and_computed_rows_are_summarised_too() {
    let samples: Vec<i16> = (0..100).map(|i| i * 37 % 41).collect();
    let plan = scan([seg(&samples, 5)]).rewindow_every(10, 3).unwrap();
    let table = table(&plan.stats([Stat::Mean, Stat::Max]).unwrap());
    assert_eq!(
        ints(&table, "start"),
        (5..=95).step_by(3).collect::<Vec<i64>>()
    );
    for (k, window) in samples.windows(10).step_by(3).enumerate() {
        let mean = window.iter().map(|&x| f64::from(x)).sum::<f64>() / 10.0;
        assert_eq!(floats(&table, "mean")[k], mean);
        assert_eq!(
            ints(&table, "max")[k],
            i64::from(*window.iter().max().unwrap())
        );
    }
    let s = isochrony_expr::Expr::input();
    let rows = plan
        .filter(&s.max().gt(38))
        .unwrap()
        .map(&(&s - s.mean()))
        .unwrap();
    let table = self::table(&rows.stats([Stat::Mean, Stat::Count]).unwrap());
    let passed = samples
        .windows(10)
        .step_by(3)
        .filter(|w| *w.iter().max().unwrap() > 38)
        .count();
    assert_eq!(ints(&table, "count"), vec![10; passed]);
    assert!(floats(&table, "mean").iter().all(|mean| mean.abs() < 1e-12));
}

#[test]
fn refuses_what_cannot_be_meant() {
    let windows = scan([seg(&[1, 2], 0)]).rewindow(1).unwrap();
    for (error, code, parts) in [
        (
            windows.stats([]).unwrap_err(),
            "parameter",
            &["stats", "names=[]", "min"][..],
        ),
        (
            windows.stats([Stat::Min, Stat::Min]).unwrap_err(),
            "parameter",
            &["\"min\" twice", "once"],
        ),
        (
            scan([seg(&[1], 0)])
                .count()
                .unwrap()
                .stats([Stat::Min])
                .unwrap_err(),
            "input_type",
            &["windows", "rewindow"],
        ),
        (
            "average".parse::<Stat>().unwrap_err(),
            "parameter",
            &["average", "mean"],
        ),
    ] {
        assert_eq!(error.code(), code);
        for part in parts {
            assert!(error.to_string().contains(part), "{error} lacks {part:?}");
        }
    }
    for stat in Stat::ALL {
        assert_eq!(stat.to_string().parse::<Stat>().unwrap(), stat);
    }
    let table = table(
        &scan([seg(&[1], 0)])
            .rewindow(2)
            .unwrap()
            .stats([Stat::Rms])
            .unwrap(),
    );
    assert_eq!((table.num_rows(), table.num_columns()), (0, 3));
}

#[test]
fn rows_are_counted_and_limited() {
    let plan = scan([seg(&[1; 5000], 0)])
        .rewindow(2)
        .unwrap()
        .stats([Stat::Max])
        .unwrap();
    assert_eq!(plan.count().unwrap().collect().unwrap().count(), Some(2500));
    let first = table(&plan.limit(1100).unwrap());
    assert_eq!(
        ints(&first, "start"),
        (0..2200).step_by(2).collect::<Vec<i64>>()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_segmentation_gives_the_windows_of_the_stretches(
        stretches in prop::collection::vec(
            (prop::collection::vec(-1000i16..1000, 1..300), 1i64..20, prop::collection::vec(any::<u16>(), 0..6)),
            1..5,
        ),
        window in 1u64..80,
        keeps in any::<bool>(),
        piece in prop_oneof![Just(SEGMENT_SAMPLES), 1u64..100],
    ) {
        let mut segments: Vec<SigSeg> = Vec::new();
        let mut want: Vec<(i64, Vec<i16>)> = Vec::new();
        let mut at = -50;
        for (samples, gap, cuts) in &stretches {
            let mut ends: Vec<usize> =
                cuts.iter().map(|&c| usize::from(c) * samples.len() / 65536).collect();
            ends.push(samples.len());
            ends.sort_unstable();
            let mut from = 0;
            for to in ends {
                if to > from {
                    segments.push(seg(&samples[from..to], at + from as i64));
                }
                from = to;
            }
            for (number, chunk) in samples.chunks(window as usize).enumerate() {
                if keeps || chunk.len() as u64 == window {
                    want.push((at + (number as u64 * window) as i64, chunk.to_vec()));
                }
            }
            at += samples.len() as i64 + gap;
        }
        let live = SharedRecording::new(Segments::new(segments).unwrap());
        let plan = Plan::scan_part(live, None, piece);
        let plan = if keeps { keep(&plan, window) } else { plan.rewindow(window).unwrap() };
        let table = table(&plan.stats(Stat::ALL).unwrap());
        prop_assert_eq!(ints(&table, "start"), want.iter().map(|w| w.0).collect::<Vec<_>>());
        let ends: Vec<i64> = want.iter().map(|(start, w)| start + w.len() as i64).collect();
        prop_assert_eq!(ints(&table, "end"), ends);
        let columns: Vec<Vec<f64>> =
            Stat::ALL.iter().map(|stat| floats(&table, stat.name())).collect();
        for (at, (_, samples)) in want.iter().enumerate() {
            let n = samples.len() as f64;
            let mean = samples.iter().map(|&s| f64::from(s)).sum::<f64>() / n;
            let var = samples.iter().map(|&s| (f64::from(s) - mean).powi(2)).sum::<f64>() / n;
            let got: Vec<f64> = columns.iter().map(|column| column[at]).collect();
            let min = f64::from(samples.iter().copied().min().unwrap());
            let max = f64::from(samples.iter().copied().max().unwrap());
            prop_assert_eq!(&got[..4], &[min, max, n, mean]);
            prop_assert!((got[4] - var.sqrt()).abs() < 1e-9);
            prop_assert!((got[5] - var).abs() < 1e-7);
        }
    }
}
