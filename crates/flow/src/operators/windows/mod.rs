//! Operators that cut windows, and those that compute values of each window.

pub(crate) mod features;
pub(crate) mod kernels;
pub(crate) mod rewindow;
pub(crate) mod rowwise;
pub(crate) mod shaped;
pub(crate) mod stats;
pub(crate) mod trim_peak;

register! {
    features: Envelope, Haar, Quantile, Rms, ZeroCrossings;
    rewindow: Rewindow;
    shaped: Detrend, Ifft, Taper;
    stats: Stats;
    trim_peak: TrimPeak;
}
