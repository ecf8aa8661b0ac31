//! Reading past the page cache.
//!
//! The kernel asks that the place in the file, the place in memory and the length be multiples of the disk's blocks. The
//! payload of a shard begins at such a place; what a range needs is read with the blocks at its ends, and a view leaves
//! them out.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use isochrony_segment::Buffer;

use super::files::{Files, ShardFile, is_same};
use super::pool::{ALIGNED, Pool, skip};
use super::system;
use crate::engine::io::failed;
use crate::error::StoreError;
use crate::layout::flat::Span;

/// What became of an attempt.
#[derive(Debug)]
pub(super) enum Direct {
    /// The samples.
    Read(Buffer),
    /// It is not possible here; why.
    Refused(String),
}

/// Reads ranges of samples past the page cache.
#[derive(Debug)]
pub(super) struct DirectFiles {
    files: Files,
    pool: Pool,
    last: Option<(u64, File)>,
}

impl DirectFiles {
    pub(super) fn new(files: Files) -> Self {
        Self {
            files,
            pool: Pool::default(),
            last: None,
        }
    }

    /// Why a range cannot be read so; opens its first file to see.
    pub(super) fn refuses(&mut self, range: &Range<i64>) -> Option<String> {
        let span = self.files.spans(range).next()?;
        match self.files.shard(&span) {
            Ok(Some(shard)) => open(&shard).err(),
            Ok(None) => Some("another program wrote its shards".into()),
            // Reading tells.
            Err(_) => None,
        }
    }

    /// Reads a range within the signal.
    pub(super) fn read(&mut self, range: &Range<i64>) -> Result<Direct, StoreError> {
        let size = self.files.signal().dtype().size() as u64;
        let len = (range.end - range.start).cast_unsigned() * size;
        let len = usize::try_from(len).map_err(|_| too_large(len))?;
        let mut buffer = self.pool.take(len + 2 * ALIGNED)?;
        let from = skip(&buffer);
        let Some(memory) = buffer.get_mut() else {
            return Ok(Direct::Refused("its buffer is in use".into()));
        };
        let memory = &mut memory[from..];
        let mut view: Option<usize> = None;
        let mut at = 0;
        for span in self.files.spans(range) {
            let before = (span.offset % ALIGNED as u64) as usize;
            let begin = view.get_or_insert(before);
            // Only the first span may begin inside a block, or memory would have a hole.
            if (at > 0 && before > 0) || (*begin + at) % ALIGNED != before {
                return Ok(Direct::Refused("its shards are no whole blocks".into()));
            }
            let place = *begin + at - before;
            let file = match self.open(&span)? {
                Ok(file) => file,
                Err(why) => return Ok(Direct::Refused(why)),
            };
            let need = before + span.len as usize;
            let room = &mut memory[place..place + need.next_multiple_of(ALIGNED)];
            match fill(file, room, span.offset - before as u64, need) {
                Ok(have) if have >= need => {}
                Ok(have) => {
                    let shard = self.files.shard(&span)?;
                    return Err(StoreError::MissingSamples {
                        path: shard.map(|shard| shard.path).unwrap_or_default(),
                        have: span.offset - before as u64 + have as u64,
                        need: span.offset + span.len,
                    });
                }
                Err(error) if refused(&error) => {
                    return Ok(Direct::Refused(format!("the file system refuses: {error}")));
                }
                Err(error) => {
                    let shard = self.files.shard(&span)?;
                    let path = shard.map(|shard| shard.path).unwrap_or_default();
                    return Err(failed(error, "read", &path));
                }
            }
            at += span.len as usize;
        }
        let begin = from + view.unwrap_or(0);
        let samples = buffer.slice(begin..begin + len);
        self.pool.give(buffer);
        // Room for the blocks at both ends was asked for.
        Ok(samples.map_or_else(
            || Direct::Refused("its buffer is too short".into()),
            Direct::Read,
        ))
    }

    fn open(&mut self, span: &Span) -> Result<Result<&File, String>, StoreError> {
        if (self.last.as_ref()).is_none_or(|(shard, _)| *shard != span.shard) {
            let file = match self.files.shard(span)? {
                Some(shard) => open(&shard),
                None => Err("another program wrote its shards".into()),
            };
            match file {
                Ok(file) => self.last = Some((span.shard, file)),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok((self.last.as_ref().map(|(_, file)| file)).ok_or_else(|| "it is closed".into()))
    }
}

/// Opens a shard once more; says why not.
fn open(shard: &ShardFile) -> Result<File, String> {
    let Some(known) = shard.file.as_os_file() else {
        return Err("it lies on no disk".into());
    };
    match system::open_direct(&shard.path) {
        Ok(file) if is_same(known, &file) => Ok(file),
        Ok(_) => Err("its file is being replaced".into()),
        Err(error) => Err(format!("the file system refuses O_DIRECT: {error}")),
    }
}

fn refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Unsupported
    )
}

/// Fills whole blocks from a place on, until `need` bytes are there or the file ends; gives how many are.
fn fill(file: &File, room: &mut [u8], offset: u64, need: usize) -> io::Result<usize> {
    let mut have = 0;
    while have < need {
        match file.read_at(&mut room[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        // The kernel gives less than whole blocks at the end of a file only.
        if have % ALIGNED != 0 {
            break;
        }
    }
    Ok(have)
}

fn too_large(bytes: u64) -> StoreError {
    StoreError::TooLarge {
        what: "one piece of a scan",
        bytes: u128::from(bytes),
        limit: isize::MAX as u128,
    }
}
