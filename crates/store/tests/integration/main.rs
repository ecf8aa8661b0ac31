//! Tests of the crate from outside, in one binary: each would carry a copy of what it links. Tests that count what their
//! whole process does, or that have an allocator or threads of their own, are binaries beside this one.

mod backup;
mod backup_beside_writer;
mod clock_corrections;
mod compact;
mod complex_int16;
mod conformance_fixture;
#[path = "../crash/mod.rs"]
mod crash;
mod crash_faults;
mod crash_points;
mod crash_power;
mod foreign_times;
mod identity;
mod initial_rate;
mod manifest_lost;
mod many_signals;
mod model;
mod one_door;
mod readers;
mod repair_faults;
mod resume;
mod seal_stored;
mod shuffled_stamps;
mod signals;
mod strategies;
mod vanished;
mod verify_beside_writer;
mod verify_stored;
mod views_stored;
