//! [`SentObjects`]: what is sent beside the form of a plan, since it is no JSON.

use std::any::Any;
use std::sync::Arc;

use isochrony_segment::SigSeg;
use isochrony_store::Signal;
use serde_json::{Value, json};

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
