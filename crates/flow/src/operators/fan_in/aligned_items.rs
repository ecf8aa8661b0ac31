//! Items of several inputs that an operator takes together.

use smallvec::SmallVec;

use crate::{Item, OpError, Port};

/// Items that wait until that of the last input is there.
#[derive(Default)]
pub(crate) struct AlignedItems {
    inputs: usize,
    waiting: SmallVec<[Item; 2]>,
}

impl AlignedItems {
    /// Of so many inputs, which the runtime gives one after another.
    pub(crate) fn new(inputs: usize) -> Self {
        Self {
            inputs,
            waiting: SmallVec::new(),
        }
    }

    /// Takes an item; whether all are there now. Then `item` is that of the first input, [`others`](Self::others) are
    /// those of the others, and the next call begins anew. Samples lie in one piece then.
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
        // The first goes where the last came, and the last waits behind the others.
        let last = item.take();
        if !self.waiting.is_empty() {
            *item = self.waiting.remove(0);
        }
        self.waiting.push(last);
        Ok(true)
    }

    /// Items of the inputs behind the first, in order.
    pub(crate) fn others(&self) -> &[Item] {
        &self.waiting
    }
}
