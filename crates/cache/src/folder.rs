//! The cache's folder: where its files are.
//!
//! ```text
//! lock                 kernel lock of the index
//! journal              what the index is read from
//! objects/ab/cdef...   one sparse file per object, named by the BLAKE3 digest of its key
//! owners/0123...       one empty file per open cache, locked while it is open
//! ```

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{CacheError, IoContext};

/// Names in a cache's folder.
const OWN_NAMES: [&str; 5] = ["lock", "journal", "journal.new", "objects", "owners"];

/// Paths below a cache's folder.
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

    /// Whether a cache is there. A folder with other files is an error: a cache removes files that it does not know.
    pub(crate) fn has_cache(&self) -> Result<bool, CacheError> {
        if self.journal().exists() {
            return Ok(true);
        }
        let entries = list(&self.root)?;
        let name =
            |path: &PathBuf| (path.file_name().unwrap_or_default().to_string_lossy()).into_owned();
        // Without a journal only what a process leaves that died while it created one, or an empty disk's own folder.
        let foreign = |name: &String| !OWN_NAMES.contains(&name.as_str()) && name != "lost+found";
        if let Some(found) = entries.iter().map(name).find(foreign) {
            return Err(CacheError::NotACache {
                path: self.root.clone(),
                found,
            });
        }
        Ok(self.lock().exists())
    }

    /// Creates the folder.
    pub(crate) fn create_root(&self) -> Result<(), CacheError> {
        std::fs::create_dir_all(&self.root).at("create", &self.root)?;
        check_local(&self.root)
    }

    /// Creates the folders inside.
    pub(crate) fn create_inside(&self) -> Result<(), CacheError> {
        for folder in [self.objects(), self.owners()] {
            std::fs::create_dir_all(&folder).at("create", &folder)?;
        }
        Ok(())
    }

    /// Unlinks every file of an object that `is_known` does not know, with how many those were.
    pub(crate) fn remove_orphans(
        &self,
        is_known: impl Fn(&[u8; 32]) -> bool,
    ) -> Result<u64, CacheError> {
        let mut removed = 0;
        for folder in list(&self.objects())? {
            let files = match folder.is_dir() {
                true => list(&folder)?,
                false => vec![folder],
            };
            for file in files {
                let is_known = digest_of(&file).is_some_and(|digest| is_known(&digest));
                // The cache creates no deeper folders; one that is there is somebody's own.
                if !is_known && !file.is_dir() {
                    remove(&file).at("remove", &file)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

/// Digest that an object's path is named by.
fn digest_of(path: &Path) -> Option<[u8; 32]> {
    let folder = path.parent()?.file_name()?.to_str()?;
    let name = format!("{folder}{}", path.file_name()?.to_str()?);
    Some(*blake3::Hash::from_hex(name).ok()?.as_bytes())
}

/// Paths in a folder; none if it does not exist.
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

/// Unlinks a file that may be gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(target_os = "linux")]
fn check_local(path: &Path) -> Result<(), CacheError> {
    let volume = rustix::fs::statfs(path).at("look at", path)?;
    let file_system = match volume.f_type as u64 & 0xffff_ffff {
        0x6969 => "NFS",
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => "SMB/CIFS",
        0x0102_1997 => "9p",
        0x0bd0_0bd0 => "Lustre",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x4750_4653 => "GPFS",
        _ => return Ok(()),
    };
    Err(CacheError::NetworkFolder {
        path: path.to_path_buf(),
        file_system,
    })
}

#[cfg(not(target_os = "linux"))]
fn check_local(_path: &Path) -> Result<(), CacheError> {
    Ok(())
}
