//! Errors of stores: what happened, where, and how to fix it.

mod code;
mod snapshot;

use std::path::PathBuf;

use isochrony_segment::{DType, SegmentError};
use isochrony_time::TimeError;

use crate::io_hint::io_hint;
use crate::sample_format::SampleFormat;

pub use snapshot::SnapshotError;

/// An error of this crate. Paths are as given; ranges are half open, in samples.
#[allow(missing_docs)] // Fields whose names and messages tell all that there is to say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Not a store.
    #[error("no store at {}: {reason}; {remedy}", path.display())]
    NotAStore {
        path: PathBuf,
        reason: String,
        remedy: &'static str,
    },
    /// Something exists where a new store should be created.
    #[error("{} exists already; open it with mode \"r+\" or \"a\", or choose another path", path.display())]
    StoreExists { path: PathBuf },
    /// A change through a store opened for reading.
    #[error("cannot {action}: the store at {} is open for reading; open it with mode \"r+\"", path.display())]
    ReadOnly { path: PathBuf, action: &'static str },
    /// The store was closed.
    #[error("cannot {action}: the store at {} was closed; open it again", path.display())]
    Closed { path: PathBuf, action: &'static str },
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}{}", path.display(), io_hint(source))]
    Io {
        /// `"read"`, `"create"`.
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },

    /// A remote store is unreachable or has changed.
    #[error("cannot {action} {}: {error}", path.display())]
    Remote {
        /// `"read"`, `"list"`.
        action: &'static str,
        path: PathBuf,
        /// Whether something is missing or was replaced, as for a file.
        kind: std::io::ErrorKind,
        error: crate::media::RemoteError,
    },
    /// A change of a remote store.
    #[error("cannot {action} {}: stores at URLs are read-only; write to a store on a disk and copy it there", path.display())]
    RemoteReadOnly { path: PathBuf, action: &'static str },

    /// A name that signals cannot have.
    #[error("signal name {name:?} is refused: component {component:?} {rule}; choose another name")]
    InvalidName {
        name: String,
        component: String,
        rule: &'static str,
    },
    /// No signal has this name.
    #[error(
        "no signal {name:?} in the store; {hint}list(store) lists all names, store.find(pattern) searches"
    )]
    NoSuchSignal {
        name: String,
        /// Empty, or `"did you mean ...? "`.
        hint: String,
    },
    /// The name is taken.
    #[error(
        "signal {name:?} exists already; get it with store[name], delete it with store.delete(name), or give overwrite=True"
    )]
    SignalExists { name: String },
    /// The name belongs to a saved plan.
    #[error(
        "signal {name:?} is refused: the store has a saved plan of that name; choose another, or forget that plan first"
    )]
    NameOfView { name: String },
    /// A signal would lie inside another.
    #[error(
        "signal {name:?} cannot exist beside {other:?}, since a signal cannot contain another; choose a name that is not a prefix of the other"
    )]
    SignalInsideSignal { name: String, other: String },
    /// The signal was removed after this handle was made.
    #[error("signal {name:?} was removed from the store; look it up again")]
    SignalRemoved { name: String },
    /// Another signal took the name after this handle was made.
    #[error(
        "signal {name:?} was overwritten since this handle was opened; `refresh()` the store and look it up again to read the new one"
    )]
    SignalOverwritten { name: String },
    /// An invalid glob pattern.
    #[error(
        "pattern {pattern:?} is refused: {reason}; use *, ? and [a-z] inside a component and ** for any number of components"
    )]
    InvalidPattern {
        pattern: String,
        reason: &'static str,
    },

    /// A selection that matches no signal.
    #[error(
        "none of the {count} signals of {} matches the patterns; list their names, or give no pattern to copy all", path.display()
    )]
    NoMatchingSignals { path: PathBuf, count: usize },

    /// A range that ends before it starts.
    #[error("range {start}..{end} of signal {signal:?} ends before it starts; swap the two")]
    InvalidRange {
        signal: String,
        /// Bounds as text: indices or times.
        start: String,
        end: String,
    },
    /// An index range that exceeds the signal.
    #[error(
        "samples {start}..{end} were asked for, but signal {signal:?} holds {have_start}..{have_end}; ask within it"
    )]
    OutOfBounds {
        signal: String,
        start: i64,
        end: i64,
        have_start: i64,
        have_end: i64,
    },
    /// One array was requested, but the selection covers a gap.
    #[error(
        "the selection from signal {signal:?} covers a gap of {length} sample{} at index {start}{civil}; iterate over its segments, or ask for values with a fill",
        if *length == 1 { "" } else { "s" }
    )]
    GapInSelection {
        signal: String,
        start: i64,
        length: i64,
        /// Empty, or the gap's civil time as `" (2010-...)"`.
        civil: String,
    },
    /// One array was requested, but the selection spans a clock step.
    #[error(
        "the selection from signal {signal:?} spans a clock step at index {index} (run {before} to run {after}); iterate over its segments"
    )]
    ClockStepInSelection {
        signal: String,
        index: i64,
        before: u32,
        after: u32,
    },
    /// The signal has no civil time.
    #[error(
        "signal {signal:?} has no civil time here: no start was stated and no stamp was given; create it with a start, or append with stamps"
    )]
    NoCivilTime { signal: String },
    /// No event has this id.
    #[error("signal {signal:?} has no event {event}; list its events")]
    NoSuchEvent { signal: String, event: u64 },

    /// Samples of another dtype.
    #[error("signal {signal:?} holds {expected} samples, got {got}; convert them first")]
    DTypeMismatch {
        signal: String,
        expected: SampleFormat,
        got: DType,
    },
    /// Not a whole number of samples.
    #[error("{bytes} bytes are not a whole number of {format} samples of {size} bytes for signal {signal:?}; drop the last {rest} bytes or correct the dtype", size = format.size(), rest = bytes % format.size())]
    PartialSample {
        signal: String,
        bytes: usize,
        format: SampleFormat,
    },
    /// A negative or too large length.
    #[error("cannot {action} {length} samples in signal {signal:?}; give between 1 and {max}")]
    InvalidLength {
        signal: String,
        action: &'static str,
        length: i64,
        max: i64,
    },
    /// An in-place write over a gap.
    #[error(
        "cannot write samples {start}..{end} of signal {signal:?} in place: {gap_start}..{gap_end} is a gap; fill it with a backfill, or write the parts around it"
    )]
    WriteIntoGap {
        signal: String,
        start: i64,
        end: i64,
        gap_start: i64,
        gap_end: i64,
    },
    /// Attributes that are not a JSON object.
    #[error(
        "attributes of {owner:?} are refused: {reason}; give a JSON object whose keys are not \"isochrony\""
    )]
    InvalidAttributes {
        /// A signal's name, or "store".
        owner: String,
        reason: String,
    },
    /// An option out of range.
    #[error("{option}={got} is refused for signal {signal:?}; {legal}")]
    InvalidOption {
        signal: String,
        option: &'static str,
        got: String,
        legal: &'static str,
    },
    /// An unknown I/O strategy.
    #[error("there is no I/O strategy {name:?}; choose one of {known}")]
    UnknownStrategy {
        name: String,
        /// All names, comma separated.
        known: String,
    },
    /// An invalid calibration.
    #[error("cannot calibrate with {option} {got}; {legal}")]
    RefusedCalibration {
        option: &'static str,
        got: String,
        legal: &'static str,
    },
    /// The stored machine profile is unusable.
    #[error("the machine's profile {} cannot be used: {reason}; measure again with `isochrony calibrate`, or delete that file", path.display())]
    BadProfile { path: PathBuf, reason: String },
    /// The result would need too much memory.
    #[error(
        "{what} needs {bytes} bytes, more than {limit}; ask for a shorter span, a lower rate or fewer signals"
    )]
    TooLarge {
        what: &'static str,
        bytes: u128,
        limit: u128,
    },
    /// Signals that cannot share one array.
    #[error("cannot gather signal {signal:?}: {reason}")]
    CannotGather {
        signal: String,
        reason: &'static str,
    },

    /// A stored table with an impossible value.
    #[error(
        "table {table:?} of signal {signal:?} is damaged at row {row}: {reason}; restore the signal's folder from a copy (`isochrony verify` names the file): no other file has its contents"
    )]
    DamagedTable {
        signal: String,
        table: &'static str,
        row: usize,
        reason: &'static str,
    },

    /// The file of a table with rows is missing.
    #[error("table {table:?} of signal {signal:?} is missing: there is no file {}{}; copy it back from another copy of the store (`isochrony verify` lists everything missing): without it the signal is neither read nor written, since the table would count as empty", path.display(), rows.map_or(String::new(), |rows| format!(" with its {rows} rows")))]
    MissingTable {
        signal: String,
        table: &'static str,
        path: PathBuf,
        /// Rows by its description, if any.
        rows: Option<u64>,
    },

    /// A table's file is older than the committed one, or another signal's.
    #[error("table {table:?} of signal {signal:?} is the wrong one: {} is {got}, expected {expected}; restore it from the copy of the store that the rest came from (`isochrony verify` names all such files): without it the signal is neither read nor written", path.display())]
    WrongTable {
        signal: String,
        table: &'static str,
        path: PathBuf,
        got: Box<str>,
        expected: Box<str>,
    },

    /// A signal's folder is missing.
    #[error("the folder of signal {signal:?} is missing: there is nothing at {}; copy it back from another copy of the store (`isochrony verify` lists everything missing): without it the signal is neither read nor written", path.display())]
    MissingFolder { signal: String, path: PathBuf },

    /// An [`interrupt`](crate::interrupt) was requested.
    #[error("interrupted while trying to {action}; nothing was changed, so call it again")]
    Interrupted { action: &'static str },
    /// Another process has the store open for writing.
    #[error("the store at {} is being written by {holder}; close it there, wait, or open it with mode \"r\"", path.display())]
    Locked {
        path: PathBuf,
        /// Its command, process, host and start time.
        holder: String,
    },
    /// Live writing is unsafe on a network file system.
    #[error("the store at {} is on a network file system ({kind}), where locks and mappings are not reliable; write on a local disk and copy, or open it with mode \"r\"", path.display())]
    NetworkFileSystem {
        path: PathBuf,
        /// Its name, such as `"NFS"`.
        kind: &'static str,
    },
    /// No space is left.
    #[error("cannot {action} {}: the disk is full; free some space and try again (the store is as last committed)", path.display())]
    DiskFull { action: &'static str, path: PathBuf },
    /// An earlier failure left the state on disk unknown.
    #[error("cannot {action}: an earlier failure left the writer of {} unsure of what is on disk ({reason}); close it and open it again, which recovers all that was committed", path.display())]
    Poisoned {
        path: PathBuf,
        action: &'static str,
        reason: String,
    },
    /// The store was opened before this process was forked.
    #[error("cannot {action}: the store at {} was opened by process {owner}, and this is a fork of it; open the store in this process", path.display())]
    Forked {
        path: PathBuf,
        action: &'static str,
        owner: u32,
    },
    /// A file was written by a newer version.
    #[error("{} has {what} {got}, and this version knows {what}s up to {supported}: a newer version wrote it; update isochrony", path.display())]
    NewerFormat {
        path: PathBuf,
        /// `"format"`, `"operation"`, or `"fit"` of a clock correction.
        what: &'static str,
        got: u64,
        supported: u64,
    },
    /// An engine file or a shard has invalid content.
    #[error("{} is damaged at byte {offset}: {reason}; restore it from a copy, unless `isochrony verify` says that `--repair` can repair it", path.display())]
    DamagedFile {
        path: PathBuf,
        offset: u64,
        reason: &'static str,
    },
    /// Something other than regular files and folders, or misplaced.
    #[error("cannot {action} {}: it is {found}, and a store consists of regular files and folders only; nothing of it was followed, read or written. Move it away and restore what was there from a copy of the store", path.display())]
    UnexpectedFile {
        action: &'static str,
        path: PathBuf,
        /// `"a symbolic link"`, `"a pipe"`.
        found: &'static str,
    },
    /// A file exceeds the limit of its kind.
    #[error("{} holds {have} bytes, and such a file has at most {limit}; nothing of it was read: restore it from a copy of the store", path.display())]
    OversizedFile {
        path: PathBuf,
        have: u64,
        limit: u64,
    },
    /// Not enough memory for a file.
    #[error("{} holds {have} bytes, and {free} bytes of this machine's memory are free; end other programs, or open the store where there is more memory. A file that should be smaller is damaged: restore it from a copy", path.display())]
    NoMemoryForFile { path: PathBuf, have: u64, free: u64 },
    /// A shard with committed samples is missing or too short.
    #[error("{} holds {have} bytes where committed samples need {need}; restore it from a copy, or run `isochrony verify --repair` to mark the lost samples as a gap", path.display())]
    MissingSamples {
        path: PathBuf,
        /// 0 if missing.
        have: u64,
        need: u64,
    },
    /// A shard file is not the committed one.
    #[error("{} is {got}, expected {expected}: it was copied from elsewhere, or is older than the store; restore it from the copy of the store that it belongs to", path.display())]
    WrongShard {
        path: PathBuf,
        got: String,
        expected: String,
    },
    /// Samples that a handle shows were replaced, and their files are gone.
    #[error(
        "samples {start}..{end} of signal {signal:?} were replaced since this handle was opened; `refresh()` shows the new ones"
    )]
    SamplesReplaced {
        signal: String,
        start: i64,
        end: i64,
    },
    /// A file or the log shows a commit that the redo log lacks.
    #[error("the redo log {} lost a commit that was acknowledged: {} shows that it changed {}; restore the log from a copy, or run `isochrony verify --repair` to go on without what was lost", log.display(), path.display(), lost_change(signal, *start, *end))]
    LostCommit {
        signal: String,
        log: PathBuf,
        /// What shows the commit; the log itself if nothing else does.
        path: PathBuf,
        /// The appended samples; empty if it only changed existing ones.
        start: i64,
        end: i64,
    },
    /// A backup's destination holds something else.
    #[error("{} cannot take a backup of the store at {}: {reason}; choose an empty folder, or an earlier backup of this store", path.display(), store.display())]
    NotABackup {
        path: PathBuf,
        store: PathBuf,
        reason: String,
    },
    /// A backup was interrupted before any state was complete.
    #[error("the backup at {} is not complete; run the same `isochrony backup` again to finish it", path.display())]
    UnfinishedBackup { path: PathBuf },
    /// Scratch samples are read after their release.
    #[error(
        "samples {start}:{end} of scratch{whose} are gone, since scratch is freed when it is no longer needed; copy what you need later while the function runs, such as np.array(inputs[0])"
    )]
    ScratchFree { start: i64, end: i64, whose: String },
    /// Another program wrote the shard.
    #[error("{} was rewritten by another program; read it, or run `isochrony verify --repair` before writing there", path.display())]
    ForeignShard { path: PathBuf },
    /// A codec that cannot seal signals.
    #[error(
        "codec {codec:?} is refused; give \"zstd:LEVEL\" with level 1 to 22, or \"blosc:COMPRESSOR:LEVEL\" with blosclz, lz4, lz4hc, zlib or zstd and level 0 to 9"
    )]
    InvalidCodec { codec: String },
    /// A compressed or foreign shard that cannot be decoded.
    #[error("{} cannot be decoded: {reason}; restore it from a copy, or run `isochrony verify` to see what is lost", path.display())]
    Undecodable { path: PathBuf, reason: String },
    /// The signal is sealed: its samples cannot change.
    #[error("cannot write to signal {signal:?}: it is sealed with {codec}; unseal it first")]
    Sealed { signal: String, codec: String },
    /// The store vanished after it was opened.
    #[error("cannot {action}: the store at {} has vanished while it was open ({reason}); mount its disk again or put its folder back, and open it again: committed data is unchanged", path.display())]
    StoreVanished {
        path: PathBuf,
        action: &'static str,
        reason: &'static str,
    },
    /// A new store would lie inside another store.
    #[error("a store at {} would lie inside the store at {}, which would neither verify nor show it; choose a path outside, or create a signal of that store", path.display(), other.display())]
    StoreInsideStore { path: PathBuf, other: PathBuf },
    /// Samples would overwrite committed ones.
    #[error(
        "cannot write samples {start}..{end} of signal {signal:?}: {at} already holds a committed sample; append, fill a gap, or write in place"
    )]
    Occupied {
        signal: String,
        start: i64,
        end: i64,
        at: i64,
    },
    /// A foreign file or folder is at the path of a signal's.
    #[error("signal {signal:?} cannot use the folder {}: something else is there; move that away, or choose another name", path.display())]
    InTheWay { signal: String, path: PathBuf },
    /// Recovery is needed, which this process may not do.
    #[error("the store at {} was left unfinished by a crash; open it once with mode \"r+\" on a machine that may write to it", path.display())]
    NeedsRecovery { path: PathBuf },

    /// An error of snapshots for other processes.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// An error of time arithmetic.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// An error of segments.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

pub(crate) fn overflow(what: &'static str) -> StoreError {
    StoreError::Time(TimeError::Overflow { what })
}

fn lost_change(signal: &str, start: i64, end: i64) -> String {
    match (signal, start == end) {
        ("", _) => "a signal that nothing else names".into(),
        (_, true) => format!("signal {signal:?}"),
        (_, false) => format!("samples {start}..{end} of signal {signal:?}"),
    }
}

#[cfg(test)]
mod tests;
