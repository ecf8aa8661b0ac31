//! Collects items of several inputs for one call.

use smallvec::SmallVec;

use crate::{Item, OpError, Port};

#[derive(Default)]
pub(crate) struct AlignedItems {
    inputs: usize,
    waiting: SmallVec<[Item; 2]>,
}

impl AlignedItems {
    /// The engine must serve inputs in order.
    pub(crate) fn new(inputs: usize) -> Self {
        Self {
            inputs,
            waiting: SmallVec::new(),
        }
    }

    /// Takes an item; returns whether all have come. Then `item` is the first input's, [`others`](Self::others) the
    /// rest, all contiguous in memory, and the next call starts over.
    pub(crate) fn is_complete(&mut self, port: Port, item: &mut Item) -> Result<bool, OpError> {
        if let Item::Samples(samples) = item
            && samples.buffers().nth(1).is_some()
        {
            *samples = samples.materialise()?;
        }
        if self.inputs <= 1 {
            return Ok(true);
        }
        if port == 0 {
            self.waiting.clear();
        }
        if usize::from(port) + 1 < self.inputs {
            self.waiting.push(item.take());
            return Ok(false);
        }
        // The first item replaces the last, which joins the others.
        let last = item.take();
        if !self.waiting.is_empty() {
            *item = self.waiting.remove(0);
        }
        self.waiting.push(last);
        Ok(true)
    }

    pub(crate) fn others(&self) -> &[Item] {
        &self.waiting
    }
}
