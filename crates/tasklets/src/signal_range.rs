//! A range of a signal, and its handle.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_store::{Scratch, Signal, SignalWriter, Store, StoreError};

use crate::shared_signal::SharedSignal;

/// A range of a signal that a tasklet reads or writes.
#[derive(Clone)]
pub struct SignalRange {
    pub(crate) handle: SignalHandle,
    pub(crate) range: Range<i64>,
    /// Once known.
    pub(crate) dtype: Option<DType>,
}

#[derive(Clone)]
pub(crate) enum SignalHandle {
    Stored(Store, Box<Signal>),
    /// Only read.
    Shared(Arc<SharedSignal>),
    Scratch(Scratch),
}

impl SignalRange {
    /// Samples of a stored signal. An output must be a gap reserved with
    /// [`append_gap`](isochrony_store::SignalWriter::append_gap).
    #[must_use]
    pub fn new(store: &Store, signal: &Signal, range: Range<i64>) -> Self {
        Self {
            handle: SignalHandle::Stored(store.clone(), Box::new(signal.clone())),
            range,
            dtype: Some(signal.dtype()),
        }
    }

    /// Samples of a scratch signal, released when no tasklet needs them.
    #[must_use]
    pub fn scratch(scratch: &Scratch, range: Range<i64>) -> Self {
        Self {
            handle: SignalHandle::Scratch(scratch.clone()),
            range,
            dtype: None,
        }
    }

    /// The sample indices.
    #[must_use]
    pub fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    pub(crate) fn signal(&self) -> Result<Signal, StoreError> {
        match &self.handle {
            SignalHandle::Stored(_, signal) => {
                let mut signal = (**signal).clone();
                signal.refresh()?;
                Ok(signal)
            }
            SignalHandle::Shared(signal) => signal.refreshed(),
            SignalHandle::Scratch(scratch) => scratch.signal(),
        }
    }

    /// Without refreshing. Scratch is always current.
    pub(crate) fn cached_signal(&self) -> Result<Signal, StoreError> {
        match &self.handle {
            SignalHandle::Stored(_, signal) => Ok((**signal).clone()),
            SignalHandle::Shared(signal) => Ok(signal.cached()),
            SignalHandle::Scratch(scratch) => scratch.signal(),
        }
    }

    pub(crate) fn dtype(&self) -> Result<DType, StoreError> {
        match self.dtype {
            Some(dtype) => Ok(dtype),
            None => Ok(self.signal()?.dtype()),
        }
    }

    pub(crate) fn writer(&self) -> Result<SignalWriter, StoreError> {
        match &self.handle {
            SignalHandle::Stored(store, signal) => store.writer(signal.name()),
            // Unreachable: a written signal is never shared.
            SignalHandle::Shared(signal) => Err(StoreError::ReadOnly {
                path: signal.cached().name().into(),
                action: "fill a gap",
            }),
            SignalHandle::Scratch(scratch) => Ok((**scratch).clone()),
        }
    }

    pub(crate) fn is_scratch(&self) -> bool {
        matches!(self.handle, SignalHandle::Scratch(_))
    }

    pub(crate) fn len(&self) -> i64 {
        (self.range.end - self.range.start).max(0)
    }
}

pub(crate) fn merge_ranges(mut ranges: Vec<Range<i64>>) -> Vec<Range<i64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<i64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
