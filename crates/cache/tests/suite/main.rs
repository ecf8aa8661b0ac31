//! The cache as its users see it: one process, several handles.

mod common;
mod faults;
mod full_disk;
mod model;
mod processes;
mod use_cases;
