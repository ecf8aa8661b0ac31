//! Forks of processes that read or write a store. A binary of their own: a fork has one thread, so that it must take no
//! lock that a thread of another test may hold.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // A fork in the middle of a program has no safe crate.

#[path = "../integration/media/medium.rs"]
#[allow(dead_code)]
mod medium;

mod readers;
mod strategies;
mod writers;
