//! A file written under a temporary name and renamed when complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Cause, OpError, OpErrorKind};

static FILES_BEGUN: AtomicU64 = AtomicU64::new(0);

/// Unique among executions.
fn temporary_name(path: &Path) -> PathBuf {
    let (run, file) = (process::id(), FILES_BEGUN.fetch_add(1, Ordering::Relaxed));
    renamed(path, |stem| format!(".{stem}.{run}-{file}.part"))
}

/// Name under which a failed execution leaves its file on request.
#[must_use]
pub fn partial_name(path: &Path) -> PathBuf {
    renamed(path, |stem| format!("{stem}.partial"))
}

fn renamed(path: &Path, name: impl FnOnce(&str) -> String) -> PathBuf {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map_or(String::new(), |part| part.to_string_lossy().into_owned())
    };
    let extension = match path.extension() {
        None => String::new(),
        some => format!(".{}", text(some)),
    };
    path.with_file_name(name(&text(path.file_stem())) + &extension)
}

/// A file in progress, removed if dropped before it is [kept](Self::keep).
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    part: PathBuf,
    file: File,
    kept: bool,
}

impl PartFile {
    /// Begins a file.
    ///
    /// # Errors
    /// The path lies inside a store, or an operating system error.
    pub fn create(path: &Path) -> Result<Self, OpError> {
        if let Some(store) = store_around(path) {
            let text = format!(
                "cannot write {}: it lies inside the store {}; name a file outside of it",
                path.display(),
                store.display()
            );
            return Err(OpErrorKind::Failed(Cause::from(text)).into());
        }
        if path.exists() && !path.is_file() {
            let why = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(failed(
                "write",
                path,
                &why,
                "it is not a file: choose another name",
            ));
        }
        let part = temporary_name(path);
        let mut how = OpenOptions::new();
        let file = how.write(true).create_new(true).open(&part);
        let file = file.map_err(|why| failed("create", path, &why, REMEDY))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            file,
            kept: false,
        })
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An operating system error, with the file's name.
    #[must_use]
    pub fn failed(&self, why: &io::Error) -> OpError {
        failed("write", &self.path, why, REMEDY)
    }

    /// Syncs the file and renames it to its final name if `whole`, else to its [`partial_name`].
    ///
    /// # Errors
    /// An operating system error.
    pub fn keep(&mut self, whole: bool) -> Result<(), OpError> {
        self.file.sync_all().map_err(|why| self.failed(&why))?;
        let name = if whole {
            self.path.clone()
        } else {
            partial_name(&self.path)
        };
        std::fs::rename(&self.part, &name).map_err(|why| failed("rename", &name, &why, REMEDY))?;
        self.kept = true;
        // Syncing the folder makes the rename durable.
        let folder = name
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")));
        let synced = folder.and_then(|folder| folder.sync_all());
        synced.map_err(|why| failed("make durable", &name, &why, REMEDY))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.kept {
            // A leftover temporary file does no harm.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// The store that a path lies in, links resolved: a file there could replace the store's own.
fn store_around(path: &Path) -> Option<PathBuf> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let target = std::fs::canonicalize(path).ok();
    let folder = std::fs::canonicalize(folder).ok();
    target
        .iter()
        .chain(&folder)
        .flat_map(|place| place.ancestors())
        .find(|place| place.join(".isochrony").is_dir())
        .map(Path::to_path_buf)
}

const REMEDY: &str = "check the path, its permissions and the space on its disk";

fn failed(doing: &str, path: &Path, why: &io::Error, mend: &str) -> OpError {
    let text = format!("cannot {doing} {}: {why}; {mend}", path.display());
    OpErrorKind::Failed(Cause::from(text)).into()
}
