//! A tasklet over stored signals.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::context::TaskletContext;
use crate::error::Cause;
use crate::signal_range::SignalRange;

/// Return value of a tasklet's function.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ReturnValue {
    /// Nothing.
    #[default]
    Nothing,
    /// Kept by the journal.
    Value(Value),
    /// JSON text, kept unchanged: numbers of any size and precision.
    Json(String),
    /// Not kept: a resumed execution reruns the tasklet.
    NotSerializable,
}

impl ReturnValue {
    pub(crate) fn json(&self) -> Option<String> {
        match self {
            Self::Value(value) => Some(value.to_string()),
            Self::Json(text) => Some(text.clone()),
            Self::Nothing | Self::NotSerializable => None,
        }
    }
}

/// A tasklet's function.
pub type TaskletFunction =
    dyn Fn(&mut TaskletContext<'_>) -> Result<ReturnValue, Cause> + Send + Sync;

/// A unit of work over ranges of signals.
#[derive(Clone)]
pub struct Tasklet {
    pub(crate) name: String,
    pub(crate) function_name: String,
    pub(crate) identity: String,
    pub(crate) inputs: Vec<SignalRange>,
    pub(crate) outputs: Vec<SignalRange>,
    pub(crate) after: Vec<String>,
    pub(crate) exclusive: bool,
    pub(crate) function: Arc<TaskletFunction>,
}

impl Tasklet {
    /// The name must be unique. A resumed execution reruns the tasklet if the function name changed.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        function_name: impl Into<String>,
        function: impl Fn(&mut TaskletContext<'_>) -> Result<ReturnValue, Cause> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            function_name: function_name.into(),
            identity: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            after: Vec::new(),
            exclusive: false,
            function: Arc::new(function),
        }
    }

    /// Adds to the function's name, for example, parameters or a checksum of its code. A resumed execution reruns the
    /// tasklet if it changed.
    #[must_use]
    pub fn identified(mut self, by: impl Into<String>) -> Self {
        self.identity = by.into();
        self
    }

    /// Adds an input. The first is the primary input, whose disk position orders the tasklets.
    #[must_use]
    pub fn reads(mut self, input: SignalRange) -> Self {
        self.inputs.push(input);
        self
    }

    /// Adds an output, which the function must write completely.
    #[must_use]
    pub fn writes(mut self, output: SignalRange) -> Self {
        self.outputs.push(output);
        self
    }

    /// Starts this tasklet only after the named one.
    #[must_use]
    pub fn after(mut self, name: impl Into<String>) -> Self {
        self.after.push(name.into());
        self
    }

    /// Never runs it beside another exclusive tasklet.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// The name.
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
