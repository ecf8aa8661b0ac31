//! All tests of this crate as one binary, which links faster than one per file.

mod buffers;
mod dtypes;
mod segments;
