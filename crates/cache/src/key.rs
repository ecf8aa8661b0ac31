//! Keys of cached objects.

use serde::{Deserialize, Serialize};

use crate::error::CacheError;

/// Bounds journal records.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Identity of a cached object: equal keys mean equal bytes, up to the shorter length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ObjectKey {
    /// A shard of a signal in a store.
    Shard {
        /// Store id.
        store: [u8; 16],
        /// Signal number in the store.
        signal: u64,
        /// Shard number in the signal.
        shard: u64,
        /// Changed by fill, overwrite and seal, not by an append: an object may grow under one key, and its earlier
        /// bytes stay the same.
        content_version: u64,
    },
    /// A file at a URL.
    File {
        /// Its URL.
        url: String,
        /// Version of its content.
        version: FileVersion,
    },
}

/// Distinguishes contents of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileVersion {
    /// The server's entity tag.
    Etag(String),
    /// Length and modification time, if there is no tag.
    SizeAndTime {
        /// Length in bytes.
        bytes: u64,
        /// Nanoseconds since 1970.
        modified_ns: i64,
    },
}

impl ObjectKey {
    /// A file with an entity tag.
    #[must_use]
    pub fn file(url: impl Into<String>, etag: impl Into<String>) -> Self {
        Self::File {
            url: url.into(),
            version: FileVersion::Etag(etag.into()),
        }
    }

    /// Bytes that are equal only for equal keys.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Digest of the key; names the object's file.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.canonical_bytes()).as_bytes()
    }

    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let Self::File { url, version } = self else {
            return Ok(());
        };
        let tag = match version {
            FileVersion::Etag(tag) => tag.as_str(),
            FileVersion::SizeAndTime { .. } => "-",
        };
        for (part, text) in [("url", url.as_str()), ("etag", tag)] {
            if text.is_empty() || text.len() > MAX_TEXT_BYTES {
                return Err(CacheError::InvalidKey {
                    part,
                    bytes: text.len(),
                    max_bytes: MAX_TEXT_BYTES,
                });
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shard {
                store,
                signal,
                shard,
                content_version,
            } => write!(
                f,
                "shard {shard} of signal {signal} in store {} (content version {content_version})",
                uuid::Uuid::from_bytes(*store)
            ),
            Self::File { url, .. } => write!(f, "{url}"),
        }
    }
}
