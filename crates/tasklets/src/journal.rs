//! The journal records finished work on disk, so that any interrupted execution can be resumed.
//!
//! A record claims a range of samples, or states, after the commit of its outputs, that a tasklet is finished. Each
//! line starts with its checksum; the first torn line ends the journal.
//!
//! ```text
//!  lock the journal -> record claims -> run tasklets -> commit outputs -> record finished tasklets -> (repeat)
//! ```

use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::TaskletError;
use crate::journal_location::JournalLocation;

/// Variant and field names are the format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JournalRecord {
    Claim {
        signal: String,
        start: i64,
        end: i64,
    },
    Done {
        name: String,
        #[serde(rename = "of")]
        identity: String,
        /// JSON in a string, to preserve it exactly.
        value: Option<String>,
    },
}

#[derive(Debug)]
pub(crate) struct Journal {
    location: JournalLocation,
    file: LockedFile,
}

impl Journal {
    pub(crate) fn read(location: &JournalLocation) -> Result<Vec<JournalRecord>, TaskletError> {
        let text = location
            .read()
            .map_err(|source| location.error("read", source))?;
        Ok(parse_lines(&text).0)
    }

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
            .map_err(|source| self.location.error("write", source))
    }
}

#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // A forked child keeps the lock after closing. Fails only without a lock.
        let _ = self.0.unlock();
    }
}

pub(crate) struct LockedJournal {
    location: JournalLocation,
    file: LockedFile,
    records: Vec<JournalRecord>,
    bytes: u64,
}

impl LockedJournal {
    pub(crate) fn new(location: &JournalLocation) -> Result<Self, TaskletError> {
        let io = |source| location.error("begin", source);
        let file = location.open().map_err(io)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(TaskletError::JournalInUse {
                    path: location.path().to_owned(),
                });
            }
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let text = location
            .read()
            .map_err(|source| location.error("read", source))?;
        let (records, bytes) = parse_lines(&text);
        // In a store's journal folder, a file without valid records is a damaged journal; elsewhere, perhaps the
        // user's.
        if records.is_empty() && !location.is_in_store() && !is_torn_record(&text) {
            return Err(TaskletError::NotAJournal {
                path: location.path().to_owned(),
            });
        }
        Ok(Self {
            location: location.clone(),
            file: LockedFile(file),
            records,
            bytes,
        })
    }

    pub(crate) fn take_records(&mut self) -> Vec<JournalRecord> {
        std::mem::take(&mut self.records)
    }

    pub(crate) fn begin(
        self,
        resume: bool,
        claims: impl IntoIterator<Item = (String, Range<i64>)>,
    ) -> Result<Journal, TaskletError> {
        let Self {
            location,
            mut file,
            bytes,
            ..
        } = self;
        let io = |source| location.error("begin", source);
        (file.0)
            .set_len(if resume { bytes } else { 0 })
            .map_err(io)?;
        (file.0).seek(SeekFrom::End(0)).map_err(io)?;
        // No sample may outlive the record of its claim.
        location.sync_folder().map_err(io)?;
        let mut journal = Journal { location, file };
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

/// Until the first torn line, with the bytes read.
fn parse_lines(text: &[u8]) -> (Vec<JournalRecord>, u64) {
    let (mut records, mut bytes) = (Vec::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some(record) = parse(line) else { break };
        records.push(record);
        bytes += line.len() as u64;
    }
    (records, bytes)
}

/// Whether a file holds only part of a journal's first line, as after a crash.
fn is_torn_record(text: &[u8]) -> bool {
    let start = &text[..text.len().min(4096)];
    let has_sum = start.iter().take(8).all(u8::is_ascii_hexdigit);
    let has_object = start.iter().skip(8).zip(b" {\"").all(|(a, b)| a == b);
    has_sum && has_object && !start.contains(&b'\n')
}

fn parse(line: &[u8]) -> Option<JournalRecord> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, line) = line.split_once(' ')?;
    let matches = u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(line.as_bytes());
    matches.then(|| serde_json::from_str(line).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        LockedJournal::new(&location(path))?.begin(resume, claims)
    }

    fn location(path: &Path) -> JournalLocation {
        JournalLocation::new(path).unwrap()
    }

    #[test]
    fn unlocks_a_journal_although_a_forked_child_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = begin(&path, false, []).unwrap();
        // A forked child keeps a descriptor of the same open file.
        let child = journal.file.0.try_clone().unwrap();
        assert!(matches!(
            LockedJournal::new(&location(&path)),
            Err(TaskletError::JournalInUse { .. })
        ));
        drop(journal);
        assert!(LockedJournal::new(&location(&path)).is_ok());
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
        let own = JournalLocation::in_store(folder.path(), "00000000");
        let path = own.path();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, [0; 100]).unwrap();
        LockedJournal::new(&own).unwrap().begin(true, []).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"");
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
        assert_eq!(Journal::read(&location(&path)).unwrap(), []);
        let mut journal = begin(&path, false, [("x".to_owned(), 0..5)]).unwrap();
        journal.append([done("a"), done("b\n\"é")]).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let all = Journal::read(&location(&path)).unwrap();
        assert_eq!(all.len(), 3);
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let have = Journal::read(&location(&path)).unwrap();
            assert_eq!(have, all[..have.len()]);
            assert_eq!(
                have.len(),
                whole[..cut].iter().filter(|byte| **byte == b'\n').count()
            );
            let mut journal = begin(&path, true, []).unwrap();
            journal.append([done("c")]).unwrap();
            let again = Journal::read(&location(&path)).unwrap();
            assert_eq!(again[..have.len()], have);
            assert_eq!(again[have.len()..], [done("c")]);
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            let have = Journal::read(&location(&path)).unwrap();
            assert!(
                have.len() < all.len() && have == all[..have.len()],
                "byte {at}"
            );
        }
        let first = begin(&path, false, []).unwrap();
        assert_eq!(Journal::read(&location(&path)).unwrap(), []);
        let second = begin(&path, true, []).unwrap_err();
        assert_eq!(second.code(), "journal_in_use");
        drop(first);
        begin(&path, true, []).unwrap();
    }
}
