//! Read-only medium of a store in object storage.

use std::io;
use std::path::Path;
use std::sync::Arc;

use isochrony_segment::free_memory;
use isochrony_store::media::{
    Access, Kind, Media, MediaFile, MediaLock, Refusal, Site, zeroed_buffer,
};
use object_store::ObjectStore;
use object_store::path::Path as Key;

use crate::blocks::Object;
use crate::client::{Location, Service};
use crate::error::CloudError;
use crate::file::{CloudFile, LogFile};
use crate::listing::Entry;
use crate::remote_store::RemoteStore;
use crate::session::Session;

pub(crate) const ENGINE: &str = ".isochrony/";
/// Less than the block cache holds.
const WHOLE_READ_BYTES: usize = 16 << 20;

/// A store in object storage or on a web server, for reading.
#[derive(Debug, Clone)]
pub struct CloudMedia(Arc<RemoteStore>);

impl CloudMedia {
    /// The store at a URL. Makes no request.
    ///
    /// # Errors
    /// [`CloudError::BadUrl`].
    pub fn open(url: &str) -> Result<Self, CloudError> {
        let location = Location::parse(url)?;
        let (service, prefix) = (location.service, location.prefix.clone());
        let client = Box::new(move || location.client());
        Ok(Self(Arc::new(RemoteStore::new(
            url.into(),
            service,
            prefix,
            client,
        ))))
    }

    /// The store below `prefix` of a client, opened by the path `root`.
    ///
    /// # Errors
    /// [`CloudError::BadUrl`] of a prefix that no object can have.
    pub fn on(client: Arc<dyn ObjectStore>, prefix: &str, root: &Path) -> Result<Self, CloudError> {
        let prefix = Key::parse(prefix).map_err(|error| CloudError::BadUrl {
            reason: error.to_string(),
        })?;
        let client = Box::new(move || Ok(client.clone()));
        Ok(Self(Arc::new(RemoteStore::new(
            root.into(),
            Service::Custom,
            prefix,
            client,
        ))))
    }

    fn session(&self) -> io::Result<&Session> {
        Ok(self.0.session()?)
    }

    pub(crate) fn remote(&self) -> &Arc<RemoteStore> {
        &self.0
    }
}

/// Requested each time, before any listing.
fn is_root_record(name: &str) -> bool {
    let own = name.strip_prefix(ENGINE);
    own.is_some_and(|own| own == "MANIFEST" || own == "BACKUP") || is_log(name)
}

pub(crate) fn is_log(name: &str) -> bool {
    let own = name.strip_prefix(ENGINE);
    own.is_some_and(|own| own.starts_with("log.") && !own.contains('/'))
}

/// A few blocks at a time, so that those in flight are not evicted.
fn read_whole(session: &Session, object: &Object, bytes: &mut [u8]) -> Result<(), CloudError> {
    let mut offset = 0;
    for part in bytes.chunks_mut(WHOLE_READ_BYTES) {
        let blocks = &session.blocks;
        blocks.read(&session.location, object, offset, part, 0)?;
        offset += part.len() as u64;
    }
    Ok(())
}

fn read_only<T>() -> io::Result<T> {
    Err(CloudError::ReadOnly.into())
}

impl Media for CloudMedia {
    fn rooted(&self, _root: &Path) -> Arc<dyn Media> {
        Arc::new(self.clone())
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        if access != Access::Read {
            return read_only();
        }
        let (name, session) = (self.0.name(path)?, self.session()?);
        let found = match is_root_record(&name) {
            true => session.head(&name)?.map(Entry::File),
            false => session.find(&name)?,
        };
        match found {
            Some(Entry::File(version)) if is_log(&name) => {
                Ok(Arc::new(LogFile::new(self.0.clone(), &name, version)))
            }
            Some(Entry::File(version)) => {
                Ok(Arc::new(CloudFile::new(self.0.clone(), &name, version)))
            }
            Some(Entry::Folder) => {
                let (path, found) = (path.into(), "a folder");
                Err(Refusal::Kind { path, found }.into())
            }
            None => Err(CloudError::Missing.into()),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        let (name, session) = (self.0.name(path)?, self.session()?);
        if is_root_record(&name)
            && let Some(version) = session.head(&name)?
        {
            return Ok(Some(Kind::File(version.size)));
        }
        // Only a listing reveals a missing bucket.
        Ok(match session.find(&name)? {
            Some(Entry::File(_)) if is_root_record(&name) => None,
            Some(Entry::File(version)) => Some(Kind::File(version.size)),
            Some(Entry::Folder) => Some(Kind::Folder),
            None => None,
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        Ok(self.session()?.names(&self.0.name(folder)?)?)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let (name, session) = (self.0.name(path)?, self.session()?);
        if is_root_record(&name) {
            let most = limit.min(free_memory());
            let Some((version, bytes)) = session.whole(&name, most)? else {
                return Ok(None);
            };
            if version.size > most {
                return Err(Refusal::of_size(path, version.size, limit).into());
            }
            return Ok(Some(bytes));
        }
        let mut tries = 0;
        loop {
            let version = match session.find(&name)? {
                None => return Ok(None),
                Some(Entry::Folder) => {
                    let (path, found) = (path.into(), "a folder");
                    return Err(Refusal::Kind { path, found }.into());
                }
                Some(Entry::File(version)) => version,
            };
            let mut bytes = zeroed_buffer(path, version.size, limit)?;
            session.read_ahead_of(&name);
            let object = Object::new(&name, version);
            match read_whole(session, &object, &mut bytes) {
                Ok(()) => return Ok(Some(bytes)),
                // Replaced since listed, and nothing has been read.
                Err(CloudError::ChangedRemotely | CloudError::Missing) if tries < 2 => {
                    session.forget_listing();
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn lock(&self, _path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        read_only()
    }

    fn network(&self, _path: &Path) -> io::Result<Option<&'static str>> {
        Ok(None)
    }

    fn boot_id(&self) -> String {
        String::new()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn forget_known(&self) {
        if let Ok(session) = self.session() {
            session.forget_listing();
        }
    }

    fn prefetch_ends(&self, path: &Path) {
        let (Ok(name), Ok(session)) = (self.0.name(path), self.session()) else {
            return;
        };
        if let Ok(Some(Entry::File(version))) = session.find(&name) {
            session.prefetch_ends(&name, version);
        }
    }

    fn has_background(&self) -> bool {
        false
    }

    fn make_folder(&self, _path: &Path) -> io::Result<bool> {
        read_only()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove_folder(&self, _path: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_folder(&self, _path: &Path, _site: Site) -> io::Result<()> {
        read_only()
    }
}
