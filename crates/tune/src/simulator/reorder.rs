//! [`ReorderBuffer`]: restores the item order of results.

use std::collections::VecDeque;

use super::link::Progress;

#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) number: u64,
    pub(super) position: u64,
    pub(super) progress: Progress,
    pub(super) core: u32,
}

/// Items in flight, or waiting for earlier ones.
pub(super) struct ReorderBuffer {
    in_order: bool,
    window: usize,
    /// None: in flight.
    slots: VecDeque<Option<Item>>,
    first: u64,
}

impl ReorderBuffer {
    pub(super) fn new(in_order: bool, window: usize) -> Self {
        Self {
            in_order,
            window,
            slots: VecDeque::new(),
            first: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= self.window
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn has_next(&self) -> bool {
        self.slots.front().is_some_and(Option::is_some)
    }

    pub(super) fn begin(&mut self) {
        self.slots.push_back(None);
    }

    pub(super) fn complete(&mut self, item: Item) {
        if !self.in_order {
            self.slots.pop_back();
            self.slots.push_front(Some(item));
            return;
        }
        if let Some(slot) = self.slots.get_mut((item.number - self.first) as usize) {
            *slot = Some(item);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = (*self.slots.front()?)?;
        self.slots.pop_front();
        self.first += 1;
        Some(item)
    }
}
