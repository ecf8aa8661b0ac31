//! Cuts off what a task knows of samples around its portion: it is another's.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Bound, Contract, Held, Item, Live, Next, OpError, OpErrorKind, Operator, Out, PlanError, Port,
    PortType,
};

/// What goes on of the task under way, in indices of what comes in; used by one thread, and set before each task.
#[derive(Debug, Default, Clone)]
pub(super) struct Kept(Arc<Mutex<Range<i64>>>);

impl Kept {
    pub(super) fn set(&self, range: Range<i64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = range;
    }

    fn get(&self) -> Range<i64> {
        let range = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        range.clone()
    }
}

/// Lets samples in a range go on, and windows that begin in it.
#[derive(Debug)]
pub(super) struct Trim(pub(super) Kept);

impl Held for Trim {
    fn name(&self) -> &'static str {
        "trim"
    }

    fn make(&self, _: Option<&Live>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Operator for Trim {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        Ok(Bound::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let kept = self.0.get();
        match item {
            Item::Samples(samples) => {
                let range = samples.range();
                let (from, to) = (range.start.max(kept.start), range.end.min(kept.end));
                if from >= to {
                    return Ok(Next::Taken);
                }
                if (from, to) != (range.start, range.end) {
                    *samples = samples.subseg(from..to)?;
                }
            }
            Item::Frames(frames) => {
                // Windows that begin before an index.
                let before = |index: i64| {
                    let into = index.max(frames.start()).abs_diff(frames.start());
                    into.div_ceil(frames.hop()).min(frames.count())
                };
                let part = before(kept.start)..before(kept.end);
                if part == (0..frames.count()) {
                    return Ok(Next::Tail);
                }
                let Some(some) = frames.sub(part) else {
                    return Ok(Next::Taken);
                };
                *frames = some;
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples or windows",
                    got: other.kind(),
                }
                .into());
            }
        }
        Ok(Next::Tail)
    }
}
