//! [`RemoteStore`]: a store in object storage, shared by its medium and files.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use isochrony_store::media::Refusal;
use object_store::ObjectStore;
use object_store::path::Path as Key;

use crate::client::Service;
use crate::error::CloudError;
use crate::listing::StoreLocation;
use crate::per_process::PerProcess;
use crate::requests::Requests;
use crate::session::Session;

type MakeClient = Box<dyn Fn() -> Result<Arc<dyn ObjectStore>, CloudError> + Send + Sync>;

/// Reaches a store in any process.
pub(crate) struct RemoteStore {
    root: PathBuf,
    service: Service,
    prefix: Key,
    client: MakeClient,
    sessions: PerProcess<Session>,
}

impl fmt::Debug for RemoteStore {
    // The client holds credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteStore").field(&self.root).finish()
    }
}

impl RemoteStore {
    pub(crate) fn new(root: PathBuf, service: Service, prefix: Key, client: MakeClient) -> Self {
        Self {
            root,
            service,
            prefix,
            client,
            sessions: PerProcess::new(),
        }
    }

    pub(crate) fn session(&self) -> Result<&Session, CloudError> {
        self.sessions.get(|| {
            let requests = Requests {
                client: (self.client)()?,
                service: self.service,
            };
            Ok(Session::new(StoreLocation {
                requests,
                prefix: self.prefix.clone(),
            }))
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn service(&self) -> Service {
        self.service
    }

    pub(crate) fn name(&self, path: &Path) -> io::Result<String> {
        let outside = || Refusal::Outside { path: path.into() };
        let below = path.strip_prefix(&self.root).map_err(|_| outside())?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        match below.to_str() {
            Some(name) if below.components().all(is_plain) => Ok(name.to_owned()),
            _ => Err(outside().into()),
        }
    }
}
