//! Operators. Each is one struct, one declaration, one `process`.

mod align;
mod between;
mod ca_cfar;
mod calibrate;
mod cfar;
mod collect;
mod compiled;
mod correlation;
mod count;
mod delayed;
mod each;
mod features;
mod feedback;
mod filter;
mod fir;
mod group_by;
mod iir;
mod join;
mod kernels;
mod limit;
mod map;
mod meeting;
mod merge;
mod notch;
pub(crate) mod numbers;
mod packets;
mod pairs;
mod pass;
mod passthrough;
mod ranges;
mod resample;
mod rewindow;
pub(crate) mod rowwise;
mod running;
mod sampled;
mod score;
mod select;
mod shaped;
mod spectrum;
mod stalta;
mod stats;
mod stream_envelope;
pub(crate) mod streamed;
mod sync;
mod to_rows;
mod triggers;
mod trim_peak;
mod welch;
mod zero_phase;
mod zip;

pub use align::AlignTo;
pub use between::Between;
pub use ca_cfar::CaCfar;
pub use calibrate::{Calibrate, ToUnit};
pub use cfar::Cfar;
pub use collect::Collect;
pub(crate) use compiled::Compiled;
pub use correlation::{Delay, GccPhat, Xcorr};
pub use count::Count;
pub use delayed::Delayed;
pub use each::Each;
pub use features::{Envelope, Haar, Quantile, Rms, ZeroCrossings};
pub use feedback::Feedback;
pub use filter::Filter;
pub use fir::Fir;
pub use group_by::GroupBy;
pub use iir::Iir;
pub use join::Join;
pub use limit::Limit;
pub use map::Map;
pub use merge::Merge;
pub use notch::Notch;
pub use packets::{CombinePackets, ErrorCorrelation};
pub use pass::{dtype_in_unit, in_unit, pass_where};
pub use passthrough::Passthrough;
pub use ranges::ToRanges;
pub use resample::Resample;
pub use rewindow::Rewindow;
pub use running::{RunningMean, RunningQuantile, RunningRms};
pub use score::SpectralScore;
pub use select::Select;
pub use shaped::{Detrend, Ifft, Taper};
pub use spectrum::{Fft, Power};
pub use stalta::StaLta;
pub use stats::{Stat, Stats};
pub use stream_envelope::StreamEnvelope;
pub use sync::Sync;
pub use to_rows::ToRows;
pub use triggers::Triggers;
pub use trim_peak::TrimPeak;
pub use welch::Welch;
pub use zero_phase::ZeroPhase;
pub use zip::{Zip, one_grid};

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
