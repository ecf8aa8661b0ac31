//! Request to end an execution early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shared flag that asks an execution to end early, checked by working threads between short pieces of work.
///
/// It publishes no data: the request does not order other memory accesses.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    own: Arc<AtomicBool>,
    parent: Option<Arc<AtomicBool>>,
}

impl Interrupt {
    /// Asks the execution to end.
    pub fn request(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// Whether the execution should end.
    #[inline]
    #[must_use]
    pub fn is_requested(&self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        is_set(&self.own) || self.parent.as_ref().is_some_and(is_set)
    }

    /// A flag for a part of an execution, also set when this one is. Grandchildren are not set with it.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            own: Arc::default(),
            parent: Some(Arc::clone(&self.own)),
        }
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

    #[test]
    fn a_child_is_set_with_its_parent_and_not_the_other_way_round() {
        let parent = Interrupt::default();
        let (one, other) = (parent.child(), parent.child());
        one.request();
        assert!(one.is_requested() && !parent.is_requested() && !other.is_requested());
        parent.request();
        assert!(other.is_requested());
    }
}
