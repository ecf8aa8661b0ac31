//! Locks a mutex whose values stay valid if a holder panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ignores poisoning: guarded values are replaced whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
