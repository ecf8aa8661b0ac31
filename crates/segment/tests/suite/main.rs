//! All tests as one binary, which links faster.

mod buffers;
mod dtypes;
mod segments;
