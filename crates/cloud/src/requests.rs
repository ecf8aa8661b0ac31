//! Object requests: validation of answers, and retries.
//!
//! `object_store` retries temporary refusals and broken connections. Here a range that ends early is continued, and
//! every answer must be of the expected version.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::time::sleep;

use crate::client::Service;
use crate::error::CloudError;

const MAX_RETRIES: u32 = 5;
/// Delay before the first retry; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) size: u64,
    e_tag: Option<String>,
    /// Seconds since 1970, as in headers; 0 if unknown.
    modified: i64,
}

impl Version {
    pub(crate) fn of(meta: &ObjectMeta, service: Service) -> Self {
        Self {
            size: meta.size,
            modified: meta.last_modified.timestamp(),
            e_tag: quoted(meta.e_tag.clone(), service),
        }
    }

    pub(crate) fn put(size: u64, e_tag: String, service: Service) -> Self {
        Self {
            size,
            e_tag: quoted(Some(e_tag), service),
            modified: 0,
        }
    }

    pub(crate) fn has_tag(&self) -> bool {
        self.e_tag.is_some()
    }

    /// Whether both may be the same version: not every server lists tags.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        let is_same = match (&self.e_tag, &other.e_tag) {
            (Some(own), Some(other)) => own == other,
            _ => {
                let is_known = self.modified != 0 && other.modified != 0;
                !is_known || self.modified == other.modified
            }
        };
        is_same && self.size == other.size
    }
}

/// Adds quotes (RFC 9110, 8.8.3) if the service lists tags without: Azure lists `0x8D93` but has `"0x8D93"` in headers.
fn quoted(e_tag: Option<String>, service: Service) -> Option<String> {
    let quoted = |tag: String| match tag.ends_with('"') {
        true => tag,
        false => format!("\"{tag}\""),
    };
    match service.lists_tags() {
        true => e_tag.map(quoted),
        false => e_tag,
    }
}

/// The expected version: as listed and, after the first answer, with its tag.
#[derive(Debug)]
pub(crate) struct VersionPin {
    pub(crate) listed: Version,
    seen: OnceLock<Version>,
}

impl VersionPin {
    pub(crate) fn new(listed: Version) -> Self {
        Self {
            listed,
            seen: OnceLock::new(),
        }
    }

    /// A tag that the server can compare; weak tags never match.
    fn if_match(&self) -> Option<String> {
        let version = self.seen.get().unwrap_or(&self.listed);
        version.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
    }

    /// Detects servers that do not compare.
    fn admits(&self, version: &Version) -> bool {
        self.listed.fits(version) && self.seen.get_or_init(|| version.clone()).fits(version)
    }
}

impl Version {
    pub(crate) fn new(size: u64, e_tag: Option<String>, modified: i64) -> Self {
        Self {
            size,
            e_tag,
            modified,
        }
    }

    pub(crate) fn e_tag(&self) -> Option<&str> {
        self.e_tag.as_deref()
    }

    pub(crate) fn modified(&self) -> i64 {
        self.modified
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Requests {
    pub(crate) client: Arc<dyn ObjectStore>,
    pub(crate) service: Service,
}

impl Requests {
    pub(crate) fn error(&self, error: &object_store::Error) -> CloudError {
        CloudError::of(error, self.service.variables())
    }

    pub(crate) fn version(&self, meta: &ObjectMeta) -> Version {
        Version::of(meta, self.service)
    }

    /// `None` if the object does not exist.
    pub(crate) async fn head(&self, key: &Key) -> Result<Option<Version>, CloudError> {
        match self.client.head(key).await {
            Ok(meta) => Ok(Some(self.version(&meta))),
            Err(error) => match self.error(&error) {
                CloudError::Missing => Ok(None),
                error => Err(error),
            },
        }
    }

    /// `None` if the object does not exist; no bytes if it is longer than `most`.
    pub(crate) async fn whole(
        &self,
        key: &Key,
        most: u64,
    ) -> Result<Option<(Version, Vec<u8>)>, CloudError> {
        let mut retries = 0;
        loop {
            let failure = match self.try_whole(key, most).await {
                Ok(whole) => return Ok(Some(whole)),
                Err(CloudError::Missing) => return Ok(None),
                Err(error) => error,
            };
            let is_broken = matches!(failure, CloudError::Truncated { .. });
            self.before_retry(failure, is_broken, &mut retries).await?;
        }
    }

    async fn try_whole(&self, key: &Key, most: u64) -> Result<(Version, Vec<u8>), CloudError> {
        let found = self.client.get(key).await;
        let found = found.map_err(|error| self.error(&error))?;
        let version = self.version(&found.meta);
        if version.size > most {
            return Ok((version, Vec::new()));
        }
        let (mut bytes, expected) = (Vec::new(), version.size);
        self.receive(found, expected, |part| bytes.extend_from_slice(&part))
            .await?;
        let got = bytes.len() as u64;
        match got == expected {
            true => Ok((version, bytes)),
            false => Err(CloudError::Truncated { got, expected }),
        }
    }

    /// `pin`: the expected version; `None` if the object only grows.
    pub(crate) async fn range(
        &self,
        key: &Key,
        pin: Option<&VersionPin>,
        range: Range<u64>,
        mut take: impl FnMut(bytes::Bytes),
    ) -> Result<(), CloudError> {
        let (mut at, mut retries) = (range.start, 0);
        while at < range.end {
            let begun = at;
            let asked = self.try_range(key, pin, at..range.end, |part| {
                at += part.len() as u64;
                take(part);
            });
            let answered = asked.await;
            let is_begun = at > begun;
            let failure = match answered {
                Ok(()) if at >= range.end => return Ok(()),
                Ok(()) => CloudError::Truncated {
                    got: at - range.start,
                    expected: range.end - range.start,
                },
                Err(error) => error,
            };
            if at - begun > 1 << 20 {
                // The connection may break off now and then.
                retries = 0;
            }
            // Refused or unreachable requests were retried already.
            let is_broken = matches!(failure, CloudError::Truncated { .. })
                || is_begun && matches!(failure, CloudError::Unreachable { .. });
            self.before_retry(failure, is_broken, &mut retries).await?;
        }
        Ok(())
    }

    /// Deletes objects; missing ones are no error.
    pub(crate) async fn delete(&self, keys: Vec<Key>) -> Result<(), CloudError> {
        let keys = futures_util::stream::iter(keys.into_iter().map(Ok)).boxed();
        let mut deleted = self.client.delete_stream(keys);
        while let Some(one) = deleted.next().await {
            match one.map_err(|error| self.error(&error)) {
                Ok(_) | Err(CloudError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn try_range(
        &self,
        key: &Key,
        pin: Option<&VersionPin>,
        range: Range<u64>,
        take: impl FnMut(bytes::Bytes),
    ) -> Result<(), CloudError> {
        let expected = range.end - range.start;
        let mut options = GetOptions::new().with_range(Some(GetRange::Bounded(range)));
        options.if_match = pin.and_then(VersionPin::if_match);
        let found = self.client.get_opts(key, options).await;
        let found = found.map_err(|error| self.error(&error))?;
        if pin.is_some_and(|pin| !pin.admits(&self.version(&found.meta))) {
            return Err(CloudError::ChangedRemotely);
        }
        self.receive(found, expected, take).await
    }

    /// At most `expected` bytes, whatever a server sends.
    async fn receive(
        &self,
        found: GetResult,
        expected: u64,
        mut take: impl FnMut(bytes::Bytes),
    ) -> Result<(), CloudError> {
        let (mut parts, mut left) = (found.into_stream(), expected);
        while left > 0
            && let Some(part) = parts.next().await
        {
            let mut part = part.map_err(|error| self.error(&error))?;
            part.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= part.len() as u64;
            take(part);
        }
        Ok(())
    }

    /// Waits, with increasing delay, if retries are left; else returns the failure.
    pub(crate) async fn before_retry(
        &self,
        failure: CloudError,
        is_broken: bool,
        retries: &mut u32,
    ) -> Result<(), CloudError> {
        if !is_broken || *retries >= MAX_RETRIES {
            return Err(failure);
        }
        sleep(FIRST_BACKOFF * 2u32.pow(*retries)).await;
        *retries += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(tag: &str, service: Service) -> Version {
        let meta = ObjectMeta {
            location: Key::from("a"),
            last_modified: Default::default(),
            size: 7,
            e_tag: Some(tag.into()),
            version: None,
        };
        Version::of(&meta, service)
    }

    #[test]
    fn a_tag_is_the_same_with_quotes_and_without() {
        let listed = version("0x8D93C7D4629C227", Service::Azure);
        let answered = version("\"0x8D93C7D4629C227\"", Service::Azure);
        assert_eq!(listed, answered);
        let pin = VersionPin::new(listed);
        assert_eq!(pin.if_match().as_deref(), Some("\"0x8D93C7D4629C227\""));
        assert!(pin.admits(&answered));
        assert!(!pin.admits(&version("\"0x8D93C7D463004D6\"", Service::Azure)));
        let pin = VersionPin::new(version("W/\"a\"", Service::S3));
        assert_eq!(pin.if_match(), None);
        assert!(pin.admits(&version("W/\"a\"", Service::S3)));
    }
}
