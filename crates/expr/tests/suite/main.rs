//! Tests in one binary, which links faster than several.

mod errors;
mod instruction_sets;
mod known;
mod numpy_types;
mod oracle;
mod properties;
mod rows;
mod thresholds;
mod tolerance;
mod widened;
