//! Replaced under a model checker.

pub(super) use std::sync::atomic::{AtomicI64, AtomicUsize, fence};
pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
