//! The medium of one store on this machine's disks.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, Mode};
use rustix::io::Errno;

use super::disk::{self, DiskFile};
use super::rooted_paths::{Resolver, RootedPaths};
use super::{Access, Kind, Media, MediaFile, MediaLock, Refusal, Site, Volume, platform};

/// Access limited to one folder: follows no links and opens only regular files and folders.
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

    fn entries(&self, folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.folders.open_folder(folder)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(std::ffi::OsStr::from_bytes(name).to_os_string());
            }
        }
        Ok(names)
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
        // POSIX counts in units of 512 bytes for all file systems.
        Ok(found.map(|(kind, about)| (kind, u64::try_from(about.st_blocks).unwrap_or(0) * 512)))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = self.entries(folder)?;
        // Names that are not text are foreign; the lossy text matches no file.
        let texts = names.iter().map(|name| name.to_string_lossy().into_owned());
        Ok(texts.collect())
    }

    fn make_folder(&self, path: &Path) -> io::Result<bool> {
        let (folder, name) = self.folders.parent(path)?;
        match fs::mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) if self.stat(path)? == Some(Kind::Folder) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_folder, from) = self.folders.parent(from)?;
        let (to_folder, to) = self.folders.parent(to)?;
        Ok(fs::renameat(from_folder, from, to_folder, to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folders.parent(path)?;
        Ok(fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folders.parent(path)?;
        Ok(fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_folder(&self, path: &Path, _site: Site) -> io::Result<()> {
        File::from(self.folders.open_folder(path)?).sync_all()
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
            Some(_) => platform::network(path),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn boot_id(&self) -> String {
        platform::boot_id()
    }

    fn remove_all(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = match self.folders.parent(path) {
            Ok(found) => found,
            Err(error) if disk::is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Of any type; for a link, only the link.
        match fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        drop(folder);
        for name in self.entries(path)? {
            self.remove_all(&path.join(name))?;
        }
        self.remove_folder(path)
    }
}
