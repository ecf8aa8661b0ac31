use std::ops::Range;
use std::os::unix::fs::FileExt;

use isochrony_system::blocks::reserve;

use crate::check::Check;
use crate::error::{CacheError, IoContext, is_full};
use crate::journal::{Op, OwnerId, Piece};
use crate::object::{MAX_RESERVED, Object};
use crate::piece_table::PieceTable;
use crate::pinned::PinnedObject;
use crate::ranges::{Extent, runs};
use crate::state::StateGuard;

/// Exclusive right to fetch some pieces, with disk space allocated. Dropping it releases what was not stored. The space
/// stays with the object: a file that may be mapped is never truncated.
#[derive(Debug)]
pub struct Reservation {
    object: PinnedObject,
    extent: Extent,
    /// Reserved pieces not stored yet.
    runs: Vec<Range<u32>>,
}

impl Reservation {
    pub(crate) fn new(object: &PinnedObject, pieces: Range<u32>) -> Result<Self, CacheError> {
        let id = object.table.id;
        let mut locked = object.inner.lock()?;
        let reservable = loop {
            let known = (locked.index.objects.get(&id)).ok_or_else(|| object.lost())?;
            let reservable = ReservablePieces::new(known, &object.table, pieces.clone());
            let mut reaped_any = false;
            for owner in &reservable.owners {
                let reaped = locked.reap_owner(*owner);
                reaped_any |= reaped.map_err(|error| locked.disk_error(error, 0))?;
            }
            if !reaped_any {
                break reservable;
            }
        };
        let ReservablePieces {
            extent,
            free,
            damaged,
            ..
        } = reservable;
        let runs = runs(free);
        let mut reservation = Self {
            object: object.clone(),
            extent,
            runs: Vec::new(),
        };
        if runs.is_empty() {
            return Ok(reservation);
        }
        let known = (locked.index.objects.get(&id)).ok_or_else(|| object.lost())?;
        let needed = (runs.iter().cloned().flatten())
            .map(|piece| known.needed(piece))
            .sum();
        locked.make_room(needed)?;
        let owner = locked.owner.id;
        let dropped = damaged.iter().map(|piece| Op::Dropped {
            object: id,
            piece: *piece,
        });
        let reserved = runs.iter().map(|run| Op::Reserved {
            object: id,
            first: run.start,
            count: run.end - run.start,
            owner,
        });
        locked.commit_or_evict(dropped.chain(reserved).collect(), needed)?;
        damaged.iter().for_each(|piece| object.table.clear(*piece));
        drop(locked);
        reservation.runs = runs;
        // Without the lock, as it may be slow. If it fails, the drop releases the pieces.
        reservation.allocate()?;
        Ok(reservation)
    }

    /// Allocates blocks, so that a full disk is detected before a fetch. Includes pieces in state `Allocated`: on a
    /// full disk, earlier attempts may not have got blocks for them.
    fn allocate(&self) -> Result<(), CacheError> {
        let ranges = self.ranges();
        let needed = ranges.iter().map(|range| range.end - range.start).sum();
        self.with_room(needed, "reserve space in", |file| {
            (ranges.iter()).try_for_each(|range| reserve(file, range.clone()))
        })
    }

    /// On a full disk, evicts and retries once.
    fn with_room(
        &self,
        needed: u64,
        action: &'static str,
        change: impl Fn(&std::fs::File) -> std::io::Result<()>,
    ) -> Result<(), CacheError> {
        let table = &self.object.table;
        let inner = &self.object.inner;
        match change(&table.file) {
            Err(error) if is_full(&error) => {}
            result => return result.at_path(action, || inner.folder.object(&table.digest)),
        }
        let mut locked = inner.lock()?;
        locked.evict(needed)?;
        drop(locked);
        change(&table.file)
            .at_path(action, || inner.folder.object(&table.digest))
            .map_err(|error| match inner.lock() {
                Ok(locked) => locked.disk_error(error, needed),
                Err(_) => error,
            })
    }

    /// Whether everything is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Byte ranges to store, of whole pieces.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.runs.iter().map(|run| self.extent.run(run)).collect()
    }

    /// Verifies bytes of whole pieces and makes them present.
    ///
    /// # Errors
    /// [`CacheError::CheckFailed`], [`CacheError::NotReserved`], [`CacheError::DiskFull`] if blocks could not be
    /// reserved, [`CacheError::ObjectLost`], and errors of the system. The pieces stay reserved.
    pub fn store(&mut self, offset: u64, bytes: &[u8], check: Check<'_>) -> Result<(), CacheError> {
        let run = self.run_of(offset, bytes.len() as u64)?;
        let piece_bytes = self.extent.piece_bytes as usize;
        let checksums: Vec<u32> = bytes.chunks(piece_bytes).map(crc32c::crc32c).collect();
        let combined_crc = || {
            let lengths = bytes.chunks(piece_bytes).map(<[u8]>::len);
            let join = |all, (piece, len): (&u32, _)| crc32c::crc32c_combine(all, *piece, len);
            checksums.iter().zip(lengths).fold(0, join)
        };
        check.verify(&self.object.table.key, offset, bytes, combined_crc)?;
        self.with_room(bytes.len() as u64, "write", |file| {
            file.write_all_at(bytes, offset)
        })?;
        let table = &self.object.table;
        let mut locked = self.object.inner.lock()?;
        let stored = self.still_reserved(&locked, std::slice::from_ref(&run))?;
        let ops = (stored.iter())
            .map(|part| Op::Stored {
                object: table.id,
                first: part.start,
                checksums: checksums
                    [(part.start - run.start) as usize..(part.end - run.start) as usize]
                    .to_vec(),
            })
            .collect();
        locked.commit_or_evict(ops, 0)?;
        if let Some(known) = locked.index.objects.get(&table.id) {
            table.copy(known, run.clone());
        }
        // Before others can change the pieces.
        (stored.into_iter().flatten()).for_each(|piece| table.set_verified(piece));
        drop(locked);
        self.runs = without(&self.runs, &run);
        Ok(())
    }

    /// Excludes the last piece if the object grew.
    fn still_reserved(
        &self,
        locked: &StateGuard<'_>,
        pieces: &[Range<u32>],
    ) -> Result<Vec<Range<u32>>, CacheError> {
        let known =
            (locked.index.objects.get(&self.object.table.id)).ok_or_else(|| self.object.lost())?;
        let reserved = known.reserved_by(locked.owner.id, pieces);
        let is_same = |piece: &u32| known.extent.piece(*piece) == self.extent.piece(*piece);
        Ok(runs(reserved.into_iter().flatten().filter(is_same)))
    }

    /// The pieces of these bytes, which must be whole and reserved.
    fn run_of(&self, offset: u64, len: u64) -> Result<Range<u32>, CacheError> {
        let piece_bytes = self.extent.piece_bytes;
        let end = offset.saturating_add(len);
        let is_whole = len > 0
            && offset.is_multiple_of(piece_bytes)
            && (end.is_multiple_of(piece_bytes) || end == self.extent.bytes)
            && end <= self.extent.bytes;
        if is_whole {
            let run = self.extent.pieces_of(&(offset..end));
            let is_reserved = |r: &Range<u32>| r.start <= run.start && run.end <= r.end;
            if self.runs.iter().any(is_reserved) {
                return Ok(run);
            }
        }
        Err(CacheError::NotReserved {
            key: self.object.table.key.clone(),
            start: offset,
            end,
            piece_bytes,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.runs.is_empty() || self.object.inner.check_process().is_err() {
            return;
        }
        let id = self.object.table.id;
        match self.object.inner.lock_existing() {
            // The object was removed with its folder.
            Ok(None) => {}
            Ok(Some(mut locked)) => {
                if let Ok(left) = self.still_reserved(&locked, &self.runs) {
                    locked.release(id, &left);
                }
            }
            Err(_) => {
                if let Ok(mut state) = self.object.inner.peek() {
                    let left = self.runs.drain(..).map(|run| (id, run));
                    state.unreleased.extend(left);
                }
            }
        }
    }
}

impl PinnedObject {
    pub(crate) fn lost(&self) -> CacheError {
        CacheError::ObjectLost {
            path: self.inner.folder.root.clone(),
            key: self.table.key.clone(),
        }
    }
}

struct ReservablePieces {
    extent: Extent,
    free: Vec<u32>,
    /// Those of `free` that the index has as present but are damaged.
    damaged: Vec<u32>,
    owners: Vec<OwnerId>,
}

impl ReservablePieces {
    fn new(object: &Object, table: &PieceTable, pieces: Range<u32>) -> Self {
        let (mut free, mut damaged, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            match object.pieces.get(&piece) {
                None | Some(Piece::Allocated) => free.push(piece),
                Some(Piece::Present(crc)) if table.is_damaged(piece, *crc) => {
                    free.push(piece);
                    damaged.push(piece);
                }
                Some(Piece::Reserved(owner)) if !owners.contains(owner) => owners.push(*owner),
                Some(Piece::Reserved(_) | Piece::Present(_)) => {}
            }
            if free.len() == MAX_RESERVED as usize {
                break;
            }
        }
        Self {
            extent: object.extent,
            free,
            damaged,
            owners,
        }
    }
}

fn without(ranges: &[Range<u32>], part: &Range<u32>) -> Vec<Range<u32>> {
    let is_left = |piece: &u32| !part.contains(piece);
    runs(ranges.iter().cloned().flatten().filter(is_left))
}
