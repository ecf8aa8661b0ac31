//! The locks that [`order`](super::order) is made of. Its model check compiles that file with loom's instead.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
