//! Correlation of two windows, and by how much the second lags behind the first.
//!
//! **Sign**: a lag is positive where the second window has the event later. With `y[i] = x[i - d]` the peak is at `d`.
//!
//! Both windows are followed by zeros, so that nothing wraps around: `r[l]` is the sum over all `i` of
//! `x[i] y[i + l]` where both exist, SciPy's `correlate(y, x)` at lag `l`. Sums are computed by real Fourier transforms,
//! with an absolute error of the order of `log2(N) eps |x| |y|`, the norms of the windows. NaN and infinities spread to all
//! lags of their windows.

mod correlator;
mod delay;

pub use correlator::{Correlator, Kind};
pub use delay::{Delay, Delays, Refine};
