//! Locks and atomics of model-checked files. A crate re-exports this module as its own `sync`; its model check compiles
//! the same files with loom's.

pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
