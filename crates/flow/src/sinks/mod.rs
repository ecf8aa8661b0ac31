//! Sinks that keep results: signals, events of signals, files.
//!
//! A plan holds, prints and saves a [`Sink`], the counterpart of a [`Recording`](crate::Recording). Each execution
//! opens it as a [`SinkWriter`], which gets items in index order, and every break before the item after it. Items pass
//! on unchanged.
//!
//! The operator commits, not the sink: after a number of bytes or a time, and at the end. If the writer fails, earlier
//! items are committed; if the execution fails elsewhere or is interrupted, the last commit stands. The sink runs in
//! the calling thread, after the reorder buffer, so commits are complete up to an index.

pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod signal;
pub(crate) mod signal_location;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::{
    Break, Cause, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, Plan, PlanError, Port, PortType, SharedFactory, SharedRecording,
};

const COMMIT_BYTES: u64 = 64 << 20;
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps items: a signal, its events, a file.
pub trait Sink: Send + Sync {
    /// Operator name in errors, reports and saved plans.
    fn name(&self) -> &'static str;

    /// Text in a printed plan.
    fn label(&self) -> String;

    /// Checks that it can keep the port's items.
    ///
    /// # Errors
    /// [`PlanError::InputType`], with the accepted types.
    fn accepts(&self, port: &PortType) -> Result<(), PlanError>;

    /// Starts writing, at the first item of an execution or, without items, at its end. `reads`: recording of the
    /// items' indices and clock.
    ///
    /// # Errors
    /// It exists already, or has another writer.
    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError>;

    /// Form in a saved plan.
    ///
    /// # Errors
    /// [`PlanError::NotSaveable`] if bound to this process.
    fn saved(&self) -> Result<Map<String, Value>, PlanError>;

    /// Whether it writes to this saved recording, which the plan must then not read.
    fn writes(&self, recording: &Map<String, Value>) -> bool {
        let _ = recording;
        false
    }
}

/// Writes one execution's items. Dropped without [`finish`](Self::finish), it leaves the last commit.
pub trait SinkWriter: Send {
    /// Copies an item's content; returns the uncommitted bytes.
    ///
    /// # Errors
    /// Full or failing disk, or an item that does not fit.
    fn write(&mut self, item: &Item) -> Result<u64, OpError>;

    /// The next item does not continue the previous one.
    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        let _ = why;
        Ok(())
    }

    /// Makes writes durable.
    fn commit(&mut self) -> Result<(), OpError>;

    /// Commits and completes files.
    fn finish(&mut self) -> Result<(), OpError> {
        self.commit()
    }
}

/// Creates the operator that writes items to a [`Sink`] and forwards them.
pub struct SinkFactory(Arc<dyn Sink>);

impl SinkFactory {
    /// Wraps a sink.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self(Arc::new(sink))
    }
}

impl OperatorFactory for SinkFactory {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn label(&self) -> String {
        self.0.label()
    }

    fn make(&self, reads: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(SinkOperator {
            sink: self.0.clone(),
            reads: reads.cloned(),
            port: None,
            writing: None,
        }))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        self.0.saved()
    }

    fn is_writer(&self) -> bool {
        true
    }

    fn writes(&self, recording: &Map<String, Value>) -> bool {
        self.0.writes(recording)
    }
}

struct SinkOperator {
    sink: Arc<dyn Sink>,
    reads: Option<SharedRecording>,
    port: Option<PortType>,
    writing: Option<OpenSink>,
}

struct OpenSink {
    writer: Box<dyn SinkWriter>,
    uncommitted: u64,
    committed: Instant,
}

impl OpenSink {
    fn commit(&mut self) -> Result<(), OpError> {
        self.writer.commit()?;
        self.uncommitted = 0;
        self.committed = Instant::now();
        Ok(())
    }
}

impl SinkOperator {
    fn writing(&mut self) -> Result<&mut OpenSink, OpError> {
        let Self {
            sink,
            reads,
            port,
            writing,
        } = self;
        if writing.is_none() {
            let port = port.unwrap_or(PortType::Count);
            *writing = Some(OpenSink {
                writer: sink.open(&port, reads.as_ref())?,
                uncommitted: 0,
                committed: Instant::now(),
            });
        }
        writing
            .as_mut()
            .ok_or_else(|| OpErrorKind::Failed(Cause::from("the sink was not opened")).into())
    }
}

impl Operator for SinkOperator {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let [port] = inputs else {
            return Err(PlanError::Inputs {
                operator: self.sink.name(),
                expected: "1".into(),
                got: inputs.len(),
            });
        };
        self.sink.accepts(port)?;
        self.port = Some(*port);
        Ok(OperatorProperties::new([*port]).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let writing = self.writing()?;
        match writing.writer.write(item) {
            Ok(bytes) => writing.uncommitted += bytes,
            Err(error) => {
                // Keep the items before; the write error takes precedence.
                let _ = writing.commit();
                return Err(error);
            }
        }
        let due =
            writing.uncommitted >= COMMIT_BYTES || writing.committed.elapsed() >= COMMIT_INTERVAL;
        if due && writing.uncommitted > 0 {
            writing.commit()?;
        }
        Ok(Next::Forward)
    }

    fn idle(&mut self, _: &mut Out<'_>) -> Result<(), OpError> {
        match &mut self.writing {
            Some(writing)
                if writing.uncommitted > 0 && writing.committed.elapsed() >= COMMIT_INTERVAL =>
            {
                writing.commit()
            }
            _ => Ok(()),
        }
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        match &mut self.writing {
            Some(writing) => writing.writer.on_break(why),
            None => Ok(()),
        }
    }

    fn finish(&mut self, _: Port, _: &mut Out<'_>) -> Result<(), OpError> {
        self.writing()?.writer.finish()
    }
}

impl Plan {
    /// Writes the output to a sink and forwards it: `plan.sink(sink)?.run()?`.
    ///
    /// # Errors
    /// [`PlanError::InputType`], [`PlanError::WritesItsInput`].
    pub fn sink(&self, sink: impl Sink + 'static) -> Result<Self, PlanError> {
        self.apply_factory(SharedFactory::new(SinkFactory::new(sink)), &[])
    }
}
