//! An object of the index: which pieces have space, and which have bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::journal::{OwnerId, Piece};
use crate::key::ObjectKey;
use crate::ranges::{Extent, runs};

/// Most pieces of an object: the table of a pinned object has 8 bytes for each.
pub(crate) const MAX_PIECES: u64 = 1 << 22;
/// Most pieces reserved at once: a record of the journal stands for that many entries at most.
pub(crate) const MAX_RESERVED: u32 = 1 << 14;
/// Files are allocated in blocks of this length.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Pieces per block that a file system may use to record where they are. (ext4: 340 extents to a block.)
const PIECES_PER_BLOCK: u64 = 256;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) key: ObjectKey,
    pub(crate) digest: [u8; 32],
    pub(crate) extent: Extent,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) pieces: BTreeMap<u32, Piece>,
    /// What the object takes of the quota.
    pub(crate) allocated: u64,
}

/// Bytes of the index's objects, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// What counts against the quota.
    pub(crate) allocated: u64,
    /// Pieces that are present.
    pub(crate) present: u64,
    /// Pieces that are being fetched.
    pub(crate) reserved: u64,
}

impl Object {
    /// What the file takes beside its pieces.
    pub(crate) fn overhead(extent: &Extent) -> u64 {
        BLOCK_BYTES * (1 + extent.pieces() / PIECES_PER_BLOCK)
    }

    /// What a piece takes of the quota.
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

    /// Bytes of quota that reserving the piece takes.
    pub(crate) fn needed(&self, piece: u32) -> u64 {
        match self.pieces.get(&piece) {
            Some(_) => 0,
            None => Self::charge(&self.extent, piece),
        }
    }

    /// Puts a piece in a state, and the difference into `usage`.
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

    /// Those of these pieces that this owner has reserved, in runs.
    pub(crate) fn reserved_by(&self, owner: OwnerId, pieces: &[Range<u32>]) -> Vec<Range<u32>> {
        let is_owned = |piece: &u32| self.pieces.get(piece) == Some(&Piece::Reserved(owner));
        runs(pieces.iter().cloned().flatten().filter(is_owned))
    }

    /// Bytes of quota that growing to `extent` takes: the last piece may become longer.
    pub(crate) fn growth(&self, extent: &Extent) -> u64 {
        let mut needed = Self::overhead(extent) - Self::overhead(&self.extent);
        if let Some(last) = self.last_short()
            && self.pieces.contains_key(&last)
        {
            needed += Self::charge(extent, last) - Self::charge(&self.extent, last);
        }
        needed
    }

    /// The last piece, if it is shorter than the others.
    pub(crate) fn last_short(&self) -> Option<u32> {
        let whole = self.extent.bytes / self.extent.piece_bytes;
        (!self.extent.bytes.is_multiple_of(self.extent.piece_bytes)).then_some(whole as u32)
    }
}
