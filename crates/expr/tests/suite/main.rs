//! Expressions, in one binary: each file of a folder of tests would be linked by itself.

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
