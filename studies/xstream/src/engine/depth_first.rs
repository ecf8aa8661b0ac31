//! The paper's depth-first scheduler: an operator that emits calls its successors directly.

use super::{Emit, Engine, Held, Message, Then, To};

struct Direct<'a, M, Q> {
    engine: &'a mut Engine<M, Q>,
    node: u32,
}

impl<M: Message, Q: Held<M>> Emit<M> for Direct<'_, M, Q> {
    fn emit(&mut self, output: usize, message: &mut M) {
        self.engine.fan_out(self.node, output, message);
    }
}

impl<M: Message, Q: Held<M>> Engine<M, Q> {
    fn fan_out(&mut self, node: u32, output: usize, message: &mut M) {
        let consumers = self.core.edges[node as usize]
            .get(output)
            .map_or(0, Vec::len);
        for k in 0..consumers {
            let to = self.core.edges[node as usize][output][k];
            if k + 1 == consumers {
                self.visit(to, message);
            } else {
                self.visit(to, &mut message.clone());
            }
        }
    }

    fn visit(&mut self, to: To, message: &mut M) {
        let slot = &mut self.slots[to.node as usize];
        let Some(mut operator) = slot.node.take() else {
            // On the stack: this would close a loop.
            self.core.push(to, std::mem::replace(message, M::nothing()));
            return;
        };
        slot.count(message);
        let mut out = Direct {
            engine: self,
            node: to.node,
        };
        if operator.process(usize::from(to.port), message, &mut out) == Then::Tail {
            self.fan_out(to.node, 0, message);
        }
        self.slots[to.node as usize].node = Some(operator);
    }

    /// All messages at the least recently served operator, each as far as it goes.
    pub(super) fn step_depth_first(&mut self) -> bool {
        let Some(node) = self.core.next() else {
            return false;
        };
        self.core.serve(node);
        let first = self.core.first[node as usize] as usize;
        let end = self
            .core
            .first
            .get(node as usize + 1)
            .map_or(self.core.queues.len(), |&end| end as usize);
        for at in first..end {
            let port = self.core.queues[at].port;
            let set = self.core.queues[at].messages.len();
            for _ in 0..set {
                let Some(held) = self.core.queues[at].messages.pop_front() else {
                    break;
                };
                self.core.queued -= 1;
                self.visit(To { node, port }, &mut held.release());
            }
        }
        let left = (first..end).any(|at| !self.core.queues[at].messages.is_empty());
        if left {
            self.core.wake(node);
        }
        true
    }
}
