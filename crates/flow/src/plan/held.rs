//! Operators that hold something of this process: a closure, a Python function, an open store.
//!
//! A declared operator is its name and parameters, so a plan of such operators is data. What a [`OperatorFactory`] operator does
//! lies in an object instead, which says itself how it prints and how, if at all, it is saved. A plan holds the object;
//! the operator is made of it anew for each run, as declared ones are. [`Catalog::with_factory`](crate::Catalog::with_factory)
//! brings saved ones back.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Operator, PlanError, PortType, RunOptions, SharedRecording};

/// Who does the work of a held operator in a run on several cores, and why, in words that `explain` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parallelism {
    /// Each worker, by an operator of its own: none must know of what another was given.
    Workers(String),
    /// The caller's thread, in order.
    CallingThread(String),
}

/// What makes an operator, and is kept in a plan in its place.
pub trait OperatorFactory: Send + Sync {
    /// The operator's name, in errors, reports and saved plans.
    fn name(&self) -> &'static str;

    /// What a printed plan shows.
    fn label(&self) -> String {
        self.name().into()
    }

    /// Makes the operator, once when the plan is built and once for each run. `reads` is the recording whose indices
    /// come in, in a run.
    ///
    /// # Errors
    /// A [`PlanError`]: what it holds is gone.
    fn make(&self, reads: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError>;

    /// Makes the operator for a run, in the thread that will call it.
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

    /// Who does its work in a run on several cores. What it must not do for other reasons, as one that remembers, it need
    /// not say here.
    fn parallelism(&self, run: &RunOptions<'_>) -> Parallelism {
        let _ = run;
        Parallelism::CallingThread("holds something of this process".into())
    }

    /// Its parameters as a saved plan has them.
    ///
    /// # Errors
    /// [`PlanError::NotSaveable`] if it exists in this process only.
    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        Err(PlanError::NotSaveable {
            operator: self.label(),
            what: "a function of this process",
            mend: "write it as an expression or as an operator of its own",
        })
    }

    /// Whether it writes to signals at all: else nobody asks which a plan reads.
    fn is_writer(&self) -> bool {
        false
    }

    /// Whether it writes to a signal of that store and name; a plan must not read what it writes.
    fn writes(&self, recording: &Map<String, Value>) -> bool {
        let _ = recording;
        false
    }
}

/// A shared [`OperatorFactory`]; equal if it is the same one or is saved alike.
#[derive(Clone)]
pub struct SharedFactory(pub(crate) Arc<dyn OperatorFactory>);

impl SharedFactory {
    /// Shares what makes an operator.
    pub fn new(held: impl OperatorFactory + 'static) -> Self {
        Self(Arc::new(held))
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

/// Brings a saved [`OperatorFactory`] back, from its parameters and the types of its inputs.
pub type FactoryResolver =
    Arc<dyn Fn(&Map<String, Value>, &[PortType]) -> Result<SharedFactory, PlanError> + Send + Sync>;
