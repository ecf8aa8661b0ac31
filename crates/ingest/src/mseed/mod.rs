//! miniSEED records of version 2: headers, samples, and runs of uniform records.

mod header;
mod run;
mod samples;

pub use run::{RecordRun, RunPart, RunSamples};
pub use samples::EncodedSamples;
