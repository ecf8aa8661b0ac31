//! Tests in one binary, which links once.

mod blocks_together;
mod common;
mod discovery;
mod errors;
mod follow;
mod large;
mod layout;
mod overlaps;
mod raw_import;
mod resume;
mod session_overlaps;
mod sessions;
mod untimed;
