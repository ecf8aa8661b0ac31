//! What workers handed over, as what the rest of a plan reads.
//!
//! A front has as many sources among the rest as it has exits. They are read in step, exit after exit: what a task gave by
//! one is taken before that by the next, and that before what the next task gave, so that what waits for its turn is one
//! task's, and who is asked first makes no difference.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::dispatch::{Dispatch, Failure, Given, Leads, Leaving, Parcel};
use super::log::Event;
use super::split::Front;
use crate::{
    Clock, Live, OpError, OpErrorKind, PortType, Pulled, Recording, RunError, Snapshot, Source,
};

/// What was handed over of a front and not taken yet.
#[derive(Clone)]
pub(super) struct Shelf {
    dispatch: Arc<Dispatch>,
    front: usize,
    exits: Arc<Mutex<Vec<Waiting>>>,
    /// Where the portion ends that was taken last.
    end: Arc<AtomicI64>,
    /// What comes by each exit is taken by its place, and not exit after exit.
    by_block: bool,
    /// The run has failed.
    failed: Arc<AtomicBool>,
}

/// What waits at an exit.
struct Waiting {
    ready: VecDeque<Pulled>,
    leads: Leads,
    /// So much was given of a task that is done again since what it failed with matters to nobody any more.
    given: usize,
    /// First sample of the stretch that was told of last.
    told: Option<i64>,
    /// Nobody takes it any more, of a run that has failed.
    gone: bool,
}

impl Waiting {
    /// What a task gave, as one pass tells it: of the stretch that a task begins in, only what is not known already.
    fn put(&mut self, events: impl Iterator<Item = Event>) {
        let mut under_way = None;
        for event in events {
            match event {
                // Of several in a row the last is what counts.
                Event::Stretch { anchor, why: None } => under_way = Some(anchor),
                Event::Stretch { anchor, why } => {
                    self.begin(under_way.take());
                    self.told = Some(anchor);
                    self.ready.push_back(Pulled::Stretch { anchor, why });
                }
                Event::Item(item) => {
                    self.begin(under_way.take());
                    self.ready.push_back(Pulled::Item(item));
                }
                Event::Upto(index) => self.ready.push_back(Pulled::Upto(index)),
            }
        }
        self.begin(under_way);
    }

    /// A stretch is under way, if it is another than before.
    fn begin(&mut self, under_way: Option<i64>) {
        let Some(anchor) = under_way.filter(|&anchor| self.told != Some(anchor)) else {
            return;
        };
        self.told = Some(anchor);
        let why = None;
        self.ready.push_back(Pulled::Stretch { anchor, why });
    }
}

impl Shelf {
    /// `at`: the front's number.
    pub(super) fn new(dispatch: &Arc<Dispatch>, at: usize, front: &Front) -> Self {
        let exits = front.leads.iter().map(|leads| Waiting {
            ready: VecDeque::new(),
            leads: leads.clone(),
            given: 0,
            told: None,
            gone: false,
        });
        let exits = exits.collect();
        Self {
            dispatch: dispatch.clone(),
            front: at,
            exits: Arc::new(Mutex::new(exits)),
            end: Arc::new(AtomicI64::new(i64::MIN)),
            by_block: front.by_block,
            failed: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes next by an exit; counts the samples of a task to whom takes it off.
    fn pull(&self, exit: usize, given: &mut u64) -> Result<Pulled, Option<Failure>> {
        loop {
            let mut exits = self.lock();
            // One after the other, so that the order between them does not depend on who was asked first.
            let first = exits.iter().position(|exit| !exit.ready.is_empty());
            if (self.by_block || first == Some(exit))
                && let Some(ready) = exits[exit].ready.pop_front()
            {
                return Ok(ready);
            }
            if first.is_some() {
                // It may have been asked before there was anything.
                std::thread::current().unpark();
                return Ok(Pulled::Idle);
            }
            drop(exits);
            match self.dispatch.next(self.front) {
                Given::Parcel(parcel) => {
                    if !parcel.failed {
                        *given += parcel.samples;
                    }
                    self.put(parcel);
                }
                Given::NotYet => return Ok(Pulled::Idle),
                Given::Failed(failure) => return Err(failure),
                Given::End => return Ok(Pulled::End),
            }
        }
    }

    /// Of a task that failed what came before that, which the same task gives again if it is done again.
    fn put(&self, parcel: Parcel) {
        let failed = parcel.failed;
        let mut exits = self.lock();
        // What failed is done again from its beginning.
        let end = match failed {
            true => parcel.range.start,
            false => parcel.range.end,
        };
        let back = parcel.range.start < self.end.swap(end, Ordering::Relaxed);
        for (exit, Leaving { events, upto }) in exits.iter_mut().zip(parcel.exits) {
            let before = std::mem::take(&mut exit.given);
            if failed {
                exit.given = before.max(events.len());
            }
            if exit.leads.closed() || exit.gone {
                continue;
            }
            if back {
                exit.told = None;
                exit.ready.push_back(Pulled::Back);
            }
            exit.put(events.into_iter().skip(before));
            exit.ready.extend(upto.map(Pulled::Upto));
        }
    }
}

/// What leaves a front by an exit, as a recording.
pub(super) struct Gathering {
    pub(super) shelf: Shelf,
    pub(super) exit: usize,
    /// What comes out of it.
    pub(super) port: PortType,
    /// What the front reads.
    pub(super) reads: Live,
    pub(super) snapshot: Arc<dyn Snapshot>,
    /// Samples that the front reads.
    pub(super) total: u64,
    /// Samples that come out, where that is known.
    pub(super) expects: Option<u64>,
}

impl Recording for Gathering {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(Gathered {
            shelf: self.shelf.clone(),
            exit: self.exit,
            snapshot: self.snapshot.clone(),
            total: self.total,
            expects: self.expects,
            given: 0,
            failure: None,
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
    shelf: Shelf,
    exit: usize,
    snapshot: Arc<dyn Snapshot>,
    total: u64,
    expects: Option<u64>,
    given: u64,
    /// What a task failed with, which is reported in the place of what pulling failed with.
    failure: Option<Failure>,
}

impl Source for Gathered {
    fn pull(&mut self) -> Result<Pulled, OpError> {
        let pulled = self.shelf.pull(self.exit, &mut self.given);
        pulled.map_err(|failure| {
            self.failure = failure;
            OpErrorKind::Interrupted.into()
        })
    }

    fn close(&mut self) {
        let mut exits = self.shelf.lock();
        // Of a run that has failed nobody wants more, which says nothing of what tasks failed with.
        if !self.shelf.failed.load(Ordering::Relaxed) {
            exits[self.exit].leads.close();
        }
        exits[self.exit].gone = true;
        exits[self.exit].ready.clear();
    }

    fn goes_on_to_an_error(&mut self) -> bool {
        self.shelf.failed.store(true, Ordering::Relaxed);
        true
    }

    fn is_awaited(&self) -> bool {
        let exits = self.shelf.lock();
        let first = exits.iter().position(|exit| !exit.ready.is_empty());
        // Of what is taken exit after exit something may have come while others were asked; else another's turn is first.
        first.is_none_or(|first| !self.shelf.by_block && first == self.exit)
    }

    fn failure(&mut self) -> Option<(f64, RunError)> {
        let failure = self.failure.take()?;
        Some((failure.time, *failure.error))
    }

    fn time_of(&self, index: i64) -> Option<String> {
        self.snapshot.time_of(index)
    }

    fn wakes(&mut self, thread: &std::thread::Thread) {
        self.shelf.dispatch.wakes(thread);
    }

    fn total(&self) -> Option<u64> {
        // Of all exits together.
        Some(if self.exit == 0 { self.total } else { 0 })
    }

    fn given(&self) -> Option<u64> {
        Some(self.given)
    }

    fn expects(&self) -> Option<u64> {
        self.expects
    }

    fn overlaps(&self) -> bool {
        true
    }
}
