//! Taps: consumers added to an executor's nodes between bursts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::queue::{Tap, TapWakers};
use crate::engine::executor::PlanExecutor;
use crate::engine::slot::{
    self, InputPort, NO_EXPECTED_INDEX, NOT_CHAINED, NodeState, Slot, TAP_PORT,
};
use crate::plan::graph::Edge;
use crate::{
    Break, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RangeOrigin, SourceEvent,
};

#[derive(Debug)]
pub(crate) struct TapInbox {
    edges: HashMap<Edge, Edge>,
    wakers: Option<TapWakers>,
    changed: AtomicBool,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    new: Vec<(Edge, Arc<Tap>)>,
    ended: bool,
}

impl TapInbox {
    pub(crate) fn new(edges: HashMap<Edge, Edge>, wakers: Option<TapWakers>) -> Self {
        Self {
            edges,
            wakers,
            changed: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub(crate) fn has(&self, edge: Edge) -> bool {
        self.edges.contains_key(&edge)
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, edge: Edge, tap: &Arc<Tap>) {
        let mut state = self.lock();
        let own = self.edges.get(&edge).filter(|_| !state.ended);
        let Some(&own) = own else {
            return tap.end();
        };
        tap.set_wakers(self.wakers.clone());
        state.new.push((own, Arc::clone(tap)));
        self.notice();
    }

    pub(crate) fn notice(&self) {
        self.changed.store(true, Ordering::Release);
    }

    fn close(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.new.drain(..).for_each(|(_, tap)| tap.end());
    }
}

pub(crate) struct ExecutorTaps {
    inbox: Arc<TapInbox>,
    attached: Vec<(usize, Edge, Arc<Tap>)>,
    unused: Vec<usize>,
}

impl PlanExecutor {
    pub(crate) fn with_taps(mut self, inbox: Option<Arc<TapInbox>>) -> Self {
        self.taps = inbox.map(|inbox| ExecutorTaps {
            inbox,
            attached: Vec::new(),
            unused: Vec::new(),
        });
        self
    }

    /// If a queue is full, the executor should wait.
    pub(crate) fn taps_have_room(&self) -> bool {
        let mut attached = self.taps.iter().flat_map(|taps| &taps.attached);
        attached.all(|(_, _, tap)| !tap.is_full())
    }

    pub(in crate::engine) fn update_taps(&mut self) {
        let Some(taps) = &mut self.taps else {
            return;
        };
        if !taps.inbox.changed.swap(false, Ordering::AcqRel) {
            return;
        }
        let new = std::mem::take(&mut taps.inbox.lock().new);
        self.remove_taps();
        for (edge, tap) in new {
            self.attach(edge, tap);
        }
    }

    pub(in crate::engine) fn close_taps(&mut self) {
        if let Some(taps) = &self.taps {
            taps.inbox.close();
            taps.attached.iter().for_each(|(_, _, tap)| tap.end());
        }
    }

    /// Also ends taps whose last item has passed.
    fn remove_taps(&mut self) {
        let Some(taps) = &mut self.taps else {
            return;
        };
        let (slots, nodes) = (&mut self.slots, &mut self.context.nodes);
        let mut ended = Vec::new();
        taps.attached.retain(|(at, edge, tap)| {
            let next = slots[*at].expected;
            let wanted = tap.wanted();
            let is_over = wanted.is_empty() || next > NO_EXPECTED_INDEX && wanted.end <= next;
            if is_over {
                tap.end();
            }
            if is_over || tap.has_ended() {
                slots[*at].ended = true;
                let edges = &mut nodes[edge.0].edges[usize::from(edge.1)];
                edges.retain(|to| to.node as usize != *at);
                ended.push(*at);
                return false;
            }
            true
        });
        taps.unused.extend(ended);
    }

    fn attach(&mut self, (node, output): Edge, tap: Arc<Tap>) {
        let Some(taps) = &mut self.taps else {
            return;
        };
        let mut sources = self.source_order.sources.iter();
        let source_ended = sources.any(|source| source.node == node && source.ended);
        if self.slots[node].ended || source_ended || tap.wanted().is_empty() {
            return tap.end();
        }
        slot::unchain(&mut self.slots, &mut self.context.nodes, node);
        let nodes = &mut self.context.nodes;
        // What another consumer is told of its input.
        let consumers = nodes[node].edges[usize::from(output)].iter();
        let consumer = consumers
            .map(|to| to.node as usize)
            .find(|&to| !self.slots[to].fan_in);
        let (expected, origin) = match consumer {
            Some(to) => (self.slots[to].expected, nodes[to].origin),
            None => (NO_EXPECTED_INDEX, nodes[node].output_origin),
        };
        let slot = Slot {
            op: Box::new(TapOperator {
                tap: Arc::clone(&tap),
                origin,
                jumped: false,
                started: false,
            }),
            expected,
            next: NOT_CHAINED,
            followers: 0,
            ended: false,
            fan_in: false,
        };
        let state = NodeState::new("tap", false, vec![Vec::new()], 1, None);
        let at = match taps.unused.pop() {
            Some(at) => {
                (self.slots[at], nodes[at]) = (slot, state);
                (self.plan_nodes[at], self.axes[at]) = (self.plan_nodes[node], self.axes[node]);
                at
            }
            None => {
                self.slots.push(slot);
                nodes.push(state);
                self.plan_nodes.push(self.plan_nodes[node]);
                self.axes.push(self.axes[node]);
                self.context.useful_ns.push(0);
                self.slots.len() - 1
            }
        };
        nodes[node].edges[usize::from(output)].push(InputPort {
            node: at as u32,
            port: TAP_PORT,
        });
        taps.attached.push((at, (node, output), tap));
    }
}

pub(crate) struct TapOperator {
    tap: Arc<Tap>,
    /// Range of the next item.
    origin: RangeOrigin,
    /// The next item does not continue the last one, and no mark said so.
    jumped: bool,
    started: bool,
}

impl TapOperator {
    fn push(&mut self, item: Item) {
        if !self.started {
            self.started = true;
            let first = item.first_and_last_start().filter(|_| self.jumped);
            let origin = first.map_or(self.origin, |(first, _)| RangeOrigin::at(first));
            self.tap.push(SourceEvent::RangeStart { origin, why: None });
        }
        self.tap.push(SourceEvent::Item(item));
    }
}

impl Operator for TapOperator {
    fn bind(&mut self, _: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new([]))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let wanted = self.tap.wanted();
        let mut is_over = wanted.is_empty();
        match item.first_and_last_start() {
            _ if is_over => {}
            None => self.push(item.take()),
            Some((_, last)) => {
                if let Some(part) = item.part(wanted.clone())? {
                    self.push(part);
                }
                is_over = last >= wanted.end;
            }
        }
        if is_over {
            self.tap.end();
            return Ok(Next::Done);
        }
        if self.tap.is_full() {
            out.end_burst();
        }
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        if self.started && matches!(why, Break::Rewind) {
            self.tap.push(SourceEvent::Rewind);
        }
        // Other breaks are announced, or show in the indices.
        self.jumped = true;
        Ok(())
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        (self.origin, self.jumped) = (origin, false);
        if self.started {
            let why = why.cloned();
            self.tap.push(SourceEvent::RangeStart { origin, why });
        }
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        if self.started {
            self.tap.push(SourceEvent::ProgressMark(upto));
        }
        upto
    }

    fn finish(&mut self, _: Port, _: &mut Out<'_>) -> Result<(), OpError> {
        self.tap.end();
        Ok(())
    }

    fn idle(&mut self, _: &mut Out<'_>) -> Result<(), OpError> {
        if self.started {
            self.tap.push(SourceEvent::Idle);
        }
        Ok(())
    }
}
