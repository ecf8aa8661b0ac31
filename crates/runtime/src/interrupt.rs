//! The request to end an execution early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks an execution to end early. Clones share it: one goes to whoever may ask, the others to working
/// threads, which check it between short pieces of work.
///
/// It publishes no data: a thread that sees the request may not conclude what happened before it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks the execution to end.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the execution should end.
    #[inline]
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_the_same_flag() {
        let asked = Interrupt::default();
        let worker = asked.clone();
        assert!(!worker.is_requested());
        asked.request();
        assert!(worker.is_requested());
        assert!(!Interrupt::default().is_requested());
    }
}
