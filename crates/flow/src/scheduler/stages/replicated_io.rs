//! The links of a replicated stage.

use std::sync::Arc;
use std::time::Instant;

use isochrony_runtime::Progress;

use super::arrivals::BatchArrivals;
use super::block::{Cut, StreamBlock};
use super::block_scheduler::{NextInput, StageIo};
use super::input_cutter::InputCutter;
use super::link::ReceiveOutcome;
use super::link_writer::{SharedWriter, StageFailure, StageLink, lock};
use crate::plan::graph::Graph;
use crate::scheduler::boundary::RangeAnnouncer;
use crate::scheduler::task_output::{ExitOutput, ExitState};
use crate::{RunError, SourceEvent};

/// Where a block comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockInput {
    /// What the earlier stage had read by then.
    pub(super) delivered: u64,
    /// When the first of its input arrived.
    pub(super) arrived: Option<Instant>,
}

pub(super) enum BlockResult {
    Results {
        exits: Vec<ExitOutput>,
        input: BlockInput,
        error: Option<RunError>,
    },
    Pass(SourceEvent),
    /// The earlier stage failed, or ended without an `End` event.
    InputEnded(Option<StageFailure>),
}

pub(super) struct StageExit {
    /// Writer and port of each edge.
    pub(super) ports: Vec<(usize, u16)>,
    pub(super) ranges: RangeAnnouncer,
    pub(super) state: ExitState,
}

pub(super) struct ReplicatedIo {
    pub(super) number: usize,
    pub(super) plan: Graph,
    pub(super) input: Arc<StageLink>,
    pub(super) cutter: InputCutter,
    pub(super) input_ended: bool,
    pub(super) input_delivered: u64,
    pub(super) arrivals: BatchArrivals,
    pub(super) exits: Vec<StageExit>,
    pub(super) writers: Vec<SharedWriter>,
    pub(super) delivered: Arc<Progress>,
    pub(super) error: Option<RunError>,
}

impl StageIo for ReplicatedIo {
    type Block = (StreamBlock, BlockInput);
    type Result = BlockResult;

    fn owner(&self) -> Option<usize> {
        self.cutter.owner()
    }

    fn next(&mut self, replica: usize) -> NextInput<Self::Block, BlockResult> {
        // A block takes about half of a small link, so that another replica finds the rest.
        self.cutter.limit(self.input.link.capacity() / 2);
        loop {
            while self.cutter.has_room() && self.receive() {}
            match self.cutter.cut(replica) {
                Cut::Block(block) => return NextInput::Block((block, self.take_input())),
                Cut::Pass(event) => {
                    // It belongs to no block.
                    self.take_input();
                    return NextInput::Pass(BlockResult::Pass(event));
                }
                // The next block is larger than others.
                Cut::Nothing if self.receive() => {}
                Cut::Nothing => break,
            }
        }
        match std::mem::take(&mut self.input_ended) {
            true => NextInput::Last(BlockResult::InputEnded(self.input.failure())),
            false => NextInput::Nothing,
        }
    }

    fn has_more(&self) -> bool {
        self.cutter.has_more() || self.input.link.bytes() > 0
    }

    fn has_room(&self) -> bool {
        let mut writers = self.writers.iter();
        writers.all(|writer| !lock(writer).link.link.is_full())
    }

    fn send(&mut self, result: BlockResult) -> bool {
        let arrived = match &result {
            BlockResult::Results { input, .. } => input.arrived,
            BlockResult::Pass(_) | BlockResult::InputEnded(_) => None,
        };
        for writer in &self.writers {
            lock(writer).arrived = arrived;
        }
        let ended = self.write(result);
        for writer in &self.writers {
            lock(writer).send();
        }
        ended
    }

    fn close_input(&mut self) {
        self.input.close_all();
    }
}

impl ReplicatedIo {
    /// Of what was cut last.
    fn take_input(&mut self) -> BlockInput {
        BlockInput {
            delivered: self.input_delivered,
            arrived: self.arrivals.take(self.cutter.arrived()),
        }
    }

    fn receive(&mut self) -> bool {
        match self.input.receive() {
            ReceiveOutcome::Batch(batch) => {
                self.input_delivered = batch.delivered;
                self.arrivals.push(batch.events.len(), batch.arrived);
                let events = batch.events.into_iter().map(|(_, event)| event);
                self.cutter.push(events);
                true
            }
            ReceiveOutcome::Nothing => false,
            ReceiveOutcome::End => {
                self.input_ended = true;
                false
            }
        }
    }

    /// True if the stage ends with it.
    fn write(&mut self, result: BlockResult) -> bool {
        let mut ended = false;
        match result {
            BlockResult::Results {
                exits,
                input,
                error,
            } => {
                self.delivered.set_done(input.delivered);
                for (output, exit) in exits.into_iter().zip(&mut self.exits) {
                    let (upto, ports, writers) = (output.upto, &exit.ports, &self.writers);
                    let give_each = |event| give(writers, ports, &event);
                    exit.ranges.announce(output.events, 0, give_each);
                    if let Some(upto) = upto {
                        give(writers, ports, &SourceEvent::ProgressMark(upto));
                    }
                }
                if let Some(error) = error {
                    let failure = StageFailure::of(&self.plan, self.number, &error);
                    self.error = Some(error);
                    self.end(Some(failure));
                    ended = true;
                }
            }
            BlockResult::Pass(SourceEvent::Rewind) => {
                for exit in &mut self.exits {
                    exit.ranges = RangeAnnouncer::default();
                }
                self.give_all(&SourceEvent::Rewind);
            }
            BlockResult::Pass(event) => self.give_all(&event),
            BlockResult::InputEnded(failure) => {
                self.end(failure);
                ended = true;
            }
        }
        for exit in &self.exits {
            let mut ports = exit.ports.iter();
            if ports.all(|&(at, port)| lock(&self.writers[at]).link.is_closed(port)) {
                exit.state.close();
            }
        }
        if self.exits.iter().all(|exit| exit.state.is_closed()) && !ended {
            self.end(None);
            ended = true;
        }
        ended
    }

    fn end(&self, failure: Option<StageFailure>) {
        for writer in &self.writers {
            lock(writer).end(failure.clone());
        }
    }

    fn give_all(&self, event: &SourceEvent) {
        let exits = self.exits.iter();
        exits.for_each(|exit| give(&self.writers, &exit.ports, event));
    }
}

fn give(writers: &[SharedWriter], ports: &[(usize, u16)], event: &SourceEvent) {
    for &(at, port) in ports {
        lock(&writers[at]).give(port, event);
    }
}
