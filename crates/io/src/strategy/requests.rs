//! Which bytes of which files a piece is made of, and reading them into a buffer.
//!
//! Past the page cache the kernel asks that the place in the file, the place in memory and the length be multiples of the
//! disk's blocks. The payload of a shard begins at such a place; what a piece needs is read with the blocks at its ends,
//! and a view leaves them out.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use isochrony_segment::Buffer;
use rustix::io::Errno;

use super::files::Files;
use super::pool::{ALIGNED, Pool, skip};
use crate::error::{At, IoError};
use crate::source::{ShardFile, Span, is_same};
use crate::system;

/// What became of an attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The samples.
    Read(Buffer),
    /// It is not possible here; why.
    Refused(String),
}

/// A part of a piece that lies in one file.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) file: Arc<File>,
    path: PathBuf,
    /// Where to read in the file.
    pub(super) offset: u64,
    /// Where it goes, from the first aligned byte of the buffer on.
    place: usize,
    /// Bytes without which samples are missing.
    need: usize,
    /// Bytes to ask for: the same, or in whole blocks.
    pub(super) ask: usize,
    whole_blocks: bool,
}

/// A piece: its parts, and where its samples lie in memory that holds them.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    /// Where samples begin, from the first aligned byte of the buffer on.
    begin: usize,
    len: usize,
}

impl Plan {
    /// Bytes of memory, from the first aligned byte of a buffer on.
    pub(super) fn room(&self) -> usize {
        self.len + 2 * ALIGNED
    }

    /// Reads all parts into a buffer, waiting for them; gives it back.
    pub(super) fn fill(&self, mut buffer: Buffer) -> Result<(Attempt, Buffer), IoError> {
        for part in &self.parts {
            if let Some(why) = part.complete(&mut buffer, 0)? {
                return Ok((Attempt::Refused(why), buffer));
            }
        }
        Ok((self.view(&buffer), buffer))
    }

    /// The samples in a buffer that all parts were read into.
    pub(super) fn view(&self, buffer: &Buffer) -> Attempt {
        let begin = skip(buffer) + self.begin;
        let samples = buffer.slice(begin..begin + self.len);
        // Room for the blocks at both ends was asked for.
        samples.map_or_else(
            || Attempt::Refused("its buffer is too short".into()),
            Attempt::Read,
        )
    }
}

#[cfg(test)]
impl Plan {
    /// Parts of any files, each with where to read and how many bytes, one behind the other in memory.
    pub(super) fn of(files: impl IntoIterator<Item = (File, u64, usize)>) -> Self {
        let mut len = 0;
        let part = |(file, offset, need)| {
            let place = len;
            len += need;
            Part {
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

impl Part {
    /// Where it goes within a buffer.
    pub(super) fn place(&self, buffer: &Buffer) -> usize {
        skip(buffer) + self.place
    }

    /// Reads what is missing behind the first `have` bytes. `Ok(Some(why))`: the file system refuses.
    pub(super) fn complete(
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
                have: holds(
                    self.file.metadata().map(|found| found.len()),
                    self.offset + have as u64,
                ),
                need: self.offset + self.need as u64,
            }),
            Err(error) if self.whole_blocks && refused(&error) => {
                Ok(Some(format!("the file system refuses: {error}")))
            }
            Err(error) => Err(error).at("read", &self.path),
        }
    }

    /// Until all is there that is needed, or the file ends; gives how much is.
    fn fill(&self, room: &mut [u8], have: usize) -> io::Result<usize> {
        let mut have = match self.whole_blocks {
            true => have / ALIGNED * ALIGNED,
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
            // The kernel gives less than whole blocks at the end of a file only.
            if self.whole_blocks && !have.is_multiple_of(ALIGNED) {
                break;
            }
        }
        Ok(have)
    }
}

/// Finds what pieces of a signal are made of.
#[derive(Debug)]
pub(super) struct Requests {
    files: Files,
    /// Past the page cache.
    direct: bool,
    /// The store keeps it open, unless too many scans have one.
    last: Option<(u64, Weak<File>)>,
}

impl Requests {
    pub(super) fn new(files: Files, direct: bool) -> Self {
        Self {
            files,
            direct,
            last: None,
        }
    }

    /// Why a range cannot be read so; opens its first file to see.
    pub(super) fn refuses(&mut self, range: &Range<i64>) -> Option<String> {
        let span = self.files.spans(range).next()?;
        match self.files.shard(&span) {
            Ok(Some(shard)) => self.open(&*shard).err(),
            Ok(None) => Some("another program wrote its shards".into()),
            // Reading tells.
            Err(_) => None,
        }
    }

    /// What a range within the signal is made of; `Ok(Err(why))`: it cannot be read so.
    pub(super) fn plan(&mut self, range: &Range<i64>) -> Result<Result<Plan, String>, IoError> {
        let size = self.files.source().dtype().size() as u64;
        let len = (range.end - range.start).cast_unsigned() * size;
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len < isize::MAX as usize - 3 * ALIGNED);
        let len = len.ok_or_else(|| too_large(range, size))?;
        let mut plan = Plan {
            parts: Vec::new(),
            begin: 0,
            len,
        };
        let mut at = 0;
        for span in self.files.spans(range) {
            let before = match self.direct {
                true => (span.offset % ALIGNED as u64) as usize,
                false => 0,
            };
            if at == 0 {
                plan.begin = before;
            }
            // Only the first span may begin inside a block, or memory would have a hole.
            if self.direct && ((at > 0 && before > 0) || (plan.begin + at) % ALIGNED != before) {
                return Ok(Err("its shards are no whole blocks".into()));
            }
            let (file, path) = match self.file(&span)? {
                Ok(found) => found,
                Err(why) => return Ok(Err(why)),
            };
            let need = before + span.len as usize;
            plan.parts.push(Part {
                file,
                path,
                offset: span.offset - before as u64,
                place: plan.begin + at - before,
                need,
                ask: match self.direct {
                    true => need.next_multiple_of(ALIGNED),
                    false => need,
                },
                whole_blocks: self.direct,
            });
            at += span.len as usize;
        }
        Ok(Ok(plan))
    }

    /// Reads a range within the signal, waiting for it.
    pub(super) fn read(&mut self, range: &Range<i64>, pool: &mut Pool) -> Result<Attempt, IoError> {
        let plan = match self.plan(range)? {
            Ok(plan) => plan,
            Err(why) => return Ok(Attempt::Refused(why)),
        };
        let buffer = pool.take(plan.room())?;
        let (read, buffer) = plan.fill(buffer)?;
        pool.give(buffer);
        Ok(read)
    }

    fn file(&mut self, span: &Span) -> Result<Result<(Arc<File>, PathBuf), String>, IoError> {
        let Some(shard) = self.files.shard(span)? else {
            return Ok(Err("another program wrote its shards".into()));
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

    /// Opens a shard once more; says why not.
    fn open(&self, shard: &dyn ShardFile) -> Result<File, String> {
        let Some(known) = shard.os_file() else {
            return Err("it lies on no disk".into());
        };
        if !self.direct {
            return (known.try_clone()).map_err(|error| format!("its file: {error}"));
        }
        match system::open_direct(shard) {
            Ok(file) if is_same(known, &file) => Ok(file),
            Ok(_) => Err("its file is being replaced".into()),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => Err(format!(
                "{error}: raise `ulimit -n`, or read shorter segments"
            )),
            Err(error) => Err(format!("the file system refuses O_DIRECT: {error}")),
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bytes that a file holds which ended before `end`: its length, unless it grew since.
pub(super) fn holds(len: io::Result<u64>, end: u64) -> u64 {
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
