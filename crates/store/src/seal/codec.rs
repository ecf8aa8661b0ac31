//! Codecs for sealed signals.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::error::StoreError;

/// Compression of sealed chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Zstandard; levels 1 (fast) to 22 (small).
    Zstd {
        /// 1 to 22.
        level: i32,
    },
    /// Blosc, which shuffles bytes first; levels 0 (none) to 9 (small).
    Blosc {
        /// Compressor within Blosc.
        compressor: BloscCompressor,
        /// 0 to 9.
        level: u8,
    },
}

/// Compressors of Blosc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Their names say it.
#[non_exhaustive]
pub enum BloscCompressor {
    BloscLz,
    Lz4,
    Lz4Hc,
    Zlib,
    Zstd,
}

impl BloscCompressor {
    const ALL: [Self; 5] = [
        Self::BloscLz,
        Self::Lz4,
        Self::Lz4Hc,
        Self::Zlib,
        Self::Zstd,
    ];

    /// Blosc's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BloscLz => "blosclz",
            Self::Lz4 => "lz4",
            Self::Lz4Hc => "lz4hc",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

impl Default for Codec {
    /// Small files that read fast.
    fn default() -> Self {
        Self::Zstd { level: 3 }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd { level } => write!(f, "zstd:{level}"),
            Self::Blosc { compressor, level } => write!(f, "blosc:{}:{level}", compressor.name()),
        }
    }
}

impl FromStr for Codec {
    type Err = StoreError;

    /// Accepts `zstd`, `zstd:LEVEL`, `blosc`, `blosc:COMPRESSOR`, `blosc:COMPRESSOR:LEVEL`.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let refuse = || StoreError::InvalidCodec { codec: text.into() };
        let mut parts = text.split(':');
        let codec = match parts.next() {
            Some("zstd") => {
                let level = parts
                    .next()
                    .map_or(Ok(3), |level| level.parse().map_err(|_| refuse()))?;
                Self::Zstd { level }
            }
            Some("blosc") => {
                let name = parts.next().unwrap_or("lz4");
                let compressor = BloscCompressor::ALL
                    .into_iter()
                    .find(|c| c.name() == name)
                    .ok_or_else(refuse)?;
                let level = parts
                    .next()
                    .map_or(Ok(5), |level| level.parse().map_err(|_| refuse()))?;
                Self::Blosc { compressor, level }
            }
            _ => return Err(refuse()),
        };
        if parts.next().is_some() {
            return Err(refuse());
        }
        codec.check()?;
        Ok(codec)
    }
}

impl Codec {
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let legal = match self {
            Self::Zstd { level } => (1..=22).contains(level),
            Self::Blosc { level, .. } => *level <= 9,
        };
        if legal {
            Ok(())
        } else {
            Err(StoreError::InvalidCodec {
                codec: self.to_string(),
            })
        }
    }

    /// Zarr's name, stored in the signal's metadata.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Zstd { .. } => "zstd",
            Self::Blosc { .. } => "blosc",
        }
    }

    pub(super) fn from_metadata(codec: &Value) -> Option<Self> {
        let configuration = &codec["configuration"];
        let codec = match codec["name"].as_str()? {
            "zstd" => Self::Zstd {
                level: i32::try_from(configuration["level"].as_i64()?).ok()?,
            },
            "blosc" => Self::Blosc {
                compressor: BloscCompressor::ALL
                    .into_iter()
                    .find(|one| configuration["cname"] == one.name())?,
                level: u8::try_from(configuration["clevel"].as_u64()?).ok()?,
            },
            _ => return None,
        };
        codec.check().is_ok().then_some(codec)
    }

    pub(super) fn metadata(&self, sample_bytes: usize) -> Value {
        match self {
            // Its checksum also protects the last chunk, which has none of ours until full.
            Self::Zstd { level } => json!({
                "name": "zstd", "configuration": { "level": level, "checksum": true },
            }),
            Self::Blosc { compressor, level } => json!({
                "name": "blosc",
                "configuration": {
                    "cname": compressor.name(), "clevel": level, "shuffle": "shuffle",
                    "typesize": sample_bytes, "blocksize": 0,
                },
            }),
        }
    }
}
