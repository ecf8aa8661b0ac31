//! Opens paths below a folder without following links out of it: by one system call if available, else component by
//! component.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use isochrony_system::descriptor::set_blocking;
use isochrony_system::folder::{
    EntryHandle, EntryInfo, EntryKind, Folder, OpenPurpose, is_wrong_kind,
};

use super::{Access, Kind, Refusal};

/// How paths are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolver {
    /// In one system call if available, else as `Walk`.
    Kernel,
    /// Component by component.
    Walk,
}

/// A folder as the root of paths, looked up anew for each call.
#[derive(Debug, Clone)]
pub struct RootedPaths {
    root: PathBuf,
    resolver: Resolver,
}

impl RootedPaths {
    /// `root` itself may be a link.
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
        let purpose = match access {
            Access::Read => OpenPurpose::Reading,
            Access::Write => OpenPurpose::Writing,
            Access::Create => OpenPurpose::Creation,
            Access::CreateNew => OpenPurpose::ExclusiveCreation,
        };
        let opened = self.descend(path, purpose);
        let file = opened.map_err(|error| self.diagnose(path, error))?;
        let file = file.into_file();
        let found = EntryInfo::of(&file)?;
        if found.kind != EntryKind::File {
            return Err(refuse(path, found.kind));
        }
        if access != Access::Read && found.names > 1 {
            let found = "a file with several names (hard links), all of which a change would reach";
            let path = path.to_path_buf();
            return Err(Refusal::Kind { path, found }.into());
        }
        // No effect on regular files, but io_uring reads would fail.
        set_blocking(&file)?;
        Ok(file)
    }

    /// Opens a folder, to list or sync it.
    ///
    /// # Errors
    /// A [`Refusal`] or an I/O error.
    pub fn open_folder(&self, path: &Path) -> io::Result<Folder> {
        let opened = self.descend(path, OpenPurpose::Listing);
        let folder = opened.map_err(|error| self.diagnose(path, error))?;
        Ok(folder.into_folder())
    }

    /// Also gives the last component.
    pub(super) fn parent<'a>(&self, path: &'a Path) -> io::Result<(Folder, &'a OsStr)> {
        self.components(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        if path == self.root {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let opened = self.descend(parent, OpenPurpose::Traversal);
        let folder = opened.map_err(|error| self.diagnose(parent, error))?;
        Ok((folder.into_folder(), name))
    }

    /// What is at a path, if anything.
    ///
    /// # Errors
    /// A [`Refusal`] of other than files and folders, or an I/O error.
    pub fn stat(&self, path: &Path) -> io::Result<Option<(Kind, EntryInfo)>> {
        let found = if path == self.root {
            EntryInfo::at(&self.root)
        } else {
            self.parent(path)
                .and_then(|(folder, name)| folder.entry(name))
        };
        let found = match found {
            Ok(found) => found,
            Err(error) if super::disk::is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match found.kind {
            EntryKind::File => Ok(Some((Kind::File(found.len), found))),
            EntryKind::Folder => Ok(Some((Kind::Folder, found))),
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

    fn descend(&self, path: &Path, purpose: OpenPurpose) -> io::Result<EntryHandle> {
        let names = self.components(path)?;
        let Some((last, above)) = names.split_last() else {
            return EntryHandle::at(&self.root, purpose);
        };
        let mut folder = Folder::open(&self.root)?;
        if self.resolver == Resolver::Kernel {
            let below: PathBuf = names.iter().collect();
            if let Some(opened) = folder.open_below(&below, purpose)? {
                return Ok(opened);
            }
        }
        for name in above {
            folder = folder
                .open_entry(name, OpenPurpose::Traversal)?
                .into_folder();
        }
        folder.open_entry(last, purpose)
    }

    fn diagnose(&self, path: &Path, error: io::Error) -> io::Error {
        if !is_wrong_kind(&error) {
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
                .descend(&parent, OpenPurpose::Traversal)
                .and_then(|folder| folder.into_folder().entry(name));
            match found.map(|found| found.kind) {
                Ok(EntryKind::Folder) if at != path => {}
                Ok(EntryKind::File) | Err(_) => return error,
                Ok(found) => return refuse(&at, found),
            }
        }
        error
    }
}

fn refuse(path: &Path, found: EntryKind) -> io::Error {
    let found = match found {
        EntryKind::Folder => "a folder where a file should be",
        EntryKind::Link => "a symbolic link",
        EntryKind::Pipe => "a pipe",
        EntryKind::Socket => "a socket",
        EntryKind::Device => "a device",
        EntryKind::File | EntryKind::Other => "neither a file nor a folder",
    };
    let path = path.to_path_buf();
    Refusal::Kind { path, found }.into()
}
