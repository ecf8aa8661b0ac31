//! Cuts the input of a replicated stage: into blocks, or into cells where results depend on the cuts.

use super::block::{BlockCutter, Cut};
use super::cell::CellCutter;
use crate::SourceEvent;

pub(super) enum InputCutter {
    Blocks(BlockCutter),
    Cells {
        cutter: CellCutter,
        /// The replica of the open cell: it got the parts so far.
        owner: usize,
    },
}

impl InputCutter {
    pub(super) fn push(&mut self, events: impl Iterator<Item = SourceEvent>) {
        match self {
            Self::Blocks(cutter) => cutter.push(events),
            Self::Cells { cutter, .. } => cutter.push(events),
        }
    }

    /// Limits the bytes of a block. Cells have a fixed size: results depend on it.
    pub(super) fn limit(&mut self, bytes: u64) {
        match self {
            Self::Blocks(cutter) => cutter.limit(bytes),
            Self::Cells { .. } => {}
        }
    }

    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Blocks(cutter) => cutter.has_room(),
            Self::Cells { cutter, .. } => cutter.has_room(),
        }
    }

    pub(super) fn has_more(&self) -> bool {
        match self {
            Self::Blocks(cutter) => cutter.has_more(),
            Self::Cells { cutter, .. } => cutter.has_more(),
        }
    }

    /// Events pushed and not looked at so far.
    pub(super) fn arrived(&self) -> usize {
        match self {
            Self::Blocks(cutter) => cutter.arrived(),
            Self::Cells { cutter, .. } => cutter.arrived(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Blocks(cutter) => cutter.bytes(),
            Self::Cells { cutter, .. } => cutter.bytes(),
        }
    }

    pub(super) fn owner(&self) -> Option<usize> {
        match self {
            Self::Cells { cutter, owner } if cutter.continues() => Some(*owner),
            _ => None,
        }
    }

    pub(super) fn cut(&mut self, replica: usize) -> Cut {
        match self {
            Self::Blocks(cutter) => cutter.cut(),
            Self::Cells { cutter, owner } => {
                let cut = cutter.cut();
                *owner = replica;
                cut
            }
        }
    }
}
