//! What flows, kept in files: WAV ([`WavSink`]), and batches of columns for formats that others write ([`BatchEncoder`]).
//!
//! A file is there as a whole or not at all. A run writes beside it, under a name that begins with a dot, and gives it
//! its own name when all is written and synced; a run that fails or is interrupted removes what it wrote, or, where that
//! was asked for, leaves it as a whole file under a name that says `partial`. So a name that is asked for never holds half
//! a result, and what was there before stays until then.

mod batches;
mod part;
mod wav;
mod wav_format;
mod wav_out;

pub use batches::BatchEncoder;
pub use part::{PartFile, partial_name};
pub use wav::{WavGaps, WavSink};
pub use wav_format::WavFormat;
