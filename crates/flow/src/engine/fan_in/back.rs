//! Where inputs go back: streams meet within what ascends, the first such part of one with the first of the other.
//!
//! An input that has gone back waits, with all that follows, until every other has or has ended. Then what is left of the
//! part meets nobody any more, and the next part begins as if nothing had been before.

use super::FanIn;
use crate::engine::marks::Mark;
use crate::{Item, Port};

/// What came by an input that is ahead of the others.
pub(crate) enum Held {
    Item(Item),
    Mark(Mark),
}

impl FanIn {
    /// Whether an input has gone back and others have not: what comes by it has to wait.
    pub(crate) fn is_ahead(&self, port: Port) -> bool {
        self.queues[usize::from(port)].ahead
    }

    pub(crate) fn hold(&mut self, port: Port, held: Held) {
        self.held.push((port, held));
    }

    /// An input goes back.
    pub(crate) fn goes_back(&mut self, port: Port) {
        self.queues[usize::from(port)].ahead = true;
    }

    /// Whether all inputs that have not ended have gone back.
    pub(crate) fn turns(&self) -> bool {
        let mut queues = self.queues.iter();
        self.queues.iter().any(|queue| queue.ahead)
            && queues.all(|queue| queue.ahead || queue.ended || queue.silent)
    }

    /// The next part begins; what came of it already.
    pub(crate) fn turn(&mut self) -> Vec<(Port, Held)> {
        self.forget();
        self.queues.iter_mut().for_each(|queue| queue.ahead = false);
        std::mem::take(&mut self.held)
    }
}
