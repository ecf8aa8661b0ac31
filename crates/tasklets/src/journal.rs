//! What a run has finished, on disk: so that another run can go on where it ended, however it ended.
//!
//! A line says that a range belongs to the run, or that a tasklet is finished; the latter is written once the commit that
//! holds its outputs is durable. Each line begins with its checksum: the first that is torn ends the journal. What is lost
//! of it costs work that is done again, never a sample.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
        /// What it returned: JSON as text, so that it is read as it was written.
        value: Option<String>,
    },
}

/// A journal that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Held,
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
        (self.file.0)
            .write_all(&text)
            .and_then(|()| self.file.0.sync_data())
            .map_err(|source| failed("write", &self.path, source))
    }
}

/// A file that is locked as long as this lives.
#[derive(Debug)]
struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing alone would leave the lock with a child that was forked meanwhile. Failure means that there is none.
        let _ = self.0.unlock();
    }
}

/// A journal that no other run writes, as it was found.
pub(crate) struct Locked {
    path: PathBuf,
    file: Held,
    lines: Vec<Line>,
    bytes: u64,
}

impl Locked {
    /// Locks a journal, which is made if there is none. `ours`: it lies where nothing else does.
    pub(crate) fn new(path: &Path, ours: bool) -> Result<Self, TaskletError> {
        let io = |source| failed("begin", path, source);
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
            // A file system without locks is no reason not to run.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let (lines, bytes) = Journal::lines(path)?;
        if lines.is_empty() && !ours && !is_torn_line(path).map_err(io)? {
            return Err(TaskletError::NotAJournal {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            file: Held(file),
            lines,
            bytes,
        })
    }

    /// What it says.
    pub(crate) fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Begins the journal anew, or goes on behind what it holds.
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
        let io = |source| failed("begin", &path, source);
        (file.0)
            .set_len(if resume { bytes } else { 0 })
            .map_err(io)?;
        (file.0).seek(SeekFrom::End(0)).map_err(io)?;
        // Its name, too: samples must not outlive what says whose they are.
        sync_folder(folder_of(&path)).map_err(io)?;
        let mut journal = Journal { path, file };
        let claims = claims.into_iter().map(|(signal, range)| Line::Claim {
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

/// Makes a folder and those that it lies in; their names are durable when it returns.
fn create_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let within = folder_of(folder);
    create_folder(within)?;
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(within),
    }
}

/// Whether a file holds nothing but the beginning of a journal's first line, as a crash leaves it.
fn is_torn_line(path: &Path) -> std::io::Result<bool> {
    let mut begins = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut begins)?;
    let sum = begins.iter().take(8).all(u8::is_ascii_hexdigit);
    let object = begins.iter().skip(8).zip(b" {\"").all(|(a, b)| a == b);
    Ok(sum && object && !begins.contains(&b'\n'))
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
            value: Some("1.5".into()),
        }
    }

    fn begin(
        path: &Path,
        resume: bool,
        claims: impl IntoIterator<Item = (String, Range<i64>)>,
    ) -> Result<Journal, TaskletError> {
        Locked::new(path, false)?.begin(resume, claims)
    }

    #[test]
    fn a_journal_is_free_again_even_if_a_child_was_forked_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = begin(&path, false, []).unwrap();
        // What a child has until it runs its program: another descriptor of the same opening.
        let child = journal.file.0.try_clone().unwrap();
        assert!(matches!(
            Locked::new(&path, false),
            Err(TaskletError::JournalInUse { .. })
        ));
        drop(journal);
        assert!(Locked::new(&path, false).is_ok());
        drop(child);
    }

    #[test]
    fn a_file_that_is_no_journal_is_left_alone() {
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
        // In a store's own folder nothing else lies, whatever a crash made of it.
        std::fs::write(&path, [0; 100]).unwrap();
        Locked::new(&path, true).unwrap().begin(true, []).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
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
