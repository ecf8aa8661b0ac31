//! Operators on samples in order: filters, resampling, running statistics.

pub(crate) mod fir;
pub(crate) mod iir;
pub(crate) mod notch;
pub(crate) mod numbers;
pub(crate) mod resample;
pub(crate) mod running;
pub(crate) mod sample_input;
pub(crate) mod stream_envelope;
pub(crate) mod stream_processor;
pub(crate) mod zero_phase;

register! {
    fir: Fir;
    iir: Iir;
    notch: Notch;
    resample: Resample;
    running: RunningMean, RunningQuantile, RunningRms;
    stream_envelope: StreamEnvelope;
    zero_phase: ZeroPhase;
}
