//! Ranking, rejection and divergence of noise models.

use std::f64::consts::PI;

use isochrony_tune::noise::{
    Histogram, ModifiedLevy, NoiseKind, NoiseModel, exponential_divergence, rank_noise_models,
};

/// Box-Muller for the normal, inversion for the others.
fn draw(kind: NoiseKind, count: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut value = || match kind {
        NoiseKind::ModifiedLevy => unreachable!("drawn by ModifiedLevy::samples"),
        NoiseKind::Normal => {
            let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
            3.0 + 2.0 * radius * (2.0 * PI * random.f64()).cos()
        }
        NoiseKind::Gumbel => 3.0 - 2.0 * (-(1.0 - random.f64()).ln()).ln(),
        NoiseKind::Cauchy => 3.0 + 2.0 * (PI * (random.f64() - 0.5)).tan(),
    };
    if kind == NoiseKind::ModifiedLevy {
        return ModifiedLevy::new(-1.0, 0.5, 20.0)
            .unwrap()
            .samples(count, seed);
    }
    (0..count).map(|_| value()).collect()
}

#[test]
fn each_family_wins_on_its_own_samples() {
    for kind in NoiseKind::ALL {
        for seed in 0..10 {
            let ranked = rank_noise_models(&draw(kind, 4_000, seed), 50).unwrap();
            assert_eq!(ranked[0].model.kind(), kind, "seed {seed}: {ranked:?}");
            assert!(ranked[0].divergence < 0.02, "seed {seed}: {ranked:?}");
            assert!(
                ranked[1].divergence > 2.0 * ranked[0].divergence,
                "seed {seed}: {ranked:?}"
            );
        }
    }
}

#[test]
fn fits_recover_the_parameters_of_drawn_samples() {
    // Standard errors are below a quarter of the bound.
    for seed in 0..10 {
        for kind in [NoiseKind::Normal, NoiseKind::Gumbel, NoiseKind::Cauchy] {
            let model = NoiseModel::fit(kind, &draw(kind, 20_000, seed)).unwrap();
            let (location, scale) = match model {
                NoiseModel::Normal { mean, deviation } => (mean, deviation),
                NoiseModel::Gumbel { mode, scale } => (mode, scale),
                NoiseModel::Cauchy { median, scale } => (median, scale),
                NoiseModel::ModifiedLevy(_) => unreachable!(),
            };
            assert!((location - 3.0).abs() < 0.08, "seed {seed}: {model:?}");
            assert!((scale - 2.0).abs() < 0.08, "seed {seed}: {model:?}");
        }
    }
}

#[test]
fn distribution_functions_agree_with_scipy() {
    // scipy 1.17.1: stats.norm.cdf(5, 3, 2), stats.gumbel_r.cdf(5, 3, 2), stats.cauchy.cdf([5, -1e6], 3, 2).
    let normal = NoiseModel::Normal {
        mean: 3.0,
        deviation: 2.0,
    };
    let gumbel = NoiseModel::Gumbel {
        mode: 3.0,
        scale: 2.0,
    };
    let cauchy = NoiseModel::Cauchy {
        median: 3.0,
        scale: 2.0,
    };
    let close = |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 1e-13, "{got}");
    close(normal.cumulative(5.0), 0.8413447460685429);
    close(gumbel.cumulative(5.0), 0.6922006275553464);
    close(cauchy.cumulative(5.0), 0.75);
    close(cauchy.cumulative(-1e6), 6.366178625131449e-07);
}

#[test]
fn divergence_is_the_sum_by_hand() {
    let histogram = Histogram::new(&[0.1, 0.2, 0.3, 0.9], &[0.5]).unwrap();
    assert_eq!(histogram.counts(), [3, 1]);
    let uniform = |x: f64| x.clamp(0.0, 1.0);
    let expected = 0.75 * (0.75f64 / 0.5).ln() + 0.25 * (0.25f64 / 0.5).ln();
    assert!((histogram.divergence(uniform) - expected).abs() < 1e-15);
    assert_eq!(histogram.divergence(|x| f64::from(x >= 0.5)), f64::INFINITY);
}

#[test]
fn samples_on_an_edge_count_below_it() {
    let histogram = Histogram::new(&[1.0, 1.0, 2.0], &[1.0]).unwrap();
    assert_eq!(histogram.counts(), [2, 1]);
    let equal = Histogram::with_equal_counts(&[1.0, 2.0, 2.0, 2.0], 4).unwrap();
    assert_eq!((equal.edges(), equal.counts()), (&[1.0][..], &[1, 3][..]));
}

#[test]
fn true_models_are_rejected_as_often_as_the_significance_says() {
    let levy = ModifiedLevy::new(-1.0, 0.5, 20.0).unwrap();
    let edges: Vec<f64> = (1..20)
        .map(|i| levy.quantile(f64::from(i) / 20.0).unwrap())
        .collect();
    let rejected = (0..1_000)
        .filter(|&seed| {
            let histogram = Histogram::new(&levy.samples(1_000, seed), &edges).unwrap();
            let goodness = histogram.test(|x| levy.cumulative(x), 0.05).unwrap();
            goodness.is_rejected()
        })
        .count();
    // Binomial(1000, 0.05): 50, standard deviation 6.9.
    assert!((25..=80).contains(&rejected), "{rejected}");
}

#[test]
fn wrong_models_are_rejected_and_fitted_true_ones_are_not() {
    let samples = draw(NoiseKind::ModifiedLevy, 4_000, 1);
    let histogram = Histogram::with_equal_counts(&samples, 50).unwrap();
    for kind in NoiseKind::ALL {
        let model = NoiseModel::fit(kind, &samples).unwrap();
        let goodness = histogram.test(|x| model.cumulative(x), 0.01).unwrap();
        assert_eq!(
            goodness.is_rejected(),
            kind != NoiseKind::ModifiedLevy,
            "{kind:?} {goodness:?}"
        );
    }
}

#[test]
fn rejects_histograms_without_meaning() {
    let code =
        |result: Result<Histogram, _>| result.map_err(|e: isochrony_tune::TuneError| e.code());
    assert_eq!(code(Histogram::new(&[], &[1.0])), Err("too_few_samples"));
    assert_eq!(code(Histogram::new(&[f64::NAN], &[1.0])), Err("not_finite"));
    assert_eq!(code(Histogram::new(&[1.0], &[])), Err("parameter"));
    assert_eq!(code(Histogram::new(&[1.0], &[2.0, 2.0])), Err("parameter"));
    assert_eq!(
        code(Histogram::with_equal_counts(&[1.0, 2.0], 3)),
        Err("parameter")
    );
    assert_eq!(
        code(Histogram::with_equal_counts(&[1.0, 1.0], 2)),
        Err("no_spread")
    );
    let histogram = Histogram::new(&[1.0], &[1.0]).unwrap();
    assert_eq!(
        histogram.test(|_| 0.5, 1.0).unwrap_err().code(),
        "parameter"
    );
    let levy = ModifiedLevy::new(0.0, 1.0, 2.0).unwrap();
    assert_eq!(
        exponential_divergence(0.0, &levy).unwrap_err().code(),
        "parameter"
    );
}

fn noisy(mean: f64, noise: &ModifiedLevy, count: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let noise = noise.samples(count, seed);
    let time = |v: &f64| v - mean * (1.0 - random.f64()).ln();
    noise.iter().map(time).collect()
}

#[test]
fn exponential_divergence_agrees_with_drawn_times() {
    let noise = ModifiedLevy::new(-0.3, 0.02, 3.0).unwrap();
    let times = noisy(1.0, &noise, 1_000_000, 1);
    let edges: Vec<f64> = (0..64).map(|i| -(1.0 - f64::from(i) / 64.0).ln()).collect();
    let histogram = Histogram::new(&times, &edges).unwrap();
    // The first cell holds times below 0.
    let expected: f64 = histogram.counts()[1..]
        .iter()
        .map(|&count| (1.0 / 64.0 / (count as f64 / 1e6)).ln() / 64.0)
        .sum();
    let got = exponential_divergence(1.0, &noise).unwrap();
    assert!((got / expected - 1.0).abs() < 0.02, "{got} {expected}");
}

#[test]
fn occupancy_error_grows_with_divergence() {
    const COUNT: usize = 1_000_000;
    let error = |size: f64| {
        let noise = ModifiedLevy::new(-0.3 * size, 0.02 * size, 3.0 * size).unwrap();
        let arrivals = noisy(1.0 / 0.7, &noise, COUNT, 10);
        let services = noisy(1.0, &noise, COUNT, 20);
        // Lindley's recursion, then Little's law.
        let (mut wait, mut sojourn, mut elapsed) = (0.0f64, 0.0, 0.0);
        for (arrival, service) in arrivals.iter().zip(&services) {
            let (arrival, service) = (arrival.max(0.0), service.max(0.0));
            sojourn += wait + service;
            elapsed += arrival;
            wait = (wait + service - arrival).max(0.0);
        }
        let occupancy = sojourn / elapsed;
        let divergence = exponential_divergence(1.0, &noise).unwrap();
        (divergence, (0.7 / 0.3 / occupancy - 1.0).abs())
    };
    let table = [
        (0.1, 0.02, 0.0..0.05),
        (0.5, 0.11, 0.0..0.13),
        (1.0, 0.21, 0.08..0.25),
        (2.0, 0.42, 0.3..0.5),
    ];
    for (size, divergence, range) in table {
        let (found, error) = error(size);
        assert!((found - divergence).abs() < 0.006, "{size}: {found}");
        assert!(range.contains(&error), "{size}: {error}");
    }
}
