//! Operators bound to objects of this process: a closure, a Python function, an open store.
//!
//! A declared operator is data; an [`OperatorFactory`] is an object in a plan that creates the operator for each
//! execution. [`Catalog::with_factory`](crate::Catalog::with_factory) restores saved ones.

use std::fmt;
use std::sync::Arc;

use isochrony_tune::FunctionPlace;
use serde_json::{Map, Value};

use super::sent_objects::SentObjects;
use crate::{Operator, PlanError, PortType, RunOptions, SharedRecording};

/// Threads that may execute an operator; the texts say why, for `explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parallelism {
    /// Every worker, with its own independent operator.
    Workers(String),
    /// The calling thread, in order.
    CallingThread(String),
}

/// Creates an operator, for which it stands in a plan.
pub trait OperatorFactory: Send + Sync {
    /// Operator name in errors, reports and saved plans.
    fn name(&self) -> &'static str;

    /// Text in a printed plan.
    fn label(&self) -> String {
        self.name().into()
    }

    /// Creates the operator, when the plan is built and for each execution; then `reads` is the recording of the items'
    /// indices.
    ///
    /// # Errors
    /// [`PlanError`] if the object is gone.
    fn make(&self, reads: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError>;

    /// Creates the operator for an execution, in the thread that will call it.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    fn make_for(
        &self,
        reads: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        let _ = run;
        self.make(reads)
    }

    /// Threads that may execute it, within its contract.
    fn parallelism(&self, run: &RunOptions<'_>) -> Parallelism {
        let _ = run;
        Parallelism::CallingThread("depends on an object of this process".into())
    }

    /// Whether the user chose workers for it: then other threads than the caller's also execute it in stages, in order or,
    /// by its contract, in blocks.
    fn prefers_workers(&self) -> bool {
        false
    }

    /// Where its function is called in a run with several threads, as the user stated it; None: it has no function with
    /// such a choice.
    fn function_place(&self) -> Option<FunctionPlace> {
        None
    }

    /// The same operator with its function called there, for one run that chose it for [`FunctionPlace::Any`].
    fn placed(&self, place: FunctionPlace) -> Option<SharedFactory> {
        let _ = place;
        None
    }

    /// Whether the run chose where its function is called: blocks may have any length.
    fn is_placed(&self) -> bool {
        false
    }

    /// Parameters in a saved plan.
    ///
    /// # Errors
    /// [`PlanError::NotSaveable`] if bound to this process.
    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        Err(PlanError::NotSaveable {
            operator: self.label(),
            what: "a function of this process",
            mend: "write it as an expression or as an operator of its own",
        })
    }

    /// Parameters in a plan sent to another process; non-JSON values go into `objects`.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if it writes or is bound to this process.
    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        let _ = objects;
        let (what, mend) = match self.is_writer() {
            true => (
                "a writer of this process",
                "send the plan before it, and write what that gives in one process",
            ),
            false => (
                "an object of this process",
                "build the plan in the process that runs it",
            ),
        };
        Err(PlanError::NotSendable {
            operator: self.label(),
            what,
            mend,
        })
    }

    /// Whether it writes to signals; else [`writes`](Self::writes) is not called.
    fn is_writer(&self) -> bool {
        false
    }

    /// Whether it writes to this saved recording, which the plan must then not read.
    fn writes(&self, recording: &Map<String, Value>) -> bool {
        let _ = recording;
        false
    }
}

/// A shared factory. Equal if the same object or saved form.
#[derive(Clone)]
pub struct SharedFactory(pub(crate) Arc<dyn OperatorFactory>);

impl SharedFactory {
    /// Shares a factory.
    pub fn new(factory: impl OperatorFactory + 'static) -> Self {
        Self(Arc::new(factory))
    }
}

impl PartialEq for SharedFactory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.name() == other.0.name()
                && matches!((self.0.saved(), other.0.saved()), (Ok(a), Ok(b)) if a == b)
    }
}

impl fmt::Debug for SharedFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFactory({})", self.0.label())
    }
}

/// Restores a factory from saved parameters and input types.
pub type FactoryResolver =
    Arc<dyn Fn(&Map<String, Value>, &[PortType]) -> Result<SharedFactory, PlanError> + Send + Sync>;
