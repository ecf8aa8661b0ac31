//! Walks a folder: yields every regular file once, and problems for the rest.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, ReadDir};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{DiscoverOptions, Problem, Symlinks};
use crate::IngestError;

pub(crate) struct Entry {
    /// Folder below the root, with `/`; empty for the root.
    pub(crate) folder: Arc<str>,
    pub(crate) name: String,
    pub(crate) size: u64,
}

impl Entry {
    pub(crate) fn path(&self) -> String {
        join(&self.folder, &self.name)
    }
}

/// Lists one folder at a time, so memory grows with unlisted folders, not with files.
pub(crate) struct Walk {
    root: PathBuf,
    /// With links resolved, to compare link targets with.
    real_root: PathBuf,
    symlinks: Symlinks,
    leave_out: Option<PathBuf>,
    waiting: VecDeque<Folder>,
    current: Option<(Folder, ReadDir)>,
    /// Folders as listed, to skip unchanged ones; `None` for a single walk.
    listed: Option<HashMap<Arc<str>, ListedFolder>>,
}

struct ListedFolder {
    modified: SystemTime,
    listed: SystemTime,
    folders: Vec<Folder>,
}

/// FAT has two-second ticks: a folder may change this soon without a new modification time.
const MTIME_TICK: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Folder {
    path: Arc<str>,
    /// Real paths of the links that led here, to detect cycles.
    through: Vec<PathBuf>,
}

impl Walk {
    pub(crate) fn new(root: &Path, options: &DiscoverOptions) -> Result<Self, IngestError> {
        let io = |action| {
            move |source| IngestError::Io {
                action,
                path: root.into(),
                source,
            }
        };
        if !fs::metadata(root).map_err(io("find"))?.is_dir() {
            return Err(IngestError::NotAFolder { path: root.into() });
        }
        let list = fs::read_dir(root).map_err(io("list"))?;
        let folder = Folder {
            path: "".into(),
            through: Vec::new(),
        };
        Ok(Self {
            root: root.into(),
            real_root: root.canonicalize().map_err(io("find"))?,
            symlinks: options.symlinks,
            leave_out: options
                .leave_out
                .as_ref()
                .and_then(|path| path.canonicalize().ok()),
            waiting: VecDeque::new(),
            current: Some((folder, list)),
            listed: None,
        })
    }

    pub(crate) fn repeated(root: &Path, options: &DiscoverOptions) -> Result<Self, IngestError> {
        let mut walk = Self::new(root, options)?;
        walk.listed = Some(HashMap::new());
        walk.again();
        Ok(walk)
    }

    /// Restarts from the root; unchanged folders are not listed again.
    pub(crate) fn again(&mut self) {
        self.current = None;
        self.waiting = VecDeque::from([Folder {
            path: "".into(),
            through: Vec::new(),
        }]);
    }

    fn enter(&mut self, folder: Folder) -> std::io::Result<()> {
        let full = self.root.join(&*folder.path);
        if let Some(listed) = &mut self.listed {
            let modified = fs::metadata(&full)?
                .modified()
                .unwrap_or_else(|_| SystemTime::now());
            let before = listed.get(&folder.path);
            let same = |before: &&ListedFolder| {
                before.modified == modified
                    && before
                        .listed
                        .duration_since(modified)
                        .is_ok_and(|age| age > MTIME_TICK)
            };
            if let Some(before) = before.filter(same) {
                self.waiting.extend(before.folders.iter().cloned());
                return Ok(());
            }
            let now = ListedFolder {
                modified,
                listed: SystemTime::now(),
                folders: Vec::new(),
            };
            listed.insert(Arc::clone(&folder.path), now);
        }
        self.current = Some((folder, fs::read_dir(full)?));
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Option<Result<Entry, Problem>> {
        loop {
            let Some((folder, list)) = &mut self.current else {
                let folder = self.waiting.pop_front()?;
                let path = Arc::clone(&folder.path);
                if let Err(error) = self.enter(folder) {
                    return Some(Err(self.io("list", &path, error)));
                }
                continue;
            };
            match list.next() {
                None => self.current = None,
                Some(Ok(entry)) => {
                    let folder = folder.clone();
                    match self.visit(&folder, &entry) {
                        Ok(None) => {}
                        Ok(Some(file)) => return Some(Ok(file)),
                        Err(problem) => return Some(Err(problem)),
                    }
                }
                Some(Err(error)) => {
                    // A failed listing may fail for ever: give up and report this folder.
                    let path = folder.path.clone();
                    self.current = None;
                    return Some(Err(self.io("list", &path, error)));
                }
            }
        }
    }

    fn visit(&mut self, folder: &Folder, entry: &fs::DirEntry) -> Result<Option<Entry>, Problem> {
        let Ok(name) = entry.file_name().into_string() else {
            let path = join(&folder.path, &entry.file_name().to_string_lossy());
            let error = IngestError::NotUnicode { path: path.clone() };
            return Err(Problem::new(path, &error));
        };
        let path = join(&folder.path, &name);
        let mut kind = entry
            .file_type()
            .map_err(|error| self.io("examine", &path, error))?;
        let mut through = folder.through.clone();
        if kind.is_symlink() {
            let real = self.resolve(&path, folder)?;
            kind = fs::metadata(&real)
                .map_err(|error| self.io("follow", &path, error))?
                .file_type();
            if kind.is_dir() {
                through.push(real);
            }
        }
        if kind.is_dir() {
            let full = self.root.join(&path);
            let left_out = self.leave_out.as_ref().is_some_and(|out| {
                out.file_name() == full.file_name()
                    && full.canonicalize().is_ok_and(|full| full == *out)
            });
            if !left_out && !full.join(".isochrony").is_dir() {
                let found = Folder {
                    path: path.into(),
                    through,
                };
                let parent = self
                    .listed
                    .as_mut()
                    .and_then(|known| known.get_mut(&folder.path));
                if let Some(parent) = parent {
                    parent.folders.push(found.clone());
                }
                self.waiting.push_back(found);
            }
            return Ok(None);
        }
        if !kind.is_file() {
            let error = IngestError::NotAFile {
                kind: special(kind),
            };
            return Err(Problem::new(path, &error));
        }
        let size = fs::metadata(self.root.join(&path))
            .map_err(|error| self.io("examine", &path, error))?
            .len();
        Ok(Some(Entry {
            folder: folder.path.clone(),
            name,
            size,
        }))
    }

    fn resolve(&self, path: &str, folder: &Folder) -> Result<PathBuf, Problem> {
        let refuse = |reason| Err(Problem::new(path, &IngestError::LinkNotFollowed { reason }));
        if self.symlinks == Symlinks::Refuse {
            return refuse("links were to be refused");
        }
        let real = self
            .root
            .join(path)
            .canonicalize()
            .map_err(|error| self.io("follow", path, error))?;
        if self.symlinks == Symlinks::Inside && !real.starts_with(&self.real_root) {
            return refuse("it leads outside the imported folder");
        }
        let here = self
            .root
            .join(&*folder.path)
            .canonicalize()
            .map_err(|error| self.io("find", path, error))?;
        if here.starts_with(&real) || folder.through.contains(&real) {
            return refuse("it leads to a folder that contains it");
        }
        Ok(real)
    }

    fn io(&self, action: &'static str, path: &str, source: std::io::Error) -> Problem {
        let error = IngestError::Io {
            action,
            path: self.root.join(path),
            source,
        };
        Problem::new(path, &error)
    }
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.into()
    } else {
        format!("{folder}/{name}")
    }
}

#[cfg(unix)]
fn special(kind: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(not(unix))]
fn special(_: fs::FileType) -> &'static str {
    "special file"
}
