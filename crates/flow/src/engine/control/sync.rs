//! Atomics and locks of `changes`, in whose place tests put a model checker's.

pub(super) use std::sync::atomic::{AtomicI64, AtomicUsize, fence};
pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
