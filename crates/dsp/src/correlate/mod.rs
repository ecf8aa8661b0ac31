//! Correlation of two windows, and the delay between them.
//!
//! **Sign**: a lag is positive if the second window has the event later. With `y[i] = x[i - d]` the peak is at `d`.
//!
//! Windows are zero-padded, so nothing wraps around: `r[l]` is the sum of `x[i] y[i + l]` over all `i` where both
//! exist, SciPy's `correlate(y, x)` at lag `l`. Absolute error: of the order of `log2(N) eps |x| |y|` (norms). NaN and
//! infinities spread to all lags.

mod correlator;
mod delay;

pub use correlator::{Correlator, Kind};
pub use delay::{Delay, Delays, Refine};
