//! The locks that [`desk`](crate::desk) is made of. Its model check compiles that file with loom's instead.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
