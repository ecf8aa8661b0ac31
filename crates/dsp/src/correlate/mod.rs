//! Correlation and delay of two windows.
//!
//! **Sign**: a lag is positive if the second window is later. With `y[i] = x[i - d]` the peak is at `d`.
//!
//! Windows are zero-padded, not circular: `r[l]` is the sum of `x[i] y[i + l]`, SciPy's `correlate(y, x)` at lag `l`.
//! Absolute error: about `log2(N) eps |x| |y|` (norms). NaN and infinities spread to all lags.

mod correlator;
mod delay;

pub use correlator::{Correlator, Kind};
pub use delay::{Delay, Delays, Refine};
