//! Results of a host, as a recording.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use super::inbox::{HostInbox, InboxReader};
use crate::{
    Clock, OpError, OpErrorKind, PortType, Recording, RunError, SharedRecording, Source,
    SourceEvent,
};

pub(super) struct HostRecording {
    pub(super) inbox: Arc<HostInbox>,
    pub(super) port: PortType,
    /// In plan order; not opened here, but they have the clocks.
    pub(super) sources: Vec<SharedRecording>,
    /// Gives indices and times.
    pub(super) reads: Option<SharedRecording>,
    /// Items need not be contiguous or in order.
    pub(super) descends: bool,
}

impl Recording for HostRecording {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(HostSource {
            reader: InboxReader(Arc::clone(&self.inbox)),
            clocks: self.sources.iter().map(SharedRecording::clock).collect(),
            clock: self.clock(),
            events: VecDeque::new(),
            failure: None,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.reads.as_ref()?.clock()
    }

    fn host_window(&self) -> Option<u64> {
        Some(self.inbox.window())
    }

    fn registers_clock(&self) -> bool {
        false
    }

    fn skips_samples(&self) -> bool {
        self.descends
    }

    fn gives_own_samples(&self) -> bool {
        false
    }
}

struct HostSource {
    reader: InboxReader,
    clocks: Vec<Option<Arc<dyn Clock>>>,
    clock: Option<Arc<dyn Clock>>,
    events: VecDeque<SourceEvent>,
    failure: Option<RunError>,
}

impl Source for HostSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            if self.failure.is_some() {
                return Err(OpErrorKind::Interrupted.into());
            }
            match self.reader.0.take() {
                Ok(None) => return Ok(SourceEvent::Idle),
                Ok(Some(batch)) => {
                    for (clock, source) in self.clocks.iter().zip(batch.sources) {
                        if let (Some(clock), Some(changes)) = (clock, source.clock) {
                            clock.apply_changes(&changes).map_err(OpErrorKind::Failed)?;
                        }
                    }
                    self.events.extend(batch.events);
                    self.failure = batch.failure;
                }
                Err(failure) => self.failure = Some(failure),
            }
        }
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let stamp = self.clock.as_ref()?.stamp(index)?;
        Some(isochrony_time::civil::format(stamp.civil))
    }

    fn failure(&mut self) -> Option<(f64, RunError)> {
        // Ranks first: nothing of this source follows.
        Some((f64::NEG_INFINITY, self.failure.take()?))
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.reader.0.set_waker(waker);
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn close(&mut self) {
        self.reader.0.close();
    }

    fn total(&self) -> Option<u64> {
        None
    }
}
