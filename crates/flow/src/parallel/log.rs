//! What a task hands over: items, and the breaks between them, in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    Bound, Break, Contract, Held, Item, Live, Next, OpError, Operator, Out, PlanError, Port,
    PortType,
};

/// What came out of a front.
#[derive(Debug)]
pub(super) enum Event {
    Item(Item),
    /// A stretch begins, or without a `why` is under way.
    Stretch {
        anchor: i64,
        why: Option<Break>,
    },
    /// Nothing that begins before this index follows.
    Upto(i64),
}

/// What a worker's task under way has given by an exit; used by one thread, and shared by the ends of its run.
#[derive(Debug, Default, Clone)]
pub(super) struct Log(Arc<Mutex<Logged>>);

#[derive(Debug, Default)]
struct Logged {
    events: Vec<Event>,
    /// Nothing that begins before this index follows, as far as was said.
    upto: Option<i64>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Logged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another task begins; nothing of what it gives begins before an index.
    pub(super) fn begin(&self, upto: i64) {
        let (events, upto) = (vec![Event::Upto(upto)], Some(upto));
        *self.lock() = Logged { events, upto };
    }

    /// All of it, taken out.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    /// How far the task came.
    pub(super) fn upto(&self) -> Option<i64> {
        self.lock().upto
    }
}

/// An exit of a front in a worker: hands items over, and tells of breaks between them.
pub(super) struct HandOver(pub(super) Log);

impl Held for HandOver {
    fn name(&self) -> &'static str {
        "hand_over"
    }

    fn make(&self, _: Option<&Live>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl Operator for HandOver {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        Ok(Bound::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.0.lock().events.push(Event::Item(item.take()));
        Ok(Next::Taken)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let mut logged = self.0.lock();
        // What is read before the portion lies behind that where it begins.
        logged.upto = logged.upto.max(Some(upto));
        // Of several in a row the last says all.
        match logged.events.last_mut() {
            Some(Event::Upto(last)) => *last = upto.max(*last),
            _ => logged.events.push(Event::Upto(upto)),
        }
        upto
    }

    fn begins(&mut self, anchor: i64, why: Option<&Break>) {
        // A task's end, by which operators forget what they know.
        let over = matches!(why, Some(Break::Dropped(range)) if range.is_empty());
        if !over {
            let why = why.cloned();
            self.0.lock().events.push(Event::Stretch { anchor, why });
        }
    }
}
