//! Opens paths below a folder without following links out of it.
//!
//! The kernel resolves a path in one call if it can (`openat2`, Linux 5.6). Otherwise, also under sandboxes without
//! that call, each component is opened without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Access, Kind, Refusal};

/// To traverse a folder without reading it.
#[cfg(target_os = "linux")]
const TRAVERSE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const TRAVERSE: OFlags = OFlags::RDONLY;

/// How paths are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolver {
    /// In one system call if available, else as `Walk`.
    Kernel,
    /// Component by component.
    Walk,
}

/// A folder as the root of paths. Looked up anew for each call, so a moved folder is missing.
#[derive(Debug, Clone)]
pub struct RootedPaths {
    root: PathBuf,
    resolver: Resolver,
}

impl RootedPaths {
    /// Paths below `root`, which may itself be a link.
    #[must_use]
    pub fn new(root: &Path, resolver: Resolver) -> Self {
        Self {
            root: root.to_path_buf(),
            resolver,
        }
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// A [`Refusal`] or an I/O error.
    pub fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Create => OFlags::RDWR | OFlags::CREATE,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        // Non-blocking: opening a pipe would wait for its other end.
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mode = match flags.contains(OFlags::CREATE) {
            true => Mode::from_raw_mode(0o666),
            false => Mode::empty(),
        };
        let opened = self.descend(path, flags, mode);
        let file = opened.map_err(|error| self.diagnose(path, error))?;
        let about = fs::fstat(&file)?;
        let found = FileType::from_raw_mode(about.st_mode);
        if found != FileType::RegularFile {
            return Err(refuse(path, found));
        }
        if access != Access::Read && about.st_nlink > 1 {
            let found = "a file with several names (hard links), all of which a change would reach";
            let path = path.to_path_buf();
            return Err(Refusal::Kind { path, found }.into());
        }
        // Without effect on regular files, except that io_uring reads would fail.
        let flags = fs::fcntl_getfl(&file)?;
        fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(file.into())
    }

    /// Opens a folder, to list or sync it.
    ///
    /// # Errors
    /// A [`Refusal`] or an I/O error.
    pub fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.descend(path, flags, Mode::empty());
        opened.map_err(|error| self.diagnose(path, error))
    }

    /// Also gives the last component.
    pub(super) fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        self.components(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        if path == self.root {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let opened = self.descend(parent, TRAVERSE | OFlags::DIRECTORY, Mode::empty());
        let folder = opened.map_err(|error| self.diagnose(parent, error))?;
        Ok((folder, name))
    }

    /// Type of what is at a path; `None` if nothing.
    ///
    /// # Errors
    /// A [`Refusal`] if it is neither a file nor a folder, or an I/O error.
    pub fn stat(&self, path: &Path) -> io::Result<Option<(Kind, fs::Stat)>> {
        let found = if path == self.root {
            fs::stat(&self.root).map_err(io::Error::from)
        } else {
            self.parent(path)
                .and_then(|(folder, name)| Ok(fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
        };
        let found = match found {
            Ok(found) => found,
            Err(error) if super::disk::is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {
                let len = u64::try_from(found.st_size).unwrap_or(0);
                Ok(Some((Kind::File(len), found)))
            }
            FileType::Directory => Ok(Some((Kind::Folder, found))),
            other => Err(refuse(path, other)),
        }
    }

    fn components<'a>(&self, path: &'a Path) -> io::Result<Vec<&'a OsStr>> {
        let outside = || Refusal::Outside { path: path.into() };
        let below = path.strip_prefix(&self.root).map_err(|_| outside())?;
        let names = below.components().map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(outside().into()),
        });
        names.collect()
    }

    fn descend(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let names = self.components(path)?;
        let passing = TRAVERSE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = if names.is_empty() { flags } else { passing };
        let root = fs::open(&self.root, root, Mode::empty())?;
        let Some((last, above)) = names.split_last() else {
            return Ok(root);
        };
        #[cfg(target_os = "linux")]
        if self.resolver == Resolver::Kernel {
            let below: PathBuf = names.iter().collect();
            let resolve = fs::ResolveFlags::BENEATH
                | fs::ResolveFlags::NO_SYMLINKS
                | fs::ResolveFlags::NO_MAGICLINKS;
            match fs::openat2(&root, &below, flags, mode, resolve) {
                // Old sandboxes refuse the call with either error.
                Err(Errno::NOSYS | Errno::PERM) => {}
                other => return Ok(other?),
            }
        }
        let mut folder = root;
        for name in above {
            folder = fs::openat(&folder, *name, passing | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(fs::openat(&folder, *last, flags | OFlags::NOFOLLOW, mode)?)
    }

    /// Says what is in the way, if the system's error does not.
    fn diagnose(&self, path: &Path, error: io::Error) -> io::Error {
        let suspicious = [Errno::LOOP, Errno::NOTDIR, Errno::NXIO, Errno::ISDIR];
        if !suspicious
            .map(|errno| Some(errno.raw_os_error()))
            .contains(&error.raw_os_error())
        {
            return error;
        }
        let Ok(names) = self.components(path) else {
            return error;
        };
        let mut at = self.root.clone();
        for name in names {
            let parent = at.clone();
            at.push(name);
            let found = self
                .descend(&parent, TRAVERSE | OFlags::DIRECTORY, Mode::empty())
                .and_then(|folder| Ok(fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?));
            match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
                Ok(FileType::Directory) if at != path => {}
                Ok(FileType::RegularFile) | Err(_) => return error,
                Ok(found) => return refuse(&at, found),
            }
        }
        error
    }
}

fn refuse(path: &Path, found: FileType) -> io::Error {
    let found = match found {
        FileType::Directory => "a folder where a file should be",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "neither a file nor a folder",
    };
    let path = path.to_path_buf();
    Refusal::Kind { path, found }.into()
}
