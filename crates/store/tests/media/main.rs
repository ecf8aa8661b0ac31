//! Stores on media other than a healthy local disk.

#[cfg(target_os = "linux")]
mod forked;
mod full_disk;
mod medium;
mod network;
mod sealed;
mod stale;
mod verification;
