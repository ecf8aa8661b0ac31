//! Operators that cut windows or compute values of them.

pub(crate) mod features;
pub(crate) mod rewindow;
pub(crate) mod stats;
pub(crate) mod transforms;
pub(crate) mod trim_peak;

// Shared by operators.
pub(crate) mod kernels;
pub(crate) mod row_processor;
pub(crate) mod stat;
pub(crate) mod whole_stats;

register! {
    features: Envelope, Haar, Quantile, Rms, ZeroCrossings;
    rewindow: Rewindow;
    transforms: Detrend, Ifft, Taper;
    stats: Stats;
    trim_peak: TrimPeak;
}
