//! Writable medium of a store in object storage, for one process: the target of a push.
//!
//! Objects can only be replaced as a whole. So writes are staged in local files, first fetching an object to be
//! changed, and [`Media::publish`] uploads what differs. From [`SPILL_BYTES`] staged, shards are uploaded early, so
//! that the disk holds that and one more file.
//!
//! Opening lists all names, one request per thousand, and keeps them: some 300 bytes per object.

mod node;
mod publish;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::path::Path as Key;

use isochrony_store::media::{Access, Kind, Media, MediaFile, MediaLock, Refusal, Site};

use crate::client::Service;
use crate::driver;
use crate::error::CloudError;
use crate::media::{CloudMedia, ENGINE};
use crate::remote_store::RemoteStore;
use crate::requests::Version;
use crate::signal_read_ahead::{SignalReadAhead, small_objects};

use node::{Node, NodeFile, Staging};
use publish::MARKER;
use tree::Tree;

/// Staged bytes after which shards are uploaded.
const SPILL_BYTES: u64 = 512 << 20;
const MARKER_BYTES: u64 = 64 << 10;

/// Files outside a published store: the lock, and work in progress.
fn is_unpublished(name: &str) -> bool {
    let own = name.strip_prefix(ENGINE).unwrap_or_default();
    own == "LOCK" || own.starts_with("tmp/") || own.starts_with("staging/")
}

struct WriterState {
    tree: Tree,
    objects: BTreeSet<String>,
    marker: Option<Version>,
    read_ahead: SignalReadAhead,
}

struct Writer {
    remote: Arc<RemoteStore>,
    staging: Arc<Staging>,
    spill_bytes: u64,
    state: Mutex<WriterState>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writer").field(&self.remote).finish()
    }
}

impl WriterState {
    /// A writer reads no metadata: the log and tables have it.
    fn small_objects_beside(&mut self, name: &str) -> Vec<(String, Version)> {
        let files = self.tree.files();
        let folders = self.read_ahead.folders(files, name);
        small_objects(files, &folders, |name, node| {
            let is_metadata = name.ends_with("/zarr.json") || name.ends_with("/.signal");
            if is_metadata {
                return None;
            }
            node.published_object()
        })
    }
}

impl Writer {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store in object storage, for one writing process. Nothing is visible to others before [`Media::publish`].
#[derive(Debug, Clone)]
pub struct CloudWriter(Arc<Writer>);

impl CloudMedia {
    /// The same store for writing. Lists its objects.
    ///
    /// # Errors
    /// [`CloudError::CannotPush`] on a web server; listing errors as [`io::Error`]; errors of the staging disk.
    pub fn writer(&self) -> io::Result<CloudWriter> {
        self.writer_that_stages(SPILL_BYTES)
    }

    fn writer_that_stages(&self, spill_bytes: u64) -> io::Result<CloudWriter> {
        let remote = self.remote().clone();
        if remote.service() == Service::Http {
            return Err(CloudError::CannotPush.into());
        }
        let place = remote.session()?.location.clone();
        let listed = driver::wait(place.list_whole(usize::MAX))?.unwrap_or_default();
        refuse_nested(&remote, listed.keys())?;
        let objects = listed.keys().cloned().collect();
        let node = |(name, version): (String, Version)| {
            let node = Node::published(&name, version);
            (name, node)
        };
        let files: BTreeMap<_, _> = listed.into_iter().map(node).collect();
        Ok(CloudWriter(Arc::new(Writer {
            remote,
            staging: Arc::new(Staging::new()?),
            spill_bytes,
            state: Mutex::new(WriterState {
                tree: Tree::new(files),
                objects,
                marker: None,
                read_ahead: SignalReadAhead::default(),
            }),
        })))
    }
}

/// A store around another would take its objects for its own.
fn refuse_nested<'a>(
    remote: &RemoteStore,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), CloudError> {
    if let Some(name) = names.find(|name| name.contains(&format!("/{ENGINE}"))) {
        let (inner, _) = name.split_once(&format!("/{ENGINE}")).unwrap_or_default();
        return Err(CloudError::NestedStore {
            place: "below it",
            url: remote.root().join(inner).display().to_string(),
        });
    }
    let location = &remote.session()?.location;
    let mut above = location.prefix.as_ref();
    while let Some((outer, _)) = above
        .rsplit_once('/')
        .or((!above.is_empty()).then_some(("", "")))
    {
        let key = Key::parse(format!("{outer}/{ENGINE}MANIFEST").trim_start_matches('/'));
        let key = key.map_err(|error| CloudError::BadUrl {
            reason: error.to_string(),
        })?;
        let requests = location.requests.clone();
        match driver::wait(async move { requests.head(&key).await }) {
            // Credentials for this prefix alone see no surrounding store, and could not damage one.
            Ok(None) | Err(CloudError::Denied { .. }) => {}
            Ok(Some(_)) => {
                return Err(CloudError::NestedStore {
                    place: "around it",
                    url: outer.to_owned(),
                });
            }
            Err(error) => return Err(error),
        }
        above = outer;
    }
    Ok(())
}

impl CloudWriter {
    fn name(&self, path: &Path) -> io::Result<String> {
        self.0.remote.name(path)
    }

    fn is_above(&self, path: &Path) -> bool {
        let root = self.0.remote.root();
        root != path && root.starts_with(path)
    }

    fn handle(&self, node: &Arc<Node>) -> Arc<dyn MediaFile> {
        Arc::new(NodeFile {
            node: node.clone(),
            remote: self.0.remote.clone(),
            staging: self.0.staging.clone(),
        })
    }

    /// Then there may be objects of no state.
    fn is_interrupted(&self) -> io::Result<bool> {
        let names = self
            .0
            .lock()
            .tree
            .files()
            .keys()
            .cloned()
            .collect::<Vec<_>>();
        if names.iter().any(|name| is_unpublished(name)) {
            return Ok(true);
        }
        let marker = self.0.remote.root().join(MARKER);
        let marker = self.read(&marker, MARKER_BYTES)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&marker).contains("\"updating\":true"))
    }
}

/// A lock in object storage would outlive its holder; [`Writer::publish`] checks instead.
#[derive(Debug)]
struct NoLock;

impl MediaLock for NoLock {
    fn write(&self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    fn release(&self) {}
}

impl Media for CloudWriter {
    fn rooted(&self, _root: &Path) -> Arc<dyn Media> {
        Arc::new(self.clone())
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        let name = self.name(path)?;
        if self.0.staging.bytes() > self.0.spill_bytes {
            self.0.spill()?;
        }
        let mut state = self.0.lock();
        if state.tree.is_folder(&name) {
            let (path, found) = (path.into(), "a folder");
            return Err(Refusal::Kind { path, found }.into());
        }
        match (state.tree.file(&name), access) {
            (Some(_), Access::CreateNew) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), access) => {
                let handle = self.handle(node);
                if matches!(access, Access::Read) {
                    let small = state.small_objects_beside(&name);
                    drop(state);
                    self.0.remote.session()?.prefetch(small);
                }
                Ok(handle)
            }
            (None, Access::Read | Access::Write) => Err(io::ErrorKind::NotFound.into()),
            (None, Access::Create | Access::CreateNew) => {
                let node = Node::empty(&self.0.staging)?;
                state.tree.add(&name, node.clone())?;
                Ok(self.handle(&node))
            }
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        if self.is_above(path) {
            return Ok(Some(Kind::Folder));
        }
        let (name, state) = (self.name(path)?, self.0.lock());
        let file = state.tree.file(&name).map(|node| Kind::File(node.len()));
        Ok(file.or_else(|| state.tree.is_folder(&name).then_some(Kind::Folder)))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.0.lock().tree.names(&self.name(folder)?)
    }

    fn make_folder(&self, path: &Path) -> io::Result<bool> {
        if self.is_above(path) {
            return Ok(false);
        }
        self.0.lock().tree.make_folder(&self.name(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        self.0.lock().tree.rename(&from, &to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.lock().tree.remove_file(&self.name(path)?)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.0.lock().tree.remove_folder(&self.name(path)?)
    }

    fn sync_folder(&self, _path: &Path, _site: Site) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        let left = match self.is_interrupted()? {
            true => "an interrupted push".to_owned(),
            false => String::new(),
        };
        Ok(Some((Box::new(NoLock), left)))
    }

    fn network(&self, _path: &Path) -> io::Result<Option<&'static str>> {
        Ok(None)
    }

    /// Uploads survive every restart.
    fn boot_id(&self) -> String {
        "object storage".into()
    }

    fn has_background(&self) -> bool {
        false
    }

    fn is_published(&self) -> bool {
        true
    }

    fn publish(&self, put: &mut dyn FnMut(u64)) -> io::Result<()> {
        self.0.publish(put)
    }
}

#[cfg(test)]
mod tests;
