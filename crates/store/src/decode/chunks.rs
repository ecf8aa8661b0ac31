//! Decoded chunks of all signals, kept in the order of their last use.

use std::collections::HashMap;

use isochrony_segment::Buffer;

use crate::op::SignalId;
use crate::version::FileVersion;

/// Bytes of decoded chunks that are kept.
const KEPT: usize = 128 << 20;

/// A chunk of one version of a signal's array.
pub(super) type ChunkKey = (SignalId, FileVersion, u64);

/// Decoded chunks, with the time of their last use.
#[derive(Default)]
pub(super) struct Chunks {
    clock: u64,
    bytes: usize,
    kept: HashMap<ChunkKey, (u64, Buffer)>,
}

impl Chunks {
    pub(super) fn get(&mut self, key: ChunkKey) -> Option<Buffer> {
        self.clock += 1;
        let (used, buffer) = self.kept.get_mut(&key)?;
        *used = self.clock;
        Some(buffer.clone())
    }

    pub(super) fn put(&mut self, key: ChunkKey, buffer: Buffer) {
        self.bytes += buffer.len();
        if let Some((_, old)) = self.kept.insert(key, (self.clock, buffer)) {
            self.bytes -= old.len();
        }
        // Chunks are large and thus few: looking at all of them costs nothing beside decoding one.
        while self.bytes > KEPT && self.kept.len() > 1 {
            let oldest = self
                .kept
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(key, _)| *key);
            if let Some((_, old)) = oldest.and_then(|key| self.kept.remove(&key)) {
                self.bytes -= old.len();
            }
        }
    }

    pub(super) fn forget(&mut self, id: SignalId) {
        self.kept.retain(|(signal, ..), _| *signal != id);
        self.bytes = self.kept.values().map(|(_, buffer)| buffer.len()).sum();
    }
}
