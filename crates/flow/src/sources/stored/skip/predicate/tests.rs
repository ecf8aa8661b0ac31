//! Checks exclusions against the filter's own program over every window.

use isochrony_segment::Sample;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const BUCKET: usize = 4;

fn comparison() -> impl Strategy<Value = Expr> {
    let s = Expr::input();
    let extremes = [s.max(), s.min(), s.abs().max()];
    let number = select(vec![-32_768, -9, -2, 0, 1, 2, 9, 32_767]);
    let decided = (select(extremes.to_vec()), number, 0..4, any::<bool>());
    let decided = decided.prop_map(|(extreme, number, which, swapped)| {
        let number = Expr::constant(number);
        let (left, right) = if swapped {
            (number, extreme)
        } else {
            (extreme, number)
        };
        match which {
            0 => left.gt(right),
            1 => left.ge(right),
            2 => left.lt(right),
            _ => left.le(right),
        }
    });
    let others = vec![
        s.std().gt(1),
        s.abs().min().lt(2),
        (s.max() - s.min()).gt(3),
        s.max().gt(s.mean()),
        s.max().equal(2),
        !s.max().gt(2),
        s.gt(1).any(),
    ];
    prop_oneof![4 => decided, 1 => select(others)]
}

fn predicate() -> impl Strategy<Value = Expr> {
    comparison().prop_recursive(3, 8, 2, |inner| {
        (inner.clone(), inner, any::<bool>()).prop_map(|(a, b, both)| match both {
            true => a & b,
            false => a | b,
        })
    })
}

fn samples() -> impl Strategy<Value = Vec<Option<f64>>> {
    let sample = prop_oneof![
        40 => (-3i32..4).prop_map(|value| Some(f64::from(value))),
        1 => select(vec![-32_768.0, 32_767.0, 10.0, -10.0]).prop_map(Some),
        1 => select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]).prop_map(Some),
    ];
    let stretch = (prop::collection::vec(sample, 1..60), 0usize..10);
    prop::collection::vec(stretch, 1..4).prop_map(|stretches| {
        let each = stretches.into_iter().flat_map(|(samples, gap)| {
            let gap = std::iter::repeat_n(None, gap);
            samples.into_iter().chain(gap).collect::<Vec<_>>()
        });
        each.collect()
    })
}

fn buckets<T: Sample + PartialOrd + Default>(
    samples: &[Option<T>],
    first: usize,
    is_finite: impl Fn(T) -> bool,
) -> BucketExtremes {
    let rows = samples.chunks_exact(BUCKET).skip(first);
    let (mut min, mut max, mut coverage) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let there: Vec<T> = row.iter().flatten().copied().collect();
        let less = |a: T, b: T| if b < a { b } else { a };
        let more = |a: T, b: T| if b > a { b } else { a };
        coverage.push(match there.iter().all(|&sample| is_finite(sample)) {
            true if there.is_empty() => Coverage::Gap,
            true => Coverage::Whole,
            false => Coverage::Unknown,
        });
        min.push(there.iter().copied().reduce(less).unwrap_or_default());
        max.push(there.iter().copied().reduce(more).unwrap_or_default());
    }
    BucketExtremes {
        bucket: BUCKET as i64,
        start: (first * BUCKET) as i64,
        min: Buffer::concat([bytemuck::cast_slice(&min)]).unwrap(),
        max: Buffer::concat([bytemuck::cast_slice(&max)]).unwrap(),
        coverage,
    }
}

fn passing<T: Sample>(
    expr: &Expr,
    calibration: &Calibration,
    samples: &[Option<T>],
    window: usize,
) -> Vec<i64> {
    let input = Input::samples(T::DTYPE).calibrated(calibration);
    let program = Program::compile_inputs(expr, &[input]).unwrap();
    let starts = (0..samples.len()).filter(|&start| {
        let within = samples.get(start..start + window);
        let Some(own) = within.and_then(|own| own.iter().copied().collect::<Option<Vec<T>>>())
        else {
            return false;
        };
        let bytes = bytemuck::cast_slice(&own);
        let frames = Frames::from_bytes(bytes, T::DTYPE, window, window, 1).unwrap();
        let (mut scratch, mut state) = (program.scratch(), program.state());
        let mut passes = [Bool8::default()];
        program
            .run(&mut scratch, &mut state, &frames, &mut passes)
            .unwrap();
        passes[0].get()
    });
    starts.map(|start| start as i64).collect()
}

/// Returns the number of excluded starts (None: extremes tell nothing).
fn check<T: Sample + PartialOrd + Default>(
    expr: &Expr,
    calibration: &Calibration,
    samples: &[Option<T>],
    (window, first): (usize, usize),
    is_finite: impl Fn(T) -> bool,
) -> Option<i64> {
    let predicate = ExtremesPredicate::new(expr, T::DTYPE, calibration)?;
    let buckets = buckets(samples, first, is_finite);
    let excluded = predicate.excluded(&buckets, window as i64).unwrap();
    for start in passing(expr, calibration, samples, window) {
        let is_excluded = excluded.iter().any(|range| range.contains(&start));
        assert!(
            !is_excluded,
            "the window at {start} of {window} passes {expr}; excluded: {excluded:?}"
        );
    }
    Some(excluded.iter().map(|range| range.end - range.start).sum())
}

#[test]
fn no_window_that_passes_is_excluded() {
    let calibrations = select(vec![(1.0, 0.0), (0.5, 3.0), (-2.0, 1.0), (0.1, 0.0)]);
    let given = (
        predicate(),
        samples(),
        1usize..20,
        0usize..3,
        calibrations,
        0..4,
    );
    let excluded = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4000));
    let ran = runner.run(
        &given,
        |(expr, samples, window, first, (scale, offset), dtype)| {
            let calibration = Calibration::new(scale, offset, "").unwrap();
            let given = (window, first);
            macro_rules! check_as {
                ($type:ty, $is_finite:expr) => {{
                    let samples: Vec<Option<$type>> = samples
                        .iter()
                        .map(|sample| sample.map(|sample| sample as $type))
                        .collect();
                    check(&expr, &calibration, &samples, given, $is_finite)
                }};
            }
            let found = match dtype {
                0 => check_as!(i16, |_| true),
                1 => check_as!(u16, |_| true),
                2 => check_as!(f32, f32::is_finite),
                _ => check_as!(f64, f64::is_finite),
            };
            excluded.set(excluded.get() + u32::from(found.unwrap_or(0) > 0));
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        excluded.get() > 1000,
        "{} cases exclude anything",
        excluded.get()
    );
}

fn bounds(ranges: &[Range<i64>]) -> Vec<(i64, i64)> {
    ranges
        .iter()
        .map(|range| (range.start, range.end))
        .collect()
}

/// Excluded starts of windows of 4 over 5 buckets: quiet, with a 7 on each side of the border of the second and third.
fn excluded_of(expr: &Expr) -> Vec<(i64, i64)> {
    let mut samples = [Some(1i16); 5 * BUCKET];
    (samples[7], samples[8]) = (Some(7), Some(7));
    let predicate = ExtremesPredicate::new(expr, DType::I16, &Calibration::default()).unwrap();
    let buckets = buckets(&samples, 0, |_| true);
    bounds(&predicate.excluded(&buckets, 4).unwrap())
}

#[test]
fn excludes_all_that_extremes_tell() {
    let s = Expr::input();
    assert_eq!(excluded_of(&s.max().gt(5)), [(0, 1), (12, 17)]);
    assert_eq!(excluded_of(&s.max().gt(7)), [(0, 17)]);
    assert_eq!(excluded_of(&s.abs().max().ge(7)), [(0, 1), (12, 17)]);
    // A window that holds all of a bucket with a 7; one that overlaps a bucket without a sample below 1.
    assert_eq!(excluded_of(&s.max().lt(5)), [(4, 5), (8, 9)]);
    assert_eq!(excluded_of(&s.max().lt(1)), [(-3, 20)]);
    assert_eq!(excluded_of(&s.min().lt(1)), [(0, 17)]);
    assert_eq!(
        excluded_of(&Expr::constant(5).lt(s.max())),
        [(0, 1), (12, 17)]
    );
    let both = s.max().gt(5) & s.max().lt(5);
    assert_eq!(excluded_of(&both), [(0, 1), (4, 5), (8, 9), (12, 17)]);
    assert!(excluded_of(&(s.max().gt(5) | s.max().lt(5))).is_empty());
}

#[test]
fn magnitudes_that_wrap_exclude_nothing() {
    // The least int64's; other integers have magnitudes of a wider dtype.
    let mut samples = [Some(1i64); BUCKET];
    (samples[0], samples[1]) = (Some(i64::MIN), Some(-9));
    let loud = Expr::input().abs().max().gt(5);
    let predicate = ExtremesPredicate::new(&loud, DType::I64, &Calibration::default()).unwrap();
    let excluded = |samples: &[Option<i64>]| {
        let buckets = buckets(samples, 0, |_| true);
        bounds(&predicate.excluded(&buckets, 4).unwrap())
    };
    assert!(excluded(&samples).is_empty());
    assert_eq!(excluded(&[Some(1); BUCKET]), [(0, 1)]);
}

#[test]
fn what_extremes_do_not_decide_is_not_looked_into() {
    let s = Expr::input();
    let undecided = [
        s.std().gt(1),
        s.max().gt(s.mean()),
        s.max().gt(5) | s.std().gt(1),
        !s.max().gt(5),
        s.max().equal(5),
        s.abs().min().lt(1),
        (s.max() + 1).gt(5),
        s.max().ewm(0.5).gt(5),
    ];
    for expr in undecided {
        let predicate = ExtremesPredicate::new(&expr, DType::I16, &Calibration::default());
        assert!(predicate.is_none(), "{expr}");
    }
    assert!(
        ExtremesPredicate::new(
            &(s.max().gt(5) & s.std().gt(1)),
            DType::I16,
            &Calibration::default()
        )
        .is_some()
    );
}
