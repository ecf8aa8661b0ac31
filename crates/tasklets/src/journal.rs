//! The journal: records on disk what an execution has finished, so that another one can resume it, however it ended.
//!
//! A record claims a range of samples for the execution, or says that a tasklet is finished. The latter is written after the
//! commit that makes the tasklet's outputs durable. Each line starts with its checksum, and the first torn line ends the
//! journal. Losing records costs work that is done again, never a sample.
//!
//! ```text
//!  lock the journal -> record claims -> run tasklets -> commit outputs -> record finished tasklets -> (repeat)
//! ```

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::TaskletError;

/// Where a store keeps its journals.
pub(crate) const JOURNAL_FOLDER: &str = ".isochrony/tasklets";

/// A line of a journal. Names of variants and fields are those on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JournalRecord {
    /// The execution writes these samples of a signal.
    Claim {
        signal: String,
        start: i64,
        end: i64,
    },
    /// A tasklet is finished.
    Done {
        name: String,
        /// Inputs, outputs and function: if they change, it is a different tasklet.
        #[serde(rename = "of")]
        identity: String,
        /// The return value: JSON in a string, so that it is read exactly as it was written.
        value: Option<String>,
    },
}

/// A journal that an execution writes.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: LockedFile,
}

impl Journal {
    /// Reads the records of a journal; none if there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Vec<JournalRecord>, TaskletError> {
        Ok(Self::read_with_len(path)?.0)
    }

    /// Reads the records, and the number of bytes that they take.
    fn read_with_len(path: &Path) -> Result<(Vec<JournalRecord>, u64), TaskletError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(journal_error("read", path, source)),
        };
        let (mut records, mut bytes) = (Vec::new(), 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(record) = parse(line) else { break };
            records.push(record);
            bytes += line.len() as u64;
        }
        Ok((records, bytes))
    }

    /// Appends records. They are durable when it returns.
    pub(crate) fn append(
        &mut self,
        records: impl IntoIterator<Item = JournalRecord>,
    ) -> Result<(), TaskletError> {
        let mut text = Vec::new();
        for record in records {
            let line = serde_json::to_string(&record).unwrap_or_default();
            let sum = crc32c::crc32c(line.as_bytes());
            text.extend_from_slice(format!("{sum:08x} {line}\n").as_bytes());
        }
        (self.file.0)
            .write_all(&text)
            .and_then(|()| self.file.0.sync_data())
            .map_err(|source| journal_error("write", &self.path, source))
    }
}

/// A file that stays locked until it is dropped.
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file is not enough: a child forked meanwhile would keep the lock. Unlocking fails only if there is no
        // lock.
        let _ = self.0.unlock();
    }
}

/// A journal that is locked against other executions, with the records that it held.
pub(crate) struct LockedJournal {
    path: PathBuf,
    file: LockedFile,
    records: Vec<JournalRecord>,
    bytes: u64,
}

impl LockedJournal {
    /// Locks a journal and creates it if there is none. `in_store_folder`: the journal lies in a folder that holds nothing
    /// but journals, so that a file without valid records is a damaged journal and not the user's file.
    pub(crate) fn new(path: &Path, in_store_folder: bool) -> Result<Self, TaskletError> {
        let io = |source| journal_error("begin", path, source);
        create_folder(folder_of(path)).map_err(io)?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(TaskletError::JournalInUse {
                    path: path.to_owned(),
                });
            }
            // Executions are possible on a file system without locks, too.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let (records, bytes) = Journal::read_with_len(path)?;
        if records.is_empty() && !in_store_folder && !is_torn_record(path).map_err(io)? {
            return Err(TaskletError::NotAJournal {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            file: LockedFile(file),
            records,
            bytes,
        })
    }

    /// The records that the journal held.
    pub(crate) fn take_records(&mut self) -> Vec<JournalRecord> {
        std::mem::take(&mut self.records)
    }

    /// Empties the journal, or continues after its valid records if `resume` is set, and records the claims.
    pub(crate) fn begin(
        self,
        resume: bool,
        claims: impl IntoIterator<Item = (String, Range<i64>)>,
    ) -> Result<Journal, TaskletError> {
        let Self {
            path,
            mut file,
            bytes,
            ..
        } = self;
        let io = |source| journal_error("begin", &path, source);
        (file.0)
            .set_len(if resume { bytes } else { 0 })
            .map_err(io)?;
        (file.0).seek(SeekFrom::End(0)).map_err(io)?;
        // The file's name must be durable, too: no sample may outlive the record of who claimed it.
        sync_folder(folder_of(&path)).map_err(io)?;
        let mut journal = Journal { path, file };
        let claims = claims
            .into_iter()
            .map(|(signal, range)| JournalRecord::Claim {
                signal,
                start: range.start,
                end: range.end,
            });
        journal.append(claims)?;
        Ok(journal)
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Creates a folder and its parents. Their names are durable when it returns.
fn create_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    create_folder(parent)?;
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(parent),
    }
}

/// Whether a file holds nothing but the start of a journal's first line, as a crash leaves it.
fn is_torn_record(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut start)?;
    let has_sum = start.iter().take(8).all(u8::is_ascii_hexdigit);
    let has_object = start.iter().skip(8).zip(b" {\"").all(|(a, b)| a == b);
    Ok(has_sum && has_object && !start.contains(&b'\n'))
}

fn parse(line: &[u8]) -> Option<JournalRecord> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, line) = line.split_once(' ')?;
    let matches = u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(line.as_bytes());
    matches.then(|| serde_json::from_str(line).ok()).flatten()
}

fn journal_error(action: &'static str, path: &Path, source: std::io::Error) -> TaskletError {
    TaskletError::Journal {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(name: &str) -> JournalRecord {
        JournalRecord::Done {
            name: name.into(),
            identity: "f".into(),
            value: Some("1.5".into()),
        }
    }

    fn begin(
        path: &Path,
        resume: bool,
        claims: impl IntoIterator<Item = (String, Range<i64>)>,
    ) -> Result<Journal, TaskletError> {
        LockedJournal::new(path, false)?.begin(resume, claims)
    }

    #[test]
    fn unlocks_a_journal_although_a_forked_child_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = begin(&path, false, []).unwrap();
        // A forked child has a descriptor of the same open file until it runs its program.
        let child = journal.file.0.try_clone().unwrap();
        assert!(matches!(
            LockedJournal::new(&path, false),
            Err(TaskletError::JournalInUse { .. })
        ));
        drop(journal);
        assert!(LockedJournal::new(&path, false).is_ok());
        drop(child);
    }

    #[test]
    fn leaves_a_file_that_is_no_journal_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        let others: [&[u8]; 5] = [
            b"sample_rate,taps\n1,2\n",
            b"\x89HDF\r\n",
            b"deadbeef is a word\n",
            b"00000000 {\"a\":1}\n",
            b"no end",
        ];
        for other in others {
            std::fs::write(&path, other).unwrap();
            for resume in [false, true] {
                let refused = begin(&path, resume, []).unwrap_err();
                assert_eq!(refused.code(), "not_a_journal");
                assert_eq!(std::fs::read(&path).unwrap(), other);
            }
        }
        std::fs::write(&path, b"").unwrap();
        begin(&path, false, []).unwrap();
        // The folder of a store holds only journals, so this is one that a crash damaged.
        std::fs::write(&path, [0; 100]).unwrap();
        LockedJournal::new(&path, true)
            .unwrap()
            .begin(true, [])
            .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    proptest::proptest! {
        #[test]
        fn parses_any_bytes_without_a_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
            let mut line = format!("{:08x} ", crc32c::crc32c(&bytes)).into_bytes();
            line.extend_from_slice(&bytes);
            line.push(b'\n');
            let _ = parse(&line);
        }
    }

    #[test]
    fn reads_and_continues_a_journal_torn_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(Journal::read(&path).unwrap(), []);
        let mut journal = begin(&path, false, [("x".to_owned(), 0..5)]).unwrap();
        journal.append([done("a"), done("b\n\"é")]).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let all = Journal::read(&path).unwrap();
        assert_eq!(all.len(), 3);
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let have = Journal::read(&path).unwrap();
            assert_eq!(have, all[..have.len()]);
            assert_eq!(
                have.len(),
                whole[..cut].iter().filter(|byte| **byte == b'\n').count()
            );
            let mut journal = begin(&path, true, []).unwrap();
            journal.append([done("c")]).unwrap();
            let again = Journal::read(&path).unwrap();
            assert_eq!(again[..have.len()], have);
            assert_eq!(again[have.len()..], [done("c")]);
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            let have = Journal::read(&path).unwrap();
            assert!(
                have.len() < all.len() && have == all[..have.len()],
                "byte {at}"
            );
        }
        let first = begin(&path, false, []).unwrap();
        assert_eq!(Journal::read(&path).unwrap(), []);
        let second = begin(&path, true, []).unwrap_err();
        assert_eq!(second.code(), "journal_in_use");
        drop(first);
        begin(&path, true, []).unwrap();
    }
}
