//! A tasklet over stored signals: what it reads, what it writes, what it does.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_store::{Scratch, Signal, SignalWriter, Store, StoreError};
use serde_json::Value;

use crate::context::Context;
use crate::error::Cause;
use crate::followed::Followed;

/// A range of a signal that a tasklet reads or writes.
#[derive(Clone)]
pub struct Part {
    pub(crate) place: Place,
    pub(crate) range: Range<i64>,
    /// Of its samples, once it is known.
    pub(crate) dtype: Option<DType>,
}

#[derive(Clone)]
pub(crate) enum Place {
    Stored(Store, Box<Signal>),
    /// Of a signal that the run does not write; one for each handle of its store.
    Followed(Arc<Followed>),
    Scratch(Scratch),
}

impl Part {
    /// Samples of a signal of a store; to be written they must be reserved, by
    /// [`append_gap`](isochrony_store::SignalWriter::append_gap).
    #[must_use]
    pub fn new(store: &Store, signal: &Signal, range: Range<i64>) -> Self {
        Self {
            place: Place::Stored(store.clone(), Box::new(signal.clone())),
            range,
            dtype: Some(signal.dtype()),
        }
    }

    /// Samples of a temporary signal, which are free again when no tasklet needs them.
    #[must_use]
    pub fn scratch(scratch: &Scratch, range: Range<i64>) -> Self {
        Self {
            place: Place::Scratch(scratch.clone()),
            range,
            dtype: None,
        }
    }

    /// Which samples.
    #[must_use]
    pub fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    /// The signal as it is now.
    pub(crate) fn signal(&self) -> Result<Signal, StoreError> {
        match &self.place {
            Place::Stored(_, signal) => {
                let mut signal = (**signal).clone();
                signal.refresh()?;
                Ok(signal)
            }
            Place::Followed(signal) => signal.now(),
            Place::Scratch(scratch) => scratch.signal(),
        }
    }

    /// The signal as it was when the part was made, where that is known.
    pub(crate) fn as_given(&self) -> Result<Signal, StoreError> {
        match &self.place {
            Place::Stored(_, signal) => Ok((**signal).clone()),
            Place::Followed(signal) => Ok(signal.last()),
            Place::Scratch(scratch) => scratch.signal(),
        }
    }

    /// Type of its samples.
    pub(crate) fn dtype(&self) -> Result<DType, StoreError> {
        match self.dtype {
            Some(dtype) => Ok(dtype),
            None => Ok(self.signal()?.dtype()),
        }
    }

    pub(crate) fn writer(&self) -> Result<SignalWriter, StoreError> {
        match &self.place {
            Place::Stored(store, signal) => store.writer(signal.name()),
            // Nobody writes there; who would be told.
            Place::Followed(signal) => Err(StoreError::ReadOnly {
                path: signal.last().name().into(),
                action: "fill a gap",
            }),
            Place::Scratch(scratch) => Ok((**scratch).clone()),
        }
    }

    pub(crate) fn is_scratch(&self) -> bool {
        matches!(self.place, Place::Scratch(_))
    }

    /// Number of samples.
    pub(crate) fn len(&self) -> i64 {
        (self.range.end - self.range.start).max(0)
    }
}

/// What a tasklet's function gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Returned {
    /// Nothing.
    #[default]
    Nothing,
    /// A value, which the journal keeps.
    Value(Value),
    /// The same as JSON text, which is kept letter by letter: numbers of any size and precision.
    Json(String),
    /// Something that no journal can keep: it is run again when a run goes on.
    Unkept,
}

impl Returned {
    /// What the journal keeps of it.
    pub(crate) fn json(&self) -> Option<String> {
        match self {
            Self::Value(value) => Some(value.to_string()),
            Self::Json(text) => Some(text.clone()),
            Self::Nothing | Self::Unkept => None,
        }
    }
}

/// What a tasklet does.
pub type Function = dyn Fn(&mut Context<'_>) -> Result<Returned, Cause> + Send + Sync;

/// A unit of work over ranges of signals.
#[derive(Clone)]
pub struct Tasklet {
    pub(crate) name: String,
    pub(crate) function_name: String,
    pub(crate) identity: String,
    pub(crate) inputs: Vec<Part>,
    pub(crate) outputs: Vec<Part>,
    pub(crate) after: Vec<String>,
    pub(crate) in_turn: bool,
    pub(crate) function: Arc<Function>,
}

impl Tasklet {
    /// A tasklet of a name of its own. Its function has a name, too: a run that goes on runs a tasklet again whose function
    /// is called otherwise than before.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        function_name: impl Into<String>,
        function: impl Fn(&mut Context<'_>) -> Result<Returned, Cause> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            function_name: function_name.into(),
            identity: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            after: Vec::new(),
            in_turn: false,
            function: Arc::new(function),
        }
    }

    /// The same, whose function is what this text says, beside its name: its parameters, such as "scale=2", or a checksum
    /// of its code. A run that goes on runs a tasklet again whose text is another than before.
    #[must_use]
    pub fn identified(mut self, by: impl Into<String>) -> Self {
        self.identity = by.into();
        self
    }

    /// The same, reading this too. The first input is the primary one, by whose place on the disk tasklets are ordered.
    #[must_use]
    pub fn reads(mut self, part: Part) -> Self {
        self.inputs.push(part);
        self
    }

    /// The same, writing this too, all of it.
    #[must_use]
    pub fn writes(mut self, part: Part) -> Self {
        self.outputs.push(part);
        self
    }

    /// The same, but not before the tasklet of this name is done.
    #[must_use]
    pub fn after(mut self, name: impl Into<String>) -> Self {
        self.after.push(name.into());
        self
    }

    /// The same, but never while another of which this was said runs. Workers do what else there is meanwhile: none waits
    /// for its turn.
    #[must_use]
    pub fn in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Tasklet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasklet")
            .field("name", &self.name)
            .field("function", &self.function_name)
            .finish_non_exhaustive()
    }
}
