//! Known answers, by hand or from NumPy.

use isochrony_expr::{Expr, ExprError, Frames, Program, Shape};
use isochrony_segment::{Bool8, Calibration, Complex32, Complex64, DType, Sample};

fn windows<T: Sample, O: Sample>(expr: &Expr, samples: &[T], window: usize) -> Vec<O> {
    let program = Program::compile(expr, T::DTYPE).unwrap();
    let frames = Frames::new(samples, window, window).unwrap();
    let mut out = vec![O::default(); program.results(&frames)];
    let (mut scratch, mut state) = (program.scratch(), program.state());
    program
        .run(&mut scratch, &mut state, &frames, &mut out)
        .unwrap();
    out
}

fn all<T: Sample, O: Sample>(expr: &Expr, samples: &[T]) -> Vec<O> {
    windows(expr, samples, samples.len())
}

fn s() -> Expr {
    Expr::input()
}

#[test]
fn outliers_stand_out_from_their_window() {
    let expr = ((s() - s().mean()) / s().std()).gt(1.5);
    let samples = [1i16, 1, 1, 9, 5, 5, 5, 5];
    let got: Vec<Bool8> = windows(&expr, &samples, 4);
    // 0 / 0 is NaN, which exceeds nothing.
    let got: Vec<bool> = got.into_iter().map(bool::from).collect();
    assert_eq!(got, [false, false, false, true, false, false, false, false]);
}

#[test]
fn reductions_of_integers_are_exact() {
    let samples = [3i16, -1, 4, 1];
    assert_eq!(all::<_, f64>(&s().mean(), &samples), [1.75]);
    assert_eq!(all::<_, i64>(&s().sum(), &samples), [7]);
    assert_eq!(all::<_, i16>(&s().min(), &samples), [-1]);
    assert_eq!(all::<_, i32>(&s().abs_max(), &samples), [4]);
    assert_eq!(all::<_, f64>(&s().var(), &samples), [3.6875]);
    assert_eq!(all::<_, f64>(&s().rms(), &samples), [6.75f64.sqrt()]);
    assert_eq!(all::<_, i64>(&s().gt(1).count(), &samples), [2]);
    assert_eq!(all::<_, Bool8>(&s().gt(4).any(), &samples), [false.into()]);
    assert_eq!(all::<_, Bool8>(&s().le(4).all(), &samples), [true.into()]);
    assert_eq!(all::<_, i64>(&s().sum(), &[i64::MAX, 1]), [i64::MIN]);
    assert_eq!(
        all::<_, f64>(&s().mean(), &[i64::MAX, i64::MAX]),
        [i64::MAX as f64]
    );
    assert_eq!(all::<_, f64>(&s().mean(), &[i64::MIN, i64::MAX]), [-0.5]);
}

#[test]
fn reductions_of_floats_propagate_nan() {
    let samples = [1.0f32, f32::NAN, 3.0];
    for expr in [
        s().min(),
        s().max(),
        s().mean(),
        s().sum(),
        s().std(),
        s().rms(),
    ] {
        assert!(all::<_, f32>(&expr, &samples)[0].is_nan(), "{expr}");
    }
    let infinite = [1.0f64, f64::INFINITY];
    assert_eq!(all::<_, f64>(&s().mean(), &infinite), [f64::INFINITY]);
    assert!(all::<_, f64>(&s().std(), &infinite)[0].is_nan());
    assert_eq!(all::<_, f64>(&s().min(), &infinite), [1.0]);
    // NaN is non-zero.
    assert_eq!(all::<_, Bool8>(&s().all(), &samples), [true.into()]);
}

#[test]
fn deviation_far_from_zero_keeps_its_digits() {
    let samples: Vec<f64> = (0..1000).map(|i| 1e12 + f64::from(i % 2)).collect();
    assert_eq!(all::<_, f64>(&s().std(), &samples), [0.5]);
    assert_eq!(all::<_, f64>(&s().mean(), &samples), [1e12 + 0.5]);
}

#[test]
fn integer_division_by_zero_is_zero_and_wrapping_wraps() {
    let wrapped = |expr: &Expr, samples: &[i8]| all::<_, i8>(&expr.wrapping(), samples);
    let samples = [i8::MIN, -7, 0, 7, i8::MAX];
    assert_eq!(wrapped(&(s() + 1), &samples), [-127, -6, 1, 8, -128]);
    assert_eq!(wrapped(&(-s()), &samples), [-128, 7, 0, -7, -127]);
    assert_eq!(wrapped(&s().abs(), &samples), [-128, 7, 0, 7, 127]);
    assert_eq!(wrapped(&s().floordiv(2), &samples), [-64, -4, 0, 3, 63]);
    assert_eq!(wrapped(&s().floordiv(-1), &samples), [-128, 7, 0, -7, -127]);
    assert_eq!(wrapped(&(s() % 3), &samples), [1, 2, 0, 1, 1]);
    assert_eq!(wrapped(&(s() % -3), &samples), [-2, -1, 0, -2, -2]);
    assert_eq!(wrapped(&s().floordiv(0), &samples), [0; 5]);
    assert_eq!(wrapped(&(s() % 0), &samples), [0; 5]);
    assert_eq!(wrapped(&s().pow(2), &samples), [0, 49, 0, 49, 1]);
    assert_eq!(
        all::<_, f64>(&(s() / 2), &samples),
        [-64.0, -3.5, 0.0, 3.5, 63.5]
    );
}

#[test]
fn floor_division_of_floats_is_numpys() {
    let samples = [7.0f64, -7.0, 1.0, -0.0, f64::INFINITY];
    assert_eq!(
        all::<_, f64>(&s().floordiv(2), &samples)[..3],
        [3.0, -4.0, 0.0]
    );
    assert_eq!(all::<_, f64>(&(s() % 2), &samples)[..3], [1.0, 1.0, 1.0]);
    // 1 / 0.1 rounds to 10, although 0.1 exceeds a tenth.
    assert_eq!(all::<_, f64>(&s().floordiv(0.1), &[1.0f64]), [9.0]);
    assert_eq!(
        all::<_, f64>(&(s() % 0.1), &[1.0f64]),
        [0.099_999_999_999_999_95]
    );
    assert_eq!(
        all::<_, f64>(&s().floordiv(0), &[1.0f64, -1.0]),
        [f64::INFINITY, f64::NEG_INFINITY]
    );
    assert!(all::<_, f64>(&(s() % 0), &[1.0f64])[0].is_nan());
}

#[test]
fn bools_are_logical_and_any_byte_but_zero_is_true() {
    let samples: &[Bool8] = bytemuck::cast_slice(&[0u8, 1, 7]);
    let truth = |got: Vec<Bool8>| got.into_iter().map(bool::from).collect::<Vec<_>>();
    assert_eq!(truth(all(&!s(), samples)), [true, false, false]);
    assert_eq!(truth(all(&(s() & true), samples)), [false, true, true]);
    assert_eq!(truth(all(&(s() ^ true), samples)), [true, false, false]);
    assert_eq!(all::<_, i64>(&s().sum(), samples), [2]);
    assert_eq!(all::<_, i64>(&(s() * 3), samples), [0, 3, 3]);
    assert_eq!(all::<_, i64>(&s().count(), samples), [2]);
    assert_eq!(truth(all(&s(), samples)), [false, true, true]);
}

#[test]
fn complex_samples_have_magnitude_angle_and_order() {
    let samples = [Complex32::new(3.0, 4.0), Complex32::new(-1.0, 0.0)];
    assert_eq!(all::<_, f32>(&s().abs(), &samples), [5.0, 1.0]);
    assert_eq!(
        all::<_, f32>(&s().angle(), &samples)[1],
        std::f32::consts::PI
    );
    assert_eq!(all::<_, f32>(&s().imag(), &samples), [4.0, 0.0]);
    let product = all::<_, Complex32>(&(s() * s().conj()), &samples);
    assert_eq!(
        product,
        [Complex32::new(25.0, 0.0), Complex32::new(1.0, 0.0)]
    );
    let quotient = all::<_, Complex32>(&(s() / Complex64::new(0.0, 1.0)), &samples);
    assert_eq!(quotient[0], Complex32::new(4.0, -3.0));
    assert_eq!(all::<_, Complex32>(&s().max(), &samples), [samples[0]]);
    assert_eq!(
        all::<_, Complex32>(&s().mean(), &samples),
        [Complex32::new(1.0, 2.0)]
    );
    assert_eq!(all::<_, f32>(&s().var(), &samples), [8.0]);
    let square = all::<_, Complex32>(&s().pow(2), &samples);
    assert_eq!(square[0], Complex32::new(-7.0, 24.0));
}

#[test]
fn where_clip_and_extremes_select() {
    let samples = [-2.0f32, -0.5, f32::NAN, 0.5, 2.0];
    let clipped = all::<_, f32>(&s().clip(-1, 1), &samples);
    assert_eq!((clipped[0], clipped[4]), (-1.0, 1.0));
    assert!(clipped[2].is_nan());
    let chosen = all::<_, f32>(&s().isnan().select(0, s()), &samples);
    assert_eq!(chosen, [-2.0, -0.5, 0.0, 0.5, 2.0]);
    let positive = all::<_, f32>(&s().gt(0).select(s().sqrt(), s().mean()), &samples[3..]);
    assert_eq!(positive, [0.5f32.sqrt(), 2.0f32.sqrt()]);
    let larger = all::<_, f32>(&s().maximum(s().abs().min()), &[-3.0f32, 4.0]);
    assert_eq!(larger, [3.0, 4.0]);
}

#[test]
fn comparisons_with_numbers_beyond_the_dtype_are_right() {
    let samples = [-128i8, 127];
    let truth = |expr: Expr| -> Vec<bool> {
        all::<_, Bool8>(&expr, &samples)
            .into_iter()
            .map(bool::from)
            .collect()
    };
    assert_eq!(truth(s().lt(1000)), [true, true]);
    assert_eq!(truth(s().gt(-1000)), [true, true]);
    assert_eq!(truth(s().equal(128)), [false, false]);
    assert_eq!(truth(s().gt(126.5)), [false, true]);
}

#[test]
fn calibrated_counts_are_seen_in_their_unit() {
    let calibration = Calibration::new(0.5, 1.0, "kPa").unwrap();
    let program = Program::compile_calibrated(&(s() * 2), DType::I16, &calibration).unwrap();
    assert_eq!(program.output().dtype, DType::F64);
    let samples: Vec<i16> = (0..3000).collect();
    let frames = Frames::stretch(&samples);
    let mut out = vec![0.0f64; 3000];
    let (mut scratch, mut state) = (program.scratch(), program.state());
    program
        .run(&mut scratch, &mut state, &frames, &mut out)
        .unwrap();
    assert!(
        out.iter()
            .zip(&samples)
            .all(|(&y, &x)| y == f64::from(x) + 2.0)
    );
    let identity = Calibration::identity("V");
    let plain = Program::compile_calibrated(&s(), DType::I16, &identity).unwrap();
    assert_eq!(
        (plain.output().dtype, plain.output().shape),
        (DType::I16, Shape::Sample)
    );
}

#[test]
fn states_follow_windows_and_reset_at_breaks() {
    let samples = [1.0f64, 5.0, 2.0, 0.0, 6.0, 3.0];
    let mean = s().mean();
    assert_eq!(
        windows::<_, f64>(&mean.ewm(0.5), &samples, 1),
        [1.0, 3.0, 2.5, 1.25, 3.625, 3.3125]
    );
    assert_eq!(
        windows::<_, f64>(&mean.previous(-1), &samples, 1),
        [-1.0, 1.0, 5.0, 2.0, 0.0, 6.0]
    );
    assert_eq!(
        windows::<_, i64>(&mean.gt(2).counter(), &samples, 1),
        [0, 1, 1, 1, 2, 3]
    );
    let on: Vec<Bool8> = windows(&mean.hysteresis(2, 4), &samples, 1);
    let on: Vec<bool> = on.into_iter().map(bool::from).collect();
    assert_eq!(on, [false, true, true, false, true, true]);

    let rises = mean.gt(mean.ewm(0.5).previous(f64::INFINITY));
    let program = Program::compile(&rises, DType::F64).unwrap();
    assert!(program.is_stateful() && program.needs_windows());
    let (mut scratch, mut state) = (program.scratch(), program.state());
    let mut run = |state: &mut _, samples: &[f64]| -> Vec<bool> {
        let mut out = vec![Bool8::default(); samples.len()];
        let frames = Frames::new(samples, 1, 1).unwrap();
        program.run(&mut scratch, state, &frames, &mut out).unwrap();
        out.into_iter().map(bool::from).collect()
    };
    assert_eq!(run(&mut state, &samples[..2]), [false, true]);
    assert_eq!(run(&mut state, &samples[2..]), [false, false, true, false]);
    state.reset();
    assert_eq!(run(&mut state, &samples[4..]), [false, false]);
}

#[test]
fn windows_may_overlap_or_leave_samples_out() {
    let samples: Vec<i32> = (0..10).collect();
    let program = Program::compile(&s().sum(), DType::I32).unwrap();
    let (mut scratch, mut state) = (program.scratch(), program.state());
    for (hop, expected) in [(1, vec![3, 6, 9, 12, 15, 18, 21, 24]), (4, vec![3, 15])] {
        let frames = Frames::new(&samples, 3, hop).unwrap();
        let mut out = vec![0i64; frames.count()];
        program
            .run(&mut scratch, &mut state, &frames, &mut out)
            .unwrap();
        assert_eq!(out, expected);
    }
    let program = Program::compile(&(s() - s().min()), DType::I32).unwrap();
    let (mut scratch, mut state) = (program.scratch(), program.state());
    let mut out = [0i64; 6];
    let frames = Frames::new(&samples[..4], 3, 1).unwrap();
    program
        .run(&mut scratch, &mut state, &frames, &mut out)
        .unwrap();
    assert_eq!(out, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn refuses_samples_and_outputs_that_do_not_fit() {
    let program = Program::compile(&(s() + 1).wrapping(), DType::I16).unwrap();
    let other = Program::compile(&(s() + 1).wrapping(), DType::I16).unwrap();
    let (mut scratch, mut state) = (program.scratch(), program.state());
    let samples = [1i16, 2, 3];
    let frames = Frames::stretch(&samples);
    let mut out = [0i16; 3];
    let code = |result: Result<(), ExprError>| result.unwrap_err().code();
    assert_eq!(
        code(program.run(&mut scratch, &mut state, &frames, &mut out[..2])),
        "output_length"
    );
    let mut wrong = [0i32; 3];
    assert_eq!(
        code(program.run(&mut scratch, &mut state, &frames, &mut wrong)),
        "output_dtype"
    );
    let bytes = bytemuck::bytes_of_mut(&mut wrong);
    assert_eq!(
        code(program.run_bytes(&mut scratch, &mut state, &frames, &mut bytes[1..7])),
        "misaligned"
    );
    let floats = [1.0f32; 3];
    let others = Frames::stretch(&floats);
    assert_eq!(
        code(program.run(&mut scratch, &mut state, &others, &mut out)),
        "input_dtype"
    );
    let mut foreign = other.scratch();
    assert_eq!(
        code(program.run(&mut foreign, &mut state, &frames, &mut out)),
        "foreign_scratch"
    );
    let mut foreign = other.state();
    assert_eq!(
        code(program.run(&mut scratch, &mut foreign, &frames, &mut out)),
        "foreign_scratch"
    );
    assert!(
        program
            .run(&mut scratch, &mut state, &frames, &mut out)
            .is_ok()
    );
    let bytes: &[u8] = bytemuck::cast_slice(&samples);
    for (window, hop, count) in [(0, 1, 1), (1, 0, 1), (2, 2, 2), (1, usize::MAX, 3)] {
        let frames = Frames::from_bytes(bytes, DType::I16, window, hop, count);
        assert_eq!(frames.unwrap_err().code(), "frames_out_of_bounds");
    }
    let odd = Frames::from_bytes(&bytes[1..5], DType::I16, 1, 1, 2);
    assert_eq!(odd.unwrap_err().code(), "misaligned");
    assert!(Frames::from_bytes(bytes, DType::I16, 9, 9, 0).is_ok());
}
