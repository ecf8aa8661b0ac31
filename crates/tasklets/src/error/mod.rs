//! Errors of tasklets.

use std::io;
use std::path::{Path, PathBuf};

pub use isochrony_runtime::Cause;
use isochrony_store::StoreError;

/// Ranges are half open, in samples.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskletError {
    /// Invalid parameter.
    #[error("{option}={got} is refused; give {legal}")]
    Option {
        option: &'static str,
        got: String,
        legal: &'static str,
    },
    /// Two tasklets of one name.
    #[error(
        "two tasklets have the name {name:?}; give each a different name=, since a resumed run recognizes tasklets by name"
    )]
    DuplicateName { name: String },
    /// Unknown tasklet in `after`.
    #[error(
        "tasklet {name:?} has after={after:?}, but no tasklet of that name was added; add tasklet {after:?}, or correct after="
    )]
    UnknownTasklet { name: String, after: String },
    /// Two writers of one sample.
    #[error(
        "tasklets {first:?} and {second:?} both write samples {start}..{end} of {signal}; let one of them write, or write to different ranges"
    )]
    TwoWriters {
        first: String,
        second: String,
        signal: String,
        start: i64,
        end: i64,
    },
    /// Dependency cycle.
    #[error("tasklets wait for one another: {path}; remove one of these dependencies")]
    Cycle {
        /// Names in a cycle, each with why it waits for the next.
        path: String,
    },
    /// Input without samples that no tasklet writes.
    #[error(
        "tasklet {name:?} reads samples {start}..{end} of {signal}, but these do not exist and no tasklet writes them; add a tasklet that writes them, or choose an input range that exists"
    )]
    NobodyWrites {
        name: String,
        signal: String,
        start: i64,
        end: i64,
    },
    /// Order that exceeds the scratch budget.
    #[error(
        "scratch={budget} bytes are too few: when tasklet {name:?} runs, {needed} bytes of scratch are in use, even with one tasklet at a time{order}; give scratch={needed} or more, or make the tasklets smaller"
    )]
    ScratchTooSmall {
        budget: u64,
        needed: u64,
        name: String,
        /// Empty, or what would change with another order.
        order: &'static str,
    },
    /// Output that already has samples.
    #[error(
        "tasklet {name:?} would overwrite {signal}: {start}..{end} already has samples (first at index {at}); to replace them, call mark_invalid({start}, {end}) on the signal first; else choose another output, or continue the earlier run with resume=True{}", journal_hint(journal.as_deref())
    )]
    OutputOccupied {
        name: String,
        signal: String,
        start: i64,
        end: i64,
        at: i64,
        /// Journal of another run that claimed the range.
        journal: Option<PathBuf>,
    },
    /// Tasklet that ended without writing all its outputs.
    #[error(
        "tasklet {name:?} ended without writing samples {start}..{end} of {signal}, which it declares as an output; write all of them, or declare a smaller output range"
    )]
    MissingOutput {
        name: String,
        signal: String,
        start: i64,
        end: i64,
    },
    /// Tasklet that wrote something undeclared.
    #[error(
        "tasklet {name:?} writes {got}, but its output {output} is {expected}; write what is declared, or declare another output"
    )]
    WrongOutput {
        name: String,
        output: usize,
        got: String,
        expected: String,
    },
    /// Output in a read-only store, or unsuitable signal.
    #[error("tasklet {name:?} cannot write to {signal}: {why}")]
    NotWritable {
        name: String,
        signal: String,
        why: &'static str,
    },
    /// At least one failed tasklet.
    #[error(
        "tasklet {name:?} failed: {why}{}; {}correct the cause and run again{}", others(*failed, *not_run), kept(*resumable), with_resume(*resumable)
    )]
    Failed {
        name: String,
        failed: usize,
        not_run: usize,
        /// A journal has the finished tasklets.
        resumable: bool,
        #[source]
        why: Cause,
    },
    /// Interrupted by the caller.
    #[error(
        "interrupted after {done} of {total} tasklets; {}run again{}", kept(*resumable), with_resume(*resumable)
    )]
    Interrupted {
        done: usize,
        total: usize,
        resumable: bool,
    },
    /// Journal that cannot be read or written.
    #[error("cannot {action} the journal {}: {source}; check that its folder exists and is writable and the disk is not full, or give journal= another path", path.display())]
    Journal {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Journal locked by another run.
    #[error("the journal {} is in use by another run of tasklets with the same outputs; wait for that run to end, or give this run another path with journal=", path.display())]
    JournalInUse { path: PathBuf },
    /// File that is no journal.
    #[error("{} exists and is not a journal, so it is not overwritten; give journal= the path of a new file", path.display())]
    NotAJournal { path: PathBuf },
    /// Thread refused by the system.
    #[error("worker thread {worker} cannot be started: {source}; set a smaller workers=")]
    Thread { worker: usize, source: io::Error },
    /// Store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn others(failed: usize, not_run: usize) -> String {
    let more = match failed {
        0 | 1 => String::new(),
        n => format!(" (and {} others failed)", n - 1),
    };
    match not_run {
        0 => more,
        1 => format!("{more}; 1 tasklet that depends on a failed one was not run"),
        n => format!("{more}; {n} tasklets that depend on failed ones were not run"),
    }
}

fn journal_hint(journal: Option<&Path>) -> String {
    journal.map_or_else(String::new, |path| {
        let path = path.display();
        format!(" and journal={path}, since that run had other outputs than this one")
    })
}

fn kept(resumable: bool) -> &'static str {
    if resumable {
        "finished tasklets are recorded in the journal: "
    } else {
        "no finished tasklet was recorded, since none writes to a store and no journal= was given: "
    }
}

fn with_resume(resumable: bool) -> &'static str {
    if resumable { " with resume=True" } else { "" }
}

impl TaskletError {
    /// Stable `snake_case` code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Option { .. } => "bad_option",
            Self::DuplicateName { .. } => "duplicate_name",
            Self::UnknownTasklet { .. } => "unknown_tasklet",
            Self::TwoWriters { .. } => "two_writers",
            Self::Cycle { .. } => "tasklet_cycle",
            Self::NobodyWrites { .. } => "nobody_writes",
            Self::ScratchTooSmall { .. } => "scratch_too_small",
            Self::OutputOccupied { .. } => "output_occupied",
            Self::MissingOutput { .. } => "missing_output",
            Self::WrongOutput { .. } => "wrong_output",
            Self::NotWritable { .. } => "not_writable",
            Self::Failed { .. } => "tasklet_failed",
            Self::Interrupted { .. } => "interrupted",
            Self::Journal { .. } => "journal",
            Self::JournalInUse { .. } => "journal_in_use",
            Self::NotAJournal { .. } => "not_a_journal",
            Self::Thread { .. } => "thread",
            Self::Store(error) => error.code(),
        }
    }
}

#[cfg(test)]
mod tests;
