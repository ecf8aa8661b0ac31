//! What a journal records.

use serde::{Deserialize, Serialize};

use crate::key::ObjectKey;
use isochrony_placement::EvictionPolicy;

/// Number of an object, unique in a journal.
pub(crate) type ObjectId = u64;
/// Number of an open cache; a kernel lock on a file of that name tells whether it lives.
pub(crate) type OwnerId = u64;

/// One change of the index. The order of variants and of fields is the format: add at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    /// What the cache was last opened with.
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
    /// The object became longer. Its last piece is not present any more if it was shorter than others.
    Grown { object: ObjectId, bytes: u64 },
    /// Consecutive pieces are going to be fetched by an owner.
    Reserved {
        object: ObjectId,
        first: u32,
        count: u32,
        owner: OwnerId,
    },
    /// Consecutive reserved pieces were verified and written; these are the CRC-32C of each.
    Stored {
        object: ObjectId,
        first: u32,
        checksums: Vec<u32>,
    },
    /// Consecutive reserved pieces are not going to be fetched.
    Released {
        object: ObjectId,
        first: u32,
        count: u32,
        owner: OwnerId,
    },
    /// An owner died: so did its reservations.
    OwnerDied { owner: OwnerId },
    /// The bytes of a piece on disk are not those that were stored.
    Dropped { object: ObjectId, piece: u32 },
    /// The object's file was unlinked.
    Removed { object: ObjectId, evicted: bool },
    /// The object was used.
    Touched { object: ObjectId },
    /// Pieces that were asked for and found or not found, since the process last told.
    Counted { hits: u64, misses: u64 },
}

/// What a cache was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) quota_bytes: u64,
    pub(crate) piece_bytes: u64,
    pub(crate) eviction: EvictionPolicy,
}

/// Counts since the cache was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
}

/// State of a piece whose space is allocated. A piece in no state was never reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Piece {
    /// Space is allocated, there are no bytes.
    Allocated,
    /// An owner is fetching it.
    Reserved(OwnerId),
    /// Verified bytes are there, with this CRC-32C.
    Present(u32),
}

/// The whole index, as a compacted journal starts with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) settings: Settings,
    pub(crate) next_object: ObjectId,
    pub(crate) counters: Counters,
    /// First to be evicted first.
    pub(crate) objects: Vec<StoredObject>,
}

/// An object of a [`Snapshot`].
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
