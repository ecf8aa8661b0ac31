//! The index that a journal describes. No I/O.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::journal::{Counters, ObjectId, Op, OwnerId, Piece, Settings, Snapshot, StoredObject};
use crate::key::ObjectKey;
use crate::object::{BLOCK_BYTES, MAX_PIECES, MAX_RESERVED, Object, Usage};
use crate::ranges::Extent;
use isochrony_placement::{Eviction, EvictionPolicy};

/// Allowed piece lengths: whole blocks, at most a request.
pub(crate) const PIECE_BYTES: Range<u64> = BLOCK_BYTES..(1 << 30) + 1;
/// Bounds replayed uses, so that loading takes linear time.
const MAX_REPLAYED_USES: u64 = 64;

#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) settings: Settings,
    pub(crate) next_object: ObjectId,
    pub(crate) counters: Counters,
    pub(crate) usage: Usage,
    pub(crate) queue: Eviction<ObjectId>,
    pub(crate) objects: BTreeMap<ObjectId, Object>,
    by_digest: HashMap<[u8; 32], ObjectId>,
}

/// An operation that contradicts the index: the journal is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidOp;

type Applied = Result<(), InvalidOp>;

impl Index {
    pub(crate) fn new(settings: Settings, next_object: ObjectId) -> Self {
        Self {
            settings,
            next_object,
            counters: Counters::default(),
            usage: Usage::default(),
            queue: Eviction::new(settings.eviction),
            objects: BTreeMap::new(),
            by_digest: HashMap::new(),
        }
    }

    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self, InvalidOp> {
        let mut index = Self::new(snapshot.settings, snapshot.next_object);
        index.counters = snapshot.counters;
        for stored in &snapshot.objects {
            index.add(
                stored.object,
                &stored.key,
                stored.bytes,
                stored.piece_bytes,
                stored.created,
            )?;
            let object = (index.objects.get_mut(&stored.object)).ok_or(InvalidOp)?;
            let pieces = object.extent.pieces();
            for (piece, state) in &stored.pieces {
                if u64::from(*piece) >= pieces || object.pieces.contains_key(piece) {
                    return Err(InvalidOp);
                }
                object.set(*piece, *state, &mut index.usage);
            }
            index.resize(stored.object);
            for _ in 1..stored.uses.min(MAX_REPLAYED_USES) {
                let _ = index.queue.touch(&stored.object);
            }
        }
        Ok(index)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let objects = (self.queue.in_order().into_iter())
            .filter_map(|(id, uses)| {
                let object = self.objects.get(&id)?;
                Some(StoredObject {
                    object: id,
                    key: object.key.clone(),
                    bytes: object.extent.bytes,
                    piece_bytes: object.extent.piece_bytes,
                    created: object.created,
                    uses,
                    pieces: (object.pieces.iter()).map(|(p, s)| (*p, *s)).collect(),
                })
            })
            .collect();
        Snapshot {
            settings: self.settings,
            next_object: self.next_object,
            counters: self.counters,
            objects,
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn check(&self) {
        let mut total = Usage::default();
        for object in self.objects.values() {
            let usage = object.usage();
            assert_eq!(usage.allocated, object.allocated);
            total.allocated += usage.allocated;
            total.present += usage.present;
            total.reserved += usage.reserved;
        }
        assert_eq!(total, self.usage);
        assert_eq!(self.by_digest.len(), self.objects.len());
        assert_eq!(self.queue.in_order().len(), self.objects.len());
    }

    pub(crate) fn set_eviction(&mut self, policy: EvictionPolicy) {
        if policy != self.queue.policy() {
            let order = self.queue.in_order();
            self.queue = Eviction::new(policy);
            order.iter().for_each(|(id, _)| self.resize(*id));
        }
    }

    pub(crate) fn find(&self, digest: &[u8; 32]) -> Option<ObjectId> {
        self.by_digest.get(digest).copied()
    }

    pub(crate) fn owners(&self) -> Vec<OwnerId> {
        if self.usage.reserved == 0 {
            return Vec::new();
        }
        let states = self
            .objects
            .values()
            .flat_map(|object| object.pieces.values());
        let mut owners: Vec<_> = states
            .filter_map(|state| match state {
                Piece::Reserved(owner) => Some(*owner),
                _ => None,
            })
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Applies an operation. After an invalid one the index is unusable.
    pub(crate) fn apply(&mut self, op: &Op) -> Applied {
        match op {
            Op::Configured(settings) => {
                self.settings = *settings;
                Ok(())
            }
            Op::Created {
                object,
                key,
                bytes,
                piece_bytes,
                created,
            } => self.add(*object, key, *bytes, *piece_bytes, *created),
            Op::Grown { object, bytes } => self.grow(*object, *bytes),
            Op::Reserved {
                object,
                first,
                count,
                owner,
            } => self.set_run(*object, *first, *count, Piece::Reserved(*owner), |state| {
                matches!(state, None | Some(Piece::Allocated))
            }),
            Op::Stored {
                object,
                first,
                checksums,
            } => self.store(*object, *first, checksums),
            Op::Released {
                object,
                first,
                count,
                owner,
            } => self.set_run(*object, *first, *count, Piece::Allocated, |state| {
                state == Some(Piece::Reserved(*owner))
            }),
            Op::OwnerDied { owner } => {
                self.release_all(*owner);
                Ok(())
            }
            Op::Dropped { object, piece } => {
                self.set_run(*object, *piece, 1, Piece::Allocated, |state| {
                    matches!(state, Some(Piece::Present(_)))
                })
            }
            Op::Removed { object, evicted } => self.remove(*object, *evicted),
            Op::Touched { object } => {
                // A removed object is not in the queue.
                let _ = self.queue.touch(object);
                Ok(())
            }
            Op::Counted { hits, misses } => {
                self.counters.hits = self.counters.hits.saturating_add(*hits);
                self.counters.misses = self.counters.misses.saturating_add(*misses);
                Ok(())
            }
        }
    }

    fn add(
        &mut self,
        id: ObjectId,
        key: &ObjectKey,
        bytes: u64,
        piece_bytes: u64,
        created: u64,
    ) -> Applied {
        let allowed = PIECE_BYTES.contains(&piece_bytes) && piece_bytes.is_power_of_two();
        if !allowed || bytes.div_ceil(piece_bytes) > MAX_PIECES || id == u64::MAX {
            return Err(InvalidOp);
        }
        let extent = Extent { bytes, piece_bytes };
        let object = Object {
            key: key.clone(),
            digest: key.digest(),
            extent,
            created,
            pieces: BTreeMap::new(),
            allocated: Object::overhead(&extent),
        };
        if self.by_digest.contains_key(&object.digest) || self.objects.contains_key(&id) {
            return Err(InvalidOp);
        }
        self.usage.allocated += object.allocated;
        self.by_digest.insert(object.digest, id);
        self.objects.insert(id, object);
        self.next_object = self.next_object.max(id + 1);
        self.resize(id);
        Ok(())
    }

    fn resize(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get(&id) {
            let bytes = object.allocated;
            if self.queue.set_bytes(&id, bytes).is_err() {
                // New, so inserting it succeeds.
                let _ = self.queue.insert(id, bytes);
            }
        }
    }

    fn grow(&mut self, id: ObjectId, bytes: u64) -> Applied {
        let object = self.objects.get_mut(&id).ok_or(InvalidOp)?;
        let extent = Extent {
            bytes,
            ..object.extent
        };
        if bytes <= object.extent.bytes || extent.pieces() > MAX_PIECES {
            return Err(InvalidOp);
        }
        // A short last piece is incomplete; its fetcher finds it unreserved.
        if let Some(last) = object.last_short()
            && object.pieces.contains_key(&last)
        {
            object.set(last, Piece::Allocated, &mut self.usage);
        }
        let growth = object.growth(&extent);
        object.allocated += growth;
        self.usage.allocated += growth;
        object.extent = extent;
        self.resize(id);
        Ok(())
    }

    fn set_run(
        &mut self,
        id: ObjectId,
        first: u32,
        count: u32,
        state: Piece,
        may: impl Fn(Option<Piece>) -> bool,
    ) -> Applied {
        let object = self.objects.get_mut(&id).ok_or(InvalidOp)?;
        let run = run_of(&object.extent, first, u64::from(count))?;
        if !run
            .clone()
            .all(|piece| may(object.pieces.get(&piece).copied()))
        {
            return Err(InvalidOp);
        }
        run.for_each(|piece| object.set(piece, state, &mut self.usage));
        self.resize(id);
        Ok(())
    }

    fn store(&mut self, id: ObjectId, first: u32, checksums: &[u32]) -> Applied {
        let object = self.objects.get_mut(&id).ok_or(InvalidOp)?;
        let run = run_of(&object.extent, first, checksums.len() as u64)?;
        let is_reserved = |piece| matches!(object.pieces.get(&piece), Some(Piece::Reserved(_)));
        if !run.clone().all(is_reserved) {
            return Err(InvalidOp);
        }
        for (piece, crc) in run.zip(checksums) {
            object.set(piece, Piece::Present(*crc), &mut self.usage);
        }
        Ok(())
    }

    fn release_all(&mut self, owner: OwnerId) {
        for object in self.objects.values_mut() {
            let is_owned = |(piece, state): (&u32, &Piece)| {
                (*state == Piece::Reserved(owner)).then_some(*piece)
            };
            let owned: Vec<u32> = object.pieces.iter().filter_map(is_owned).collect();
            for piece in owned {
                object.set(piece, Piece::Allocated, &mut self.usage);
            }
        }
    }

    fn remove(&mut self, id: ObjectId, evicted: bool) -> Applied {
        let object = self.objects.remove(&id).ok_or(InvalidOp)?;
        let usage = object.usage();
        self.usage.allocated -= usage.allocated;
        self.usage.present -= usage.present;
        self.usage.reserved -= usage.reserved;
        self.by_digest.remove(&object.digest);
        self.queue.remove(&id).map_err(|_| InvalidOp)?;
        self.counters.evictions += u64::from(evicted);
        Ok(())
    }
}

/// A non-empty range of pieces within the object.
fn run_of(extent: &Extent, first: u32, count: u64) -> Result<Range<u32>, InvalidOp> {
    let end = u64::from(first) + count;
    if count == 0 || count > u64::from(MAX_RESERVED) || end > extent.pieces() {
        return Err(InvalidOp);
    }
    Ok(first..end as u32)
}
