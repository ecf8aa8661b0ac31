//! Discovery: which files of a folder are recordings of which signal, sorted by time.
//!
//! A [`Catalogue`] holds a 40-byte record per file and two arenas, of folder and file names: about 70 MB for a million
//! files. Records are sorted by signal, stamp and path, whatever the order of directory listings. Every other file is
//! listed as a [`Problem`].

mod walk;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use isochrony_runtime::Interrupt;

use crate::stamp::{CivilStamp, SECOND};
use crate::{IngestError, Layout};

pub(crate) use walk::{Entry, Walk};

pub(crate) const MAX_PROBLEMS: usize = 10_000;

/// A file that is not imported, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path below the imported folder, or the importer's name.
    pub path: String,
    /// [`IngestError::code`] of the reason.
    pub code: &'static str,
    /// What is wrong, and the remedy.
    pub reason: String,
}

impl Problem {
    /// Code of a problem with part of a file; the rest was imported.
    pub const INCOMPLETE: &'static str = "incomplete";

    /// Whether samples of the file are stored nevertheless.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        matches!(self.code, "overlap" | "repeated" | Self::INCOMPLETE)
    }

    /// An error as a problem of a path.
    pub fn new(path: impl Into<String>, error: &IngestError) -> Self {
        Self {
            path: path.into(),
            code: error.code(),
            reason: error.to_string(),
        }
    }
}

/// Problems in the order found; the first ten thousand keep path and reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// Problems with path and reason.
    pub list: Vec<Problem>,
    /// Number of further problems.
    pub omitted: u64,
}

impl Problems {
    /// Adds a problem.
    pub fn push(&mut self, problem: Problem) {
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(problem);
        } else {
            self.omitted += 1;
        }
    }

    /// Appends another list.
    pub fn extend(&mut self, other: Self) {
        other
            .list
            .into_iter()
            .for_each(|problem| self.push(problem));
        self.omitted += other.omitted;
    }

    /// Number of all problems.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.list.len() as u64 + self.omitted
    }

    /// Whether there are no problems.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.omitted == 0
    }
}

/// Policy for symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// List them as problems.
    Refuse,
    /// Follow those whose target lies inside the imported folder; others are problems.
    #[default]
    Inside,
    /// Follow all; a folder that contains itself is entered once.
    Follow,
}

/// Options of [`discover`].
#[derive(Debug, Clone, Default)]
pub struct DiscoverOptions {
    /// Policy for symbolic links.
    pub symlinks: Symlinks,
    /// A folder to skip silently, such as a store.
    pub leave_out: Option<PathBuf>,
    /// Cancels discovery with [`IngestError::Cancelled`].
    pub interrupt: Interrupt,
}

/// One recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRecording<'a> {
    /// Name of its signal.
    pub signal: &'a str,
    /// Index of its signal in [`Catalogue::signals`].
    pub signal_number: usize,
    /// Path below the imported folder, with `/`.
    pub path: String,
    /// Time of the first sample, if named.
    pub stamp: Option<CivilStamp>,
    /// Bytes when listed.
    pub size: u64,
}

/// The recordings of a folder, sorted by signal, time and path.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    root: PathBuf,
    signals: Vec<String>,
    numbers: HashMap<String, u32>,
    folders: Vec<Box<str>>,
    names: String,
    records: Vec<Record>,
    bytes: u64,
    problems: Problems,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    ns: i64,
    size: u64,
    name: usize,
    signal: u32,
    folder: u32,
    name_length: u16,
    resolution: Resolution,
}

/// A power of ten of nanoseconds, or a calendar unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resolution(u8);

impl Resolution {
    const NONE: Self = Self(u8::MAX);
    const CALENDAR: [i64; 3] = [60 * SECOND, 3600 * SECOND, 86_400 * SECOND];

    fn pack(stamp: Option<CivilStamp>) -> Self {
        let Some(stamp) = stamp else {
            return Self::NONE;
        };
        match Self::CALENDAR
            .iter()
            .position(|unit| *unit == stamp.resolution_ns)
        {
            Some(unit) => Self(100 + unit as u8),
            None => Self(stamp.resolution_ns.ilog10() as u8),
        }
    }

    fn unpack(self) -> Option<i64> {
        match self {
            Self::NONE => None,
            Self(unit @ 100..) => Self::CALENDAR.get(usize::from(unit) - 100).copied(),
            Self(power) => Some(10_i64.pow(power.into())),
        }
    }
}

/// Walks a folder and reads every path by a layout.
///
/// Without name fields in the layout, the one signal is named like the folder.
///
/// # Errors
/// [`IngestError::NotAFolder`] and [`IngestError::Io`] for the folder itself, [`IngestError::Cancelled`]. Other
/// problems are in [`Catalogue::problems`].
pub fn discover(
    root: &Path,
    layout: &Layout,
    options: &DiscoverOptions,
) -> Result<Catalogue, IngestError> {
    let mut catalogue = Catalogue::new(root, layout);
    let mut walk = Walk::new(root, options)?;
    while let Some(entry) = walk.next() {
        if options.interrupt.is_requested() {
            return Err(IngestError::Cancelled);
        }
        catalogue.add(entry, layout);
    }
    catalogue.sort();
    Ok(catalogue)
}

impl Catalogue {
    pub(crate) fn new(root: &Path, layout: &Layout) -> Self {
        let mut catalogue = Self {
            root: root.into(),
            ..Self::default()
        };
        if layout.name_fields().is_empty() {
            let own = root.canonicalize().ok().and_then(|root| {
                root.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            });
            catalogue
                .signals
                .push(own.unwrap_or_else(|| "signal".into()));
        }
        catalogue
    }

    /// The imported folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Names of the signals, sorted.
    #[must_use]
    pub fn signals(&self) -> &[String] {
        &self.signals
    }

    /// Number of recordings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no recording.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Total bytes of the recordings.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files that are no recordings, and why.
    #[must_use]
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    pub(crate) fn take_problems(&mut self) -> Problems {
        std::mem::take(&mut self.problems)
    }

    /// The recording at a position.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<FoundRecording<'_>> {
        let record = self.records.get(place)?;
        let stamp = record.resolution.unpack().map(|resolution_ns| CivilStamp {
            ns: record.ns,
            resolution_ns,
        });
        Some(FoundRecording {
            signal: &self.signals[record.signal as usize],
            signal_number: record.signal as usize,
            path: self.path(record),
            stamp,
            size: record.size,
        })
    }

    /// The recordings, sorted.
    pub fn iter(&self) -> impl Iterator<Item = FoundRecording<'_>> {
        (0..self.records.len()).filter_map(|place| self.get(place))
    }

    fn path(&self, record: &Record) -> String {
        let folder = &self.folders[record.folder as usize];
        let name = self.name(record);
        if folder.is_empty() {
            name.into()
        } else {
            format!("{folder}/{name}")
        }
    }

    fn name(&self, record: &Record) -> &str {
        &self.names[record.name..record.name + usize::from(record.name_length)]
    }

    pub(crate) fn add(&mut self, entry: Result<Entry, Problem>, layout: &Layout) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(problem) => return self.problems.push(problem),
        };
        let path = entry.path();
        let found = match layout.read(&path) {
            Ok(found) => found,
            Err(error) => return self.problems.push(Problem::new(path, &error)),
        };
        if self
            .folders
            .last()
            .is_none_or(|folder| **folder != *entry.folder)
        {
            self.folders.push(entry.folder.as_ref().into());
        }
        let signal = if layout.name_fields().is_empty() {
            0
        } else {
            self.signal(found.signal)
        };
        let record = Record {
            ns: found.stamp.map_or(0, |stamp| stamp.ns),
            size: entry.size,
            name: self.names.len(),
            signal,
            folder: self.folders.len() as u32 - 1,
            name_length: entry.name.len() as u16,
            resolution: Resolution::pack(found.stamp),
        };
        self.names.push_str(&entry.name);
        self.bytes += entry.size;
        self.records.push(record);
    }

    fn signal(&mut self, name: String) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.signals.len() as u32;
        self.signals.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    pub(crate) fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.signals.len()).collect();
        order.sort_by(|a, b| self.signals[*a].cmp(&self.signals[*b]));
        let mut rank = vec![0_u32; order.len()];
        for (place, number) in order.iter().enumerate() {
            rank[*number] = place as u32;
        }
        self.signals.sort();
        self.numbers = HashMap::new();
        let mut records = std::mem::take(&mut self.records);
        for record in &mut records {
            record.signal = rank[record.signal as usize];
        }
        records.sort_unstable_by(|a, b| {
            let path = |record: &Record| (&self.folders[record.folder as usize], self.name(record));
            (a.signal, a.ns)
                .cmp(&(b.signal, b.ns))
                .then_with(|| path(a).cmp(&path(b)))
        });
        self.records = records;
    }
}
