//! Where what flows is kept: targets, which a plan names, and the writers that a run opens.
//!
//! A [`Sink`] is to writing what a [`Recording`](crate::Recording) is to reading: a plan holds it, prints it and saves
//! it, and each run opens it anew. What it opens is a [`SinkWriter`], which gets items as they come, in the order of the
//! source's indices, and is told of every break before the item that follows it.
//!
//! *Who commits when* is the runtime's to say, not the target's: the [`SinkFactory`] operator asks for a commit after so many
//! bytes or so much time, and says when the end has come. A writer that fails is asked to commit what it took before. A run
//! that fails elsewhere or is interrupted drops the writer without a commit, so what stays is what the last one made durable. Runs on several cores write through the same two traits: an ordered
//! target is opened once, behind the point where order is restored; what is committed is then whole up to an index.
//!
//! Items pass on unchanged, so a plan can keep more than one stage of itself.

pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod signal;
pub(crate) mod store_location;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::{
    Break, Cause, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, Plan, PlanError, Port, PortType, SharedFactory, SharedRecording,
};

/// Bytes after which what was written is committed.
const COMMIT_BYTES: u64 = 64 << 20;
/// Time after which it is, if anything was written.
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// Something that keeps what flows: a signal, its events, a file.
pub trait Sink: Send + Sync {
    /// What keeping there is called, in errors, reports and saved plans.
    fn name(&self) -> &'static str;

    /// What a printed plan shows.
    fn label(&self) -> String;

    /// Whether it can keep what flows through a port.
    ///
    /// # Errors
    /// [`PlanError::InputType`], which says what it takes.
    fn accepts(&self, port: &PortType) -> Result<(), PlanError>;

    /// Begins to write, when the first item of a run comes, or at its end if none came. `reads` is the recording
    /// whose indices the items have, and which knows their times.
    ///
    /// # Errors
    /// Whatever opening meets: it is there already, somebody else writes to it.
    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError>;

    /// How a saved plan names it.
    ///
    /// # Errors
    /// [`PlanError::NotSaveable`] if it exists in this process only.
    fn saved(&self) -> Result<Map<String, Value>, PlanError>;

    /// Whether it writes to the samples of a saved recording; a plan must not read what it writes.
    fn writes(&self, recording: &Map<String, Value>) -> bool {
        let _ = recording;
        false
    }
}

/// What one run writes to a target. Dropped without [`finish`](Self::finish), it keeps what was committed before.
pub trait SinkWriter: Send {
    /// Takes an item's content, by copying it; how many bytes wait for a commit because of it.
    ///
    /// # Errors
    /// A full disk, an item that does not fit.
    fn write(&mut self, item: &Item) -> Result<u64, OpError>;

    /// What comes next does not continue what came before.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        let _ = why;
        Ok(())
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// A full or failing disk.
    fn commit(&mut self) -> Result<(), OpError>;

    /// Nothing follows: what was written is whole. A commit, unless what is written has an end of its own, as files have.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    fn finish(&mut self) -> Result<(), OpError> {
        self.commit()
    }
}

/// Keeps what flows in a [`Sink`] and passes it on.
pub struct SinkFactory(Arc<dyn Sink>);

impl SinkFactory {
    /// What keeps what flows there.
    pub fn new(target: impl Sink + 'static) -> Self {
        Self(Arc::new(target))
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
            target: self.0.clone(),
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

/// The operator of one run.
struct SinkOperator {
    target: Arc<dyn Sink>,
    reads: Option<SharedRecording>,
    port: Option<PortType>,
    writing: Option<Writing>,
}

struct Writing {
    writer: Box<dyn SinkWriter>,
    /// Bytes that wait for a commit, and when the last one was.
    pending: u64,
    committed: Instant,
}

impl Writing {
    fn commit(&mut self) -> Result<(), OpError> {
        self.writer.commit()?;
        self.pending = 0;
        self.committed = Instant::now();
        Ok(())
    }
}

impl SinkOperator {
    /// The writer, opened if it is not.
    fn writing(&mut self) -> Result<&mut Writing, OpError> {
        let Self {
            target,
            reads,
            port,
            writing,
        } = self;
        if writing.is_none() {
            // Bound before it runs.
            let port = port.unwrap_or(PortType::Count);
            *writing = Some(Writing {
                writer: target.open(&port, reads.as_ref())?,
                pending: 0,
                committed: Instant::now(),
            });
        }
        writing
            .as_mut()
            .ok_or_else(|| OpErrorKind::Failed(Cause::from("the target was not opened")).into())
    }
}

impl Operator for SinkOperator {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let [port] = inputs else {
            return Err(PlanError::Inputs {
                operator: self.target.name(),
                expected: "1".into(),
                got: inputs.len(),
            });
        };
        self.target.accepts(port)?;
        self.port = Some(*port);
        Ok(OperatorProperties::new([*port]).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let writing = self.writing()?;
        match writing.writer.write(item) {
            Ok(bytes) => writing.pending += bytes,
            Err(error) => {
                // What came before the item that does not fit is kept; why it does not is what the run says.
                let _ = writing.commit();
                return Err(error);
            }
        }
        let due = writing.pending >= COMMIT_BYTES || writing.committed.elapsed() >= COMMIT_EVERY;
        if due && writing.pending > 0 {
            writing.commit()?;
        }
        Ok(Next::Forward)
    }

    fn idle(&mut self, _: &mut Out<'_>) -> Result<(), OpError> {
        match &mut self.writing {
            Some(writing) if writing.pending > 0 && writing.committed.elapsed() >= COMMIT_EVERY => {
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
    /// Keeps what comes out in a target, and passes it on: `plan.sink(sink)?.run()?`.
    ///
    /// # Errors
    /// [`PlanError::InputType`], [`PlanError::WritesItsInput`].
    pub fn sink(&self, sink: impl Sink + 'static) -> Result<Self, PlanError> {
        self.apply_factory(SharedFactory::new(SinkFactory::new(sink)), &[])
    }
}
