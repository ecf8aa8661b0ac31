//! Cached plans: planning takes longer than ten transforms.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use super::Precision;

/// Transforms of `n` samples differ between instruction sets by at most this times `log2(n)` roundings of the largest
/// output.
pub const FFT_ROUNDINGS: f64 = 4.0;

/// Instruction set of transforms. Equal sets give equal bits.
#[must_use]
pub fn fft_instruction_set() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx") && is_x86_feature_detected!("fma") {
            return "AVX";
        }
        if is_x86_feature_detected!("sse4.1") {
            return "SSE4.1";
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return "NEON";
    }
    "scalar"
}

/// Per precision, about 30 bytes each in f64. Longer transforms are planned each time.
const MAX_CACHED_SAMPLES: usize = 1 << 20;

/// Cached planners of one precision.
pub struct Planners<T: Precision>(Mutex<Option<PlannerCache<T>>>);

struct PlannerCache<T: Precision> {
    real: RealFftPlanner<T>,
    complex: FftPlanner<T>,
    /// Lengths, and whether real.
    lengths: BTreeSet<(usize, bool)>,
}

impl<T: Precision> PlannerCache<T> {
    fn new() -> Self {
        Self {
            real: RealFftPlanner::new(),
            complex: FftPlanner::new(),
            lengths: BTreeSet::new(),
        }
    }
}

impl<T: Precision> Planners<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn lock(&self) -> MutexGuard<'_, Option<PlannerCache<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clears the cache first if it would become too large.
    fn plan<P>(
        &self,
        samples: usize,
        real: bool,
        plan: impl FnOnce(&mut PlannerCache<T>) -> P,
    ) -> P {
        if samples > MAX_CACHED_SAMPLES {
            return plan(&mut PlannerCache::new());
        }
        let mut cache = self.lock();
        let cache = cache.get_or_insert_with(PlannerCache::new);
        let is_new = cache.lengths.insert((samples, real));
        let kept: usize = cache.lengths.iter().map(|(samples, _)| samples).sum();
        if is_new && kept > MAX_CACHED_SAMPLES {
            *cache = PlannerCache::new();
            cache.lengths.insert((samples, real));
        }
        plan(cache)
    }

    fn complex_forward(&self, samples: usize) -> Arc<dyn Fft<T>> {
        self.plan(samples, false, |cache| {
            cache.complex.plan_fft_forward(samples)
        })
    }

    fn real_forward(&self, samples: usize) -> Arc<dyn RealToComplex<T>> {
        self.plan(samples, true, |cache| cache.real.plan_fft_forward(samples))
    }
}

pub(super) fn real_forward<T: Precision>(samples: usize) -> Arc<dyn RealToComplex<T>> {
    T::planners().real_forward(samples)
}

pub(super) fn real_inverse<T: Precision>(samples: usize) -> Arc<dyn ComplexToReal<T>> {
    T::planners().plan(samples, true, |cache| cache.real.plan_fft_inverse(samples))
}

pub(crate) fn complex_forward<T: Precision>(samples: usize) -> Arc<dyn Fft<T>> {
    T::planners().complex_forward(samples)
}

pub(crate) fn complex_inverse<T: Precision>(samples: usize) -> Arc<dyn Fft<T>> {
    T::planners().plan(samples, false, |cache| {
        cache.complex.plan_fft_inverse(samples)
    })
}

#[cfg(test)]
mod tests {
    use rustfft::num_complex::Complex;
    use rustfft::{FftDirection, FftPlannerAvx, FftPlannerScalar, FftPlannerSse};

    use super::*;

    type Planner<T> = Box<dyn FnMut(usize, FftDirection) -> Arc<dyn Fft<T>>>;

    /// The portable one is first.
    fn planners<T: Precision>() -> Vec<(&'static str, Planner<T>)> {
        let mut scalar = FftPlannerScalar::new();
        let mut all: Vec<(_, Planner<T>)> = vec![(
            "scalar",
            Box::new(move |samples, direction| scalar.plan_fft(samples, direction)),
        )];
        if let Ok(mut sse) = FftPlannerSse::new() {
            let plan = move |samples, direction| sse.plan_fft(samples, direction);
            all.push(("SSE4.1", Box::new(plan)));
        }
        if let Ok(mut avx) = FftPlannerAvx::new() {
            let plan = move |samples, direction| avx.plan_fft(samples, direction);
            all.push(("AVX", Box::new(plan)));
        }
        all
    }

    fn check_planners<T: Precision>(epsilon: f64) {
        let mut planners = planners::<T>();
        let (mut state, mut worst) = (7u64, 0.0f64);
        let mut random = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            T::of((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0)
        };
        for samples in [
            2, 3, 7, 16, 60, 97, 100, 101, 256, 500, 1000, 1009, 4096, 4099, 10_000, 65_536,
            65_537, 100_000,
        ] {
            let given: Vec<_> = (0..samples)
                .map(|_| Complex::new(random(), random()))
                .collect();
            for direction in [FftDirection::Forward, FftDirection::Inverse] {
                let mut all = Vec::new();
                for (name, plan) in &mut planners {
                    let mut values = given.clone();
                    plan(samples, direction).process(&mut values);
                    let values = values
                        .iter()
                        .map(|value| Complex::<f64>::new(value.re.into(), value.im.into()));
                    all.push((*name, values.collect::<Vec<_>>()));
                }
                let [(_, scalar), others @ ..] = &all[..] else {
                    unreachable!()
                };
                let largest = scalar.iter().map(|value| value.norm()).fold(0.0, f64::max);
                let bound = FFT_ROUNDINGS * (samples as f64).log2() * epsilon * largest;
                for (name, values) in others {
                    let differences = values.iter().zip(scalar).map(|(a, b)| (a - b).norm());
                    let difference = differences.fold(0.0, f64::max);
                    worst = worst.max(difference / bound);
                    assert!(
                        difference <= bound,
                        "{name} of {samples}: {difference:e} > {bound:e}"
                    );
                }
            }
        }
        assert!(planners.len() == 1 || worst > 0.0, "no processor differs");
        println!("at most {worst:.2} of the bound");
    }

    #[test]
    fn instruction_sets_differ_within_the_stated_bound() {
        check_planners::<f32>(f64::from(f32::EPSILON));
        check_planners::<f64>(f64::EPSILON);
    }

    #[test]
    fn the_named_instruction_set_is_the_one_that_is_used() {
        let expected = match (FftPlannerAvx::<f32>::new(), FftPlannerSse::<f32>::new()) {
            (Ok(_), _) => "AVX",
            (_, Ok(_)) => "SSE4.1",
            _ if cfg!(target_arch = "aarch64") => "NEON",
            _ => "scalar",
        };
        assert_eq!(fft_instruction_set(), expected);
        let mut named = planners::<f64>();
        let Some((_, plan)) = named.iter_mut().find(|(name, _)| *name == expected) else {
            return;
        };
        let mut values: Vec<_> = (0..1000)
            .map(|n| Complex::new(f64::from(n * n % 911), 1.0))
            .collect();
        let mut theirs = values.clone();
        complex_forward::<f64>(1000).process(&mut values);
        plan(1000, FftDirection::Forward).process(&mut theirs);
        assert_eq!(values, theirs);
    }

    #[test]
    fn plans_are_cached_up_to_the_limit() {
        let planners = Planners::<f32>::new();
        let first = planners.complex_forward(4096);
        assert!(Arc::ptr_eq(&first, &planners.complex_forward(4096)));
        let long = planners.complex_forward(MAX_CACHED_SAMPLES + 1);
        assert_eq!(
            Arc::strong_count(&long),
            1,
            "it is longer than all that is kept"
        );
        let kept = Arc::downgrade(&planners.real_forward(1 << 12));
        assert!(kept.upgrade().is_some());
        for power in 10..20 {
            let _ = planners.real_forward(1 << power);
        }
        assert!(kept.upgrade().is_none(), "more came since than is kept");
    }
}
