//! Operators that find ranges: thresholds, STA/LTA, CFAR.

pub(crate) mod ca_cfar;
pub(crate) mod cfar;
pub(crate) mod ranges;
pub(crate) mod stalta;
pub(crate) mod triggers;

register! {
    ca_cfar: CaCfar;
    cfar: Cfar;
    ranges: ToRanges;
    stalta: StaLta;
    triggers: Triggers;
}
