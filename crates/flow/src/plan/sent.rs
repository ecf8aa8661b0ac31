//! Plans sent to another process.
//!
//! The form is that of a saved plan, with references to objects that are no JSON: a snapshot of a signal, samples in
//! memory, a function. They lie in a list beside the form, which names them by position. What writes, or waits for a
//! feed, stays in its process.

use std::any::Any;
use std::sync::Arc;

use isochrony_segment::SigSeg;
use isochrony_store::Signal;
use serde_json::{Value, json};

use super::graph::Graph;
use super::node::Plan;
use crate::PlanError;

/// An object sent with a plan.
#[non_exhaustive]
pub enum SentObject {
    /// A signal of a store as a handle shows it; samples stay in the store.
    Signal(Signal),
    /// Samples in memory.
    Samples(Arc<[SigSeg]>),
    /// An object of the embedding language, sent by its own rules.
    Embedded(Arc<dyn Any + Send + Sync>),
}

/// Objects sent with a plan.
#[derive(Default)]
pub struct SentObjects(Vec<SentObject>);

impl SentObjects {
    /// Adds an object; returns its reference in the plan's form.
    pub fn add(&mut self, object: SentObject) -> Value {
        self.0.push(object);
        json!(self.0.len() - 1)
    }
}

impl IntoIterator for SentObjects {
    type Item = SentObject;
    type IntoIter = std::vec::IntoIter<SentObject>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Plan {
    /// The plan for another process: JSON, and the objects it refers to by position. [`from_json`](Self::from_json)
    /// reads it, with a catalog and a resolver that know the objects.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if an operator writes, or exists in this process only.
    pub fn to_sent(&self) -> Result<(Value, SentObjects), PlanError> {
        let mut objects = SentObjects::default();
        let graph = Graph::new(self);
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            nodes.push(match &node.op {
                super::Op::Scan { recording, .. } => node.saved(&recording.0.sent(&mut objects)?),
                super::Op::Factory(factory) => node.saved(&factory.0.sent(&mut objects)?),
                super::Op::Apply { params, .. } => node.saved(params),
            });
        }
        Ok((graph.saved(nodes), objects))
    }
}
