//! Operators that hold something of this process: a closure, a Python function, an open store.
//!
//! A declared operator is its name and parameters, so a plan of such operators is data. What a [`Held`] operator does
//! lies in an object instead, which says itself how it prints and how, if at all, it is saved. A plan holds the object;
//! the operator is made of it anew for each run, as declared ones are. [`Catalog::reviving`](crate::Catalog::reviving)
//! brings saved ones back.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Live, Operator, PlanError, PortType, RunOptions};

/// Who does the work of a held operator in a run on several cores, and why, in words that `explain` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread {
    /// Each worker, by an operator of its own: none must know of what another was given.
    Workers(String),
    /// The caller's thread, in order.
    Caller(String),
}

/// What makes an operator, and is kept in a plan in its place.
pub trait Held: Send + Sync {
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
    fn make(&self, reads: Option<&Live>) -> Result<Box<dyn Operator>, PlanError>;

    /// Makes the operator for a run, in the thread that will call it.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    fn make_for(
        &self,
        reads: Option<&Live>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        let _ = run;
        self.make(reads)
    }

    /// Who does its work in a run on several cores. What it must not do for other reasons, as one that remembers, it need
    /// not say here.
    fn spread(&self, run: &RunOptions<'_>) -> Spread {
        let _ = run;
        Spread::Caller("holds something of this process".into())
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

/// A shared [`Held`]; equal if it is the same one or is saved alike.
#[derive(Clone)]
pub struct Kept(pub(crate) Arc<dyn Held>);

impl Kept {
    /// Shares what makes an operator.
    pub fn new(held: impl Held + 'static) -> Self {
        Self(Arc::new(held))
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.name() == other.0.name()
                && matches!((self.0.saved(), other.0.saved()), (Ok(a), Ok(b)) if a == b)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.0.label())
    }
}

/// Brings a saved [`Held`] back, from its parameters and the types of its inputs.
pub type Revive =
    Arc<dyn Fn(&Map<String, Value>, &[PortType]) -> Result<Kept, PlanError> + Send + Sync>;
