//! What a run has finished, on disk: so that another run can go on where it ended, however it ended.
//!
//! A line says that a range belongs to the run, or that a tasklet is finished; the latter is written once the commit that
//! holds its outputs is durable. Each line begins with its checksum: the first that is torn ends the journal. What is lost
//! of it costs work that is done again, never a sample.

use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::TaskletError;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The run writes these samples of a signal.
    Claim {
        signal: String,
        start: i64,
        end: i64,
    },
    /// A tasklet is finished.
    Done {
        name: String,
        /// Its inputs, outputs and function: if they change it is another tasklet.
        of: String,
        /// What it returned.
        value: Option<Value>,
    },
}

/// A journal that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// What a journal says; nothing if there is none.
    pub(crate) fn read(path: &Path) -> Result<Vec<Line>, TaskletError> {
        Ok(Self::lines(path)?.0)
    }

    /// Lines, and the bytes that they take.
    fn lines(path: &Path) -> Result<(Vec<Line>, u64), TaskletError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(failed("read", path, source)),
        };
        let (mut lines, mut bytes) = (Vec::new(), 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(parsed) = parse(line) else { break };
            lines.push(parsed);
            bytes += line.len() as u64;
        }
        Ok((lines, bytes))
    }

    /// Begins a journal, or goes on behind what it holds.
    pub(crate) fn begin(
        path: &Path,
        resume: bool,
        claims: impl IntoIterator<Item = (String, Range<i64>)>,
    ) -> Result<Self, TaskletError> {
        let io = |source| failed("begin", path, source);
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let mut file = File::options()
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
            // A file system without locks is no reason not to run.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let keep = if resume { Self::lines(path)?.1 } else { 0 };
        file.set_len(keep).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
        };
        let claims = claims.into_iter().map(|(signal, range)| Line::Claim {
            signal,
            start: range.start,
            end: range.end,
        });
        journal.append(claims)?;
        // Its name, too: samples must not outlive what says whose they are.
        if let Some(folder) = path.parent() {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .map_err(io)?;
        }
        Ok(journal)
    }

    /// Adds lines, durable when it returns.
    pub(crate) fn append(
        &mut self,
        lines: impl IntoIterator<Item = Line>,
    ) -> Result<(), TaskletError> {
        let mut text = Vec::new();
        for line in lines {
            let line = serde_json::to_string(&line).unwrap_or_default();
            let sum = crc32c::crc32c(line.as_bytes());
            text.extend_from_slice(format!("{sum:08x} {line}\n").as_bytes());
        }
        self.file
            .write_all(&text)
            .and_then(|()| self.file.sync_data())
            .map_err(|source| failed("write", &self.path, source))
    }
}

fn parse(line: &[u8]) -> Option<Line> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, line) = line.split_once(' ')?;
    let matches = u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(line.as_bytes());
    matches.then(|| serde_json::from_str(line).ok()).flatten()
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> TaskletError {
    TaskletError::Journal {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(name: &str) -> Line {
        Line::Done {
            name: name.into(),
            of: "f".into(),
            value: Some(Value::from(1.5)),
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_lines_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
            let mut line = format!("{:08x} ", crc32c::crc32c(&bytes)).into_bytes();
            line.extend_from_slice(&bytes);
            line.push(b'\n');
            let _ = parse(&line);
        }
    }

    #[test]
    fn whatever_is_torn_off_the_rest_is_read_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(Journal::read(&path).unwrap(), []);
        let mut journal = Journal::begin(&path, false, [("x".to_owned(), 0..5)]).unwrap();
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
            let mut journal = Journal::begin(&path, true, []).unwrap();
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
        let first = Journal::begin(&path, false, []).unwrap();
        assert_eq!(Journal::read(&path).unwrap(), []);
        let second = Journal::begin(&path, true, []).unwrap_err();
        assert_eq!(second.code(), "journal_in_use");
        drop(first);
        Journal::begin(&path, true, []).unwrap();
    }
}
