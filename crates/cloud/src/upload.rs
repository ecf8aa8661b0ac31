//! Uploads files as objects: several at a time, large ones in parts. On S3 a request's signature covers the SHA-256 of
//! its bytes, which the server compares.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload, PutResult};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinError, JoinSet};

use crate::error::CloudError;
use crate::requests::{Requests, Version};

/// Minimum bytes of a part; smaller objects take one request.
const PART_BYTES: u64 = 8 << 20;
/// Limit of all services.
const MAX_PARTS: u64 = 10_000;
/// Concurrent parts and small objects: 64 MiB at [`PART_BYTES`].
const PARTS: usize = 8;
const OBJECTS: usize = 16;

#[derive(Debug)]
pub(crate) enum Content {
    /// A file of the given length.
    File(PathBuf, u64),
    /// Another object, which the server copies.
    Object(Key),
}

/// Returns new versions in order. `count` gets uploaded bytes.
pub(crate) async fn upload(
    requests: Requests,
    objects: Vec<(Key, Content)>,
    count: Arc<AtomicU64>,
) -> Result<Vec<Version>, CloudError> {
    let slots = Arc::new(Semaphore::new(PARTS));
    let put = objects.into_iter().map(|(key, content)| {
        let (requests, slots, count) = (requests.clone(), slots.clone(), count.clone());
        async move {
            match content {
                Content::File(path, len) if len <= PART_BYTES => {
                    let put = put_small(&requests, &key, &path, len, &slots).await?;
                    count.fetch_add(len, Ordering::Relaxed);
                    Ok(put)
                }
                Content::File(path, len) => {
                    put_large((&requests, &key), (&path, len), &slots, &count).await
                }
                Content::Object(from) => {
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
    let bytes = read(path, 0, len)?;
    let put = requests.client.put(key, bytes).await;
    let put = put.map_err(|error| requests.error(&error))?;
    version(requests, key, len, put).await
}

async fn put_large(
    (requests, key): (&Requests, &Key),
    (path, len): (&Path, u64),
    slots: &Arc<Semaphore>,
    count: &Arc<AtomicU64>,
) -> Result<Version, CloudError> {
    let begun = requests.client.put_multipart(key).await;
    let upload = begun.map_err(|error| requests.error(&error))?;
    let upload = Arc::new(Mutex::new(upload));
    let mut unfinished = AbortOnDrop(Some(upload.clone()));
    let mut parts = JoinSet::new();
    let part_bytes = PART_BYTES.max(len.div_ceil(MAX_PARTS));
    let mut at = 0;
    while at < len {
        let slot = slots.clone().acquire_owned().await;
        while let Some(put) = parts.try_join_next() {
            checked(requests, put)?;
        }
        let bytes = part_bytes.min(len - at);
        let put = upload.lock().await.put_part(read(path, at, bytes)?);
        let count = count.clone();
        parts.spawn(async move {
            let put = put.await;
            count.fetch_add(bytes, Ordering::Relaxed);
            drop(slot);
            put
        });
        at += bytes;
    }
    while let Some(put) = parts.join_next().await {
        checked(requests, put)?;
    }
    let put = upload.lock().await.complete().await;
    let put = put.map_err(|error| requests.error(&error))?;
    unfinished.0 = None;
    version(requests, key, len, put).await
}

/// From an answer; without one, the current version.
async fn version(
    requests: &Requests,
    key: &Key,
    len: u64,
    put: PutResult,
) -> Result<Version, CloudError> {
    match put.e_tag {
        Some(tag) => Ok(Version::put(len, tag, requests.service)),
        None => requests.head(key).await?.ok_or(CloudError::Missing),
    }
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

fn read(path: &Path, offset: u64, len: u64) -> Result<PutPayload, CloudError> {
    let part = || {
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        File::open(path)?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    let part = part().map_err(|error: io::Error| CloudError::Source {
        path: path.into(),
        reason: match error.kind() {
            io::ErrorKind::UnexpectedEof => "it is shorter now".into(),
            _ => error.to_string(),
        },
    });
    part.map(PutPayload::from)
}

/// The service would keep parts of an unfinished upload and charge for them.
struct AbortOnDrop(Option<Arc<Mutex<Box<dyn MultipartUpload>>>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(upload) = self.0.take() {
            tokio::spawn(async move { upload.lock().await.abort().await });
        }
    }
}
