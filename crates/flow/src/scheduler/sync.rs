//! The locks of [`reorder`](super::reorder). Its model check compiles that file with loom's locks instead.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
