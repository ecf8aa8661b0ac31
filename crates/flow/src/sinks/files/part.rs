//! A file that is being written, under another name than it will have.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Cause, OpError, OpErrorKind};

/// Files that this process began.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A name under which a file is written, and no other run's.
fn part_name(path: &Path) -> PathBuf {
    let (run, file) = (process::id(), BEGUN.fetch_add(1, Ordering::Relaxed));
    named(path, |stem| format!(".{stem}.{run}-{file}.part"))
}

/// The name of what a run that failed left of a file.
#[must_use]
pub fn partial_name(path: &Path) -> PathBuf {
    named(path, |stem| format!("{stem}.partial"))
}

fn named(path: &Path, name: impl FnOnce(&str) -> String) -> PathBuf {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map_or(String::new(), |part| part.to_string_lossy().into_owned())
    };
    let extension = match path.extension() {
        None => String::new(),
        some => format!(".{}", text(some)),
    };
    path.with_file_name(name(&text(path.file_stem())) + &extension)
}

/// A file that is being written. Dropped before it is [kept](Self::keep), it is removed.
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
    /// The path lies inside a store, or what the system says: no folder, no right to write there.
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
                "it is no file: choose another name",
            ));
        }
        let part = part_name(path);
        let mut how = OpenOptions::new();
        let file = how.write(true).create_new(true).open(&part);
        let file = file.map_err(|why| failed("create", path, &why, CHECK))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            file,
            kept: false,
        })
    }

    /// The file, to write to.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path that it will have.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error of the system as one that names the file.
    #[must_use]
    pub fn failed(&self, why: &io::Error) -> OpError {
        failed("write", &self.path, why, CHECK)
    }

    /// Makes it durable and gives it its name; where it is a part only, one that says so.
    ///
    /// # Errors
    /// What the system says.
    pub fn keep(&mut self, whole: bool) -> Result<(), OpError> {
        self.file.sync_all().map_err(|why| self.failed(&why))?;
        let name = if whole {
            self.path.clone()
        } else {
            partial_name(&self.path)
        };
        std::fs::rename(&self.part, &name).map_err(|why| failed("rename", &name, &why, CHECK))?;
        self.kept = true;
        // The name is durable once its folder is.
        let folder = name
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")));
        let synced = folder.and_then(|folder| folder.sync_all());
        synced.map_err(|why| failed("make durable", &name, &why, CHECK))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// The store that a path lies in, also by way of links. Files that a user asks for are no part of one, and could replace
/// those that are.
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

/// What helps with most of what systems say.
const CHECK: &str = "check the path, its permissions and the space on its disk";

fn failed(doing: &str, path: &Path, why: &io::Error, mend: &str) -> OpError {
    let text = format!("cannot {doing} {}: {why}; {mend}", path.display());
    OpErrorKind::Failed(Cause::from(text)).into()
}
