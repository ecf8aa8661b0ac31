//! Sinks that keep results: signals, events of signals, files.
//!
//! A plan holds, prints and saves a [`Sink`], the counterpart of a [`Recording`](crate::Recording). Each execution
//! opens it as a [`SinkWriter`], which gets items in index order, and every break before the item after it. Items pass
//! on unchanged.
//!
//! The operator commits, not the sink: after a number of bytes or a time, and at the end. If the writer fails, earlier
//! items are committed; if the execution fails elsewhere or is interrupted, the last commit stands. The sink runs in
//! the calling thread, after the reorder buffer, so commits are complete up to an index.

pub(crate) mod event_order;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod signal;
pub(crate) mod signal_location;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use event_order::EventQueue;

use crate::engine::RunOptions;
use crate::{
    Break, Cause, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, Plan, PlanError, Port, PortType, RangeOrigin, SharedFactory,
    SharedRecording,
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

    /// The sink for one execution, if what it writes depends on other sinks there.
    #[doc(hidden)]
    fn in_execution(&self, run: &RunOptions<'_>) -> Option<Arc<dyn Sink>> {
        let _ = run;
        None
    }

    /// Its place among those sinks.
    #[doc(hidden)]
    fn event_queue(&self) -> Option<&EventQueue> {
        None
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

    /// Writes what waited for other sinks of the execution; returns the uncommitted bytes.
    #[doc(hidden)]
    fn release(&mut self) -> Result<u64, OpError> {
        Ok(0)
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
            waiting: 0,
        }))
    }

    fn make_for(
        &self,
        reads: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        match self.0.in_execution(run) {
            Some(sink) => Self(sink).make(reads),
            None => self.make(reads),
        }
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
    /// Bytes of events that wait for other sinks.
    waiting: u64,
}

struct OpenSink {
    writer: Box<dyn SinkWriter>,
    uncommitted: u64,
    committed: Instant,
}

impl OpenSink {
    fn commit_if_due(&mut self) -> Result<(), OpError> {
        let due = self.uncommitted >= COMMIT_BYTES || self.committed.elapsed() >= COMMIT_INTERVAL;
        match due && self.uncommitted > 0 {
            true => self.commit(),
            false => Ok(()),
        }
    }

    /// What waited for other sinks.
    fn release(&mut self) -> Result<(), OpError> {
        match self.writer.release() {
            Ok(bytes) => {
                self.uncommitted += bytes;
                Ok(())
            }
            Err(error) => {
                // Keep the events before; the first error takes precedence.
                let _ = self.commit();
                Err(error)
            }
        }
    }

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
            ..
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

    fn count_waiting(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let waiting = (self.sink.event_queue()).map_or(0, EventQueue::waiting_bytes);
        match std::mem::replace(&mut self.waiting, waiting) == waiting {
            true => Ok(()),
            false => out.holds(waiting),
        }
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
        if let Some(branch) = self.sink.event_queue() {
            branch.bind(port, self.reads.as_ref());
        }
        Ok(OperatorProperties::new([*port]).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let writing = self.writing()?;
        match writing.writer.write(item) {
            Ok(bytes) => writing.uncommitted += bytes,
            Err(error) => {
                // Keep the items before; the write error takes precedence.
                let _ = writing.commit();
                return Err(error);
            }
        }
        writing.commit_if_due()?;
        self.count_waiting(out)?;
        Ok(Next::Forward)
    }

    fn advance(&mut self, port: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        if self.sink.event_queue().is_none() {
            return Ok(());
        }
        // Before `release`; the engine notes it again, for sinks that have ended.
        self.progress(port, upto);
        if let Some(writing) = &mut self.writing {
            writing.release()?;
            writing.commit_if_due()?;
        }
        self.count_waiting(out)
    }

    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        if let Some(writing) = &mut self.writing {
            writing.release()?;
            if writing.committed.elapsed() >= COMMIT_INTERVAL {
                writing.commit_if_due()?;
            }
        }
        self.count_waiting(out)
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        if let (Break::Rewind, Some(branch)) = (why, self.sink.event_queue()) {
            branch.rewinds();
        }
        match &mut self.writing {
            Some(writing) => writing.writer.on_break(why),
            None => Ok(()),
        }
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        if let (Some(Break::ClockStep { .. }), Some(branch)) = (why, self.sink.event_queue()) {
            branch.restarts_clock(origin.anchor);
        }
    }

    fn rewinds_after_end(&mut self) {
        if let Some(branch) = self.sink.event_queue() {
            branch.rewinds();
        }
    }

    /// Also of a sink that has ended, for which others then need not wait.
    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        if let Some(branch) = self.sink.event_queue() {
            branch.progress(upto);
        }
        upto
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
