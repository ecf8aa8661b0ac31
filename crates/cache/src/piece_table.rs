//! Piece states of a pinned object: one atomic word each, no lock.
//!
//! A reader that needs a piece not shown as present copies its word from the index. A piece is *verified* once this
//! process has stored it or compared its checksum, in any pin. Readers use verified pieces only.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::journal::{ObjectId, Piece};
use crate::locks::unlock;
use crate::object::Object;
use crate::ranges::Extent;

const CHECKSUM: u64 = u32::MAX as u64;
const PRESENT: u64 = 1 << 32;
const VERIFIED: u64 = 1 << 33;
/// Replaces `PRESENT`: a mismatch that the index may not know of.
const DAMAGED: u64 = 1 << 34;
/// Fits a core's own cache.
const VERIFY_BYTES: usize = 64 << 10;

/// The shared kernel lock on its file is the pin, and ends with the last user of the table or the process.
#[derive(Debug)]
pub(crate) struct PieceTable {
    pub(crate) id: ObjectId,
    pub(crate) digest: [u8; 32],
    /// For messages.
    pub(crate) key: String,
    pub(crate) file: File,
    pub(crate) extent: Extent,
    /// A fork of this process has no pin.
    process: u32,
    states: Arc<PieceStates>,
}

/// Kept between pins, so that bytes are verified once.
#[derive(Debug)]
pub(crate) struct PieceStates {
    /// May be longer in another process.
    last_bytes: AtomicU64,
    words: Box<[AtomicU64]>,
}

impl PieceStates {
    pub(crate) fn new(pieces: usize) -> Self {
        Self {
            last_bytes: AtomicU64::new(0),
            words: (0..pieces).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn pieces(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn clear(&self, piece: u32) {
        if let Some(word) = self.words.get(piece as usize) {
            word.store(0, Ordering::Release);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Verified,
    Absent,
    /// The bytes do not match, or cannot be read.
    Mismatch,
}

impl PieceTable {
    /// `known`: states of an earlier pin, shared if as many.
    pub(crate) fn new(
        id: ObjectId,
        object: &Object,
        file: File,
        known: Option<&Arc<PieceStates>>,
    ) -> Self {
        let pieces = object.extent.pieces() as u32;
        let known = known.filter(|states| states.pieces() == pieces as usize);
        let table = Self {
            id,
            digest: object.digest,
            key: object.key.to_string(),
            file,
            extent: object.extent,
            process: std::process::id(),
            states: known.map_or_else(|| Arc::new(PieceStates::new(pieces as usize)), Arc::clone),
        };
        table.copy(object, 0..pieces);
        table
    }

    /// The caller holds the index.
    pub(crate) fn copy(&self, object: &Object, pieces: Range<u32>) {
        let end = pieces.end.min(self.states.words.len() as u32);
        let pieces = pieces.start.min(end)..end;
        if let Some(last) = (self.states.words.len() as u32).checked_sub(1) {
            let range = object.extent.piece(last);
            let bytes = range.end - range.start;
            if self.states.last_bytes.swap(bytes, Ordering::AcqRel) != bytes {
                self.states.words[last as usize].store(0, Ordering::Release);
            }
        }
        let mut present = object.pieces.range(pieces.clone()).peekable();
        for piece in pieces {
            let state = present.next_if(|(at, _)| **at == piece).map(|(_, s)| *s);
            let word = &self.states.words[piece as usize];
            let known = word.load(Ordering::Acquire);
            let (wanted, damaged) = match state {
                Some(Piece::Present(crc)) => (PRESENT | u64::from(crc), DAMAGED | u64::from(crc)),
                _ => (0, 0),
            };
            if known & !VERIFIED != wanted && known != damaged {
                word.store(wanted, Ordering::Release);
            }
        }
    }

    pub(crate) fn is_present(&self, piece: u32) -> bool {
        (self.states.words.get(piece as usize))
            .is_some_and(|word| word.load(Ordering::Acquire) & PRESENT != 0)
    }

    pub(crate) fn is_verified(&self, piece: u32) -> bool {
        (self.states.words.get(piece as usize))
            .is_some_and(|word| word.load(Ordering::Acquire) & VERIFIED != 0)
    }

    pub(crate) fn set_verified(&self, piece: u32) {
        if let Some(word) = self.states.words.get(piece as usize) {
            // Only with `PRESENT`: another process may have dropped it.
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word & PRESENT != 0).then_some(word | VERIFIED)
            });
        }
    }

    pub(crate) fn states(&self) -> &Arc<PieceStates> {
        &self.states
    }

    pub(crate) fn clear(&self, piece: u32) {
        self.states.clear(piece);
    }

    pub(crate) fn set_damaged(&self, piece: u32) {
        if let Some(word) = self.states.words.get(piece as usize) {
            let known = word.load(Ordering::Acquire);
            word.store(known & CHECKSUM | DAMAGED, Ordering::Release);
        }
    }

    pub(crate) fn is_damaged(&self, piece: u32, checksum: u32) -> bool {
        (self.states.words.get(piece as usize))
            .is_some_and(|word| word.load(Ordering::Acquire) == DAMAGED | u64::from(checksum))
    }

    pub(crate) fn verify(&self, piece: u32, buffer: &mut Vec<u8>) -> Verdict {
        let Some(word) = self.states.words.get(piece as usize) else {
            return Verdict::Absent;
        };
        let known = word.load(Ordering::Acquire);
        if known & VERIFIED != 0 {
            return Verdict::Verified;
        }
        if known & PRESENT == 0 {
            return Verdict::Absent;
        }
        let start = u64::from(piece) * self.extent.piece_bytes;
        let bytes = match piece as usize + 1 == self.states.words.len() {
            true => self.states.last_bytes.load(Ordering::Acquire),
            false => self.extent.piece_bytes,
        };
        if checksum(&self.file, start, bytes, buffer).ok() != Some(known as u32) {
            return Verdict::Mismatch;
        }
        let verified = known | VERIFIED;
        match word.compare_exchange(known, verified, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Verdict::Verified,
            Err(now) if now == verified => Verdict::Verified,
            // The holder of the index decides.
            Err(_) => Verdict::Mismatch,
        }
    }
}

impl Drop for PieceTable {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            unlock(&self.file);
        }
    }
}

fn checksum(file: &File, start: u64, bytes: u64, buffer: &mut Vec<u8>) -> io::Result<u32> {
    buffer.resize(VERIFY_BYTES, 0);
    let mut crc = 0;
    let mut done = 0;
    while done < bytes {
        let part = &mut buffer[..VERIFY_BYTES.min((bytes - done) as usize)];
        file.read_exact_at(part, start + done)?;
        crc = crc32c::crc32c_append(crc, part);
        done += part.len() as u64;
    }
    Ok(crc)
}
