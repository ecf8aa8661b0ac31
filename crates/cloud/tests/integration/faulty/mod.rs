//! An object store in memory with faults.

#![allow(dead_code)] // Each test uses a part.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

type Hook = (String, Box<dyn FnOnce() + Send>);

#[derive(Default)]
pub(crate) struct Faulty {
    objects: InMemory,
    pub(crate) requests: AtomicU64,
    /// Bytes of answers.
    pub(crate) bytes: AtomicU64,
    /// Before the next read of an object with this suffix.
    before_read: Mutex<Option<Hook>>,
    /// Suffix of denied objects.
    pub(crate) denied: Mutex<Option<String>>,
    pub(crate) empty_folders: Mutex<Vec<String>>,
    /// Listings of everything are too large.
    pub(crate) is_large: AtomicBool,
    answers: AtomicU64,
    /// Answers to truncate.
    broken: Mutex<BTreeSet<u64>>,
    /// Uploads and deletions in order, and the number still allowed.
    changes: Mutex<Vec<String>>,
    room: Mutex<Option<u64>>,
}

impl Faulty {
    pub(crate) fn put(&self, key: &str, bytes: Vec<u8>) {
        let key = Path::from(key);
        now(self.objects.put(&key, bytes.into())).unwrap();
    }

    /// Requests since the last call. Read-ahead goes on in the background after what caused it has returned, so this
    /// waits until no more come.
    pub(crate) fn settled_requests(&self) -> u64 {
        let mut before = u64::MAX;
        loop {
            let requests = self.requests.load(Ordering::Relaxed);
            if requests == before {
                return self.requests.swap(0, Ordering::Relaxed);
            }
            before = requests;
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        self.changes.lock().unwrap().clone()
    }

    /// Refuses changes after this number; `u64::MAX`: never.
    pub(crate) fn refuse_after(&self, changes: u64) {
        *self.room.lock().unwrap() = Some(changes);
    }

    fn change_by(&self, what: &str, key: &Path) -> Result<()> {
        if let Some(room) = &mut *self.room.lock().unwrap() {
            if *room == 0 {
                let source = "status code: 503 refused by the test".into();
                let store = "Faulty";
                return Err(object_store::Error::Generic { store, source });
            }
            *room -= 1;
        }
        self.changes.lock().unwrap().push(format!("{what} {key}"));
        Ok(())
    }

    /// Copies changed files, those that name the live state last.
    pub(crate) fn publish(&self, local: &std::path::Path, prefix: &str) {
        let mut files = Vec::new();
        let mut open = vec![local.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => files.push(path),
                }
            }
        }
        files.sort_by_key(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name == "MANIFEST", name.starts_with("log."))
        });
        for path in files {
            let name = path.strip_prefix(local).unwrap();
            let key = format!("{prefix}/{}", name.to_str().unwrap());
            self.put(&key, std::fs::read(&path).unwrap());
        }
    }

    /// Truncates the next answers of these numbers.
    pub(crate) fn break_off(&self, numbers: &[u64]) {
        self.answers.store(0, Ordering::Relaxed);
        *self.broken.lock().unwrap() = numbers.iter().copied().collect();
    }

    pub(crate) fn before_read(&self, end: &str, hook: impl FnOnce() + Send + 'static) {
        *self.before_read.lock().unwrap() = Some((end.to_owned(), Box::new(hook)));
    }

    pub(crate) fn all(&self) -> Vec<(String, Vec<u8>)> {
        let keys = self.objects.list(None).map(|meta| meta.unwrap().location);
        let keys: Vec<Path> = now(keys.collect());
        let get = |key: Path| {
            let got = now(self.objects.get(&key)).unwrap();
            (key.to_string(), now(got.bytes()).unwrap().to_vec())
        };
        keys.into_iter().map(get).collect()
    }

    /// Changes the one object with this suffix.
    pub(crate) fn change(&self, end: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let (key, mut bytes) = self
            .all()
            .into_iter()
            .find(|(key, _)| key.ends_with(end))
            .unwrap();
        change(&mut bytes);
        self.put(&key, bytes);
    }
}

fn now<T>(ready: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(ready).unwrap()
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.change_by("put", to)?;
        self.objects.put_opts(to, bytes, how).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.change_by("put", to)?;
        self.objects.put_multipart_opts(to, how).await
    }

    async fn get_opts(&self, key: &Path, how: GetOptions) -> Result<GetResult> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_head = how.head;
        if !is_head {
            let hook = (self.before_read.lock().unwrap())
                .take_if(|(end, _)| key.as_ref().ends_with(&*end));
            if let Some((_, hook)) = hook {
                hook();
            }
        }
        let denied = self.denied.lock().unwrap().clone();
        if denied.is_some_and(|end| key.as_ref().ends_with(&end)) {
            return Err(object_store::Error::PermissionDenied {
                path: key.to_string(),
                source: "403".into(),
            });
        }
        let found = self.objects.get_opts(key, how).await?;
        if is_head {
            return Ok(found);
        }
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let is_broken = self.broken.lock().unwrap().contains(&number);
        let (meta, range, attributes) = (
            found.meta.clone(),
            found.range.clone(),
            found.attributes.clone(),
        );
        let extensions = found.extensions.clone();
        let mut bytes = found.bytes().await?;
        if is_broken {
            bytes.truncate(bytes.len() / 2);
        }
        (self.bytes).fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let parts: Vec<_> = bytes
            .chunks(50_000)
            .map(|part| Ok(bytes.slice_ref(part)))
            .collect();
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::iter(parts).boxed()),
            meta,
            range,
            attributes,
            extensions,
        })
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let keys: Vec<Result<Path>> = now(keys.collect());
        let allowed = keys.into_iter().map(|key| {
            let key = key?;
            self.change_by("delete", &key)?;
            Ok(key)
        });
        let allowed: Vec<Result<Path>> = allowed.collect();
        self.objects.delete_stream(stream::iter(allowed).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let all = self.objects.list(prefix);
        if !self.is_large.load(Ordering::Relaxed) {
            return all;
        }
        let other = ObjectMeta {
            location: Path::from("some/water.iso/other"),
            last_modified: Default::default(),
            size: 0,
            e_tag: None,
            version: None,
        };
        let many = (0..30_000).map(move |number| {
            let location = Path::from(format!("{}/{number}", other.location));
            Ok(ObjectMeta {
                location,
                ..other.clone()
            })
        });
        stream::iter(many).chain(all).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let found = self.objects.list_with_delimiter(prefix).await?;
        if found.objects.is_empty() && found.common_prefixes.is_empty() {
            let folder = prefix.map(Path::to_string).unwrap_or_default();
            self.empty_folders.lock().unwrap().push(folder);
        }
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.change_by("put", to)?;
        self.objects.copy_opts(from, to, how).await
    }
}
