//! Sources as a run pulls from them: in bursts.

use super::axis::Axis;
use crate::{Item, Source, SourceItem};

/// Samples after which a burst ends.
const SAMPLES: u64 = 1 << 18;
/// Items after which a burst ends.
const ITEMS: u64 = 64;
/// Of the run's memory all sources' bursts take one part in so many: what one of them gives may wait for the others.
const OF_MEMORY: u64 = 16;

/// A source, and how far it is.
pub(super) struct Feed {
    pub(super) source: Box<dyn Source>,
    pub(super) node: usize,
    /// Index up to which it has given.
    pub(super) upto: i64,
    /// What it gave that is not its turn yet.
    pub(super) kept: Option<SourceItem>,
    /// How often it has gone back.
    pub(super) backs: u64,
    /// How far it is as time: index over rate, so that sources of different rates keep together.
    pub(super) time: f64,
    pub(super) axis: Axis,
    pub(super) ended: bool,
    /// It had nothing when it was last asked.
    pub(super) idle: bool,
    /// Whether it always has something until it ends, as what is stored.
    pub(super) stored: bool,
    /// What it gave, as it counts itself, when progress was last said.
    pub(super) counted: u64,
}

/// What a source gave in a burst.
#[derive(Default)]
pub(super) struct Burst {
    pub(super) samples: u64,
    items: u64,
    bytes: u64,
}

impl Burst {
    /// Bytes after which a burst ends, of one of so many sources.
    pub(super) fn most(memory: u64, sources: usize) -> u64 {
        (memory / OF_MEMORY / sources.max(1) as u64).max(1)
    }

    /// Takes an item in; its samples.
    pub(super) fn add(&mut self, item: &Item) -> u64 {
        let samples = item.samples();
        self.samples += samples;
        self.items += 1;
        self.bytes += item.bytes();
        samples
    }

    /// Takes in what another gave that is one burst with it.
    pub(super) fn join(&mut self, other: &Self) {
        self.samples += other.samples;
        self.items += other.items;
        self.bytes += other.bytes;
    }

    /// It ends here, whatever it gave.
    pub(super) fn end(&mut self) {
        self.items = ITEMS;
    }

    pub(super) fn is_over(&self, most: u64) -> bool {
        self.samples >= SAMPLES || self.items >= ITEMS || self.bytes >= most
    }
}
