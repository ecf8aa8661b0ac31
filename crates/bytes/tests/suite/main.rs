//! Tests in one binary, which links once.

mod chain;
mod common;
mod compress;
mod convert;
mod digests;
mod names;
mod search;
mod stats;
