//! Compares two streams: delays between windows, and packets of a known shape.

pub(crate) mod cross_correlation;
pub(crate) mod packets;

register! {
    cross_correlation: Delay, GccPhat, Xcorr;
    packets: CombinePackets, ErrorCorrelation;
}
