//! The locks that model-checked files use. A crate re-exports this module as its own `sync`; its model check compiles the same
//! files with a `sync` of loom's locks instead.

pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
