//! The file reads of a piece into one buffer.
//!
//! With `O_DIRECT`, offset, memory and length must be multiples of the disk's blocks, as a shard's payload offset is. A
//! piece is read with the whole blocks at its ends, which the view omits.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use isochrony_segment::Buffer;
use isochrony_system::{descriptor, page_cache};

use super::buffer_pool::{ALIGNMENT, BufferPool, skip};
use super::files::SourceFiles;
use crate::error::{ErrorContext, IoError};
use crate::source::{FileRange, ShardFile, is_same};

/// Why shards with chunks at other offsets are decoded.
pub(crate) const FOREIGN_SHARDS: &str = "another program wrote its shards";

#[derive(Debug)]
pub(crate) enum Attempt {
    Read(Buffer),
    /// Why the rest of the scan uses another strategy.
    FallBack(String),
}

#[derive(Debug, Clone)]
pub(crate) struct FileRequest {
    pub(crate) file: Arc<File>,
    path: PathBuf,
    pub(crate) offset: u64,
    /// Offset in memory, from the buffer's first aligned byte.
    place: usize,
    need: usize,
    /// Bytes to request: the same, or whole blocks.
    pub(crate) ask: usize,
    whole_blocks: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct PieceRequest {
    pub(crate) parts: Vec<FileRequest>,
    /// Offset of the samples.
    begin: usize,
    len: usize,
}

impl PieceRequest {
    pub(crate) fn room(&self) -> usize {
        self.len + 2 * ALIGNMENT
    }

    /// Reads all parts; returns the buffer.
    pub(crate) fn fill(&self, mut buffer: Buffer) -> Result<(Attempt, Buffer), IoError> {
        for part in &self.parts {
            if let Some(why) = part.complete(&mut buffer, 0)? {
                return Ok((Attempt::FallBack(why), buffer));
            }
        }
        Ok((self.view(&buffer), buffer))
    }

    pub(crate) fn view(&self, buffer: &Buffer) -> Attempt {
        let begin = skip(buffer) + self.begin;
        let samples = buffer.slice(begin..begin + self.len);
        // `room` includes the blocks at both ends.
        samples.map_or_else(
            || Attempt::FallBack("its buffer is too short".into()),
            Attempt::Read,
        )
    }
}

#[cfg(test)]
impl PieceRequest {
    pub(crate) fn of(files: impl IntoIterator<Item = (File, u64, usize)>) -> Self {
        let mut len = 0;
        let part = |(file, offset, need)| {
            let place = len;
            len += need;
            FileRequest {
                file: Arc::new(file),
                path: PathBuf::new(),
                offset,
                place,
                need,
                ask: need,
                whole_blocks: false,
            }
        };
        let parts = files.into_iter().map(part).collect();
        Self {
            parts,
            begin: 0,
            len,
        }
    }
}

impl FileRequest {
    pub(crate) fn place(&self, buffer: &Buffer) -> usize {
        skip(buffer) + self.place
    }

    /// Reads the rest after `have` bytes. `Some`: why the file system refuses.
    pub(crate) fn complete(
        &self,
        buffer: &mut Buffer,
        have: usize,
    ) -> Result<Option<String>, IoError> {
        if have >= self.need {
            return Ok(None);
        }
        let from = self.place(buffer);
        let Some(memory) = buffer.get_mut() else {
            return Ok(Some("its buffer is in use".into()));
        };
        let room = &mut memory[from..from + self.ask];
        match self.fill(room, have) {
            Ok(have) if have >= self.need => Ok(None),
            Ok(have) => Err(IoError::MissingSamples {
                path: self.path.clone(),
                have: bytes_present(
                    self.file.metadata().map(|found| found.len()),
                    self.offset + have as u64,
                ),
                need: self.offset + self.need as u64,
            }),
            Err(error) if self.whole_blocks && refused(&error) => {
                Ok(Some(format!("the file system refuses: {error}")))
            }
            Err(error) => Err(error).with_path("read", &self.path),
        }
    }

    /// Reads to the needed end, or the file's; returns the bytes present.
    fn fill(&self, room: &mut [u8], have: usize) -> io::Result<usize> {
        let mut have = match self.whole_blocks {
            true => have / ALIGNMENT * ALIGNMENT,
            false => have,
        };
        while have < self.need {
            let at = self.offset + have as u64;
            match self.file.read_at(&mut room[have..], at) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // Only the end of a file is less than whole blocks.
            if self.whole_blocks && !have.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        Ok(have)
    }
}

#[derive(Debug)]
pub(crate) struct RequestPlanner {
    files: SourceFiles,
    direct: bool,
    /// The source keeps it open, within limits.
    last: Option<(u64, Weak<File>)>,
}

impl RequestPlanner {
    pub(crate) fn new(files: SourceFiles, direct: bool) -> Self {
        Self {
            files,
            direct,
            last: None,
        }
    }

    /// Found by opening the first file.
    pub(crate) fn refusal(&mut self, range: &Range<i64>) -> Option<String> {
        let span = self.files.spans(range).next()?;
        match self.files.shard(&span) {
            Ok(Some(shard)) => self.open(&*shard).err(),
            Ok(None) => Some(FOREIGN_SHARDS.into()),
            // The read reports the error.
            Err(_) => None,
        }
    }

    /// `Ok(Err(why))`: the strategy cannot read the range.
    pub(crate) fn plan(
        &mut self,
        range: &Range<i64>,
    ) -> Result<Result<PieceRequest, String>, IoError> {
        let size = self.files.source().dtype().size() as u64;
        let len = (range.end - range.start).cast_unsigned() * size;
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len < isize::MAX as usize - 3 * ALIGNMENT);
        let len = len.ok_or_else(|| too_large(range, size))?;
        let mut plan = PieceRequest {
            parts: Vec::new(),
            begin: 0,
            len,
        };
        let mut at = 0;
        for span in self.files.spans(range) {
            let before = match self.direct {
                true => (span.offset % ALIGNMENT as u64) as usize,
                false => 0,
            };
            if at == 0 {
                plan.begin = before;
            }
            // Only the first span may begin within a block, so memory has no holes.
            if self.direct && ((at > 0 && before > 0) || (plan.begin + at) % ALIGNMENT != before) {
                return Ok(Err("its shards are not whole blocks".into()));
            }
            let (file, path) = match self.file(&span)? {
                Ok(found) => found,
                Err(why) => return Ok(Err(why)),
            };
            let need = before + span.len as usize;
            plan.parts.push(FileRequest {
                file,
                path,
                offset: span.offset - before as u64,
                place: plan.begin + at - before,
                need,
                ask: match self.direct {
                    true => need.next_multiple_of(ALIGNMENT),
                    false => need,
                },
                whole_blocks: self.direct,
            });
            at += span.len as usize;
        }
        Ok(Ok(plan))
    }

    pub(crate) fn read(
        &mut self,
        range: &Range<i64>,
        pool: &mut BufferPool,
    ) -> Result<Attempt, IoError> {
        let plan = match self.plan(range)? {
            Ok(plan) => plan,
            Err(why) => return Ok(Attempt::FallBack(why)),
        };
        let buffer = pool.take(plan.room())?;
        let (read, buffer) = plan.fill(buffer)?;
        pool.release(buffer);
        Ok(read)
    }

    fn file(&mut self, span: &FileRange) -> Result<Result<(Arc<File>, PathBuf), String>, IoError> {
        let Some(shard) = self.files.shard(span)? else {
            return Ok(Err(FOREIGN_SHARDS.into()));
        };
        if let Some((number, file)) = &self.last
            && *number == span.shard
            && let Some(file) = file.upgrade()
        {
            return Ok(Ok((file, shard.path().to_owned())));
        }
        self.close();
        Ok(self.open(&*shard).map(|file| {
            let file = Arc::new(file);
            self.files.source().keep_open(&file);
            self.last = Some((span.shard, Arc::downgrade(&file)));
            (file, shard.path().to_owned())
        }))
    }

    fn close(&mut self) {
        let last = self.last.take();
        if let Some(file) = last.and_then(|(_, file)| file.upgrade()) {
            self.files.source().close(&file);
        }
    }

    fn open(&self, shard: &dyn ShardFile) -> Result<File, String> {
        let Some(known) = shard.os_file() else {
            return Err("it lies on no disk".into());
        };
        if !self.direct {
            return (known.try_clone()).map_err(|error| format!("its file: {error}"));
        }
        let opened = (shard.reopen()).and_then(|file| page_cache::bypass(&file).map(|()| file));
        match opened {
            Ok(file) if is_same(known, &file) => Ok(file),
            Ok(_) => Err("its file is being replaced".into()),
            Err(error) if descriptor::is_out_of_descriptors(&error) => Err(format!(
                "{error}: raise `ulimit -n`, or read shorter segments"
            )),
            Err(error) => Err(format!("the file system refuses O_DIRECT: {error}")),
        }
    }
}

impl Drop for RequestPlanner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Size of a file that ended before `end`, unless it has grown.
pub(crate) fn bytes_present(len: io::Result<u64>, end: u64) -> u64 {
    len.map_or(end, |len| len.min(end))
}

fn refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Unsupported
    )
}

fn too_large(range: &Range<i64>, size: u64) -> IoError {
    IoError::TooLarge {
        what: "one piece of a scan",
        bytes: (range.end - range.start).unsigned_abs() as u128 * u128::from(size),
        limit: isize::MAX as u128,
    }
}
