//! Open folders, whose entries are reached by name without following links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
const TRAVERSE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const TRAVERSE: OFlags = OFlags::RDONLY;

/// What an entry is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenPurpose {
    /// A folder, to reach its entries.
    Traversal,
    /// A folder, to list or sync it.
    Listing,
    /// A file, to read it.
    Reading,
    /// A file, to read and write it.
    Writing,
    /// A file to read and write, created if missing.
    Creation,
    /// A new file to read and write.
    ExclusiveCreation,
}

impl OpenPurpose {
    fn flags(self) -> OFlags {
        // Opening a pipe would wait for its other end.
        let file = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = match self {
            Self::Traversal => TRAVERSE | OFlags::DIRECTORY,
            Self::Listing => OFlags::RDONLY | OFlags::DIRECTORY,
            Self::Reading => file | OFlags::RDONLY,
            Self::Writing => file | OFlags::RDWR,
            Self::Creation => file | OFlags::RDWR | OFlags::CREATE,
            Self::ExclusiveCreation => file | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        flags | OFlags::CLOEXEC
    }

    fn mode(self) -> Mode {
        match self {
            Self::Creation | Self::ExclusiveCreation => Mode::from_raw_mode(0o666),
            _ => Mode::empty(),
        }
    }
}

/// Type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// Something else.
    Other,
}

/// What the file system knows of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its type.
    pub kind: EntryKind,
    /// Length in bytes.
    pub len: u64,
    /// Bytes that it takes on the disk.
    pub allocated: u64,
    /// Device of its file system.
    pub device: u64,
    /// Number of names that it has.
    pub names: u64,
}

impl EntryInfo {
    /// Of an open file.
    ///
    /// # Errors
    /// Of the system.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from_stat(&fs::fstat(file)?))
    }

    /// Of the target of a path, following links.
    ///
    /// # Errors
    /// Of the system.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::from_stat(&fs::stat(path)?))
    }

    fn from_stat(found: &fs::Stat) -> Self {
        Self {
            kind: match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Folder,
                FileType::Symlink => EntryKind::Link,
                FileType::Fifo => EntryKind::Pipe,
                FileType::Socket => EntryKind::Socket,
                FileType::CharacterDevice | FileType::BlockDevice => EntryKind::Device,
                FileType::Unknown => EntryKind::Other,
            },
            len: u64::try_from(found.st_size).unwrap_or(0),
            // POSIX counts in units of 512 bytes.
            allocated: u64::try_from(found.st_blocks).unwrap_or(0) * 512,
            #[allow(clippy::unnecessary_cast)] // Its type differs between systems.
            device: found.st_dev as u64,
            #[allow(clippy::unnecessary_cast)]
            names: found.st_nlink as u64,
        }
    }
}

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder at a path, following links.
    ///
    /// # Errors
    /// Of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        open_path(path, OpenPurpose::Traversal).map(Self)
    }

    /// Opens a path of names below this folder in one call; a link anywhere in it is an error. None if the system
    /// cannot: open names one after the other, with the same result.
    ///
    /// # Errors
    /// Of the system.
    pub fn open_below(&self, path: &Path, purpose: OpenPurpose) -> io::Result<Option<EntryHandle>> {
        #[cfg(target_os = "linux")]
        {
            let resolve = fs::ResolveFlags::BENEATH
                | fs::ResolveFlags::NO_SYMLINKS
                | fs::ResolveFlags::NO_MAGICLINKS;
            match fs::openat2(&self.0, path, purpose.flags(), purpose.mode(), resolve) {
                // Old sandboxes refuse the call with either error.
                Err(Errno::NOSYS | Errno::PERM) => Ok(None),
                other => Ok(Some(EntryHandle(other?))),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (path, purpose);
            Ok(None)
        }
    }

    /// Opens an entry, which must not be a link.
    ///
    /// # Errors
    /// Of the system. See [`is_wrong_kind`].
    pub fn open_entry(&self, name: &OsStr, purpose: OpenPurpose) -> io::Result<EntryHandle> {
        let flags = purpose.flags() | OFlags::NOFOLLOW;
        Ok(EntryHandle(fs::openat(
            &self.0,
            name,
            flags,
            purpose.mode(),
        )?))
    }

    /// What an entry is; a link is not followed.
    ///
    /// # Errors
    /// Of the system.
    pub fn entry(&self, name: &OsStr) -> io::Result<EntryInfo> {
        let found = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(EntryInfo::from_stat(&found))
    }

    /// Names of all entries, unordered.
    ///
    /// # Errors
    /// Of the system.
    pub fn into_names(self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_os_string());
            }
        }
        Ok(names)
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// Of the system.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
    }

    /// Renames an entry atomically, replacing a file at the destination.
    ///
    /// # Errors
    /// Of the system.
    pub fn rename(&self, name: &OsStr, to_folder: &Self, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.0, name, &to_folder.0, to)?)
    }

    /// Removes an entry other than a folder; does not follow a link.
    ///
    /// # Errors
    /// Of the system.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// As [`remove_file`](Self::remove_file), but `Ok` without an entry. `Ok(false)`: it may be a folder.
    ///
    /// # Errors
    /// Of the system.
    pub fn remove_unless_folder(&self, name: &OsStr) -> io::Result<bool> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::ISDIR | Errno::PERM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Of the system.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes earlier changes of its entries durable. Must be open for listing.
    ///
    /// # Errors
    /// Of the disk.
    pub fn sync(self) -> io::Result<()> {
        File::from(self.0).sync_all()
    }
}

/// An opened entry: a file or a folder.
#[derive(Debug)]
pub struct EntryHandle(OwnedFd);

impl EntryHandle {
    /// Opens the target of a path, following links.
    ///
    /// # Errors
    /// Of the system.
    pub fn at(path: &Path, purpose: OpenPurpose) -> io::Result<Self> {
        open_path(path, purpose).map(Self)
    }

    /// As a folder.
    #[must_use]
    pub fn into_folder(self) -> Folder {
        Folder(self.0)
    }

    /// As a file, which may still be a pipe or a device: see [`EntryInfo::of`]. Its reads do not block before
    /// [`set_blocking`](crate::descriptor::set_blocking).
    #[must_use]
    pub fn into_file(self) -> File {
        self.0.into()
    }
}

fn open_path(path: &Path, purpose: OpenPurpose) -> io::Result<OwnedFd> {
    Ok(fs::open(path, purpose.flags(), purpose.mode())?)
}

/// Whether opening failed because of another kind of entry than expected: a link, a file instead of a folder, a socket.
#[must_use]
pub fn is_wrong_kind(error: &io::Error) -> bool {
    let kinds = [Errno::LOOP, Errno::NOTDIR, Errno::NXIO, Errno::ISDIR];
    kinds
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}
