//! Operators over several streams: delays and cross-correlations of windows (`cross_correlation`); recovery of packets
//! from several receivers' copies, and correlation of their bit errors (`packets`).

pub(crate) mod cross_correlation;
pub(crate) mod packets;

register! {
    cross_correlation: Delay, GccPhat, Xcorr;
    packets: CombinePackets, ErrorCorrelation;
}
