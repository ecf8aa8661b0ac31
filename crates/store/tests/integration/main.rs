//! One binary for integration tests, since each links its own copy of the dependencies. Tests that measure the whole
//! process, or with an allocator or threads of their own, are separate.

mod backup;
mod backup_beside_writer;
mod calibration;
mod clock_corrections;
mod compact;
mod complex_int16;
mod conformance_fixture;
#[path = "../crash/mod.rs"]
mod crash;
mod crash_faults;
mod crash_kill;
mod crash_points;
mod crash_power;
mod crash_reader;
mod foreign_entries;
mod foreign_times;
mod identity;
mod initial_rate;
mod large;
mod manifest_lost;
mod many_signals;
mod media;
mod model;
mod readers;
mod repair_faults;
mod resume;
mod seal_stored;
mod shard_cache;
mod shuffled_stamps;
mod signals;
mod strategies;
mod vanished;
mod verify_beside_writer;
mod verify_stored;
mod views_stored;
