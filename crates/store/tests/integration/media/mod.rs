//! Stores on media other than a healthy local disk.

mod full_disk;
mod medium;
mod network;
mod sealed;
mod stale;
mod verification;
