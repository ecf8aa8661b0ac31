//! One binary for all tests links faster.

mod cfar;
mod convert;
mod correlate;
mod detect;
mod exact;
mod features;
mod filter_design;
mod filter_fir;
mod filter_sos;
mod filter_zero_phase;
mod haar_of_counts;
mod hilbert;
mod indexed_sums;
mod math;
mod packets;
mod resample;
mod running;
mod spectrum;
mod stats;
mod streams;
mod tile;
mod window;
