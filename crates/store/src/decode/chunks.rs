//! Cache of decoded chunks of all signals.
//!
//! The most recent chunks stay, because a chunk is read segment by segment. Buffers of evicted chunks are reused, so
//! that a scan cycles through few buffers in the CPU caches. Other chunks are cached only when decoded twice, and do
//! not replace recently used ones: a scan larger than the cache would leave nothing for the next.

use std::collections::{HashMap, VecDeque};

use isochrony_segment::Buffer;

use crate::op::SignalId;
use crate::version::FileVersion;

/// Chunks always kept, for as many threads; fewer if above 1 MiB, which those of new signals are not.
const RECENT_CHUNKS: usize = 16;
/// Bytes of all cached chunks, except a single larger one.
const CACHE_BYTES: usize = 128 << 20;
/// A chunk is evictable after so many decodings without a use.
const IDLE_LIMIT: u64 = 1024;
const HISTORY_LEN: usize = 2048;
/// As many as a run may buffer; and their bytes.
const SPARE_BUFFERS: usize = 32;
const SPARE_BYTES: usize = 32 << 20;

pub(super) type ChunkKey = (SignalId, FileVersion, u64);

#[derive(Default)]
pub(super) struct Chunks {
    clock: u64,
    recent: VecDeque<(ChunkKey, Buffer)>,
    recent_bytes: usize,
    kept: HashMap<ChunkKey, (u64, Buffer)>,
    kept_bytes: usize,
    decoded: HashMap<ChunkKey, u64>,
    spare: Vec<Buffer>,
}

impl Chunks {
    pub(super) fn get(&mut self, key: ChunkKey) -> Option<Buffer> {
        if let Some((_, buffer)) = self.recent.iter().rev().find(|(recent, _)| *recent == key) {
            return Some(buffer.clone());
        }
        let (used, buffer) = self.kept.get_mut(&key)?;
        *used = self.clock;
        Some(buffer.clone())
    }

    pub(super) fn put(&mut self, key: ChunkKey, buffer: Buffer) {
        self.clock += 1;
        self.recent_bytes += buffer.len();
        self.recent.push_back((key, buffer));
        while self.recent.len() > RECENT_CHUNKS
            || self.recent_bytes > CACHE_BYTES && self.recent.len() > 1
        {
            let Some((key, buffer)) = self.recent.pop_front() else {
                break;
            };
            self.recent_bytes -= buffer.len();
            self.retire(key, buffer);
        }
        // Larger chunks may have replaced smaller ones.
        self.evict(0, 0);
    }

    fn retire(&mut self, key: ChunkKey, buffer: Buffer) {
        let is_first = self.decoded.insert(key, self.clock).is_none();
        if self.decoded.len() > 2 * HISTORY_LEN {
            let since = self.clock - HISTORY_LEN as u64;
            self.decoded.retain(|_, at| *at > since);
        }
        if is_first || self.kept.contains_key(&key) || !self.evict(buffer.len(), IDLE_LIMIT) {
            self.spare(buffer);
            return;
        }
        self.kept_bytes += buffer.len();
        self.kept.insert(key, (self.clock, buffer));
    }

    /// Whether `bytes` fit, after evicting chunks unused while `idle` others were decoded.
    fn evict(&mut self, bytes: usize, idle: u64) -> bool {
        while self.recent_bytes + self.kept_bytes + bytes > CACHE_BYTES {
            let stale = self.kept.iter().min_by_key(|(_, (used, _))| *used);
            let stale = stale.filter(|(_, (used, _))| self.clock - used >= idle);
            let Some((_, buffer)) = stale
                .map(|(key, _)| *key)
                .and_then(|key| self.kept.remove(&key))
            else {
                return false;
            };
            self.kept_bytes -= buffer.len();
            self.spare(buffer);
        }
        true
    }

    fn spare(&mut self, buffer: Buffer) {
        if buffer.len() > SPARE_BYTES {
            return;
        }
        let spare = &mut self.spare;
        while spare.len() == SPARE_BUFFERS
            || spare.iter().map(Buffer::len).sum::<usize>() + buffer.len() > SPARE_BYTES
        {
            spare.remove(0);
        }
        spare.push(buffer);
    }

    pub(super) fn take_buffer(&mut self, len: usize) -> Option<Buffer> {
        let is_free = |buffer: &mut Buffer| buffer.len() == len && buffer.get_mut().is_some();
        // Most likely in the CPU caches.
        let at = self.spare.iter_mut().rposition(is_free)?;
        Some(self.spare.remove(at))
    }

    pub(super) fn remove_signal(&mut self, id: SignalId) {
        self.recent.retain(|((signal, ..), _)| *signal != id);
        self.recent_bytes = self.recent.iter().map(|(_, buffer)| buffer.len()).sum();
        self.decoded.retain(|(signal, ..), _| *signal != id);
        self.kept.retain(|(signal, ..), _| *signal != id);
        self.kept_bytes = self.kept.values().map(|(_, buffer)| buffer.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use isochrony_segment::BufferMut;

    use super::*;

    const CHUNK: usize = 1 << 20;

    fn key(signal: u64, chunk: u64) -> ChunkKey {
        (SignalId(signal), FileVersion::default(), chunk)
    }

    fn scan(chunks: &mut Chunks, signal: u64, count: u64) -> usize {
        let mut found = 0;
        for chunk in 0..count {
            let key = key(signal, chunk);
            match chunks.get(key) {
                Some(buffer) => {
                    assert_eq!(buffer.bytes()[..8], chunk.to_ne_bytes());
                    found += 1;
                }
                None => {
                    let room = chunks.take_buffer(CHUNK);
                    let mut buffer =
                        room.unwrap_or_else(|| BufferMut::zeroed(CHUNK).unwrap().freeze());
                    buffer.get_mut().unwrap()[..8].copy_from_slice(&chunk.to_ne_bytes());
                    chunks.put(key, buffer);
                }
            }
            assert_eq!(chunks.recent_bytes, chunks.recent.len() * CHUNK);
            assert!(chunks.kept_bytes + chunks.recent_bytes <= 128 << 20);
        }
        found
    }

    #[test]
    fn a_scan_takes_little_memory_and_leaves_what_fits() {
        let mut chunks = Chunks::default();
        assert_eq!(scan(&mut chunks, 1, 300), 0);
        assert_eq!((chunks.kept.len(), chunks.spare.len()), (0, 1));
        scan(&mut chunks, 1, 300);
        assert_eq!(chunks.kept.len(), 112);
        assert!(scan(&mut chunks, 1, 300) >= 112);
        // Used chunks survive one scan of another signal, not many.
        scan(&mut chunks, 2, 300);
        assert!(scan(&mut chunks, 1, 100) >= 84);
        for _ in 0..6 {
            scan(&mut chunks, 2, 300);
        }
        assert!(scan(&mut chunks, 2, 300) >= 80);
        chunks.remove_signal(SignalId(2));
        assert_eq!(scan(&mut chunks, 2, 20), 0);
    }

    #[test]
    fn large_chunks_stay_within_the_same_limit() {
        let mut chunks = Chunks::default();
        scan(&mut chunks, 1, 300);
        scan(&mut chunks, 1, 300);
        assert!(chunks.kept_bytes > 100 << 20);
        for chunk in 0..10 {
            let large = BufferMut::zeroed(40 << 20).unwrap().freeze();
            chunks.put(key(2, chunk), large);
            assert!(chunks.recent_bytes <= 128 << 20);
            let spare: usize = chunks.spare.iter().map(Buffer::len).sum();
            assert!(spare <= SPARE_BYTES);
        }
        assert!(chunks.get(key(2, 9)).is_some());
        let large = BufferMut::zeroed(200 << 20).unwrap().freeze();
        chunks.put(key(3, 0), large);
        assert!(chunks.get(key(3, 0)).is_some());
        assert_eq!(chunks.recent.len(), 1);
    }

    #[test]
    fn does_not_reuse_buffers_in_use() {
        let mut chunks = Chunks::default();
        let held = BufferMut::zeroed(CHUNK).unwrap().freeze();
        let view = held.slice(0..8).unwrap();
        chunks.put(key(1, 0), held);
        scan(&mut chunks, 2, 100);
        assert_eq!(view.bytes(), [0; 8]);
        let address = view.as_ptr();
        drop(view);
        let mut rooms = Vec::new();
        while let Some(room) = chunks.take_buffer(CHUNK) {
            rooms.push(room.as_ptr());
        }
        assert!(rooms.contains(&address));
    }
}
