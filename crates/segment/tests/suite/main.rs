//! Buffers, samples and segments, in one binary: each file of a folder of tests would be linked by itself.

mod buffers;
mod dtypes;
mod segments;
