//! The locks of [`shared_scheduler`](crate::shared_scheduler). Its model check compiles that file with loom's locks instead.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
