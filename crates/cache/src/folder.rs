//! Paths in the cache's folder.
//!
//! ```text
//! lock                 kernel lock of the index
//! journal              what the index is read from
//! objects/ab/cdef...   one sparse file per object, named by the BLAKE3 digest of its key
//! owners/0123...       one empty file per open cache, locked while it is open
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use isochrony_system::volume;

use crate::error::{CacheError, IoContext};
use crate::journal::{MAGIC, OwnerId};

/// `scratch` belongs to users of the cache.
const OWN_NAMES: [&str; 6] = [
    "lock",
    "journal",
    "journal.new",
    "objects",
    "owners",
    "scratch",
];

#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
        }
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    pub(crate) fn owners(&self) -> PathBuf {
        self.root.join("owners")
    }

    pub(crate) fn owner(&self, id: u64) -> PathBuf {
        self.owners().join(format!("{id:016x}"))
    }

    pub(crate) fn object(&self, digest: &[u8; 32]) -> PathBuf {
        let name = blake3::Hash::from_bytes(*digest).to_hex();
        let (folder, file) = name.split_at(2);
        self.objects().join(folder).join(file)
    }

    /// Whether there is a cache, intact or not. Foreign files are an error: without a readable journal a cache starts
    /// empty.
    pub(crate) fn has_cache(&self) -> Result<bool, CacheError> {
        if starts_with_magic(&self.journal())? {
            return Ok(true);
        }
        let mut names: Vec<_> = list(&self.root)?
            .iter()
            .map(|path| (path.file_name().unwrap_or_default().to_string_lossy()).into_owned())
            // Exists on empty disks.
            .filter(|name| name != "lost+found")
            .collect();
        names.sort_unstable();
        let not_a_cache = |found: &String| CacheError::NotACache {
            path: self.root.clone(),
            found: found.clone(),
        };
        if let Some(foreign) = names
            .iter()
            .find(|name| !OWN_NAMES.contains(&name.as_str()))
        {
            return Err(not_a_cache(foreign));
        }
        // These are common names, but a cache creates `lock` first, then `owners`.
        let has_both = self.lock().is_file() && self.owners().is_dir();
        match names.iter().find(|name| *name != "lock") {
            Some(found) if !has_both => Err(not_a_cache(found)),
            found => Ok(found.is_some()),
        }
    }

    pub(crate) fn create_root(&self) -> Result<(), CacheError> {
        std::fs::create_dir_all(&self.root).at("create", &self.root)?;
        check_local(&self.root)
    }

    /// Creates the inner folders, `owners` first: [`Self::has_cache`] relies on it.
    pub(crate) fn create_inside(&self) -> Result<(), CacheError> {
        for folder in [self.owners(), self.objects()] {
            std::fs::create_dir_all(&folder).at("create", &folder)?;
        }
        Ok(())
    }

    /// Files with foreign names stay.
    pub(crate) fn remove_orphans(
        &self,
        is_known: impl Fn(&[u8; 32]) -> bool,
    ) -> Result<(), CacheError> {
        for folder in list(&self.objects())? {
            if !folder.is_dir() {
                continue;
            }
            for file in list(&folder)? {
                let is_orphan = self
                    .digest_of(&file)
                    .is_some_and(|digest| !is_known(&digest));
                if is_orphan && !file.is_dir() {
                    remove(&file).at("remove", &file)?;
                }
            }
        }
        Ok(())
    }

    fn digest_of(&self, path: &Path) -> Option<[u8; 32]> {
        let folder = path.parent()?.file_name()?.to_str()?;
        let name = format!("{folder}{}", path.file_name()?.to_str()?);
        let digest = *blake3::Hash::from_hex(name).ok()?.as_bytes();
        (self.object(&digest) == path).then_some(digest)
    }

    pub(crate) fn owner_ids(&self) -> Result<Vec<OwnerId>, CacheError> {
        let id = |path: &PathBuf| {
            let id = u64::from_str_radix(path.file_name()?.to_str()?, 16).ok()?;
            (self.owner(id) == *path).then_some(id)
        };
        Ok(list(&self.owners())?.iter().filter_map(id).collect())
    }
}

fn starts_with_magic(path: &Path) -> Result<bool, CacheError> {
    if !path.is_file() {
        return Ok(false);
    }
    let mut file = File::open(path).at("open", path)?;
    let mut found = [0; MAGIC.len()];
    match file.read_exact(&mut found) {
        Ok(()) => Ok(found == MAGIC),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error).at("read", path),
    }
}

/// Empty if the folder does not exist.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).at("list", folder),
    };
    entries
        .map(|entry| Ok(entry.at("list", folder)?.path()))
        .collect()
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn check_local(path: &Path) -> Result<(), CacheError> {
    match volume::network(path).at("look at", path)? {
        None => Ok(()),
        Some(file_system) => Err(CacheError::NetworkFolder {
            path: path.to_path_buf(),
            file_system,
        }),
    }
}
