//! Puts staged files as objects: several at a time, large ones in parts, each with a checksum where the service compares it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinError, JoinSet};

use super::node::read_staged;
use crate::error::CloudError;
use crate::requests::{Requests, Version};

/// Bytes of a part of a large object; smaller ones are put by one request.
const PART_BYTES: u64 = 8 << 20;
/// Parts and small objects that are on their way at a time: what a push takes of memory is this and [`PART_BYTES`].
const PARTS: usize = 8;
/// Objects at a time.
const OBJECTS: usize = 16;

/// What an object is made of.
#[derive(Debug)]
pub(super) enum Source {
    /// A staged file, of so many bytes.
    File(PathBuf, u64),
    /// Another object, which the server copies.
    Object(Key),
}

/// Makes objects; the version that each has then, in order.
pub(super) async fn upload(
    requests: Requests,
    objects: Vec<(Key, Source)>,
) -> Result<Vec<Version>, CloudError> {
    let slots = Arc::new(Semaphore::new(PARTS));
    let put = objects.into_iter().map(|(key, source)| {
        let (requests, slots) = (requests.clone(), slots.clone());
        async move {
            match source {
                Source::File(path, len) if len <= PART_BYTES => {
                    put_small(&requests, &key, &path, len, &slots).await
                }
                Source::File(path, len) => put_large(&requests, &key, &path, len, &slots).await,
                Source::Object(from) => {
                    let copied = requests.client.copy(&from, &key).await;
                    copied.map_err(|error| requests.error(&error))?;
                    requests.head(&key).await?.ok_or(CloudError::Missing)
                }
            }
        }
    });
    stream::iter(put).buffered(OBJECTS).try_collect().await
}

async fn put_small(
    requests: &Requests,
    key: &Key,
    path: &Path,
    len: u64,
    slots: &Semaphore,
) -> Result<Version, CloudError> {
    let _slot = slots.acquire().await;
    let bytes = staged(path, 0, len)?;
    let put = requests.client.put(key, bytes).await;
    let put = put.map_err(|error| requests.error(&error))?;
    Ok(Version::put(len, put.e_tag, requests.service))
}

async fn put_large(
    requests: &Requests,
    key: &Key,
    path: &Path,
    len: u64,
    slots: &Arc<Semaphore>,
) -> Result<Version, CloudError> {
    let begun = requests.client.put_multipart(key).await;
    let upload = begun.map_err(|error| requests.error(&error))?;
    let upload = Arc::new(Mutex::new(upload));
    let mut unfinished = AbortOnDrop(Some(upload.clone()));
    let mut parts = JoinSet::new();
    let mut at = 0;
    while at < len {
        let slot = slots.clone().acquire_owned().await;
        while let Some(put) = parts.try_join_next() {
            checked(requests, put)?;
        }
        let count = PART_BYTES.min(len - at);
        let put = upload.lock().await.put_part(staged(path, at, count)?);
        parts.spawn(async move {
            let put = put.await;
            drop(slot);
            put
        });
        at += count;
    }
    while let Some(put) = parts.join_next().await {
        checked(requests, put)?;
    }
    let put = upload.lock().await.complete().await;
    let put = put.map_err(|error| requests.error(&error))?;
    unfinished.0 = None;
    Ok(Version::put(len, put.e_tag, requests.service))
}

fn checked(
    requests: &Requests,
    put: Result<object_store::Result<()>, JoinError>,
) -> Result<(), CloudError> {
    match put {
        Ok(put) => put.map_err(|error| requests.error(&error)),
        Err(_) => Err(CloudError::Interrupted),
    }
}

fn staged(path: &Path, offset: u64, len: u64) -> Result<PutPayload, CloudError> {
    let read = read_staged(path, offset, len);
    read.map(PutPayload::from)
        .map_err(|error| CloudError::Staging {
            path: path.into(),
            reason: error.to_string(),
        })
}

/// Ends an upload that is given up, since a service keeps, and charges for, the parts of one that is not ended.
struct AbortOnDrop(Option<Arc<Mutex<Box<dyn MultipartUpload>>>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(upload) = self.0.take() {
            tokio::spawn(async move { upload.lock().await.abort().await });
        }
    }
}
