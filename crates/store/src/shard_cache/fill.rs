//! Fetches missing pieces of a shard: from other hosts, then from the store.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use isochrony_cache::{CacheError, Check, ObjectKey, Reservation};
use isochrony_runtime::{POLL_INTERVAL, is_stop_requested};

use super::content::CachedContent;
use super::pins::Pin;
use super::{ShardCache, add};
use crate::media::RemoteError;

const READ_BYTES: u64 = 8 << 20;
/// Wait without progress while another process fetches a piece.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) enum FillError {
    /// Read the store.
    Cache(CacheError),
    Origin(io::Error),
    /// Bytes differ from their checksum: damage, or a commit newer than this reader.
    Mismatch,
}

impl From<CacheError> for FillError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

fn interrupted() -> io::Error {
    let error = RemoteError {
        code: "interrupted",
        message: "waiting for another process of this host was stopped; start it again".into(),
    };
    error.into_io(io::ErrorKind::Interrupted)
}

pub(super) type ReadOrigin<'a> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + Sync + 'a;

pub(super) struct PieceFetch<'a> {
    pub(super) cache: &'a ShardCache,
    pub(super) key: &'a ObjectKey,
    pub(super) content: &'a dyn CachedContent,
    pub(super) origin: &'a ReadOrigin<'a>,
}

impl PieceFetch<'_> {
    /// All chunks of the range must have checksums.
    pub(super) fn fill(&self, pin: &Pin, range: Range<u64>) -> Result<(), FillError> {
        let (mut waits_for, mut since) = (None, Instant::now());
        loop {
            // Wait in intervals, between which the work can be interrupted.
            let (start, timeout) = match self.fill_within(pin, range.clone(), POLL_INTERVAL) {
                Err(FillError::Cache(error @ CacheError::FetchTimeout { start, .. })) => {
                    (start, error)
                }
                other => return other,
            };
            if is_stop_requested() {
                return Err(FillError::Origin(interrupted()));
            }
            if waits_for != Some(start) {
                (waits_for, since) = (Some(start), Instant::now());
            } else if since.elapsed() > FETCH_TIMEOUT {
                return Err(FillError::Cache(timeout));
            }
        }
    }

    fn fill_within(
        &self,
        pin: &Pin,
        range: Range<u64>,
        timeout: Duration,
    ) -> Result<(), FillError> {
        pin.object.fetch(range, timeout, |reservation| {
            let sources = match &self.cache.peers {
                Some(_) => self.cache.sources(self.key),
                None => Vec::new(),
            };
            if let Some(peers) = self.cache.peers.as_ref().filter(|_| !sources.is_empty()) {
                let missing = reservation.ranges();
                let mut take = |offset: u64, bytes: &[u8]| {
                    let taken = self.take(pin, reservation, offset, bytes);
                    if taken {
                        add(&self.cache.counters.peer, bytes.len() as u64);
                    }
                    taken
                };
                peers.fetch(self.key, pin.object.bytes(), &missing, &sources, &mut take);
            }
            for range in reservation.ranges() {
                let step =
                    (READ_BYTES / pin.object.piece_bytes()).max(1) * pin.object.piece_bytes();
                for start in (range.start..range.end).step_by(step as usize) {
                    self.read(pin, reservation, start..range.end.min(start + step))?;
                }
            }
            Ok(())
        })
    }

    fn read(
        &self,
        pin: &Pin,
        reservation: &mut Reservation,
        range: Range<u64>,
    ) -> Result<(), FillError> {
        let around = self.content.checkable(range.clone());
        let mut bytes = vec![0; (around.end - around.start) as usize];
        let own = (range.start - around.start) as usize..(range.end - around.start) as usize;
        // Chunks across the pieces' borders need the neighbours, if present.
        let mut read = own.clone();
        if pin
            .object
            .read_at(around.start, &mut bytes[..own.start])
            .is_err()
        {
            read.start = 0;
        }
        if pin
            .object
            .read_at(range.end, &mut bytes[own.end..])
            .is_err()
        {
            read.end = bytes.len();
        }
        let offset = around.start + read.start as u64;
        (self.origin)(offset, &mut bytes[read.clone()]).map_err(FillError::Origin)?;
        add(&self.cache.counters.storage, read.len() as u64);
        if self.content.check(around.start, &mut bytes).is_err() {
            add(&self.cache.counters.rejected, 1);
            return Err(FillError::Mismatch);
        }
        reservation.store(range.start, &bytes[own], Check::VerifiedByCaller)?;
        Ok(())
    }

    /// Stores pieces if they match the checksums.
    fn take(&self, pin: &Pin, reservation: &mut Reservation, offset: u64, given: &[u8]) -> bool {
        let range = offset..offset.saturating_add(given.len() as u64);
        if range.is_empty() || range.end > self.content.bytes() {
            return false;
        }
        let around = self.content.checkable(range.clone());
        let mut bytes = vec![0; (around.end - around.start) as usize];
        let (before, behind) = (
            (range.start - around.start) as usize,
            (range.end - around.start) as usize,
        );
        bytes[before..behind].copy_from_slice(given);
        for (at, rest) in [(around.start, 0..before), (range.end, behind..bytes.len())] {
            let rest = &mut bytes[rest];
            if !rest.is_empty() && pin.object.read_at(at, rest).is_err() {
                if (self.origin)(at, rest).is_err() {
                    return false;
                }
                add(&self.cache.counters.storage, rest.len() as u64);
            }
        }
        if self.content.check(around.start, &mut bytes).is_err() {
            add(&self.cache.counters.rejected, 1);
            return false;
        }
        (reservation.store(offset, &bytes[before..behind], Check::VerifiedByCaller)).is_ok()
    }
}
