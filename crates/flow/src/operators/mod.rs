//! Operators. Each is one struct, one declaration, one `process`.

mod builder;
mod calibration;
mod correlation;
mod detection;
mod fan_in;
mod filters;
mod general;
pub(crate) mod rows;
mod spectral;
mod windows;

pub use calibration::calibrate::{Calibrate, ToUnit};
pub use correlation::cross_correlation::{Delay, GccPhat, Xcorr};
pub use correlation::packets::{CombinePackets, ErrorCorrelation};
pub use detection::ca_cfar::CaCfar;
pub use detection::cfar::Cfar;
pub use detection::ranges::ToRanges;
pub use detection::stalta::StaLta;
pub use detection::triggers::Triggers;
pub use fan_in::align::AlignTo;
pub use fan_in::delayed::Delayed;
pub use fan_in::feedback::Feedback;
pub use fan_in::join::Join;
pub use fan_in::merge::Merge;
pub use fan_in::sync::Sync;
pub use fan_in::zip::{Zip, one_grid};
pub use filters::fir::Fir;
pub use filters::iir::Iir;
pub use filters::notch::Notch;
pub use filters::resample::Resample;
pub use filters::running::{RunningMean, RunningQuantile, RunningRms};
pub use filters::stream_envelope::StreamEnvelope;
pub use filters::zero_phase::ZeroPhase;
pub use general::between::Between;
pub use general::collect::Collect;
pub(crate) use general::compiled::Compiled;
pub use general::count::Count;
pub use general::each::Each;
pub use general::filter::Filter;
pub use general::limit::Limit;
pub use general::map::Map;
pub use general::pass::{dtype_in_unit, in_unit, pass_where};
pub use general::passthrough::Passthrough;
pub use rows::group_by::GroupBy;
pub use rows::select::Select;
pub use rows::to_rows::ToRows;
pub use spectral::score::SpectralScore;
pub use spectral::spectrum::{Fft, Power};
pub use spectral::welch::Welch;
pub use windows::features::{Envelope, Haar, Quantile, Rms, ZeroCrossings};
pub use windows::rewindow::Rewindow;
pub use windows::shaped::{Detrend, Ifft, Taper};
pub use windows::stats::{Stat, Stats};
pub use windows::trim_peak::TrimPeak;

use crate::{Declaration, Declared, PlanError, PortType};

/// Every operator of this crate.
pub(crate) const ALL: &[Declaration] = &[
    AlignTo::DECLARATION,
    Between::DECLARATION,
    CaCfar::DECLARATION,
    Calibrate::DECLARATION,
    Cfar::DECLARATION,
    Collect::DECLARATION,
    CombinePackets::DECLARATION,
    Count::DECLARATION,
    Delayed::DECLARATION,
    ErrorCorrelation::DECLARATION,
    Feedback::DECLARATION,
    Fft::DECLARATION,
    Filter::DECLARATION,
    Fir::DECLARATION,
    GroupBy::DECLARATION,
    Iir::DECLARATION,
    Join::DECLARATION,
    Limit::DECLARATION,
    Map::DECLARATION,
    Merge::DECLARATION,
    Notch::DECLARATION,
    Passthrough::DECLARATION,
    Power::DECLARATION,
    ToRanges::DECLARATION,
    Resample::DECLARATION,
    Rewindow::DECLARATION,
    RunningMean::DECLARATION,
    RunningQuantile::DECLARATION,
    RunningRms::DECLARATION,
    Select::DECLARATION,
    StaLta::DECLARATION,
    Stats::DECLARATION,
    StreamEnvelope::DECLARATION,
    Sync::DECLARATION,
    ToRows::DECLARATION,
    ToUnit::DECLARATION,
    Triggers::DECLARATION,
    ZeroPhase::DECLARATION,
    Zip::DECLARATION,
    // Window by window.
    Detrend::DECLARATION,
    Envelope::DECLARATION,
    Haar::DECLARATION,
    Ifft::DECLARATION,
    Quantile::DECLARATION,
    Rms::DECLARATION,
    SpectralScore::DECLARATION,
    Taper::DECLARATION,
    TrimPeak::DECLARATION,
    Welch::DECLARATION,
    ZeroCrossings::DECLARATION,
    // Windows of two inputs.
    Delay::DECLARATION,
    GccPhat::DECLARATION,
    Xcorr::DECLARATION,
];

/// An error that names what an operator takes instead.
pub(crate) fn wrong_input(
    operator: &'static str,
    expected: &'static str,
    got: &PortType,
    mend: &'static str,
) -> PlanError {
    PlanError::InputType {
        operator,
        expected,
        got: got.to_string(),
        mend,
    }
}
