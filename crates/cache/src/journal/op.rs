//! Operations that the journal records.

use serde::{Deserialize, Serialize};

use crate::key::ObjectKey;
use isochrony_placement::EvictionPolicy;

/// Number of an object, unique in a journal.
pub(crate) type ObjectId = u64;
/// Number of an open cache, alive while its file is locked.
pub(crate) type OwnerId = u64;

/// A change of the index. The order of variants and fields is the format: append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    /// The options of the last opening.
    Configured(Settings),
    /// A new object, without pieces.
    Created {
        object: ObjectId,
        key: ObjectKey,
        bytes: u64,
        piece_bytes: u64,
        /// Seconds since 1970.
        created: u64,
    },
    /// The object grew. A short last piece is no longer present.
    Grown { object: ObjectId, bytes: u64 },
    /// An owner will fetch consecutive pieces.
    Reserved {
        object: ObjectId,
        first: u32,
        count: u32,
        owner: OwnerId,
    },
    /// Pieces were verified and written, with these CRC-32C.
    Stored {
        object: ObjectId,
        first: u32,
        checksums: Vec<u32>,
    },
    /// Reserved pieces will not be fetched.
    Released {
        object: ObjectId,
        first: u32,
        count: u32,
        owner: OwnerId,
    },
    /// Ends the owner's reservations.
    OwnerDied { owner: OwnerId },
    /// A piece on disk differs from what was stored.
    Dropped { object: ObjectId, piece: u32 },
    /// The object's file was deleted.
    Removed { object: ObjectId, evicted: bool },
    /// The object was used.
    Touched { object: ObjectId },
    /// Requested pieces, present or not, since the last report.
    Counted { hits: u64, misses: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) quota_bytes: u64,
    pub(crate) piece_bytes: u64,
    pub(crate) eviction: EvictionPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
}

/// A piece with allocated space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Piece {
    /// Allocated without bytes.
    Allocated,
    /// An owner is fetching it.
    Reserved(OwnerId),
    /// Verified bytes with this CRC-32C.
    Present(u32),
}

/// The whole index, in a compacted journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) settings: Settings,
    pub(crate) next_object: ObjectId,
    pub(crate) counters: Counters,
    /// In eviction order.
    pub(crate) objects: Vec<StoredObject>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredObject {
    pub(crate) object: ObjectId,
    pub(crate) key: ObjectKey,
    pub(crate) bytes: u64,
    pub(crate) piece_bytes: u64,
    pub(crate) created: u64,
    pub(crate) uses: u64,
    pub(crate) pieces: Vec<(u32, Piece)>,
}
