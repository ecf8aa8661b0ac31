//! Runs inside of functions that other runs call.
//!
//! A Python function may run a plan. One that runs the plan by which it is called would never come to an end, nor would
//! functions that do so by turns: each run takes a part of the thread's stack, until there is none left. So a run knows
//! which functions it is inside of, also where workers' threads call them, and in worker processes how deep it is.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;

use super::owner::Owner;
use crate::errors::{PackageError, Result};

/// Runs inside of one another: each takes some ten KiB of the stack.
const MAX_DEPTH: usize = 16;

/// By which a worker process is told how deep the run is that it works for.
const DEPTH_VARIABLE: &str = "ISOCHRONY_NESTING";

thread_local! {
    /// Functions that this thread is inside of.
    static CURRENT: RefCell<Option<Arc<Nesting>>> = const { RefCell::new(None) };
}

/// Functions that called one another by way of runs, the innermost last: addresses of what keeps them.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    functions: Vec<usize>,
}

/// Marks this thread as inside of a function until it is dropped.
pub(crate) struct NestingGuard(Option<Arc<Nesting>>);

impl Drop for NestingGuard {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

impl Nesting {
    /// Of this thread.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT
            .with(|current| current.borrow().clone())
            .unwrap_or_default()
    }

    /// The same inside of a function that is called from there.
    pub(crate) fn inside(&self, function: &Arc<Py<PyAny>>) -> Arc<Self> {
        let mut functions = self.functions.clone();
        functions.push(Arc::as_ptr(function).addr());
        Arc::new(Self { functions })
    }

    /// The same inside of a progress function or a signal handler, which may run the plan itself: its run ends before
    /// theirs goes on.
    pub(super) fn inside_handler(&self) -> Arc<Self> {
        let mut functions = self.functions.clone();
        // The address of nothing.
        functions.push(0);
        Arc::new(Self { functions })
    }

    /// This thread is there, until what is given is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> NestingGuard {
        let now = Some(Arc::clone(self));
        NestingGuard(CURRENT.with(|current| current.replace(now)))
    }

    /// Checks that plans may run here.
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

    /// What is added to the environment of worker processes.
    pub(crate) fn of_processes(&self) -> (String, String) {
        let depth = self.functions.len() + outside() + 1;
        (DEPTH_VARIABLE.into(), depth.to_string())
    }
}

/// Runs that this process works for.
fn outside() -> usize {
    static OUTSIDE: OnceLock<usize> = OnceLock::new();
    *OUTSIDE.get_or_init(|| {
        let text = std::env::var(DEPTH_VARIABLE).unwrap_or_default();
        text.parse().unwrap_or(0)
    })
}
