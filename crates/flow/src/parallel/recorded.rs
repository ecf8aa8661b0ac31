//! What a scan of a front reads, and who opens it for tasks.

use std::sync::Arc;

use super::walk::Ahead;
use crate::exec::axis::Axis;
use crate::graph::Graph;
use crate::plan::Op;
use crate::{Foreseen, Live, OpError, Opens, Portion, Reach, RunError, Snapshot, Source};

/// What a scan of a front reads.
pub(super) struct Recorded {
    /// The scan's number in the whole graph.
    pub(super) node: usize,
    /// What a task needs of it around its portion.
    pub(super) reach: Reach,
    pub(super) segment: u64,
    pub(super) reads: Live,
    pub(super) snapshot: Arc<dyn Snapshot>,
    /// What reads it ahead of all workers; None: each task opens it by itself.
    opens: Option<Arc<dyn Opens>>,
}

impl Recorded {
    /// When a sample is read, as [`Axis`] has it.
    pub(super) fn time(&self, index: i64) -> f64 {
        Axis::of(Some(&self.reads.0.port())).time(index)
    }

    /// None of what only one can read.
    pub(super) fn of(
        graph: &Graph,
        node: usize,
        reach: Reach,
        several: bool,
    ) -> Result<Option<Self>, RunError> {
        let Op::Scan {
            recording,
            range,
            segment,
        } = &graph.nodes[node].op
        else {
            return Ok(None);
        };
        let snapshot = recording.0.snapshot(range.clone());
        let snapshot = snapshot.map_err(|error| unread(node, error))?;
        let snapshot = snapshot.filter(|one| !several || one.indexed().is_some());
        Ok(snapshot.map(|snapshot| Self {
            node,
            reach,
            segment: *segment,
            reads: recording.clone(),
            snapshot,
            opens: None,
        }))
    }

    /// From now on it may be read ahead of `workers` that do these tasks.
    pub(super) fn foresee(&mut self, tasks: Ahead, workers: usize) -> Result<(), RunError> {
        let foreseen = Foreseen {
            reach: self.reach,
            segment: self.segment,
            at_once: workers,
            portions: Box::new(tasks),
        };
        let opens = self.snapshot.clone().foresee(foreseen);
        self.opens = opens.map_err(|error| unread(self.node, error))?;
        Ok(())
    }

    /// What a task reads of it: None, where it has nothing there.
    pub(super) fn open(
        &self,
        task: u64,
        portion: Option<&Portion>,
    ) -> Result<Option<Box<dyn Source>>, OpError> {
        if let Some(opens) = &self.opens {
            return opens.open(task, portion);
        }
        let open = |portion| self.snapshot.open(portion, self.reach, self.segment);
        portion.map(open).transpose()
    }
}

/// What a scan could not be read for.
fn unread(node: usize, error: OpError) -> RunError {
    RunError::Operator {
        operator: "scan",
        node,
        range: None,
        time: None,
        error,
    }
}
