//! Locks and atomics of model-checked files. A crate re-exports this module as its own `sync`; model checks use loom's.

pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
