//! Imports, in one binary: each file of a folder of tests would be linked by itself.

mod blocks_together;
mod common;
mod discovery;
mod errors;
mod follow;
mod large;
mod layout;
mod overlaps;
mod session_overlaps;
mod sessions;
mod untimed;
