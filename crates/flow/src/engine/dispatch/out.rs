//! The engine's side of an operator call: output, memory, anchor.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use isochrony_segment::{Buffer, DType};

use super::drive::fan_out;
use super::marks::send_mark;
use crate::engine::context::ExecutionContext;
use crate::engine::mark::Mark;
use crate::engine::part_executor::PartExecutor;
use crate::engine::pool::Block;
use crate::engine::slot::{Slot, end_upstream};
use crate::{Break, Item, OpError, OpErrorKind, Port, RangeOrigin};

/// Output and memory during an operator call.
pub struct Out<'a> {
    later: &'a mut [Slot],
    pub(super) node: u32,
    pub(super) context: &'a mut ExecutionContext,
}

impl Out<'_> {
    /// Sends an item to every consumer of an output: all but the last get a clone.
    ///
    /// # Errors
    /// The error of a later operator, or [`OpErrorKind::Interrupted`]: pass it on with `?`.
    pub fn emit(&mut self, port: Port, item: &mut Item) -> Result<(), OpError> {
        self.context.check_interrupt()?;
        let (range, ends) = (self.context.item_range, self.context.done_count);
        let state = &self.context.nodes[self.node as usize];
        if state.in_step {
            return Err(OpErrorKind::OutOfStep { did: "emitted" }.into());
        }
        if let Some(kept) = &state.kept {
            match item.part(kept.clone())? {
                Some(part) => *item = part,
                None => return Ok(()),
            }
        }
        fan_out(self.later, self.node, port, item, self.context)?;
        if self.context.done_count != ends {
            end_upstream(self.later, self.node + 1, &self.context.nodes);
        }
        self.context.switch_to(self.node);
        self.context.item_range = range;
        Ok(())
    }

    /// Announces a range that does not come from the inputs: the next item is no continuation, and windows are counted
    /// from `anchor`.
    ///
    /// # Errors
    /// As [`emit`](Self::emit).
    pub fn begin(&mut self, port: Port, anchor: i64) -> Result<(), OpError> {
        let why = Some(Break::Removed);
        let origin = RangeOrigin::at(anchor);
        let what = Mark::RangeStart { origin, why };
        send_mark(self.later, self.node, port, &what, self.context)
    }

    /// Memory for `len` samples.
    ///
    /// # Errors
    /// [`OpErrorKind::MemoryCap`].
    pub fn alloc(&mut self, dtype: DType, len: usize) -> Result<Block, OpError> {
        let bytes = dtype.size().saturating_mul(len);
        self.context.pool.take(bytes, self.context.queued_bytes)
    }

    /// Makes filled memory shareable; it returns to the pool when unreferenced.
    pub fn seal(&mut self, block: Block) -> Buffer {
        self.context.pool.seal(block)
    }

    /// States bytes buffered beside parameters, for the memory budget.
    ///
    /// # Errors
    /// [`OpErrorKind::MemoryCap`](crate::OpErrorKind::MemoryCap).
    pub fn holds(&mut self, bytes: u64) -> Result<(), OpError> {
        let ExecutionContext {
            nodes,
            pool,
            queued_bytes,
            ..
        } = &mut *self.context;
        let before = std::mem::replace(&mut nodes[self.node as usize].held_bytes, bytes);
        let used = *queued_bytes - before;
        *queued_bytes = used + bytes;
        pool.charge(used, bytes)
    }

    pub(crate) fn keep_only(&mut self, range: Option<Range<i64>>) {
        self.context.nodes[self.node as usize].kept = range;
    }

    /// Threads that may compute parts of this call; None with one thread.
    pub(crate) fn helpers(&self) -> Option<Arc<dyn PartExecutor>> {
        self.context.helpers.clone()
    }

    /// When the first item of the burst arrived.
    pub(crate) fn arrived(&self) -> Option<Instant> {
        self.context.arrived
    }

    pub(crate) fn end_burst(&mut self) {
        self.context.ends_burst = true;
    }

    pub(crate) fn feed_back(&mut self, item: Item) {
        if let Some(begin) = self.context.nodes[self.node as usize].loop_begin {
            self.context.feedback.push_back((begin, item));
        }
    }

    #[inline]
    pub(crate) fn of<'a>(
        node: u32,
        later: &'a mut [Slot],
        context: &'a mut ExecutionContext,
    ) -> Out<'a> {
        Out {
            later,
            node,
            context,
        }
    }

    /// First sample of the current contiguous range, from which blocks and phases are counted. May precede what is
    /// read.
    #[must_use]
    pub fn anchor(&self) -> i64 {
        self.context.nodes[self.node as usize].origin.anchor
    }

    /// First sample read of the contiguous range, in any task; windows are counted from it.
    #[must_use]
    pub fn first_read(&self) -> i64 {
        self.context.nodes[self.node as usize].origin.first
    }
}
