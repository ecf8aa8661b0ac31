//! Views against brute force, and rows against rows built in one pass.

mod history;
mod memory;
mod oracle;
mod stored;

use isochrony_segment::{Complex64, DType, dispatch};
use proptest::prelude::*;

use self::history::{Bench, Step, step};
use self::oracle::{Noise, check_view};
use super::*;

fn any_history<T: Noise>(steps: &[Step], a: f64, b: f64, pixels: usize) {
    let mut bench = Bench::<T>::new();
    for step in steps {
        bench.apply(step);
    }
    bench
        .builder
        .refresh(&mut bench.store, &bench.model)
        .expect("memory");
    bench.check_rows();
    let end = bench.model.valid.len() as f64;
    let parts = [
        (a.min(b) * end) as i64..(a.max(b) * end) as i64,
        0..end as i64,
    ];
    for parts in [&parts[..1], &parts[1..], &parts] {
        let view = render(&bench.source(), parts, pixels).expect("memory");
        assert!(view.len() <= pixels + parts.len());
        check_view(&view, &bench.model, parts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // Buckets of 64 samples of complex128 and 128 of 64-bit types reach high levels soonest.
    #[test]
    fn any_history_gives_exact_columns_for_complex(
        steps in prop::collection::vec(step(), 1..14), a in 0.0..1.0, b in 0.0..1.0, pixels in 1usize..300,
    ) {
        any_history::<Complex64>(&steps, a, b, pixels);
    }

    #[test]
    fn any_history_gives_exact_columns_for_64_bit_integers(
        steps in prop::collection::vec(step(), 1..10), a in 0.0..1.0, b in 0.0..1.0, pixels in 1usize..300,
    ) {
        any_history::<i64>(&steps, a, b, pixels);
    }
}

#[test]
fn rows_rolled_back_do_not_show_in_a_long_gap() {
    // Level 0 is written at 2,048 rows, loses some, and the gap skips the others.
    let steps = [
        Step::Append(2050),
        Step::Overwrite(0.0, 1),
        Step::Append(1),
        Step::Rollback(14),
        Step::Gap(2052),
        Step::Append(1),
    ];
    any_history::<Complex64>(&steps, 0.0, 0.99, 97);
    // Several stored levels, and a gap that ends before the rolled-back rows.
    for gap in [3000, 9000, 40_000] {
        let steps = [
            Step::Append(20_000),
            Step::Flush,
            Step::Rollback(15_000),
            Step::Gap(gap),
            Step::Append(300),
        ];
        any_history::<Complex64>(&steps, 0.1, 0.9, 97);
    }
}

#[test]
fn every_dtype_has_views() {
    let steps = [
        Step::Append(3000),
        Step::Gap(90),
        Step::Append(700),
        Step::Flush,
        Step::Fill(0.5, 20),
    ];
    for dtype in DType::ALL {
        dispatch!(dtype, T => any_history::<T>(&steps, 0.1, 0.93, 100));
    }
}

#[test]
fn a_gap_of_months_costs_no_work() {
    let mut bench = Bench::<i16>::new();
    let block = bench.samples(300_000);
    let bytes = bytemuck::cast_slice(&block);
    let far = 90 * 86_400 * 2000i64;
    bench
        .builder
        .feed(0, bytes, &mut bench.store)
        .expect("memory");
    let before = bench.store.written;

    struct Counter(usize);
    impl Rows for Counter {
        fn read(
            &self,
            _: usize,
            _: u64,
            extrema: &mut [u8],
            moments: &mut [u8],
        ) -> Result<(), StoreError> {
            extrema.fill(0);
            moments.fill(0);
            Ok(())
        }

        fn present(&self, _: usize, _: Range<u64>) -> Result<Vec<Range<u64>>, StoreError> {
            Ok(Vec::new())
        }
    }
    impl RowsMut for Counter {
        fn write(
            &mut self,
            _: usize,
            _: u64,
            extrema: &[u8],
            moments: &[u8],
        ) -> Result<(), StoreError> {
            self.0 += extrema.len() + moments.len();
            Ok(())
        }
    }
    let mut counter = Counter(before);
    bench
        .builder
        .feed(far, bytes, &mut counter)
        .expect("memory");
    bench.builder.flush(&mut counter).expect("memory");
    assert!(bench.builder.built() > far);
    // Two blocks of 600 kB and a few short top levels; rows of the gap itself would be 850 MB.
    assert!(
        counter.0 < 200_000,
        "{} bytes of rows for {} of samples",
        counter.0,
        2 * bytes.len()
    );
}

#[test]
fn rows_take_a_few_percent() {
    for dtype in DType::ALL {
        let row = EXTREMA * extreme_dtype(dtype).size() + MOMENTS * 8;
        let all = row as f64 / BASE_BYTES as f64 * FACTOR as f64 / (FACTOR - 1) as f64;
        assert!(all < 0.05, "{dtype}: {all}");
    }
}

#[test]
fn a_view_costs_columns_whatever_it_spans() {
    let mut bench = Bench::<f64>::new();
    let samples: Vec<f64> = (0..4_000_000).map(f64::from).collect();
    bench.write(0, &samples);
    for (range, pixels) in [
        (0..4_000_000i64, 500usize),
        (777..3_999_999, 500),
        (0..400_000, 500),
        (5..20_005, 500),
    ] {
        bench.model.visited.set(0);
        let view = render(&bench.source(), std::slice::from_ref(&range), pixels).expect("memory");
        check_view(&view, &bench.model, std::slice::from_ref(&range));
        let most = bucket(DType::F64, 0) * (pixels as i64 + 2 * 2048);
        assert!(bench.model.visited.get() <= most);
        assert_eq!(view.len(), pixels);
    }
}

#[test]
fn zooming_beyond_samples_gives_one_column_per_sample() {
    let mut bench = Bench::<i32>::new();
    bench.write(0, &[5, -3, 7, 1]);
    let view = render(&bench.source(), std::slice::from_ref(&(1..4)), 2000).expect("memory");
    assert_eq!(
        (view.start.as_slice(), view.end.as_slice()),
        (&[1, 2, 3][..], &[2, 3, 4][..])
    );
    assert_eq!(view.min.samples::<i32>(), Some(&[-3, 7, 1][..]));
    assert_eq!(
        (view.mean, view.std, view.bucket),
        (vec![-3.0, 7.0, 1.0], vec![0.0; 3], 1)
    );
}

#[test]
fn large_offsets_keep_their_digits() {
    let mut bench = Bench::<f64>::new();
    let samples: Vec<f64> = (0..2_000_000).map(|i| 1e9 + f64::from(i % 2)).collect();
    bench.write(0, &samples);
    let view = render(&bench.source(), std::slice::from_ref(&(0..2_000_000)), 3).expect("memory");
    for (mean, std) in view.mean.iter().zip(&view.std) {
        assert!((mean - 1e9 - 0.5).abs() < 1e-5, "{mean}");
        assert!((std - 0.5).abs() < 1e-6, "{std}");
    }
}

#[test]
fn decimated_levels_read_as_signals_with_gaps() {
    let mut bench = Bench::<i16>::new();
    let bucket = bucket(DType::I16, 1);
    let samples = bench.samples(40 * bucket as usize);
    bench.write(0, &samples);
    bench.write(60 * bucket, &samples);
    for flushed in [false, true] {
        if flushed {
            bench.builder.flush(&mut bench.store).expect("memory");
        }
        let read = |measure| decimate(&bench.source(), 1, measure, 3..95).expect("memory");
        let means = read(Measure::Mean);
        assert_eq!(means.iter().map(|s| s.start).collect::<Vec<_>>(), [3, 60]);
        assert_eq!(
            means.iter().map(|s| s.values.len() / 8).collect::<Vec<_>>(),
            [37, 35]
        );
        let first = &samples[3 * bucket as usize..4 * bucket as usize];
        let mean = first.iter().map(|x| f64::from(*x)).sum::<f64>() / bucket as f64;
        let got = means[0].values.samples::<f64>().expect("f64")[0];
        assert!((got - mean).abs() < 1e-9);
        assert_eq!(
            read(Measure::Max)[0].values.samples::<i16>().expect("i16")[0],
            *first.iter().max().expect("some")
        );
        assert_eq!(
            read(Measure::Count)[1]
                .values
                .samples::<i64>()
                .expect("i64")[0],
            bucket
        );
    }
}
