//! Reads files in order on a separate thread, a bounded number of pieces ahead of the writer.
//!
//! Files up to [`MAX_WHOLE_BYTES`] come in one piece, longer ones in pieces of [`PIECE_BYTES`]; most are still in the
//! CPU cache when written. [`POOL_BUFFERS`] buffers bound the memory. A file begins with its first piece or its error
//! and ends with the piece marked `last`.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use isochrony_runtime::start_helper;

use isochrony_segment::BufferMut;

use crate::IngestError;

pub(crate) const MAX_WHOLE_BYTES: usize = 32 << 20;
/// Whole samples of every type.
pub(crate) const PIECE_BYTES: usize = 4 << 20;
const POOL_BUFFERS: usize = 4;

pub(crate) struct Job {
    pub(crate) number: usize,
    pub(crate) path: PathBuf,
    /// Bytes to skip at its beginning; whole samples.
    pub(crate) skip: u64,
}

pub(crate) struct Piece {
    pub(crate) number: usize,
    pub(crate) file_size: u64,
    offset: u64,
    /// Whether it ends the file's whole samples.
    pub(crate) last: bool,
    buffer: Option<BufferMut>,
    length: usize,
    home: Sender<Option<BufferMut>>,
}

impl Piece {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.buffer
            .as_mut()
            .map_or(&mut [], |buffer| &mut buffer.bytes_mut()[..self.length])
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length as u64
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let _ = self.home.send(self.buffer.take());
    }
}

type Message = Result<Piece, (usize, IngestError)>;

pub(crate) struct ReadAhead {
    pieces: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// `whole`: bytes that count in a file of this size.
    pub(crate) fn start(
        jobs: impl Iterator<Item = Job> + Send + 'static,
        whole: impl Fn(u64) -> Result<u64, IngestError> + Send + 'static,
    ) -> Result<Self, IngestError> {
        let (send, pieces) = sync_channel(POOL_BUFFERS);
        let (home, pool) = channel();
        for _ in 0..POOL_BUFFERS {
            let _ = home.send(None);
        }
        let reader = Reader { send, home, pool };
        let thread = start_helper("read", move || {
            for job in jobs {
                if reader.read(&job, &whole).is_none() {
                    return;
                }
            }
        })
        .map_err(|source| IngestError::Io {
            action: "start a thread to read",
            path: PathBuf::new(),
            source,
        })?;
        Ok(Self {
            pieces: Some(pieces),
            thread: Some(thread),
        })
    }

    pub(crate) fn next(&self) -> Option<Message> {
        self.pieces.as_ref()?.recv().ok()
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // The thread ends at its next piece.
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Reader {
    send: SyncSender<Message>,
    home: Sender<Option<BufferMut>>,
    pool: Receiver<Option<BufferMut>>,
}

impl Reader {
    /// `None` once the receiver is dropped.
    fn read(&self, job: &Job, whole: &impl Fn(u64) -> Result<u64, IngestError>) -> Option<()> {
        match self.pieces(job, whole) {
            Ok(done) => done,
            Err(error) => self.send.send(Err((job.number, error))).ok(),
        }
    }

    fn pieces(
        &self,
        job: &Job,
        whole: &impl Fn(u64) -> Result<u64, IngestError>,
    ) -> Result<Option<()>, IngestError> {
        let mut file = File::open(&job.path).map_err(|error| io("open", &job.path, error))?;
        let status = file
            .metadata()
            .map_err(|error| io("examine", &job.path, error))?;
        let file_size = status.len();
        let size = whole(file_size)?;
        let mut offset = job.skip;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))
                .map_err(|error| io("read", &job.path, error))?;
        }
        let most = if size - offset.min(size) <= MAX_WHOLE_BYTES as u64 {
            MAX_WHOLE_BYTES
        } else {
            PIECE_BYTES
        };
        while offset < size {
            let length = usize::try_from(size - offset).map_or(most, |rest| rest.min(most));
            let Ok(buffer) = self.pool.recv() else {
                return Ok(None);
            };
            let buffer = match buffer.filter(|buffer| buffer.len() >= length) {
                Some(buffer) => Ok(buffer),
                None => BufferMut::zeroed(length.next_power_of_two().max(PIECE_BYTES / 4)),
            };
            let mut buffer = match buffer {
                Ok(buffer) => buffer,
                Err(error) => {
                    let _ = self.home.send(None);
                    return Err(isochrony_store::StoreError::from(error).into());
                }
            };
            if let Err(error) = file.read_exact(&mut buffer.bytes_mut()[..length]) {
                let _ = self.home.send(Some(buffer));
                return Err(match error.kind() {
                    ErrorKind::UnexpectedEof => IngestError::Shrank {
                        expected: file_size,
                    },
                    _ => io("read", &job.path, error),
                });
            }
            let piece = Piece {
                number: job.number,
                file_size,
                offset,
                last: offset + length as u64 == size,
                buffer: Some(buffer),
                length,
                home: self.home.clone(),
            };
            offset += length as u64;
            if self.send.send(Ok(piece)).is_err() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> IngestError {
    IngestError::Io {
        action,
        path: path.into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(size: u64) -> Result<u64, IngestError> {
        if size == 0 {
            Err(IngestError::EmptyFile)
        } else {
            Ok(size - size % 2)
        }
    }

    #[test]
    fn files_of_any_size_arrive_in_order_and_complete() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = [
            3,
            MAX_WHOLE_BYTES + 2 * PIECE_BYTES + 7,
            0,
            MAX_WHOLE_BYTES,
            2,
        ];
        let jobs: Vec<Job> = (0..sizes.len())
            .map(|number| Job {
                number,
                path: folder.path().join(number.to_string()),
                skip: 0,
            })
            .collect();
        let byte = |at: usize| (at % 251) as u8;
        for (job, size) in jobs.iter().zip(sizes) {
            std::fs::write(&job.path, (0..size).map(byte).collect::<Vec<_>>()).unwrap();
        }
        let missing = Job {
            number: 9,
            path: folder.path().join("nothing"),
            skip: 0,
        };
        // Nothing is left of this file.
        let tail = Job {
            number: 5,
            path: folder.path().join("0"),
            skip: 2,
        };
        let reader = ReadAhead::start(jobs.into_iter().chain([missing, tail]), whole).unwrap();
        let mut got = vec![Vec::new(); sizes.len() + 1];
        let mut errors = Vec::new();
        while let Some(message) = reader.next() {
            match message {
                Ok(mut piece) => {
                    let bytes = &mut got[piece.number];
                    assert_eq!(piece.offset, bytes.len() as u64);
                    assert_eq!(piece.file_size, sizes[piece.number] as u64);
                    bytes.extend_from_slice(piece.bytes());
                    assert_eq!(piece.last, bytes.len() as u64 == piece.file_size / 2 * 2);
                }
                Err((number, error)) => errors.push((number, error.code())),
            }
        }
        for (got, size) in got.iter().zip(sizes) {
            assert_eq!(*got, (0..size - size % 2).map(byte).collect::<Vec<_>>());
        }
        assert_eq!(errors, [(2, "empty_file"), (9, "io")]);
    }

    #[test]
    fn stopping_early_ends_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, vec![1; MAX_WHOLE_BYTES + 9 * PIECE_BYTES]).unwrap();
        let jobs = (0..).map(move |number| Job {
            number,
            path: path.clone(),
            skip: 0,
        });
        let reader = ReadAhead::start(jobs, whole).unwrap();
        assert!(reader.next().unwrap().is_ok());
        drop(reader);
    }
}
