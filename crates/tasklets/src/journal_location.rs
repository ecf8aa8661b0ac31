//! Location of a journal, opened like a store's files: below a folder, without following links, only a regular file of
//! plausible size.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use isochrony_store::layout;
use isochrony_store::media::rooted_paths::{Resolver, RootedPaths};
use isochrony_store::media::{Access, Media, RootedDisk, Site, limits};

use crate::error::TaskletError;

const FOLDER: &str = "tasklets";
const EXTENSION: &str = "journal";

/// The store, if a path names one of its journals.
fn store_of_journal(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let is_journal = path.extension()? == EXTENSION;
    let is_own = folder.ends_with(Path::new(layout::ENGINE).join(FOLDER));
    let root = folder.ancestors().nth(2).filter(|_| is_journal && is_own)?;
    Some(if root.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        root.to_path_buf()
    })
}

#[derive(Debug, Clone)]
pub(crate) struct JournalLocation {
    root: PathBuf,
    path: PathBuf,
    is_in_store: bool,
}

impl JournalLocation {
    pub(crate) fn in_store(root: &Path, name: &str) -> Self {
        let folder = layout::engine_folder(root).join(FOLDER);
        Self {
            root: root.to_path_buf(),
            path: folder.join(format!("{name}.{EXTENSION}")),
            is_in_store: true,
        }
    }

    /// Follows links unless it is a store's journal, as the error about a claimed output advises.
    pub(crate) fn new(given: &Path) -> Result<Self, TaskletError> {
        if let Some(root) = store_of_journal(given) {
            return Ok(Self {
                path: root.join(given.strip_prefix(&root).unwrap_or(given)),
                root,
                is_in_store: true,
            });
        }
        let mut existing = given.ancestors();
        let path = existing.find_map(|at| {
            let at_or_here = if at.as_os_str().is_empty() {
                Path::new(".")
            } else {
                at
            };
            let resolved = std::fs::canonicalize(at_or_here).ok()?;
            Some((resolved, given.strip_prefix(at).ok()?))
        });
        let (root, path) = match path {
            Some((resolved, rest)) if rest.as_os_str().is_empty() => {
                let folder = resolved.parent().unwrap_or(&resolved).to_path_buf();
                (folder, resolved)
            }
            Some((folder, rest)) => {
                let path = folder.join(rest);
                (folder, path)
            }
            None => (PathBuf::from("/"), given.to_path_buf()),
        };
        let in_store = |at: &&Path| at.join(layout::ENGINE).is_dir();
        if path.ancestors().find(in_store).is_some() {
            return Err(TaskletError::Option {
                option: "journal",
                got: given.display().to_string(),
                legal: "a file outside of stores, or leave it out: the first output's store keeps one of its own",
            });
        }
        Ok(Self {
            root,
            path,
            is_in_store: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_in_store(&self) -> bool {
        self.is_in_store
    }

    pub(crate) fn others(&self) -> Vec<Self> {
        let names = match self.is_in_store {
            true => self.media().list(self.folder()).unwrap_or_default(),
            false => Vec::new(),
        };
        let paths = names.iter().map(|name| self.folder().join(name));
        let mut paths: Vec<PathBuf> = paths
            .filter(|path| {
                *path != self.path && path.extension().is_some_and(|end| end == EXTENSION)
            })
            .collect();
        paths.sort_unstable();
        let others = paths.into_iter().map(|path| Self {
            path,
            ..self.clone()
        });
        others.collect()
    }

    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = self.media().read(&self.path, limits::LOG)?;
        Ok(bytes.unwrap_or_default())
    }

    /// Creates file and folders, with durable names.
    pub(crate) fn open(&self) -> io::Result<File> {
        let media = self.media();
        for made in media.make_folders(&self.root, self.folder())? {
            media.sync_folder(made.parent().unwrap_or(&self.root), Site::ParentFolder)?;
        }
        RootedPaths::new(&self.root, Resolver::Kernel).open(&self.path, Access::Create)
    }

    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        self.media().sync_folder(self.folder(), Site::ParentFolder)
    }

    pub(crate) fn error(&self, action: &'static str, source: io::Error) -> TaskletError {
        TaskletError::Journal {
            action,
            path: self.path.clone(),
            source,
        }
    }

    fn media(&self) -> RootedDisk {
        RootedDisk::new(&self.root, Resolver::Kernel)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.root)
    }
}
