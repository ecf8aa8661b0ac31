//! Forks of processes that read or write a store. A binary of their own, whose tests run one at a time: a forked process
//! has one thread, so it must take no lock that a thread of another test may hold, and it inherits the descriptors of
//! every store that is open.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // A fork in the middle of a program has no safe crate.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "../integration/media/medium.rs"]
#[allow(dead_code)]
mod medium;

mod readers;
mod strategies;
mod writers;

/// Each test holds it to its end.
fn alone() -> MutexGuard<'static, ()> {
    static TESTS: Mutex<()> = Mutex::new(());
    // What a failed test leaves open belongs to it alone.
    TESTS.lock().unwrap_or_else(PoisonError::into_inner)
}
