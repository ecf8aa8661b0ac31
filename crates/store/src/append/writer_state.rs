//! What a signal's writers remember between changes; its state determines all.

use std::collections::HashMap;

use isochrony_time::{Clock, Stamp};

use crate::op::PointRow;
use crate::state::SignalState;

#[derive(Default)]
pub(crate) struct WriterState {
    pub(super) live: Option<LiveClock>,
    /// Closed pieces before this position are stored.
    pub(super) settled: usize,
    pub(crate) stamps: Option<StampIndex>,
}

pub(super) enum LiveClock {
    /// No stamp so far.
    Unknown,
    Known(Box<Clock>),
}

impl WriterState {
    pub(crate) fn forget_clock(&mut self) {
        self.live = None;
        self.settled = 0;
    }
}

/// Maps stamps to positions, to detect duplicates cheaply.
#[derive(Debug, Default)]
pub(crate) struct StampIndex {
    places: HashMap<(i64, u32), Vec<i64>>,
}

impl StampIndex {
    pub(crate) fn new(state: &SignalState) -> Self {
        let mut index = Self::default();
        state.points.iter().for_each(|point| index.add(&point));
        index
    }

    pub(crate) fn add(&mut self, point: &PointRow) {
        let places = self.places.entry((point.civil_ns, point.civil_frac));
        places.or_default().push(point.index);
    }

    pub(crate) fn places_of(&self, stamp: &Stamp) -> &[i64] {
        let ns = stamp.civil.floor_i64();
        let places = ns.and_then(|ns| self.places.get(&(ns, stamp.civil.frac())));
        places.map_or(&[], Vec::as_slice)
    }
}
