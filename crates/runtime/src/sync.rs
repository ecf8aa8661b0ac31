//! The locks of model-checked files. A crate re-exports this module as its own `sync`; its model check compiles the
//! same files with loom's locks instead.

pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
