//! An object of the index.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::journal::{OwnerId, Piece};
use crate::key::ObjectKey;
use crate::ranges::{Extent, runs};

/// A table has 8 bytes per piece.
pub(crate) const MAX_PIECES: u64 = 1 << 22;
pub(crate) const MAX_RESERVED: u32 = 1 << 14;
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// ext4 has 340 extents per metadata block.
const PIECES_PER_BLOCK: u64 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) key: ObjectKey,
    pub(crate) digest: [u8; 32],
    pub(crate) extent: Extent,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) pieces: BTreeMap<u32, Piece>,
    pub(crate) allocated: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Bytes counted against the quota.
    pub(crate) allocated: u64,
    pub(crate) present: u64,
    pub(crate) reserved: u64,
}

impl Object {
    /// Quota in addition to the pieces.
    pub(crate) fn overhead(extent: &Extent) -> u64 {
        BLOCK_BYTES * (1 + extent.pieces() / PIECES_PER_BLOCK)
    }

    pub(crate) fn charge(extent: &Extent, piece: u32) -> u64 {
        let range = extent.piece(piece);
        (range.end - range.start).next_multiple_of(BLOCK_BYTES)
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage {
            allocated: Self::overhead(&self.extent),
            ..Usage::default()
        };
        for (piece, state) in &self.pieces {
            usage.allocated += Self::charge(&self.extent, *piece);
            match state {
                Piece::Allocated => {}
                Piece::Reserved(_) => usage.reserved += self.len_of(*piece),
                Piece::Present(_) => usage.present += self.len_of(*piece),
            }
        }
        usage
    }

    fn len_of(&self, piece: u32) -> u64 {
        let range = self.extent.piece(piece);
        range.end - range.start
    }

    /// Quota needed to reserve the piece.
    pub(crate) fn needed(&self, piece: u32) -> u64 {
        match self.pieces.get(&piece) {
            Some(_) => 0,
            None => Self::charge(&self.extent, piece),
        }
    }

    pub(crate) fn set(&mut self, piece: u32, state: Piece, usage: &mut Usage) {
        let len = self.len_of(piece);
        match self.pieces.insert(piece, state) {
            None => {
                let charge = Self::charge(&self.extent, piece);
                self.allocated += charge;
                usage.allocated += charge;
            }
            Some(Piece::Allocated) => {}
            Some(Piece::Reserved(_)) => usage.reserved -= len,
            Some(Piece::Present(_)) => usage.present -= len,
        }
        match state {
            Piece::Allocated => {}
            Piece::Reserved(_) => usage.reserved += len,
            Piece::Present(_) => usage.present += len,
        }
    }

    pub(crate) fn reserved_by(&self, owner: OwnerId, pieces: &[Range<u32>]) -> Vec<Range<u32>> {
        let is_owned = |piece: &u32| self.pieces.get(piece) == Some(&Piece::Reserved(owner));
        runs(pieces.iter().cloned().flatten().filter(is_owned))
    }

    /// Quota to grow to `extent`, which may lengthen the last piece.
    pub(crate) fn growth(&self, extent: &Extent) -> u64 {
        let mut needed = Self::overhead(extent) - Self::overhead(&self.extent);
        if let Some(last) = self.last_short()
            && self.pieces.contains_key(&last)
        {
            needed += Self::charge(extent, last) - Self::charge(&self.extent, last);
        }
        needed
    }

    pub(crate) fn last_short(&self) -> Option<u32> {
        let whole = self.extent.bytes / self.extent.piece_bytes;
        (!self.extent.bytes.is_multiple_of(self.extent.piece_bytes)).then_some(whole as u32)
    }
}
