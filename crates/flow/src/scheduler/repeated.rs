//! Runs a plan over successive ranges of its recordings, as tasklets do. The graph is built and rewritten once.
//! Stateless operators and memory are reused; others are rebuilt, so no state carries over.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_segment::Buffer;
use isochrony_time::TimebaseId;

use super::parallel::ParallelExecution;
use crate::engine::{ReusableParts, RunOptions};
use crate::operators::{Between, Collect};
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{
    Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory, OperatorProperties,
    OperatorType, Out, Plan, PlanError, PlanOutput, Port, PortType, Report, RunError,
    SharedRecording,
};

/// A plan run over successive ranges of its recordings.
///
/// A range applies to the stored signal of that timebase, if the plan scans all of it. Scans of stated ranges and of
/// other recordings are unaffected.
///
/// ```
/// # use isochrony_flow::{Plan, RepeatedPlan, RunOptions, Segments};
/// # use isochrony_segment::{SigSeg, Stream};
/// # use isochrony_time::{Rate, TimebaseId};
/// # let stream = Stream::new("ramp", TimebaseId(0), Rate::new(100, 1)?).intern();
/// # let recording = Segments::new([SigSeg::from_slice(&[1i16, 2, 3], 0, stream)?]).expect("in order");
/// let mut repeated = RepeatedPlan::new(&Plan::scan(recording).count()?);
/// for _ in 0..2 {
///     let (gathered, _) = repeated.collect(&[], &RunOptions::default())?;
///     assert_eq!(gathered.count(), Some(3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RepeatedPlan {
    plan: Plan,
    /// None before the first run and after a failed one.
    prepared: Option<PreparedGraph>,
}

struct PreparedGraph {
    graph: Graph,
    /// Of whole signals: node, timebase, default range.
    scans: Vec<(usize, TimebaseId, Option<Range<i64>>)>,
    fills: Option<OutputBlock>,
    reusable: Option<ReusableParts>,
}

impl RepeatedPlan {
    /// Reads and builds nothing before the first run.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            prepared: None,
        }
    }

    /// Runs the plan and gathers its result as [`Plan::collect_with`] does.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn collect(
        &mut self,
        ranges: &[(TimebaseId, Range<i64>)],
        options: &RunOptions<'_>,
    ) -> Result<(PlanOutput, Report), RunError> {
        let mut ready = self.prepare(false, options)?;
        ready.set_ranges(ranges);
        let mut ran = ready.run(options)?;
        let graph = ran.sequential.as_ref().unwrap_or(&ready.graph);
        let (node, _) = graph.outputs[0];
        let operator = graph.nodes[node].op.name();
        let gathered = ran.executor.result(node);
        let report = self.keep_for_next(ready, ran);
        let gathered = gathered.ok_or(RunError::NoResult { operator, node })?;
        Ok((gathered, report))
    }

    /// Copies the plan's samples or windows to the beginning of an unshared block. Returns the block and the total
    /// bytes; excess bytes are dropped.
    ///
    /// # Errors
    /// [`RunError`]; without samples or windows, a [`PlanError`].
    pub fn fill(
        &mut self,
        ranges: &[(TimebaseId, Range<i64>)],
        block: Buffer,
        options: &RunOptions<'_>,
    ) -> Result<(Buffer, u64), RunError> {
        let mut ready = self.prepare(true, options)?;
        let memory = ready.fills.clone().unwrap_or_default();
        memory.begin(block);
        ready.set_ranges(ranges);
        let ran = ready.run(options)?;
        self.keep_for_next(ready, ran);
        let node = 0;
        memory.take().ok_or(RunError::NoResult {
            operator: "fill",
            node,
        })
    }

    fn prepare(
        &mut self,
        fills: bool,
        options: &RunOptions<'_>,
    ) -> Result<PreparedGraph, RunError> {
        match self.prepared.take() {
            Some(ready) if ready.fills.is_some() == fills => Ok(ready),
            _ => PreparedGraph::new(&self.plan, fills, options),
        }
    }

    fn keep_for_next(&mut self, mut ready: PreparedGraph, ran: ParallelExecution) -> Report {
        // Execution in tasks leaves nothing to reuse.
        let whole = ran.sequential.is_none();
        ready.reusable = whole.then(|| ran.executor.into_reusable(&ready.graph));
        self.prepared = Some(ready);
        ran.report
    }
}

impl PreparedGraph {
    fn new(plan: &Plan, fills: bool, options: &RunOptions<'_>) -> Result<Self, RunError> {
        let sink = match (fills, plan.port()) {
            (true, _) | (_, PortType::Count) => plan.clone(),
            _ => plan.then::<Collect>(serde_json::Map::new())?,
        };
        // Later ranges move where windows begin, so no range may be pushed into the scan before.
        let is_range = |node: &GraphNode| node.op.name() == Between::DECLARATION.name;
        let has_range = Graph::new(&sink).nodes.iter().any(is_range);
        let options = RunOptions {
            optimise: options.optimise && !has_range,
            ..*options
        };
        let mut graph = super::run::prepare(std::slice::from_ref(&sink), &options)?;
        let fills = match fills {
            true => Some(OutputBlock::append_sink(&mut graph)?),
            false => None,
        };
        Ok(Self {
            scans: whole_signal_scans(&graph),
            graph,
            fills,
            reusable: None,
        })
    }

    fn set_ranges(&mut self, ranges: &[(TimebaseId, Range<i64>)]) {
        for (node, timebase, all) in &self.scans {
            if let Op::Scan { range, .. } = &mut self.graph.nodes[*node].op {
                let stated = ranges.iter().find(|(of, _)| of == timebase);
                *range = match (stated, all) {
                    (None, all) => all.clone(),
                    (Some((_, stated)), None) => Some(stated.clone()),
                    (Some((_, stated)), Some(all)) => {
                        let start = stated.start.max(all.start);
                        Some(start..stated.end.min(all.end).max(start))
                    }
                };
            }
        }
    }

    fn run(&mut self, options: &RunOptions<'_>) -> Result<ParallelExecution, RunError> {
        let reused = self.reusable.take();
        super::run::run(&self.graph, options, reused)
    }
}

fn whole_signal_scans(graph: &Graph) -> Vec<(usize, TimebaseId, Option<Range<i64>>)> {
    let nodes = graph.nodes.iter().enumerate();
    let scans = nodes.filter_map(|(at, node)| match &node.op {
        Op::Scan {
            recording, range, ..
        } => match recording.0.stored()? {
            (signal, None) => Some((at, signal.timebase(), range.clone())),
            (_, Some(_)) => None,
        },
        _ => None,
    });
    scans.collect()
}

#[derive(Debug, Default, Clone)]
struct OutputBlock(Arc<Mutex<BlockState>>);

#[derive(Debug, Default)]
struct BlockState {
    block: Option<Buffer>,
    /// Those beyond the block are dropped.
    bytes: u64,
}

impl OutputBlock {
    fn append_sink(graph: &mut Graph) -> Result<Self, PlanError> {
        let memory = Self::default();
        let from = graph.outputs[0];
        let port = graph.nodes[from.0].properties.outputs[usize::from(from.1)];
        let properties = BlockFiller(memory.clone()).bind(&[port])?;
        graph.nodes.push(GraphNode {
            op: Op::Factory(crate::SharedFactory::new(BlockFiller(memory.clone()))),
            inputs: vec![from],
            properties,
        });
        graph.outputs = vec![(graph.nodes.len() - 1, 0)];
        Ok(memory)
    }

    fn lock(&self) -> MutexGuard<'_, BlockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, block: Buffer) {
        let block = Some(block);
        *self.lock() = BlockState { block, bytes: 0 };
    }

    fn take(&self) -> Option<(Buffer, u64)> {
        let mut filled = self.lock();
        Some((filled.block.take()?, filled.bytes))
    }
}

struct BlockFiller(OutputBlock);

impl OperatorFactory for BlockFiller {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl BlockState {
    fn append(&mut self, more: &[u8]) -> Result<(), OpError> {
        let at = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        self.bytes += more.len() as u64;
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        let left = block.len().saturating_sub(at);
        let more = &more[..more.len().min(left)];
        if !more.is_empty() {
            block.make_mut()?[at..at + more.len()].copy_from_slice(more);
        }
        Ok(())
    }
}

impl Operator for BlockFiller {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        match inputs {
            [PortType::Samples { .. } | PortType::Frames { .. }] => {
                Ok(OperatorProperties::new([PortType::Count]).contract(Contract::Sequential))
            }
            _ => Err(PlanError::InputType {
                operator: "fill",
                expected: "samples or windows",
                got: inputs.first().map_or_else(String::new, PortType::to_string),
                mend: "end it with samples or windows",
            }),
        }
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let mut filled = self.0.lock();
        match &*item {
            Item::Samples(samples) => {
                for buffer in samples.buffers() {
                    filled.append(buffer.bytes())?;
                }
            }
            Item::Frames(frames) => {
                let (bytes, size) = (frames.buffer().bytes(), frames.dtype().size());
                if frames.width() == frames.stride() {
                    filled.append(bytes)?;
                } else {
                    for row in 0..frames.count() as usize {
                        let at = row * frames.stride() * size;
                        filled.append(&bytes[at..at + frames.width() * size])?;
                    }
                }
            }
            other => {
                let (expected, got) = ("samples or windows", other.kind());
                return Err(OpErrorKind::WrongItem { expected, got }.into());
            }
        }
        Ok(Next::Consumed)
    }
}

#[cfg(test)]
mod tests {
    use isochrony_segment::{SigSeg, Stream};
    use isochrony_time::Rate;

    use super::*;
    use crate::Segments;

    #[test]
    fn a_transform_is_made_once_and_windows_are_cut_anew() {
        let stream = Stream::new("ramp", TimebaseId(0), Rate::new(100, 1).unwrap()).intern();
        let samples = SigSeg::from_slice(&[1i16; 40], 0, stream).unwrap();
        let scan = Plan::scan(Segments::new([samples]).unwrap());
        let mut repeated = RepeatedPlan::new(&scan.rewindow(8).unwrap().fft().unwrap());
        repeated.collect(&[], &RunOptions::default()).unwrap();
        let ready = repeated.prepared.as_ref().unwrap();
        let operators = ready.reusable.as_ref().unwrap().operators.iter();
        let kept = operators.zip(&ready.graph.nodes);
        let kept: Vec<_> = kept
            .map(|(op, node)| (node.op.name(), op.is_some()))
            .collect();
        let expected = [
            ("scan", false),
            ("rewindow", false),
            ("fft", true),
            ("collect", false),
        ];
        assert_eq!(kept, expected);
    }
}
