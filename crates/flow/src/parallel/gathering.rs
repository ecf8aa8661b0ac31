//! What workers handed over, as what the rest of a plan reads.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::dispatch::{Dispatch, Given, Parcel};
use super::log::Event;
use crate::{Clock, Live, OpError, OpErrorKind, PortType, Pulled, Recording, Snapshot, Source};

/// A front, as a recording.
pub(super) struct Gathering {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) front: usize,
    /// What comes out of the front.
    pub(super) port: PortType,
    /// What it reads.
    pub(super) reads: Live,
    pub(super) snapshot: Arc<dyn Snapshot>,
    /// Samples that come out of the front, where that is known.
    pub(super) expects: Option<u64>,
}

impl Recording for Gathering {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(Gathered {
            dispatch: self.dispatch.clone(),
            front: self.front,
            snapshot: self.snapshot.clone(),
            expects: self.expects,
            ready: VecDeque::new(),
            given: 0,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.reads.clock()
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.reads.saved()
    }
}

struct Gathered {
    dispatch: Arc<Dispatch>,
    front: usize,
    snapshot: Arc<dyn Snapshot>,
    expects: Option<u64>,
    ready: VecDeque<Pulled>,
    given: u64,
}

impl Source for Gathered {
    fn pull(&mut self) -> Result<Pulled, OpError> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(ready);
            }
            match self.dispatch.next(self.front) {
                Given::Parcel(Parcel {
                    events,
                    upto,
                    samples,
                    ..
                }) => {
                    self.given += samples;
                    let pulled = |event| match event {
                        Event::Item(item) => Pulled::Item(item),
                        Event::Stretch { anchor, why } => Pulled::Stretch { anchor, why },
                    };
                    self.ready.extend(events.into_iter().map(pulled));
                    self.ready.push_back(Pulled::Upto(upto));
                }
                Given::NotYet => return Ok(Pulled::Idle),
                // What it was is reported in the place of this.
                Given::Failed => return Err(OpErrorKind::Interrupted.into()),
                Given::End => return Ok(Pulled::End),
            }
        }
    }

    fn time_of(&self, index: i64) -> Option<String> {
        self.snapshot.time_of(index)
    }

    fn wakes(&mut self, thread: &std::thread::Thread) {
        self.dispatch.wakes(thread);
    }

    fn total(&self) -> Option<u64> {
        Some(self.snapshot.total())
    }

    fn given(&self) -> Option<u64> {
        Some(self.given)
    }

    fn expects(&self) -> Option<u64> {
        self.expects
    }
}
