//! The modified Levy distribution against integration and SciPy.

use isochrony_tune::TuneError;
use isochrony_tune::noise::ModifiedLevy;
use libm::erfc;
use proptest::prelude::*;

/// Simpson's rule over `(location, upper]` in `log y`, where the density is smooth.
fn integral(location: f64, upper: f64, scale: f64, f: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 20_000;
    // Below, the density is smaller than exp(-100).
    let low = (scale / 200.0).min((upper - location) / 200.0).ln();
    let high = (upper - location).ln();
    let step = (high - low) / f64::from(STEPS);
    let value = |i: u32| {
        let y = (low + f64::from(i) * step).exp();
        // Rounding must not leave the support.
        f((location + y).min(upper)) * y
    };
    let inner: f64 = (1..STEPS)
        .map(|i| value(i) * if i % 2 == 1 { 4.0 } else { 2.0 })
        .sum();
    (value(0) + inner + value(STEPS)) * step / 3.0
}

fn close(got: f64, expected: f64, tolerance: f64) {
    assert!(
        (got - expected).abs() <= tolerance * expected.abs().max(1e-300),
        "{got} is not {expected} within {tolerance}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn density_integrates_to_one_and_to_the_moments(
        location in -5.0f64..5.0,
        width in 0.01f64..1e3,
        scale_per_width in 1e-4f64..20.0,
    ) {
        let (scale, upper) = (scale_per_width * width, location + width);
        let levy = ModifiedLevy::new(location, scale, upper).unwrap();
        let over = |f: &dyn Fn(f64) -> f64| integral(location, upper, scale, |x| f(x) * levy.density(x));
        close(over(&|_| 1.0), 1.0, 1e-8);
        // Rounding of location + y limits the central moments.
        close(levy.mean() - location, over(&|x| x - location), 1e-7);
        let mean = levy.mean();
        close(levy.variance(), over(&|x| (x - mean).powi(2)), 1e-6);
    }

    #[test]
    fn quantile_inverts_the_distribution(
        location in -5.0f64..5.0,
        scale in 0.01f64..10.0,
        width in 1.0f64..1e3,
        probability in 1e-6f64..1.0,
    ) {
        let levy = ModifiedLevy::new(location, scale, location + width).unwrap();
        let x = levy.quantile(probability).unwrap();
        prop_assert!(x > location && x <= location + width);
        prop_assert!((levy.cumulative(x) - probability).abs() < 1e-9);
    }
}

#[test]
fn distribution_is_the_integral_of_the_density() {
    let levy = ModifiedLevy::new(-1.0, 0.5, 20.0).unwrap();
    for x in [-0.9, -0.5, 0.0, 3.0, 19.0] {
        let area = integral(-1.0, x, 0.5, |x| levy.density(x));
        close(levy.cumulative(x), area, 1e-8);
    }
    assert_eq!(levy.cumulative(-1.0), 0.0);
    assert_eq!(levy.cumulative(20.0), 1.0);
    assert_eq!(levy.density(-1.0), 0.0);
    assert_eq!(levy.density(20.1), 0.0);
    assert_eq!(levy.quantile(0.0).unwrap(), -1.0);
    assert_eq!(levy.quantile(1.0).unwrap(), 20.0);
}

#[test]
fn far_truncation_gives_the_plain_levy_distribution_of_scipy() {
    // scipy 1.17.1: stats.levy.pdf(x, location, scale), .cdf, .ppf(probability, location, scale).
    let far = |location, scale| ModifiedLevy::new(location, scale, 1e22).unwrap();
    close(far(0.0, 1.0).density(1.0), 0.241_970_724_519_143_37, 1e-9);
    close(
        far(0.0, 1.0).cumulative(1.0),
        0.317_310_507_862_914_15,
        1e-9,
    );
    close(far(0.0, 1.0).density(0.1), 0.085_003_666_025_203_41, 1e-9);
    close(far(1.0, 2.0).cumulative(5.0), 0.479_500_122_186_953_5, 1e-9);
    close(far(-1.0, 0.5).density(3.0), 0.033_125_441_543_003_57, 1e-9);
    close(
        far(-1.0, 0.5).cumulative(3.0),
        0.723_673_609_831_763_1,
        1e-9,
    );
    let quartile = far(1.0, 2.0).quantile(0.25).unwrap();
    close(quartile, 2.511_368_860_101_946, 1e-9);
    let decile = far(0.0, 1.0).quantile(0.9).unwrap();
    close(decile, 63.328_117_677_016_756, 1e-9);
}

#[test]
fn variance_agrees_with_the_printed_equation() {
    // Eq. 5.5; exponential integral E_5/2(x), of exp(-x t) t^(-5/2) from 1, with t = 1 / v.
    let exponential_integral = |x: f64| {
        const STEPS: u32 = 100_000;
        let value = |i: u32| {
            let v = (f64::from(i) + 0.5) / f64::from(STEPS);
            (-x / v).exp() * v.sqrt()
        };
        (0..STEPS).map(value).sum::<f64>() / f64::from(STEPS)
    };
    for (location, scale, upper) in [(0.0, 1.0, 5.0), (-1.0, 0.5, 20.0), (0.2, 3.0, 4.0)] {
        let width: f64 = upper - location;
        let w: f64 = scale / (2.0 * (location - upper));
        let mass = erfc((-w).sqrt());
        let e = exponential_integral(-w);
        let tau = (2.0 * std::f64::consts::PI).sqrt();
        let inner =
            tau * f64::powf(scale, 1.5) * mass + 3.0 * width.powf(1.5) * (4.0 * w.exp() - 3.0 * e);
        let printed = width.powi(2) * (e * inner / width.sqrt() - 4.0 * width * (2.0 * w).exp())
            / (tau.powi(2) * scale * mass.powi(2));
        let levy = ModifiedLevy::new(location, scale, upper).unwrap();
        close(levy.variance(), printed, 1e-6);
    }
}

#[test]
fn printed_density_in_terms_of_sharing_is_off_by_its_rounding() {
    // Eq. 5.8 as printed.
    let printed = |x: f64, p: f64, t: f64| {
        let exponent = (0.044 * p + 6.98e5 * t) / (p - 4.6e7 * t - 2.1e8 * x);
        8.2e-6 * (p + 1.6e7 * t).sqrt() * exponent.exp()
            / (-4.8e-9 * p + 0.22 * t + x).powf(1.5)
            / erfc((0.003 - 0.003 * p / (p + 3.02e5 * t)).sqrt())
    };
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for p in [1u32, 5, 10, 20] {
        for t in [0.25e-6, 1e-6, 1e-5, 1e-4, 1e-3, 3.7e-3] {
            let levy = ModifiedLevy::from_sharing(p, t).unwrap();
            let p = f64::from(p);
            // The support begins at the larger lower end.
            let location = (4.8e-9 * p - 0.22 * t).max((p - 4.6e7 * t) / 2.1e8);
            let area = integral(location, levy.upper(), levy.scale(), |x| printed(x, p, t));
            (least, most) = (least.min(area), most.max(area));
        }
    }
    assert!((0.83..0.85).contains(&least), "{least}");
    assert!((1.09..1.11).contains(&most), "{most}");
}

#[test]
fn sharing_gives_the_parameters_of_the_regression() {
    let levy = ModifiedLevy::from_sharing(10, 1e-4).unwrap();
    // 4.75e-9 * 10 - 0.22e-4; 4.19e-10 * 10 + 0.007e-4; 3.19e-6 * 10 + 0.742e-4.
    close(levy.location(), -21.9525e-6, 1e-12);
    close(levy.scale(), 0.704_19e-6, 1e-12);
    close(levy.upper(), 106.1e-6, 1e-12);
}

#[test]
fn samples_follow_the_distribution_and_the_seed() {
    let levy = ModifiedLevy::new(-1.0, 0.5, 20.0).unwrap();
    let mut samples = levy.samples(100_000, 5);
    assert_eq!(samples, levy.samples(100_000, 5));
    assert_ne!(samples, levy.samples(100_000, 6));
    samples.sort_unstable_by(f64::total_cmp);
    // Kolmogorov-Smirnov: exceeded once in a thousand times.
    let n = samples.len() as f64;
    let distances = samples.iter().enumerate().map(|(i, &x)| {
        let expected = levy.cumulative(x);
        (expected - i as f64 / n)
            .abs()
            .max((i as f64 + 1.0) / n - expected)
    });
    let distance = distances.fold(0.0, f64::max);
    assert!(distance < 1.95 / n.sqrt(), "{distance}");
}

#[test]
fn fit_recovers_the_parameters_of_drawn_samples() {
    let truths = [(0.0, 1.0, 50.0), (-2e-6, 0.1e-6, 9e-6), (3.0, 2.0, 5.0)];
    for (location, scale, upper) in truths {
        let levy = ModifiedLevy::new(location, scale, upper).unwrap();
        for seed in 0..10 {
            let fitted = ModifiedLevy::fit(&levy.samples(10_000, seed)).unwrap();
            let off = (fitted.location() - location).abs() / scale;
            assert!(
                off < 0.05,
                "location off by {off} scales, {levy:?}, seed {seed}"
            );
            let off = (fitted.scale() / scale - 1.0).abs();
            assert!(off < 0.12, "scale off by {off}, {levy:?}, seed {seed}");
            let off = (upper - fitted.upper()) / (upper - location);
            assert!(
                (0.0..0.02).contains(&off),
                "upper off by {off}, {levy:?}, seed {seed}"
            );
        }
    }
}

#[test]
fn fit_is_at_least_as_likely_as_the_truth_and_its_neighbours() {
    let likelihood = |levy: &ModifiedLevy, samples: &[f64]| -> f64 {
        samples.iter().map(|&x| levy.density(x).ln()).sum()
    };
    let truth = ModifiedLevy::new(-1.0, 0.5, 20.0).unwrap();
    let samples = truth.samples(2_000, 11);
    let fitted = ModifiedLevy::fit(&samples).unwrap();
    let best = likelihood(&fitted, &samples);
    assert!(best > likelihood(&truth, &samples));
    for (location, scale) in [(1e-3, 1.0), (-1e-3, 1.0), (0.0, 1.01), (0.0, 0.99)] {
        let neighbour = ModifiedLevy::new(
            fitted.location() + location,
            fitted.scale() * scale,
            fitted.upper(),
        )
        .unwrap();
        assert!(best > likelihood(&neighbour, &samples), "{neighbour:?}");
    }
}

#[test]
fn rejects_parameters_outside_their_ranges() {
    let parameter = |result: Result<ModifiedLevy, TuneError>| match result {
        Err(TuneError::Parameter { parameter, .. }) => match parameter.split_once(": ") {
            Some((_, name)) => name.to_owned(),
            None => panic!("{parameter}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(parameter(ModifiedLevy::new(f64::NAN, 1.0, 2.0)), "location");
    assert_eq!(parameter(ModifiedLevy::new(2.0, 1.0, 2.0)), "upper");
    assert_eq!(parameter(ModifiedLevy::new(0.0, 0.0, 2.0)), "scale");
    assert_eq!(parameter(ModifiedLevy::new(0.0, 101.0, 2.0)), "scale");
    let sharing = ModifiedLevy::from_sharing;
    assert_eq!(parameter(sharing(21, 1e-3)), "processes_per_core");
    assert_eq!(parameter(sharing(1, 1.0)), "nominal_s");
    let levy = ModifiedLevy::new(0.0, 1.0, 2.0).unwrap();
    assert_eq!(levy.quantile(1.5).unwrap_err().code(), "parameter");
    let fit = |samples: &[f64]| ModifiedLevy::fit(samples).unwrap_err().code();
    assert_eq!(fit(&[1.0; 19]), "too_few_samples");
    assert_eq!(fit(&[1.0; 20]), "no_spread");
    assert_eq!(fit(&[f64::NAN; 20]), "not_finite");
}
