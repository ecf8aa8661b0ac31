//! Isochrony: dsp.
