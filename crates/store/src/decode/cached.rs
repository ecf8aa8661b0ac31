//! Reads sealed shards through a host's cache, verifying each frame.
//!
//! An object is a shard's file, which never changes. Checksums are of decoded chunks, so a frame is decoded once before
//! it is cached.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::frames::{self, Decompressor, Frames};
use crate::engine::crc::masked;
use crate::engine::proofs::ChecksummedRange;
use crate::layout::flat::{Flat, parse_index};
use crate::layout::shard::SEALED_SHARD_CHUNKS;
use crate::media::{Media, MediaFile};
use crate::op::SignalId;
use crate::shard_cache::key::sealed_key;
use crate::shard_cache::{CachedContent, CachedFile, Origin, ShardCache};
use crate::state::{GapTable, SignalState};
use crate::version::FileVersion;

pub(crate) struct SealedShardCache {
    cache: Arc<ShardCache>,
    store: Uuid,
    id: SignalId,
    chunks: Arc<SealedChunks>,
}

struct SealedChunks {
    frames: Frames,
    chunk_bytes: usize,
    sample_bytes: usize,
    gaps: GapTable,
    /// Of full chunks.
    crcs: Vec<Option<u32>>,
    tail: Option<ChecksummedRange>,
}

impl SealedShardCache {
    /// `None` if the signal is not sealed. `crcs`: checksums of full chunks; `tails`: of samples after them.
    pub(crate) fn new(
        cache: Arc<ShardCache>,
        store: Uuid,
        state: &SignalState,
        crcs: impl FnOnce(Range<u64>) -> Vec<Option<u32>>,
        tails: &[ChecksummedRange],
    ) -> Option<Self> {
        let frames = Frames::of(&state.meta)?;
        let length = state.meta.chunk_samples.max(1);
        let full = state.end.max(0).cast_unsigned() / length;
        let sample_bytes = state.meta.format.size();
        let first = full.checked_mul(length)?.cast_signed();
        let is_tail = |tail: &&ChecksummedRange| tail.range == (first..state.end);
        Some(Self {
            cache,
            store,
            id: state.id,
            chunks: Arc::new(SealedChunks {
                frames,
                chunk_bytes: usize::try_from(length).ok()?.checked_mul(sample_bytes)?,
                sample_bytes,
                gaps: state.gaps.clone(),
                crcs: crcs(0..full),
                tail: tails.iter().find(is_tail).cloned(),
            }),
        })
    }

    /// `None` if the index is damaged, as a direct read reports.
    pub(super) fn open(
        &self,
        media: &Arc<dyn Media>,
        file: &Arc<dyn MediaFile>,
        path: &Path,
        shard: u64,
        version: FileVersion,
    ) -> io::Result<Option<CachedFile>> {
        let Some(content) = SealedContent::read(&**file, shard, &self.chunks)? else {
            return Ok(None);
        };
        let origin = match file.as_os_file() {
            None => Origin::Open(Arc::clone(file)),
            Some(os) => Origin::Reopened {
                media: Arc::clone(media),
                path: path.to_path_buf(),
                identity: crate::engine::mapping::identity(os)?,
            },
        };
        let key = sealed_key(self.store, self.id, shard, version);
        let (cache, len) = (Arc::clone(&self.cache), content.len);
        Ok(Some(CachedFile::new(
            cache,
            key,
            Box::new(content),
            origin,
            len,
        )))
    }
}

struct SealedContent {
    len: u64,
    /// Bytes before the first frame and after the last.
    head: Vec<u8>,
    index_at: u64,
    index: Vec<u8>,
    /// Frames in file order, without holes, with chunk numbers.
    frames: Vec<(Range<u64>, u64)>,
    chunks: Arc<SealedChunks>,
}

impl fmt::Debug for SealedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedContent")
            .field("len", &self.len)
            .field("frames", &self.frames.len())
            .finish_non_exhaustive()
    }
}

impl SealedContent {
    /// `None` unless the file is complete and without holes.
    fn read(
        file: &dyn MediaFile,
        shard: u64,
        chunks: &Arc<SealedChunks>,
    ) -> io::Result<Option<Self>> {
        let len = file.len()?;
        let Some(index_at) = len.checked_sub(Flat::index_len(SEALED_SHARD_CHUNKS)) else {
            return Ok(None);
        };
        let mut index = vec![0; (len - index_at) as usize];
        if file.read_at(index_at, &mut index)? < index.len() {
            return Ok(None);
        }
        let Some(entries) = parse_index(&index) else {
            return Ok(None);
        };
        let mut frames: Vec<(Range<u64>, u64)> = (0..)
            .zip(entries)
            .filter(|(_, (offset, length))| (*offset, *length) != (u64::MAX, u64::MAX))
            .map(|(chunk, (offset, length))| {
                let end = offset.saturating_add(length);
                (
                    offset..end,
                    shard.saturating_mul(SEALED_SHARD_CHUNKS) + chunk,
                )
            })
            .collect();
        frames.sort_by_key(|(range, _)| range.start);
        let begins = frames.first().map_or(index_at, |(range, _)| range.start);
        let mut at = begins;
        for (range, _) in &frames {
            if range.start != at || range.end <= at {
                return Ok(None);
            }
            at = range.end;
        }
        if at != index_at || begins > 4096 {
            return Ok(None);
        }
        let mut head = vec![0; begins as usize];
        if file.read_at(0, &mut head)? < head.len() {
            return Ok(None);
        }
        let chunks = Arc::clone(chunks);
        Ok(Some(Self {
            len,
            head,
            index_at,
            index,
            frames,
            chunks,
        }))
    }

    fn within(&self, range: &Range<u64>) -> &[(Range<u64>, u64)] {
        let first = self
            .frames
            .partition_point(|(own, _)| own.end <= range.start);
        let behind = self
            .frames
            .partition_point(|(own, _)| own.start < range.end);
        &self.frames[first..behind.max(first)]
    }
}

impl SealedChunks {
    fn first_of(&self, chunk: u64) -> i64 {
        chunk.cast_signed() * self.samples()
    }

    fn samples(&self) -> i64 {
        (self.chunk_bytes / self.sample_bytes) as i64
    }

    /// `None` if unknown; no checksum for a chunk without samples.
    fn known(&self, chunk: u64) -> Option<(Range<i64>, Option<u32>)> {
        let first = self.first_of(chunk);
        let whole = first..first + self.samples();
        if self.gaps.missing_within(whole.clone()) >= self.samples() {
            return Some((whole, None));
        }
        if let Some(crc) = self.crcs.get(chunk as usize) {
            return crc.map(|crc| (whole, Some(crc)));
        }
        let tail = self
            .tail
            .as_ref()
            .filter(|tail| tail.range.start == first)?;
        Some((tail.range.clone(), Some(tail.crc)))
    }

    fn check(
        &self,
        chunk: u64,
        frame: &[u8],
        content: &mut [u8],
        decompressor: &mut Decompressor,
    ) -> Result<(), String> {
        let Some((range, expected)) = self.known(chunk) else {
            return Err(format!("chunk {chunk} has no checksum"));
        };
        frames::check_length(frame.len() as u64, self.chunk_bytes)?;
        self.frames.check(frame, self.chunk_bytes)?;
        let (_, context) = decompressor.parts();
        self.frames.decode(frame, content, context)?;
        let Some(expected) = expected else {
            return Ok(());
        };
        let samples = &mut content[..(range.end - range.start) as usize * self.sample_bytes];
        let got = masked(samples, range.start, self.sample_bytes, &self.gaps);
        match got.is_none_or(|got| got == expected) {
            true => Ok(()),
            false => Err(format!(
                "chunk {chunk} decodes to samples with another checksum than {expected:08x}"
            )),
        }
    }
}

impl CachedContent for SealedContent {
    fn start(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        self.len
    }

    fn checkable(&self, range: Range<u64>) -> Range<u64> {
        let frames = self.within(&range);
        let start = match frames.first() {
            Some((first, _)) if first.start < range.start => first.start,
            _ => range.start,
        };
        let end = match frames.last() {
            Some((last, _)) if last.end > range.end => last.end,
            _ => range.end,
        };
        start..end
    }

    fn is_known(&self, range: Range<u64>) -> bool {
        let frames = self.within(&range);
        range.end <= self.len
            && (frames.iter()).all(|(_, chunk)| self.chunks.known(*chunk).is_some())
    }

    fn check(&self, start: u64, bytes: &mut [u8]) -> Result<(), String> {
        let end = start + bytes.len() as u64;
        let differs = |own: &[u8], own_start: u64| {
            let (from, to) = (start.max(own_start), end.min(own_start + own.len() as u64));
            from < to
                && bytes[(from - start) as usize..(to - start) as usize]
                    != own[(from - own_start) as usize..(to - own_start) as usize]
        };
        if differs(&self.head, 0) || differs(&self.index, self.index_at) {
            return Err("the shard's header or its index is another one".into());
        }
        let mut content = vec![0; self.chunks.chunk_bytes];
        let mut decompressor = Decompressor::default();
        for (range, chunk) in self.within(&(start..end)) {
            let frame = &bytes[(range.start - start) as usize..(range.end - start) as usize];
            (self.chunks).check(*chunk, frame, &mut content, &mut decompressor)?;
        }
        Ok(())
    }
}
