//! FIFO, FIFO with time slices, and run to completion: every hop is queued.

use std::time::{Duration, Instant};

use super::{Core, Emit, Engine, Held, Message, Then};

struct Queues<'a, Q> {
    core: &'a mut Core<Q>,
    node: u32,
    /// The first successor that was given something.
    successor: &'a mut Option<u32>,
}

impl<M: Message, Q: Held<M>> Emit<M> for Queues<'_, Q> {
    fn emit(&mut self, output: usize, message: &mut M) {
        let consumers = self.core.edges[self.node as usize]
            .get(output)
            .map_or(0, Vec::len);
        for k in 0..consumers {
            let to = self.core.edges[self.node as usize][output][k];
            self.successor.get_or_insert(to.node);
            let message = if k + 1 == consumers {
                std::mem::replace(message, M::nothing())
            } else {
                message.clone()
            };
            self.core.push(to, message);
        }
    }
}

impl<M: Message, Q: Held<M>> Engine<M, Q> {
    fn call(&mut self, node: u32, port: u16, mut message: M, successor: &mut Option<u32>) {
        let slot = &mut self.slots[node as usize];
        slot.count(&message);
        let mut out = Queues {
            core: &mut self.core,
            node,
            successor,
        };
        let Some(operator) = &mut slot.node else {
            return;
        };
        if operator.process(usize::from(port), &mut message, &mut out) == Then::Tail {
            out.emit(0, &mut message);
        }
    }

    /// One message, or as many as the slice allows.
    pub(super) fn step_fifo(&mut self, slice: Option<Duration>) -> bool {
        let Some(at) = self.core.next() else {
            return false;
        };
        self.core.serve(at);
        let until = slice.map(|slice| Instant::now() + slice);
        let mut none = None;
        loop {
            let queue = &mut self.core.queues[at as usize];
            let (node, port) = (queue.node, queue.port);
            let Some(held) = queue.messages.pop_front() else {
                return true;
            };
            self.core.queued -= 1;
            self.call(node, port, held.release(), &mut none);
            if until.is_none_or(|until| Instant::now() >= until) {
                break;
            }
        }
        if !self.core.queues[at as usize].messages.is_empty() {
            self.core.wake(at);
        }
        true
    }

    /// Then a successor if the operator emitted, else the least recently served.
    pub(super) fn step_rtc(&mut self) -> bool {
        let Some(node) = self.successor.take().or_else(|| self.core.next()) else {
            return false;
        };
        self.core.serve(node);
        let first = self.core.first[node as usize] as usize;
        let end = self
            .core
            .first
            .get(node as usize + 1)
            .map_or(self.core.queues.len(), |&end| end as usize);
        let mut successor = None;
        for at in first..end {
            let port = self.core.queues[at].port;
            while let Some(held) = self.core.queues[at].messages.pop_front() {
                self.core.queued -= 1;
                self.call(node, port, held.release(), &mut successor);
            }
        }
        self.successor = successor;
        true
    }
}
