//! What can go wrong with a store: what happened, where, and how to mend it.

mod code;
mod snapshot;

use std::path::PathBuf;

use isochrony_segment::{DType, SegmentError};
use isochrony_time::TimeError;

use crate::io_hint::io_hint;
use crate::sample_format::SampleFormat;

pub use snapshot::SnapshotError;

/// An error of this crate. Paths are as given, ranges half open, in samples.
#[allow(missing_docs)] // Fields whose names and messages tell all that there is to say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    // --- stores ---
    /// The path holds no store.
    #[error("no store at {}: {reason}; check the path, or open with mode \"a\" to create one", path.display())]
    NotAStore {
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// A store (or anything else) is where a new one should be.
    #[error("{} exists already; open it with mode \"r+\" or \"a\", or choose another path", path.display())]
    StoreExists { path: PathBuf },
    /// Something was to be changed through a store opened for reading.
    #[error("cannot {action}: the store at {} is open for reading; open it with mode \"r+\"", path.display())]
    ReadOnly { path: PathBuf, action: &'static str },
    /// The store was closed.
    #[error("cannot {action}: the store at {} was closed; open it again", path.display())]
    Closed { path: PathBuf, action: &'static str },
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}{}", path.display(), io_hint(source))]
    Io {
        /// What was tried: `"read"`, `"create"`.
        action: &'static str,
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A store that is not on this machine cannot be reached, or is not as it was.
    #[error("cannot {action} {}: {error}", path.display())]
    Remote {
        /// What was tried: `"read"`, `"list"`.
        action: &'static str,
        path: PathBuf,
        /// Whether something is missing or was replaced, as of a file.
        kind: std::io::ErrorKind,
        error: crate::media::RemoteError,
    },
    /// Something was to be changed in a store that is not on this machine.
    #[error("cannot {action} {}: stores at URLs are read-only; write to a store on a disk and copy it there", path.display())]
    RemoteReadOnly { path: PathBuf, action: &'static str },

    // --- names ---
    /// A name that a signal cannot have.
    #[error("signal name {name:?} is refused: component {component:?} {rule}; choose another name")]
    InvalidName {
        name: String,
        /// The part at fault.
        component: String,
        /// The rule that it breaks, as a verb phrase.
        rule: &'static str,
    },
    /// There is no such signal.
    #[error("no signal {name:?} in the store{hint}; list the names, or search with a pattern")]
    NoSuchSignal {
        name: String,
        /// Empty, or `": did you mean ...?"`.
        hint: String,
    },
    /// The name is taken.
    #[error("signal {name:?} exists already; open it, remove it, or pass overwrite")]
    SignalExists { name: String },
    /// The name is that of a saved view.
    #[error(
        "signal {name:?} is refused: the store has a saved plan of that name; choose another, or forget that plan first"
    )]
    NameOfView { name: String },
    /// One signal would lie inside another.
    #[error(
        "signal {name:?} cannot be beside {other:?}: a signal cannot contain another; choose a name that is no prefix of the other"
    )]
    SignalInsideSignal {
        name: String,
        /// The signal that exists.
        other: String,
    },
    /// The signal was removed since this handle was made.
    #[error("signal {name:?} was removed from the store; look it up again")]
    SignalRemoved { name: String },
    /// Another signal has the name since this handle was made.
    #[error(
        "signal {name:?} was overwritten since this handle was opened; `refresh()` the store and look it up again to read the new one"
    )]
    SignalOverwritten { name: String },
    /// A pattern that is no glob.
    #[error(
        "pattern {pattern:?} is refused: {reason}; use *, ? and [a-z] inside a component and ** for any number of components"
    )]
    InvalidPattern {
        pattern: String,
        reason: &'static str,
    },

    /// A selection of signals that selects none.
    #[error(
        "none of the {count} signals of {} fits the patterns; list their names, or give no pattern to copy all", path.display()
    )]
    NoMatchingSignals { path: PathBuf, count: usize },

    // --- ranges and selections ---
    /// A range whose end is before its start.
    #[error("range {start}..{end} of signal {signal:?} ends before it starts; swap the two")]
    InvalidRange {
        signal: String,
        /// First index or time, as text.
        start: String,
        /// Index or time after the last, as text.
        end: String,
    },
    /// An index range that reaches outside the signal.
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
    /// One contiguous array was asked for, but the selection covers a gap.
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
    /// One contiguous array was asked for, but the selection spans a clock step.
    #[error(
        "the selection from signal {signal:?} spans a clock step at index {index} (run {before} to run {after}); iterate over its segments"
    )]
    ClockStepInSelection {
        signal: String,
        /// First index of the later part.
        index: i64,
        /// Run of the earlier part.
        before: u32,
        /// Run of the later part.
        after: u32,
    },
    /// The signal has no relation to civil time yet.
    #[error(
        "signal {signal:?} has no civil time here: no start was stated and no stamp was given; create it with a start, or append with stamps"
    )]
    NoCivilTime { signal: String },
    /// An event id that the signal does not have.
    #[error("signal {signal:?} has no event {event}; list its events")]
    NoSuchEvent { signal: String, event: u64 },

    // --- writing ---
    /// Samples of another type than the signal's.
    #[error("signal {signal:?} holds {expected} samples, got {got}; convert them first")]
    DTypeMismatch {
        signal: String,
        expected: SampleFormat,
        got: DType,
    },
    /// Bytes that are no whole number of samples.
    #[error("{bytes} bytes are no whole number of {format} samples of {size} bytes for signal {signal:?}; drop the last {rest} bytes or correct the dtype", size = format.size(), rest = bytes % format.size())]
    PartialSample {
        signal: String,
        bytes: usize,
        format: SampleFormat,
    },
    /// A negative or absurd length.
    #[error("cannot {action} {length} samples in signal {signal:?}; give between 1 and {max}")]
    InvalidLength {
        signal: String,
        action: &'static str,
        length: i64,
        /// Most that is possible.
        max: i64,
    },
    /// In-place writing over a gap.
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
    /// User attributes that are no JSON object.
    #[error(
        "attributes of {owner:?} are refused: {reason}; give a JSON object whose keys are not \"isochrony\""
    )]
    InvalidAttributes {
        /// Signal name, or "store".
        owner: String,
        reason: String,
    },
    /// An option outside its legal range.
    #[error("{option}={got} is refused for signal {signal:?}; {legal}")]
    InvalidOption {
        signal: String,
        option: &'static str,
        got: String,
        legal: &'static str,
    },
    /// A way to read that there is not.
    #[error("there is no I/O strategy {name:?}; choose one of {known}")]
    UnknownStrategy {
        name: String,
        /// Names of all, with commas.
        known: String,
    },
    /// A calibration that cannot be made so.
    #[error("cannot calibrate with {option} {got}; {legal}")]
    RefusedCalibration {
        option: &'static str,
        got: String,
        legal: &'static str,
    },
    /// What is kept of this machine's costs cannot be used.
    #[error("the machine's profile {} cannot be used: {reason}; measure again with `isochrony calibrate`, or delete that file", path.display())]
    BadProfile {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// More would be held in memory than is sensible.
    #[error(
        "{what} needs {bytes} bytes, more than {limit}; ask for a shorter span, a lower rate or fewer signals"
    )]
    TooLarge {
        what: &'static str,
        bytes: u128,
        /// Most that is allowed.
        limit: u128,
    },
    /// A gather over signals that cannot share one array.
    #[error("cannot gather signal {signal:?}: {reason}")]
    CannotGather {
        signal: String,
        reason: &'static str,
    },

    // --- damage ---
    /// A stored table that says something impossible.
    #[error(
        "table {table:?} of signal {signal:?} is damaged at row {row}: {reason}; restore the signal's folder from a copy (`isochrony verify` names the file): nothing else holds what the table said"
    )]
    DamagedTable {
        signal: String,
        table: &'static str,
        /// Row number from 0.
        row: usize,
        reason: &'static str,
    },

    /// The file of a table that had rows is gone.
    #[error("table {table:?} of signal {signal:?} is missing: got no {}, expected one{}; copy it back from another copy of the store (`isochrony verify` names all that is gone): without it the signal is neither read nor written, since what the table held would pass for empty", path.display(), rows.map_or(String::new(), |rows| format!(" of {rows} rows")))]
    MissingTable {
        signal: String,
        table: &'static str,
        /// Where its file should be.
        path: PathBuf,
        /// Rows that its description counts, if that is there.
        rows: Option<u64>,
    },

    /// The file of a table is another one than commits speak of: an older one, or another signal's.
    #[error("table {table:?} of signal {signal:?} is the wrong one: {} is {got}, expected {expected}; restore it from the copy of the store that the rest came from (`isochrony verify` names all such files): without it the signal is neither read nor written", path.display())]
    WrongTable {
        signal: String,
        table: &'static str,
        path: PathBuf,
        /// What the file is.
        got: Box<str>,
        /// What it must be.
        expected: Box<str>,
    },

    /// The folder of a signal is gone.
    #[error("the folder of signal {signal:?} is missing: got nothing at {}; copy it back from another copy of the store (`isochrony verify` names all that is gone): without it the signal is neither read nor written", path.display())]
    MissingFolder { signal: String, path: PathBuf },

    // --- the engine ---
    /// Somebody asked for the work to stop; see [`interrupt`](crate::interrupt).
    #[error(
        "stopped before the end, as was asked, while it was to {action}; nothing was changed, so simply call it again"
    )]
    Interrupted {
        /// What was going on.
        action: &'static str,
    },
    /// Another process writes to the store.
    #[error("the store at {} is being written by {holder}; close it there, wait, or open it with mode \"r\"", path.display())]
    Locked {
        path: PathBuf,
        /// Who: command, process, host and since when.
        holder: String,
    },
    /// The store lies on a network file system, where live writing is not safe.
    #[error("the store at {} is on a network file system ({kind}), where locks and mappings are not reliable; write on a local disk and copy, or open it with mode \"r\"", path.display())]
    NetworkFileSystem {
        path: PathBuf,
        /// Its name, such as `"NFS"`.
        kind: &'static str,
    },
    /// No space is left.
    #[error("cannot {action} {}: the disk is full; free some space and try again (the store is as last committed)", path.display())]
    DiskFull { action: &'static str, path: PathBuf },
    /// An earlier failure left it unknown what is on disk.
    #[error("cannot {action}: an earlier failure left the writer of {} unsure of what is on disk ({reason}); close it and open it again, which recovers all that was committed", path.display())]
    Poisoned {
        path: PathBuf,
        action: &'static str,
        reason: String,
    },
    /// The store is used in a process that was forked from the one that opened it.
    #[error("cannot {action}: the store at {} was opened by process {owner}, and this is a fork of it; open the store in this process", path.display())]
    Forked {
        path: PathBuf,
        action: &'static str,
        /// The process that opened it.
        owner: u32,
    },
    /// A file was written by a newer version of this program.
    #[error("{} has {what} {got}, and this version knows {what}s up to {supported}: a newer version wrote it; update isochrony", path.display())]
    NewerFormat {
        path: PathBuf,
        /// What has the number: `"format"`, `"operation"`, or `"fit"` of a clock correction.
        what: &'static str,
        got: u64,
        /// The newest that is understood.
        supported: u64,
    },
    /// One of the engine's own files, or a shard, does not say what it must.
    #[error("{} is damaged at byte {offset}: {reason}; restore it from a copy, unless `isochrony verify` says that `--repair` mends it", path.display())]
    DamagedFile {
        path: PathBuf,
        offset: u64,
        reason: &'static str,
    },
    /// Inside a store there is something else than regular files and folders, or not where it belongs.
    #[error("cannot {action} {}: it is {found}, and a store consists of regular files and folders only; nothing of it was followed, read or written. Move it away and restore what was there from a copy of the store", path.display())]
    UnexpectedFile {
        action: &'static str,
        path: PathBuf,
        /// `"a symbolic link"`, `"a pipe"`.
        found: &'static str,
    },
    /// A file of the store is longer than any of its kind can be.
    #[error("{} holds {have} bytes, and such a file has at most {limit}; nothing of it was read: restore it from a copy of the store", path.display())]
    OversizedFile {
        path: PathBuf,
        have: u64,
        limit: u64,
    },
    /// A file of the store that this machine has no memory for.
    #[error("{} holds {have} bytes, and {free} bytes of this machine's memory are free; end other programs, or open the store where there is more memory. A file that should be smaller is damaged: restore it from a copy", path.display())]
    NoMemoryForFile { path: PathBuf, have: u64, free: u64 },
    /// A shard that committed samples lie in is missing or too short.
    #[error("{} holds {have} bytes where committed samples need {need}; restore it from a copy, or run `isochrony verify --repair` to mark the lost samples as a gap", path.display())]
    MissingSamples {
        path: PathBuf,
        /// Its length; 0 if it is missing.
        have: u64,
        /// The length that it must have.
        need: u64,
    },
    /// A shard file is not the one that commits speak of.
    #[error("{} is {got}, expected {expected}: it was copied from elsewhere, or is older than the store; restore it from the copy of the store that it belongs to", path.display())]
    WrongShard {
        path: PathBuf,
        /// What the file says of itself.
        got: String,
        /// What it must say.
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
    /// The log or other files tell of a commit that the redo log has no more.
    #[error("the redo log {} lost a commit that was acknowledged: {} tells that it changed {}; restore the log from a copy, or run `isochrony verify --repair` to go on without what was lost", log.display(), path.display(), lost_change(signal, *start, *end))]
    LostCommit {
        signal: String,
        log: PathBuf,
        /// The file that tells of the commit; the log itself if nothing else does.
        path: PathBuf,
        /// The samples that it appended; none if it only changed what was there.
        start: i64,
        end: i64,
    },
    /// A backup was to be written where something else is.
    #[error("{} cannot take a backup of the store at {}: {reason}; choose an empty folder, or an earlier backup of this store", path.display(), store.display())]
    NotABackup {
        path: PathBuf,
        store: PathBuf,
        reason: String,
    },
    /// A backup was interrupted, and no state of it is whole.
    #[error("the backup at {} is not complete; run the same `isochrony backup` again to finish it", path.display())]
    UnfinishedBackup { path: PathBuf },
    /// Samples of scratch are read that nobody needed any more.
    #[error(
        "samples {start}:{end} of scratch{whose} are gone, since scratch is free again; copy what is to last while the function runs, such as np.array(inputs[0])"
    )]
    ScratchFree { start: i64, end: i64, whose: String },
    /// Another program wrote a shard.
    #[error("{} was rewritten by another program; read it, or run `isochrony verify --repair` before writing there", path.display())]
    ForeignShard { path: PathBuf },
    /// A codec that signals cannot be sealed with.
    #[error(
        "codec {codec:?} is refused; give \"zstd:LEVEL\" with level 1 to 22, or \"blosc:COMPRESSOR:LEVEL\" with blosclz, lz4, lz4hc, zlib or zstd and level 0 to 9"
    )]
    InvalidCodec { codec: String },
    /// A compressed or foreign shard that cannot be read.
    #[error("{} cannot be decoded: {reason}; restore it from a copy, or run `isochrony verify` to see what is lost", path.display())]
    Undecodable {
        /// The array, or its metadata.
        path: PathBuf,
        reason: String,
    },
    /// The signal is sealed, so its samples cannot grow or change.
    #[error("cannot write to signal {signal:?}: it is sealed with {codec}; unseal it first")]
    Sealed { signal: String, codec: String },
    /// The store was there when it was opened, and is not any more.
    #[error("cannot {action}: the store at {} has vanished while it was open ({reason}); mount its disk again or put its folder back, and open it again: what was committed is as it was", path.display())]
    StoreVanished {
        /// Where the store was.
        path: PathBuf,
        action: &'static str,
        /// What shows that it has vanished.
        reason: &'static str,
    },
    /// A new store would lie in the folder of another.
    #[error("a store at {} would lie inside the store at {}, which would neither verify nor show it; choose a path outside, or create a signal of that store", path.display(), other.display())]
    StoreInsideStore {
        path: PathBuf,
        /// The store above it.
        other: PathBuf,
    },
    /// Samples would overwrite committed ones.
    #[error(
        "cannot write samples {start}..{end} of signal {signal:?}: {at} already holds a committed sample; append, fill a gap, or write in place"
    )]
    Occupied {
        signal: String,
        start: i64,
        end: i64,
        /// First index that is taken.
        at: i64,
    },
    /// A file or folder that is none of ours lies where a signal's folder would be.
    #[error("signal {signal:?} cannot have its folder {}: something else is there; move it away or choose another name", path.display())]
    InTheWay { signal: String, path: PathBuf },
    /// The store was left unfinished, and this process may not finish it.
    #[error("the store at {} was left unfinished by a crash; open it once with mode \"r+\" on a machine that may write to it", path.display())]
    NeedsRecovery { path: PathBuf },

    /// An error of snapshots that are sent to other processes.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// An error of time arithmetic.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// An error of segments.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// What a lost commit changed.
fn lost_change(signal: &str, start: i64, end: i64) -> String {
    match (signal, start == end) {
        ("", _) => "a signal that nothing else names".into(),
        (_, true) => format!("signal {signal:?}"),
        (_, false) => format!("samples {start}..{end} of signal {signal:?}"),
    }
}

#[cfg(test)]
mod tests;
