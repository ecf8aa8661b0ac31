//! Errors of imports.

use std::path::PathBuf;

use isochrony_store::StoreError;
use isochrony_time::{Fixed, civil};

/// An error of this crate; if about one of many files, a [`Problem`](crate::Problem) that does not stop the import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The template is empty.
    #[error(
        "the layout template is empty; write one such as {{station}}/{{station}}_{{epoch}}.raw"
    )]
    EmptyTemplate,
    /// The template is longer than any path.
    #[error("the layout template has {length} characters, at most {max} are possible; shorten it")]
    TemplateTooLong {
        /// Its characters.
        length: usize,
        /// Maximum.
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
    /// An invalid field name.
    #[error(
        "layout {template:?}: field {{{field}}} at character {at} is refused; a field is a name of ASCII letters, digits and underscores that starts with a letter"
    )]
    InvalidField {
        /// The template as given.
        template: String,
        /// Character position, from 1.
        at: usize,
        /// The text between the braces.
        field: String,
    },
    /// Invalid text after a field's colon.
    #[error("layout {template:?}: {{{field}:{spec}}} at character {at} is refused; {legal}")]
    InvalidFieldSpec {
        /// The template as given.
        template: String,
        /// Character position, from 1.
        at: usize,
        /// The field.
        field: String,
        /// The text after the colon.
        spec: String,
        /// What is allowed.
        legal: &'static str,
    },
    /// Two adjacent fields of variable width.
    #[error(
        "layout {template:?}: {second} at character {at} touches {first}, so the end of the first is ambiguous; put a character between them or give a width, such as {{name:4}}"
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
    /// A time field without the coarser one.
    #[error(
        "layout {template:?}: {{{field}}} needs {needs} too; add it, or use {{epoch}} or {{iso}}"
    )]
    MissingTimeField {
        /// The template as given.
        template: String,
        /// The field.
        field: &'static str,
        /// The missing fields.
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
    /// A template whose paths could leave the folder.
    #[error(
        "layout {template:?}: path component {component:?} is refused, since {reason}; a layout is relative to the imported folder"
    )]
    InvalidComponent {
        /// The template as given.
        template: String,
        /// The component.
        component: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A preset that does not exist.
    #[error("there is no preset {name:?}; known are {known}")]
    UnknownPreset {
        /// The name as given.
        name: String,
        /// Known presets.
        known: &'static str,
    },

    /// A path that does not match the layout.
    #[error(
        "the name does not fit the layout: {expected} was expected at character {at} of {path:?}; rename the file or correct the layout"
    )]
    Misnamed {
        /// Path below the imported folder.
        path: String,
        /// Position of the mismatch, from 1.
        at: usize,
        /// What is expected there.
        expected: String,
    },
    /// Different values of a repeated field.
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
    /// A stamp that is no date or time.
    #[error("the time stamp {stamp:?} in {path:?} is impossible: {reason}; rename the file")]
    ImpossibleStamp {
        /// Path below the imported folder.
        path: String,
        /// The stamp.
        stamp: String,
        /// What is wrong.
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
    /// A file with a partial sample.
    #[error(
        "{bytes} bytes are not a whole number of {size}-byte samples ({rest} bytes left over): the file is truncated or the dtype is wrong; fetch it again, correct the dtype, or take its {whole} whole samples with partial = true"
    )]
    PartialSample {
        /// Bytes in the file.
        bytes: u64,
        /// Bytes of a sample.
        size: u64,
        /// Bytes left over.
        rest: u64,
        /// Whole samples.
        whole: u64,
    },
    /// A file that shrank while it was read.
    #[error(
        "the file became shorter than its {expected} bytes while it was read; import it again when it is complete"
    )]
    Shrank {
        /// Bytes when it was opened.
        expected: u64,
    },
    /// Samples stored already from another file.
    #[error(
        "its samples are stored already, with the same stamp, in signal {signal:?} at index {index}; it was skipped; remove the copy"
    )]
    Duplicate {
        /// The signal.
        signal: String,
        /// First stored index.
        index: i64,
    },
    /// Samples that differ from stored ones of the same time.
    #[error(
        "its samples from {} to {} overlap in time with others of signal {signal:?}; all are kept, these as a run of their own from index {index}; choose with overlap when reading",
        civil::format(*start), civil::format(*end)
    )]
    Overlap {
        /// The signal.
        signal: String,
        /// First index of these samples.
        index: i64,
        /// Start of the overlap, UTC ns since 1970.
        start: Fixed,
        /// End of the overlap.
        end: Fixed,
    },
    /// Samples of which some are stored already.
    #[error(
        "{samples} of its samples, from {} to {}, are stored already, with the same stamps, in signal {signal:?} from index {index} on; they were skipped and the others were imported; remove the copy",
        civil::format(*start), civil::format(*end)
    )]
    Repeated {
        /// The signal.
        signal: String,
        /// Least stored index.
        index: i64,
        /// Number of stored samples.
        samples: i64,
        /// Civil time of the first, UTC ns since 1970.
        start: Fixed,
        /// Civil time of the end of the last.
        end: Fixed,
    },
    /// A source that was imported before and changed other than by growing.
    #[error(
        "its first {samples} samples are stored in signal {signal:?}, but what follows them was changed since then; import it as a signal of another name, or delete that signal first"
    )]
    Rewritten {
        /// The signal.
        signal: String,
        /// Number of unchanged samples.
        samples: i64,
    },
    /// A symbolic link that is not followed.
    #[error(
        "the symbolic link is not followed: {reason}; put the recordings themselves into the folder"
    )]
    LinkNotFollowed {
        /// Why not.
        reason: &'static str,
    },
    /// Neither a file nor a folder.
    #[error("this is a {kind}, not a file; move it elsewhere")]
    NotAFile {
        /// Its kind.
        kind: &'static str,
    },

    /// A block whose type, rate or unit differs from its signal's.
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
    /// Blocks with other than the stated number of samples.
    #[error(
        "signal {signal:?} was given {have} samples for blocks whose stated counts add up to {stated}; state for each block how many samples it has, at least 1"
    )]
    BlockSizes {
        /// The signal.
        signal: String,
        /// Samples given.
        have: usize,
        /// Samples stated.
        stated: i128,
    },
    /// Times in only one of source and signal.
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
    #[error("a block has no samples; leave it out")]
    EmptyBlock,

    /// An option outside its legal range.
    #[error("{option}={got} is refused; {legal}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// The value as given.
        got: String,
        /// Allowed values.
        legal: &'static str,
    },
    /// The import was cancelled.
    #[error("the import was cancelled; what was committed stays, run it again to continue")]
    Cancelled,
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}; check its permissions and its disk", path.display())]
    Io {
        /// Attempted action: `"read"`, `"list"`.
        action: &'static str,
        /// File or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path to import is not a folder.
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
    /// Stable `snake_case` code.
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

    /// Whether the whole import has failed.
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
