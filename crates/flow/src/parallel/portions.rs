//! What a worker reads: one portion of a recording after another, as one that ends with each.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_store::Reading;

use crate::{Break, Clock, Live, OpError, PortType, Pulled, Reach, Recording, Source, Within};

/// What a worker reads now.
#[derive(Default)]
pub(super) struct Current {
    source: Option<Box<dyn Source>>,
    /// The stretch that was under way last, where another begins or nothing is read.
    anchor: Option<i64>,
    /// What comes next, once it was asked for.
    next: Option<Pulled>,
    /// How the last portion was read that had something.
    reading: Option<Reading>,
    /// The portion; what is read around it only completes what belongs to it.
    range: Range<i64>,
    /// Nothing that is read begins at or behind this index.
    upto: i64,
    /// Samples of the portion that were read.
    pub(super) samples: u64,
    begun: bool,
    over: bool,
    /// That nothing follows was said.
    said: bool,
}

impl Current {
    /// A task's part of a recording; `anchor`: of what is read beside others.
    pub(super) fn of(
        source: Option<Box<dyn Source>>,
        range: Range<i64>,
        reach: Reach,
        read: &Within,
    ) -> Self {
        Self {
            source,
            anchor: read.anchor,
            upto: range.end.saturating_add_unsigned(reach.after),
            range,
            ..Self::default()
        }
    }

    /// How the recording is read.
    pub(super) fn reading(&self) -> Option<Reading> {
        let now = self.source.as_ref().and_then(|source| source.reading());
        now.or_else(|| self.reading.clone())
    }

    /// Goes on with another portion.
    pub(super) fn go_on(&mut self, next: Self) {
        let reading = self.reading();
        *self = Self { reading, ..next };
    }

    /// Lets go of what it reads: readers hand on what they have.
    pub(super) fn close(&mut self) {
        self.reading = self.reading();
        self.source = None;
    }

    fn pull(&mut self) -> Result<Pulled, OpError> {
        if let Some(next) = self.next.take() {
            return Ok(next);
        }
        let mut pulled = Pulled::Back;
        // Nothing was given before in this task.
        while matches!(pulled, Pulled::Back) {
            pulled = match &mut self.source {
                Some(source) => source.pull()?,
                None => Pulled::End,
            };
        }
        let Some(anchor) = self.anchor.take() else {
            return Ok(pulled);
        };
        // What goes on from before the portion says so itself.
        if matches!(pulled, Pulled::Stretch { why: None, .. }) {
            return Ok(pulled);
        }
        self.next = Some(pulled);
        Ok(Pulled::Stretch { anchor, why: None })
    }
}

/// A front's recording, as a worker's run opens it: once, for all portions.
pub(super) struct Portions {
    current: Arc<Mutex<Current>>,
    reads: Live,
}

impl Portions {
    pub(super) fn new(current: &Arc<Mutex<Current>>, reads: &Live) -> Self {
        Self {
            current: current.clone(),
            reads: reads.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recording for Portions {
    fn port(&self) -> PortType {
        self.reads.0.port()
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(Self {
            current: self.current.clone(),
            reads: self.reads.clone(),
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.reads.clock()
    }
}

impl Source for Portions {
    fn pull(&mut self) -> Result<Pulled, OpError> {
        let mut current = self.lock();
        if current.over {
            // Others that it meets need not wait.
            return Ok(match std::mem::replace(&mut current.said, true) {
                false => Pulled::Upto(current.upto),
                true => Pulled::Idle,
            });
        }
        match current.pull()? {
            // A break behind the portion is the next one's.
            Pulled::Stretch { anchor, .. } if current.begun && anchor >= current.range.end => {}
            Pulled::End => {}
            Pulled::Stretch { anchor, why } => {
                current.begun = true;
                return Ok(Pulled::Stretch { anchor, why });
            }
            Pulled::Item(item) => {
                if let Some((start, next)) = item.extent() {
                    let start = start.max(current.range.start);
                    let end = next.min(current.range.end);
                    current.samples += start.abs_diff(end.max(start));
                }
                return Ok(Pulled::Item(item));
            }
            other => return Ok(other),
        }
        current.over = true;
        // Operators forget; that something was removed may be told by what is given next, and nothing was. What others give
        // behind the portion, where this met it, comes before.
        let end = current.range.end;
        Ok(Pulled::Stretch {
            anchor: i64::MAX,
            why: Some(Break::Dropped(end..end)),
        })
    }

    fn time_of(&self, index: i64) -> Option<String> {
        self.lock().source.as_ref()?.time_of(index)
    }

    fn goes_on_to_an_error(&mut self) -> bool {
        true
    }

    fn reading(&self) -> Option<Reading> {
        self.lock().reading()
    }
}
