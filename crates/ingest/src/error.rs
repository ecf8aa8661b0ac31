//! What can go wrong with an import: what happened, where, and how to mend it.

use std::path::PathBuf;

use isochrony_store::StoreError;
use isochrony_time::{Fixed, civil};

/// An error of this crate.
///
/// Errors about one file of many are collected as [`Problem`](crate::Problem)s and never stop the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    // --- templates ---
    /// A template with nothing in it.
    #[error(
        "the layout template is empty; write one such as {{station}}/{{station}}_{{epoch}}.raw"
    )]
    EmptyTemplate,
    /// A template longer than any path.
    #[error("the layout template has {length} characters, at most {max} are possible; shorten it")]
    TemplateTooLong {
        /// Characters given.
        length: usize,
        /// Most that is allowed.
        max: usize,
    },
    /// A brace without its partner.
    #[error(
        "layout {template:?}: {brace:?} at character {at} has no partner; close the field, or double the brace to mean it literally"
    )]
    UnbalancedBrace {
        /// The template as given.
        template: String,
        /// Character position, from 1.
        at: usize,
        /// The brace.
        brace: char,
    },
    /// A field whose name is empty or has other characters than letters, digits and underscores.
    #[error(
        "layout {template:?}: field {{{field}}} at character {at} is refused; a field is a name of ASCII letters, digits and underscores that starts with a letter"
    )]
    InvalidField {
        /// The template as given.
        template: String,
        /// Character position of its brace, from 1.
        at: usize,
        /// What stood between the braces.
        field: String,
    },
    /// What follows the colon in a field is not legal for it.
    #[error("layout {template:?}: {{{field}:{spec}}} at character {at} is refused; {legal}")]
    InvalidFieldSpec {
        /// The template as given.
        template: String,
        /// Character position of its brace, from 1.
        at: usize,
        /// The field.
        field: String,
        /// What stood after the colon.
        spec: String,
        /// What may stand there.
        legal: &'static str,
    },
    /// Two fields of variable width with nothing between them.
    #[error(
        "layout {template:?}: {second} at character {at} touches {first}, so that nobody can tell where one ends; put a character between them or give a width, such as {{name:4}}"
    )]
    TouchingFields {
        /// The template as given.
        template: String,
        /// Character position of the second, from 1.
        at: usize,
        /// The first, as written.
        first: String,
        /// The second, as written.
        second: String,
    },
    /// A time field without the coarser one that it belongs to.
    #[error(
        "layout {template:?}: {{{field}}} needs {needs} too; add it, or use {{epoch}} or {{iso}}"
    )]
    MissingTimeField {
        /// The template as given.
        template: String,
        /// The field that is there.
        field: &'static str,
        /// The fields that are not.
        needs: &'static str,
    },
    /// Two fields that each state the whole time.
    #[error(
        "layout {template:?}: {{{first}}} and {{{second}}} both state the whole time; keep one"
    )]
    ConflictingTimeFields {
        /// The template as given.
        template: String,
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A template whose paths could lie outside the folder, or nowhere.
    #[error(
        "layout {template:?}: path component {component:?} is refused, since {reason}; a layout is relative to the imported folder"
    )]
    InvalidComponent {
        /// The template as given.
        template: String,
        /// The component.
        component: String,
        /// Why.
        reason: &'static str,
    },
    /// A preset that does not exist.
    #[error("there is no preset {name:?}; known are {known}")]
    UnknownPreset {
        /// The name as given.
        name: String,
        /// Those that exist.
        known: &'static str,
    },

    // --- one file of many ---
    /// A path that the layout does not describe.
    #[error(
        "the name does not fit the layout: {expected} was expected at character {at} of {path:?}; rename the file or correct the layout"
    )]
    Misnamed {
        /// Path below the imported folder.
        path: String,
        /// Character position in it up to which it fits, from 1.
        at: usize,
        /// What should be there.
        expected: String,
    },
    /// A field that appears twice in a path with different values.
    #[error(
        "the name contradicts itself: {field} is {first:?} and {second:?} in {path:?}; rename or move the file"
    )]
    FieldDisagrees {
        /// Path below the imported folder.
        path: String,
        /// The field, in braces.
        field: String,
        /// Its first value.
        first: String,
        /// Its other value.
        second: String,
    },
    /// A time stamp that no calendar or clock has.
    #[error("the time stamp {stamp:?} in {path:?} is impossible: {reason}; rename the file")]
    ImpossibleStamp {
        /// Path below the imported folder.
        path: String,
        /// The stamp.
        stamp: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A name that is not valid UTF-8.
    #[error("the name {path:?} is not valid UTF-8; rename the file")]
    NotUnicode {
        /// The path, with replacement characters.
        path: String,
    },
    /// A file without samples.
    #[error("the file is empty; fetch it again, or leave it out")]
    EmptyFile,
    /// A file that does not hold whole samples.
    #[error(
        "{bytes} bytes are no whole number of {size}-byte samples ({rest} over): the file is truncated or the dtype is wrong; fetch it again, or take its {whole} whole samples with partial = true"
    )]
    PartialSample {
        /// Bytes in the file.
        bytes: u64,
        /// Bytes of a sample.
        size: u64,
        /// Bytes over.
        rest: u64,
        /// Whole samples.
        whole: u64,
    },
    /// A file that became shorter while it was read.
    #[error(
        "the file became shorter than its {expected} bytes while it was read; import it again when it is complete"
    )]
    Shrank {
        /// Bytes when it was opened.
        expected: u64,
    },
    /// Samples that are stored already, from another file.
    #[error(
        "its samples are stored already, with the same stamp, in signal {signal:?} at index {index}; it was skipped, remove the copy"
    )]
    Duplicate {
        /// The signal.
        signal: String,
        /// First index of the stored ones.
        index: i64,
    },
    /// Samples that differ from those stored of the same time.
    #[error(
        "its samples from {} to {} overlap in time with others of signal {signal:?}; all are kept, these as a run of their own from index {index}; choose with overlap when reading",
        civil::format(*start), civil::format(*end)
    )]
    Overlap {
        /// The signal.
        signal: String,
        /// First index of these.
        index: i64,
        /// Civil time at which they begin to overlap, UTC ns since 1970.
        start: Fixed,
        /// Civil time at which they end to.
        end: Fixed,
    },
    /// Samples of a source that are stored already, while others of it were not.
    #[error(
        "{samples} of its samples, from {} to {}, are stored already, with the same stamps, in signal {signal:?} from index {index} on; they were skipped and the others taken, remove the copy",
        civil::format(*start), civil::format(*end)
    )]
    Repeated {
        /// The signal.
        signal: String,
        /// Least index of the stored ones.
        index: i64,
        /// How many there are.
        samples: i64,
        /// Civil time of the first, UTC ns since 1970.
        start: Fixed,
        /// Civil time of the end of the last.
        end: Fixed,
    },
    /// A source that was imported before and was changed since, not only continued.
    #[error(
        "its first {samples} samples are stored in signal {signal:?}, but what follows them was changed since then; import it as a signal of another name, or delete that signal first"
    )]
    Rewritten {
        /// The signal.
        signal: String,
        /// How many samples are as they were.
        samples: i64,
    },
    /// A symbolic link that is not followed.
    #[error(
        "the symbolic link is not followed: {reason}; put the recordings themselves into the folder"
    )]
    LinkNotFollowed {
        /// Why.
        reason: &'static str,
    },
    /// Neither a file nor a folder.
    #[error("this is a {kind}, not a file; move it elsewhere")]
    NotAFile {
        /// What it is.
        kind: &'static str,
    },

    /// A block of another kind than its signal.
    #[error(
        "signal {signal:?} has {what} {have}, the source has {got}; import it into a signal of another name, or convert it"
    )]
    Mismatch {
        /// The signal.
        signal: String,
        /// What differs.
        what: &'static str,
        /// The signal's.
        have: String,
        /// The source's.
        got: String,
    },
    /// Blocks that come together are not as long as stated.
    #[error(
        "signal {signal:?} gets {have} samples for blocks that have {stated} in all; state for each how many it has, above zero"
    )]
    BlockSizes {
        /// The signal.
        signal: String,
        /// Samples that came.
        have: usize,
        /// Samples that were stated.
        stated: i128,
    },
    /// A source without times for a signal that has them, or the other way round.
    #[error(
        "signal {signal:?} {}; import it into a signal of another name{}",
        if *signal_is_timed { "has civil time, and the source states none" } else { "has no civil time, and the source states one" },
        if *signal_is_timed { ", or give the time of its first sample with start=" } else { "" }
    )]
    MixedTime {
        /// The signal.
        signal: String,
        /// Whether the signal has civil time.
        signal_is_timed: bool,
    },
    /// A block without samples.
    #[error("a block without samples was fed; leave it out")]
    EmptyBlock,

    // --- the import as a whole ---
    /// An option outside its legal range.
    #[error("{option}={got} is refused; {legal}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// The value as given.
        got: String,
        /// What is legal.
        legal: &'static str,
    },
    /// The end was asked for.
    #[error("the import was cancelled; what was committed stays, run it again to go on")]
    Cancelled,
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}; check its permissions and its disk", path.display())]
    Io {
        /// What was tried: `"read"`, `"list"`.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder to import is none.
    #[error("{} is not a folder; give the folder that holds the recordings", path.display())]
    NotAFolder {
        /// The path as given.
        path: PathBuf,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl IngestError {
    /// Stable name of the kind of error, in `snake_case`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::EmptyTemplate => "empty_template",
            Self::TemplateTooLong { .. } => "template_too_long",
            Self::UnbalancedBrace { .. } => "unbalanced_brace",
            Self::InvalidField { .. } => "invalid_field",
            Self::InvalidFieldSpec { .. } => "invalid_field_spec",
            Self::TouchingFields { .. } => "touching_fields",
            Self::MissingTimeField { .. } => "missing_time_field",
            Self::ConflictingTimeFields { .. } => "conflicting_time_fields",
            Self::InvalidComponent { .. } => "invalid_component",
            Self::UnknownPreset { .. } => "unknown_preset",
            Self::Misnamed { .. } => "misnamed",
            Self::FieldDisagrees { .. } => "field_disagrees",
            Self::ImpossibleStamp { .. } => "impossible_stamp",
            Self::NotUnicode { .. } => "not_unicode",
            Self::EmptyFile => "empty_file",
            Self::PartialSample { .. } => "partial_sample",
            Self::Shrank { .. } => "shrank",
            Self::Duplicate { .. } => "duplicate",
            Self::Overlap { .. } => "overlap",
            Self::Repeated { .. } => "repeated",
            Self::Rewritten { .. } => "rewritten",
            Self::LinkNotFollowed { .. } => "link_not_followed",
            Self::NotAFile { .. } => "not_a_file",
            Self::Mismatch { .. } => "mismatch",
            Self::MixedTime { .. } => "mixed_time",
            Self::BlockSizes { .. } => "block_sizes",
            Self::EmptyBlock => "empty_block",
            Self::InvalidOption { .. } => "invalid_option",
            Self::Cancelled => "cancelled",
            Self::Io { .. } => "io",
            Self::NotAFolder { .. } => "not_a_folder",
            Self::Store(error) => error.code(),
        }
    }

    /// Whether nothing more can be imported, rather than one source not.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Store(error) => !matches!(
                error,
                StoreError::InvalidName { .. }
                    | StoreError::SignalInsideSignal { .. }
                    | StoreError::NameOfView { .. }
                    | StoreError::DTypeMismatch { .. }
                    | StoreError::PartialSample { .. }
                    | StoreError::InvalidAttributes { .. }
                    | StoreError::InvalidOption { .. }
                    | StoreError::Time(_)
                    | StoreError::Segment(_)
            ),
            Self::Cancelled | Self::NotAFolder { .. } | Self::InvalidOption { .. } => true,
            _ => false,
        }
    }
}
