//! Nesting of runs: functions that plans call may run plans.
//!
//! A function that runs its own plan, even indirectly, would never end. So a run knows the functions that it is nested
//! in, and the depth, also in worker threads and processes.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;

use super::owner::Owner;
use crate::errors::{PackageError, Result};

/// Each run takes some ten KiB of stack.
const MAX_DEPTH: usize = 16;

const DEPTH_VARIABLE: &str = "ISOCHRONY_NESTING";

thread_local! {
    /// Functions that this thread is inside of.
    static CURRENT: RefCell<Option<Arc<Nesting>>> = const { RefCell::new(None) };
}

/// Functions nested through runs, by address, innermost last.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    functions: Vec<usize>,
}

/// This thread is inside a function until it is dropped.
pub(crate) struct NestingGuard(Option<Arc<Nesting>>);

impl Drop for NestingGuard {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

impl Nesting {
    pub(crate) fn current() -> Arc<Self> {
        CURRENT
            .with(|current| current.borrow().clone())
            .unwrap_or_default()
    }

    pub(crate) fn inside(&self, function: &Arc<Py<PyAny>>) -> Arc<Self> {
        let mut functions = self.functions.clone();
        functions.push(Arc::as_ptr(function).addr());
        Arc::new(Self { functions })
    }

    /// One level deeper. A handler may run the plan itself: that run ends before this one continues.
    pub(super) fn inside_handler(&self) -> Arc<Self> {
        let mut functions = self.functions.clone();
        // No function has this address.
        functions.push(0);
        Arc::new(Self { functions })
    }

    pub(crate) fn enter(self: &Arc<Self>) -> NestingGuard {
        let now = Some(Arc::clone(self));
        NestingGuard(CURRENT.with(|current| current.replace(now)))
    }

    pub(super) fn check<'a>(
        &self,
        py: Python<'_>,
        owners: impl Iterator<Item = &'a Py<Owner>>,
    ) -> Result<()> {
        let refused =
            |code, message: String| Err(PackageError::new("PlanError", code, message).into());
        if self.functions.len() + outside() >= MAX_DEPTH {
            let message = format!(
                "{MAX_DEPTH} runs are inside of one another already, each in a function of the one before; do not run plans in \
                 functions of plans without end"
            );
            return refused("nested_too_deep", message);
        }
        if self.functions.is_empty() {
            return Ok(());
        }
        for owner in owners {
            let own = Owner::addresses(owner, py);
            if self.functions.iter().any(|function| own.contains(function)) {
                let message = "a function of the plan runs the plan itself, which would never end; run another plan \
                               there, or the part before the function";
                return refused("reentrant", message.into());
            }
        }
        Ok(())
    }

    pub(crate) fn of_processes(&self) -> (String, String) {
        let depth = self.functions.len() + outside() + 1;
        (DEPTH_VARIABLE.into(), depth.to_string())
    }
}

fn outside() -> usize {
    static PROCESS_DEPTH: OnceLock<usize> = OnceLock::new();
    *PROCESS_DEPTH.get_or_init(|| {
        let text = std::env::var(DEPTH_VARIABLE).unwrap_or_default();
        text.parse().unwrap_or(0)
    })
}
