//! `Node`: a file of a store being written, backed by a published object or a staged local file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_io::{IoError, ScratchFolder};
use isochrony_store::media::{MediaFile, Site};

use crate::error::CloudError;
use crate::file::CloudFile;
use crate::remote_store::RemoteStore;
use crate::requests::Version;

const FETCH_BYTES: usize = 32 << 20;

/// Local files with unpublished content, removed with the writer.
#[derive(Debug)]
pub(super) struct Staging {
    folder: ScratchFolder,
    next: AtomicU64,
    bytes: Arc<AtomicU64>,
}

impl Staging {
    /// In the folder named by `TMPDIR`.
    pub(super) fn new() -> io::Result<Self> {
        let within = std::env::temp_dir();
        let folder = ScratchFolder::make(&within, "push").map_err(|error| match error {
            IoError::System { source, .. } => failed(&within, &source),
            other => io::Error::other(other.to_string()),
        })?;
        Ok(Self {
            folder,
            next: AtomicU64::new(0),
            bytes: Arc::default(),
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self) -> io::Result<StagedFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(number.to_string());
        File::create_new(&path).map_err(|error| failed(&path, &error))?;
        Ok(StagedFile {
            path,
            len: 0,
            bytes: self.bytes.clone(),
        })
    }
}

/// An error of the staging disk, not of the store.
fn failed(path: &Path, error: &io::Error) -> io::Error {
    let folder = path.parent().unwrap_or(path);
    CloudError::Staging {
        path: folder.into(),
        reason: error.to_string(),
    }
    .into()
}

/// Opened for each call, to limit open files.
#[derive(Debug)]
struct StagedFile {
    path: PathBuf,
    len: u64,
    bytes: Arc<AtomicU64>,
}

impl StagedFile {
    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(&self.path)
    }

    fn grown(&mut self, len: u64) {
        if len > self.len {
            self.bytes.fetch_add(len - self.len, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(self.len - len, Ordering::Relaxed);
        }
        self.len = len;
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            // Does not extend the file.
            return Ok(());
        }
        let write = |file: File| file.write_all_at(bytes, offset);
        let written = self.open().and_then(write);
        written.map_err(|error| failed(&self.path, &error))?;
        self.grown(self.len.max(offset + bytes.len() as u64));
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let set = self.open().and_then(|file| file.set_len(len));
        set.map_err(|error| failed(&self.path, &error))?;
        self.grown(len);
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let failed = |error: io::Error| failed(&self.path, &error);
        let file = self.open().map_err(failed)?;
        let mut filled = 0;
        while filled < bytes.len() {
            let part = &mut bytes[filled..];
            match file.read_at(part, offset + filled as u64).map_err(failed)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.len, Ordering::Relaxed);
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
enum Content {
    /// The object of this name and version.
    Published {
        name: String,
        version: Version,
        /// Set once it was read.
        file: Option<Arc<CloudFile>>,
    },
    Staged {
        file: StagedFile,
        /// The object with the same bytes.
        published: Option<(String, Version)>,
    },
}

/// Shared by open handles under any name.
#[derive(Debug)]
pub(super) struct Node(Mutex<Content>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    Nothing,
    /// Another object has its bytes.
    Copy(String),
    /// This many bytes of a staged file.
    Put(PathBuf, u64),
}

impl Node {
    pub(super) fn published(name: &str, version: Version) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Content::Published {
            name: name.to_owned(),
            version,
            file: None,
        })))
    }

    pub(super) fn empty(staging: &Staging) -> io::Result<Arc<Self>> {
        let file = staging.file()?;
        Ok(Arc::new(Self(Mutex::new(Content::Staged {
            file,
            published: None,
        }))))
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> u64 {
        match &*self.content() {
            Content::Published { version, .. } => version.size,
            Content::Staged { file, .. } => file.len,
        }
    }

    pub(super) fn published_object(&self) -> Option<(String, Version)> {
        match &*self.content() {
            Content::Published { name, version, .. } => Some((name.clone(), version.clone())),
            Content::Staged { .. } => None,
        }
    }

    pub(super) fn object(&self) -> Option<String> {
        match &*self.content() {
            Content::Published { name, .. } => Some(name.clone()),
            Content::Staged { published, .. } => published.as_ref().map(|(name, _)| name.clone()),
        }
    }

    /// What to do so that the object `name` has its bytes.
    pub(super) fn difference(&self, name: &str) -> Difference {
        let object = self.object();
        match (&*self.content(), object) {
            (_, Some(object)) if object == name => Difference::Nothing,
            (_, Some(object)) => Difference::Copy(object),
            (Content::Staged { file, .. }, None) => Difference::Put(file.path.clone(), file.len),
            (Content::Published { .. }, None) => Difference::Nothing,
        }
    }

    /// Deletes the staged file unless it is open.
    pub(super) fn set_published(&self, name: &str, version: Version, is_open: bool) {
        let mut content = self.content();
        if is_open && let Content::Staged { published, .. } = &mut *content {
            *published = Some((name.to_owned(), version));
            return;
        }
        *content = Content::Published {
            name: name.to_owned(),
            version,
            file: None,
        };
    }

    pub(super) fn release(&self) {
        let mut content = self.content();
        if let Content::Staged { published, .. } = &mut *content
            && let Some((name, version)) = published.take()
        {
            *content = Content::Published {
                name,
                version,
                file: None,
            };
        }
    }

    fn read_at(
        &self,
        remote: &Arc<RemoteStore>,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<usize> {
        let file = match &mut *self.content() {
            Content::Staged { file, .. } => return file.read_at(offset, bytes),
            Content::Published {
                name,
                version,
                file,
            } => {
                let open = || Arc::new(CloudFile::new(remote.clone(), name, version.clone()));
                file.get_or_insert_with(open).clone()
            }
        };
        file.read_at(offset, bytes)
    }

    pub(super) fn stage(&self, remote: &Arc<RemoteStore>, staging: &Staging) -> io::Result<()> {
        self.change((remote, staging), |_| Ok(()))
    }

    /// Fetches the object first if nothing is staged.
    fn change(
        &self,
        (remote, staging): (&Arc<RemoteStore>, &Staging),
        change: impl FnOnce(&mut StagedFile) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut content = self.content();
        if let Content::Published { name, version, .. } = &*content {
            let object = CloudFile::new(remote.clone(), name, version.clone());
            let file = fetch(&object, staging.file()?)?;
            *content = Content::Staged {
                file,
                published: None,
            };
        }
        if let Content::Staged { file, published } = &mut *content {
            *published = None;
            change(file)?;
        }
        Ok(())
    }
}

fn fetch(object: &CloudFile, mut into: StagedFile) -> io::Result<StagedFile> {
    let len = object.len()?;
    let mut part = vec![0; FETCH_BYTES.min(usize::try_from(len).unwrap_or(usize::MAX))];
    let mut at = 0;
    while at < len {
        let count = object.read_once(at, &mut part)?;
        into.write_at(at, &part[..count])?;
        at += count as u64;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(into)
}

#[derive(Debug)]
pub(super) struct NodeFile {
    pub(super) node: Arc<Node>,
    pub(super) remote: Arc<RemoteStore>,
    pub(super) staging: Arc<Staging>,
}

impl MediaFile for NodeFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.node.read_at(&self.remote, offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = (&self.remote, &*self.staging);
        self.node.change(place, |file| file.write_at(offset, bytes))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.node.len() == len {
            return Ok(());
        }
        let place = (&self.remote, &*self.staging);
        self.node.change(place, |file| file.set_len(len))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.node.len())
    }

    /// Publishing makes writes durable; an interrupted push repeats them.
    fn sync(&self, _site: Site) -> io::Result<()> {
        Ok(())
    }
}
