//! File sinks: WAV ([`WavSink`]), and record batches for formats of other libraries ([`BatchEncoder`]).
//!
//! A file is complete or absent: it is written beside its place under a name that begins with a dot, synced, and
//! renamed at the end. A failed or interrupted execution removes it, or on request leaves it as a valid file named
//! `partial`. An existing file stays until replaced.

mod batch_encoder;
mod part_file;
mod wav;
mod wav_format;
mod wav_writer;

pub use batch_encoder::BatchEncoder;
pub use part_file::{PartFile, partial_name};
pub use wav::WavSink;
pub use wav_format::WavFormat;
pub use wav_writer::WavGaps;
