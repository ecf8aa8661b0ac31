//! Transforms that were planned are kept: planning one of a hundred thousand samples takes longer than ten of them, and plans
//! that run again and again, a worker each, make their operators anew.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use super::Precision;

/// Most samples of all transforms that are kept of one precision; what a planner keeps of a transform takes some 30 bytes a
/// sample in double precision. A longer one is planned anew each time.
const KEPT: usize = 1 << 20;

/// The planners of one precision, which know what they planned.
pub struct Planners<T: Precision>(Mutex<Option<Known<T>>>);

struct Known<T: Precision> {
    real: RealFftPlanner<T>,
    complex: FftPlanner<T>,
    /// Of what was planned, samples, and whether they are real; forwards and backwards use most in common.
    lengths: BTreeSet<(usize, bool)>,
}

impl<T: Precision> Known<T> {
    fn none() -> Self {
        Self {
            real: RealFftPlanner::new(),
            complex: FftPlanner::new(),
            lengths: BTreeSet::new(),
        }
    }
}

impl<T: Precision> Planners<T> {
    /// They know nothing.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a transform of so many samples, with planners that forget what they know where it would become too much.
    fn plan<P>(&self, samples: usize, real: bool, plan: impl FnOnce(&mut Known<T>) -> P) -> P {
        if samples > KEPT {
            return plan(&mut Known::none());
        }
        let mut known = self.lock();
        let known = known.get_or_insert_with(Known::none);
        let is_new = known.lengths.insert((samples, real));
        let kept: usize = known.lengths.iter().map(|(samples, _)| samples).sum();
        if is_new && kept > KEPT {
            *known = Known::none();
            known.lengths.insert((samples, real));
        }
        plan(known)
    }

    fn complex_forward(&self, samples: usize) -> Arc<dyn Fft<T>> {
        self.plan(samples, false, |known| {
            known.complex.plan_fft_forward(samples)
        })
    }

    fn real_forward(&self, samples: usize) -> Arc<dyn RealToComplex<T>> {
        self.plan(samples, true, |known| known.real.plan_fft_forward(samples))
    }
}

/// Of real samples to frequencies.
pub(super) fn real_forward<T: Precision>(samples: usize) -> Arc<dyn RealToComplex<T>> {
    T::planners().real_forward(samples)
}

/// From frequencies to real samples.
pub(super) fn real_inverse<T: Precision>(samples: usize) -> Arc<dyn ComplexToReal<T>> {
    T::planners().plan(samples, true, |known| known.real.plan_fft_inverse(samples))
}

/// Of complex samples to frequencies.
pub(crate) fn complex_forward<T: Precision>(samples: usize) -> Arc<dyn Fft<T>> {
    T::planners().complex_forward(samples)
}

/// From frequencies to complex samples.
pub(crate) fn complex_inverse<T: Precision>(samples: usize) -> Arc<dyn Fft<T>> {
    T::planners().plan(samples, false, |known| {
        known.complex.plan_fft_inverse(samples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_planned_once_and_not_kept_for_ever() {
        let planners = Planners::<f32>::new();
        let first = planners.complex_forward(4096);
        assert!(Arc::ptr_eq(&first, &planners.complex_forward(4096)));
        let long = planners.complex_forward(KEPT + 1);
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
