//! A pinned object: missing ranges, and reads.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{CacheError, IoContext};
use crate::journal::Op;
use crate::piece_table::{PieceTable, Verdict};
use crate::ranges::runs;
use crate::reservation::Reservation;
use crate::state::CacheInner;

/// Initial and maximum time between polls of another process's fetch.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
const DIGEST_BYTES: u64 = 1 << 20;

/// An object that is not evicted while this, a clone, a [`Reservation`] or a [`Mapping`](crate::Mapping) lives. Reading
/// present bytes takes no lock.
#[derive(Debug, Clone)]
pub struct PinnedObject {
    pub(crate) inner: Arc<CacheInner>,
    pub(crate) table: Arc<PieceTable>,
}

impl PinnedObject {
    pub(crate) fn new(inner: Arc<CacheInner>, table: Arc<PieceTable>) -> Self {
        Self { inner, table }
    }

    /// Length as pinned, or a greater one from another process.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.table.extent.bytes
    }

    /// The sparse file with the pieces at their offsets.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        self.inner.folder.object(&self.table.digest)
    }

    /// Length of its pieces, except the last.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        self.table.extent.piece_bytes
    }

    /// Ranges of whole pieces that cover the missing bytes. If empty, reading `range` succeeds. Counts hits and misses.
    ///
    /// # Errors
    /// A range outside the object, and errors of the system.
    pub fn missing(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, CacheError> {
        let pieces = self.pieces(&range)?;
        let absent = self.absent(pieces.clone())?;
        let misses: u64 = absent
            .iter()
            .map(|run| u64::from(run.end - run.start))
            .sum();
        let all = u64::from(pieces.end - pieces.start);
        self.inner.misses.fetch_add(misses, Ordering::Relaxed);
        self.inner.hits.fetch_add(all - misses, Ordering::Relaxed);
        let extent = &self.table.extent;
        Ok(absent.iter().map(|run| extent.run(run)).collect())
    }

    /// Reserves space for pieces that are neither present nor being fetched, at most 16,384 at a time. Evicts other
    /// objects if necessary.
    ///
    /// # Errors
    /// [`CacheError::CacheFull`], [`CacheError::DiskFull`], [`CacheError::ObjectLost`], and errors of the system.
    pub fn reserve(&self, range: Range<u64>) -> Result<Reservation, CacheError> {
        Reservation::new(self, self.pieces(&range)?)
    }

    /// Makes `range` present: `fetch` must store all of each reservation; waits for pieces that other processes fetch,
    /// or fetches them if those die. `timeout`: maximum wait for another process without progress.
    ///
    /// # Errors
    /// Those of [`Self::reserve`] and `fetch`, and [`CacheError::FetchTimeout`]. Read the origin directly then.
    pub fn fetch<E: From<CacheError>>(
        &self,
        range: Range<u64>,
        timeout: Duration,
        mut fetch: impl FnMut(&mut Reservation) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut missing = self.missing(range.clone())?;
        let (mut since, mut interval) = (Instant::now(), POLL_INTERVAL.0);
        while !missing.is_empty() {
            let mut reservation = self.reserve(range.clone())?;
            if !reservation.is_empty() {
                fetch(&mut reservation)?;
                if let Some(left) = reservation.ranges().first() {
                    return Err(E::from(CacheError::NotStored {
                        key: self.table.key.clone(),
                        start: left.start,
                        end: left.end,
                    }));
                }
            } else if since.elapsed() > timeout {
                return Err(E::from(CacheError::FetchTimeout {
                    key: self.table.key.clone(),
                    start: missing[0].start,
                    end: missing[0].end,
                    waited: since.elapsed(),
                }));
            } else {
                std::thread::sleep(interval);
                interval = (interval * 2).min(POLL_INTERVAL.1);
            }
            let absent = self.absent(self.pieces(&range)?)?;
            let still: Vec<_> = absent
                .iter()
                .map(|run| self.table.extent.run(run))
                .collect();
            if still != missing {
                (since, interval) = (Instant::now(), POLL_INTERVAL.0);
            }
            missing = still;
        }
        Ok(())
    }

    /// Reads present bytes at an offset.
    ///
    /// # Errors
    /// [`CacheError::NotPresent`] if any piece is missing, a range outside the object, and errors of the system.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), CacheError> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        self.check_present(&range)?;
        (self.table.file.read_exact_at(buffer, offset))
            .at_path("read", || self.inner.folder.object(&self.table.digest))
    }

    /// BLAKE3 digest of the whole object.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn digest(&self) -> Result<[u8; 32], CacheError> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; DIGEST_BYTES.min(self.bytes()) as usize];
        let mut at = 0;
        while at < self.bytes() {
            let part = DIGEST_BYTES.min(self.bytes() - at);
            self.read_at(at, &mut buffer[..part as usize])?;
            hasher.update(&buffer[..part as usize]);
            at += part;
        }
        Ok(*hasher.finalize().as_bytes())
    }

    pub(crate) fn check_present(&self, range: &Range<u64>) -> Result<(), CacheError> {
        let pieces = self.pieces(range)?;
        match self.absent(pieces)?.first() {
            None => Ok(()),
            Some(run) => {
                let bytes = self.table.extent.run(run);
                Err(CacheError::NotPresent {
                    key: self.table.key.clone(),
                    start: bytes.start,
                    end: bytes.end,
                })
            }
        }
    }

    fn pieces(&self, range: &Range<u64>) -> Result<Range<u32>, CacheError> {
        let extent = &self.table.extent;
        if range.start > range.end || range.end > extent.bytes {
            return Err(CacheError::OutsideObject {
                key: self.table.key.clone(),
                start: range.start,
                end: range.end,
                bytes: extent.bytes,
            });
        }
        Ok(extent.pieces_of(range))
    }

    /// Missing pieces as ranges; verifies present ones.
    fn absent(&self, pieces: Range<u32>) -> Result<Vec<Range<u32>>, CacheError> {
        let table = &*self.table;
        if pieces.clone().all(|piece| table.is_verified(piece)) {
            return Ok(Vec::new());
        }
        if !pieces.clone().all(|piece| table.is_present(piece)) {
            let locked = self.inner.lock()?;
            if let Some(object) = locked.index.objects.get(&table.id) {
                table.copy(object, pieces.clone());
            }
        }
        let mut buffer = Vec::new();
        let mut absent = Vec::new();
        for piece in pieces {
            let verdict = match table.verify(piece, &mut buffer) {
                Verdict::Mismatch => self.resolve_mismatch(piece, &mut buffer)?,
                verdict => verdict,
            };
            if verdict != Verdict::Verified {
                absent.push(piece);
            }
        }
        Ok(runs(absent))
    }

    /// Decides with the index held, so that nobody changes bytes or checksum.
    fn resolve_mismatch(&self, piece: u32, buffer: &mut Vec<u8>) -> Result<Verdict, CacheError> {
        let table = &*self.table;
        let mut locked = self.inner.lock()?;
        let Some(object) = locked.index.objects.get(&table.id) else {
            table.clear(piece);
            return Ok(Verdict::Absent);
        };
        table.copy(object, piece..piece + 1);
        let verdict = table.verify(piece, buffer);
        if verdict != Verdict::Mismatch {
            return Ok(verdict);
        }
        // Others cannot be told on a full disk: whoever reserves the piece retries.
        table.set_damaged(piece);
        locked.commit_if_room(vec![Op::Dropped {
            object: table.id,
            piece,
        }])?;
        Ok(Verdict::Absent)
    }
}
