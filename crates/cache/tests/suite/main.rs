//! Tests of the public interface: single properties, a model, damage, full disks, opening and closing, and several
//! processes.

mod common;
mod faults;
mod full_disk;
mod model;
mod opening;
mod processes;
mod use_cases;
