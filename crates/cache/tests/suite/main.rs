//! Tests of the public interface.

mod common;
mod faults;
mod full_disk;
mod model;
mod opening;
mod processes;
mod use_cases;
