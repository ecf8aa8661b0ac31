//! Matching across rewinds: items after the nth rewind of one input match those after the nth of the others.
//!
//! A rewound input waits until all others have rewound or ended. Then items without a partner are dropped and matching
//! restarts.

use super::{FanIn, HeldBack};
use crate::Port;

impl FanIn {
    /// Has rewound before others: its items are held back.
    pub(crate) fn has_rewound(&self, port: Port) -> bool {
        self.queues[usize::from(port)].rewound
    }

    pub(crate) fn hold_back(&mut self, port: Port, held: HeldBack) {
        self.held_back.push((port, held));
    }

    pub(crate) fn set_rewound(&mut self, port: Port) {
        self.queues[usize::from(port)].rewound = true;
    }

    /// Ignores ended inputs.
    pub(crate) fn all_have_rewound(&self) -> bool {
        let mut queues = self.queues.iter();
        self.queues.iter().any(|queue| queue.rewound)
            && queues.all(|queue| queue.rewound || queue.ended || queue.silent)
    }

    pub(crate) fn start_after_rewind(&mut self) -> Vec<(Port, HeldBack)> {
        self.clear();
        self.queues
            .iter_mut()
            .for_each(|queue| queue.rewound = false);
        std::mem::take(&mut self.held_back)
    }
}
