//! Processors of bytes, in one binary: each file of a folder of tests would be linked by itself.

mod chain;
mod common;
mod compress;
mod convert;
mod digests;
mod names;
mod search;
mod stats;
