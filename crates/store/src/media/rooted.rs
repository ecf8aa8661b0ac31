//! The medium of one store on this machine's disks.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use isochrony_system::volume;

use super::disk::{self, DiskFile};
use super::rooted_paths::{Resolver, RootedPaths};
use super::{Access, Kind, Media, MediaFile, MediaLock, Refusal, Site, Volume};

/// Access to one folder: follows no links and opens only regular files and folders.
#[derive(Debug, Clone)]
pub struct RootedDisk {
    root: std::path::PathBuf,
    folders: RootedPaths,
}

impl RootedDisk {
    /// The files below `root`.
    #[must_use]
    pub fn new(root: &Path, resolver: Resolver) -> Self {
        Self {
            root: root.to_path_buf(),
            folders: RootedPaths::new(root, resolver),
        }
    }

    fn entries(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.folders.open_folder(folder)?.into_names()
    }
}

impl Media for RootedDisk {
    fn rooted(&self, root: &Path) -> Arc<dyn Media> {
        Arc::new(Self::new(root, Resolver::Kernel))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        Ok(Arc::new(DiskFile(self.folders.open(path, access)?)))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        Ok(self.folders.stat(path)?.map(|(kind, _)| kind))
    }

    fn stat_allocated(&self, path: &Path) -> io::Result<Option<(Kind, u64)>> {
        let found = self.folders.stat(path)?;
        Ok(found.map(|(kind, about)| (kind, about.allocated)))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = self.entries(folder)?;
        // Names that are not text are foreign; the lossy text matches no file.
        let texts = names.iter().map(|name| name.to_string_lossy().into_owned());
        Ok(texts.collect())
    }

    fn make_folder(&self, path: &Path) -> io::Result<bool> {
        let (folder, name) = self.folders.parent(path)?;
        match folder.make_folder(name) {
            Ok(()) => Ok(true),
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && self.stat(path)? == Some(Kind::Folder) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_folder, from) = self.folders.parent(from)?;
        let (to_folder, to) = self.folders.parent(to)?;
        from_folder.rename(from, &to_folder, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folders.parent(path)?;
        folder.remove_file(name)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folders.parent(path)?;
        folder.remove_folder(name)
    }

    fn sync_folder(&self, path: &Path, _site: Site) -> io::Result<()> {
        self.folders.open_folder(path)?.sync()
    }

    fn volume(&self, root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        if root != self.root {
            return Err(Refusal::Outside { path: root.into() }.into());
        }
        disk::volume(root)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        disk::lock(self.folders.open(path, Access::Create)?)
    }

    fn network(&self, path: &Path) -> io::Result<Option<&'static str>> {
        // Mounts behind links do not count: they are not opened either.
        match self.folders.stat(path)? {
            Some(_) => volume::network(path),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn boot_id(&self) -> String {
        disk::boot_id()
    }

    fn remove_all(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = match self.folders.parent(path) {
            Ok(found) => found,
            Err(error) if disk::is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Of any type; for a link, only the link.
        if folder.remove_unless_folder(name)? {
            return Ok(());
        }
        drop(folder);
        for name in self.entries(path)? {
            self.remove_all(&path.join(name))?;
        }
        self.remove_folder(path)
    }
}
