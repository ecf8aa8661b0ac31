//! Errors of taking, decoding and opening snapshots.

use std::path::PathBuf;

/// An error of snapshots for other processes. Ranges are half open, in samples.
#[allow(missing_docs)] // Fields whose names and messages tell all that there is to say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A snapshot of a store open for writing.
    #[error("the store at {} is open for writing (mode {mode:?}), and a writer cannot be pickled; pickle a store that is open for reading, isochrony.open(path), or a signal of this one, which is read-only elsewhere", path.display())]
    Writer {
        path: PathBuf,
        /// As in `isochrony.open`.
        mode: &'static str,
    },
    /// A snapshot of a scratch signal.
    #[error(
        "a scratch signal ({samples} samples) cannot be pickled: it vanishes with its last reference in this process; pickle its values, or append them to a signal of a store"
    )]
    Scratch { samples: i64 },
    /// A snapshot with uncommitted changes.
    #[error("signal {signal:?} of {} was pickled while changes of it were not committed, which no other process can see; commit before pickling", path.display())]
    Uncommitted { signal: String, path: PathBuf },
    /// The store is gone.
    #[error("{what} was pickled from the store at {}, and there is none now: {reason}; put it back, or open it where it lies now and pickle that", path.display())]
    NoStore {
        what: String,
        path: PathBuf,
        reason: String,
    },
    /// The store is older.
    #[error("{what} was pickled at commit {expected} of the store at {}, which is at commit {got}: it is an older copy; open the store that was pickled", path.display())]
    OlderCommit {
        what: String,
        path: PathBuf,
        got: u64,
        expected: u64,
    },
    /// Another store is at the path.
    #[error("the store at {} is not the one that {what} was pickled from: its identity is {got}, not {expected}; put that store back, or pickle it again", path.display())]
    OtherStore {
        what: String,
        path: PathBuf,
        got: String,
        expected: String,
    },
    /// Samples of the snapshot have changed.
    #[error(
        "signal {signal:?} is not as it was at commit {sequence}, when it was pickled with end {end}: {change}; take it from the store again"
    )]
    Moved {
        signal: String,
        sequence: u64,
        end: i64,
        change: String,
    },
    /// Not a snapshot.
    #[error(
        "this is not a snapshot of a signal or a store ({reason}); pickle it again with the version of Isochrony that reads it"
    )]
    Unreadable { reason: String },
}

impl SnapshotError {
    /// Stable `snake_case` code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Writer { .. } | Self::Scratch { .. } => "not_picklable",
            Self::Uncommitted { .. } => "uncommitted",
            Self::NoStore { .. } => "not_a_store",
            Self::OlderCommit { .. } => "older_commit",
            Self::OtherStore { .. } => "other_store",
            Self::Moved { .. } => "snapshot_moved",
            Self::Unreadable { .. } => "unreadable_snapshot",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_values_and_a_fix() {
        let (path, what, signal) = (
            PathBuf::from("/a/store"),
            "it".to_owned(),
            "name".to_owned(),
        );
        let (got, expected) = ("11".to_owned(), "22".to_owned());
        let all = [
            (
                SnapshotError::Writer {
                    path: path.clone(),
                    mode: "r+",
                },
                "not_picklable",
                ["/a/store", "\"r+\""],
            ),
            (
                SnapshotError::Scratch { samples: 7 },
                "not_picklable",
                ["7 samples", "scratch"],
            ),
            (
                SnapshotError::Uncommitted {
                    signal: signal.clone(),
                    path: path.clone(),
                },
                "uncommitted",
                ["\"name\"", "/a/store"],
            ),
            (
                SnapshotError::NoStore {
                    what: what.clone(),
                    path: path.clone(),
                    reason: "gone".into(),
                },
                "not_a_store",
                ["/a/store", "gone"],
            ),
            (
                SnapshotError::OlderCommit {
                    what: what.clone(),
                    path: path.clone(),
                    got: 3,
                    expected: 4,
                },
                "older_commit",
                ["at commit 3", "at commit 4"],
            ),
            (
                SnapshotError::OtherStore {
                    what,
                    path,
                    got,
                    expected,
                },
                "other_store",
                ["is 11", "not 22"],
            ),
            (
                SnapshotError::Moved {
                    signal,
                    sequence: 5,
                    end: 6,
                    change: "removed".into(),
                },
                "snapshot_moved",
                ["commit 5", "end 6: removed"],
            ),
            (
                SnapshotError::Unreadable {
                    reason: "version 9".into(),
                },
                "unreadable_snapshot",
                ["version 9", "again"],
            ),
        ];
        for (error, code, shown) in all {
            let text = error.to_string();
            assert_eq!(error.code(), code);
            assert!(shown.iter().all(|value| text.contains(value)), "{text}");
            assert!(text.contains(';'), "{text}");
        }
    }
}
