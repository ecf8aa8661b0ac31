//! Metadata of a signal: type, rate, calibration, geometry, attributes.

use isochrony_time::Rate;
use serde::{Deserialize, Serialize};

use crate::sample_format::SampleFormat;

/// Metadata. The field order is the log's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalMeta {
    /// Stored format of samples.
    pub format: SampleFormat,
    /// Nominal sample rate.
    pub rate: Rate,
    /// Physical unit; empty if unknown.
    pub unit: String,
    /// Value = count * scale + offset; `None` if uncalibrated.
    pub calibration: Option<(f64, f64)>,
    /// Samples per inner chunk of `data`, a power of two.
    pub chunk_samples: u64,
    /// Inner chunks per shard of `data`.
    pub shard_chunks: u64,
    /// Sealing codec of `data` ("zstd", "blosc"); empty for the flat layout.
    pub codec: String,
    /// Clock estimation and gap detection, for consistent later imports.
    pub clock: ClockSettings,
    /// User attributes: a JSON object as text.
    pub attributes: String,
}

/// Bytes of an inner chunk and of a shard: more than any option gives, less than exhausts a machine.
const MAX_BYTES: (u64, u64) = (1 << 28, 1 << 40);
/// Each takes 16 bytes in a shard's index.
const MAX_CHUNKS: u64 = 1 << 20;

impl SignalMeta {
    /// Whether the geometry is possible: values from files are checked before anything is allocated.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let chunk = self.chunk_samples.checked_mul(self.format.size() as u64);
        let shard = chunk.and_then(|bytes| bytes.checked_mul(self.shard_chunks));
        (1..=MAX_CHUNKS).contains(&self.shard_chunks)
            && chunk.is_some_and(|bytes| (1..=MAX_BYTES.0).contains(&bytes))
            && shard.is_some_and(|bytes| bytes <= MAX_BYTES.1)
    }

    /// Expected rate before there are stamps.
    #[must_use]
    pub fn expected_rate(&self) -> Rate {
        self.clock.initial_rate.unwrap_or(self.rate)
    }

    /// Samples per full flat shard.
    #[must_use]
    pub fn shard_samples(&self) -> i64 {
        let samples = (self.chunk_samples.max(1)).saturating_mul(self.shard_chunks.max(1));
        i64::try_from(samples).unwrap_or(i64::MAX)
    }
}

/// Clock estimation and gap detection (see `isochrony_time::ClockConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredClockSettings", into = "StoredClockSettings")]
pub struct ClockSettings {
    /// Weight of the past in the running rate.
    pub alpha: f64,
    /// Tolerance between predicted and stamped time, ns; `None`: from the stamps.
    pub gap_slip_ns: Option<i64>,
    /// Longer gaps take one inner chunk of indices.
    pub max_gap_ns: i64,
    /// A better estimate than the nominal rate.
    pub initial_rate: Option<Rate>,
}

/// The settings in the log. A postcard struct cannot grow: following data would be read as the new field. So the
/// initial rate is in further variants of the slip; the first two encode like the `Option<i64>` of the first logs.
#[derive(Serialize, Deserialize)]
struct StoredClockSettings {
    alpha: f64,
    slip: StoredSlip,
    max_gap_ns: i64,
}

/// The order is the log's format.
#[derive(Serialize, Deserialize)]
enum StoredSlip {
    FromStamps,
    Ns(i64),
    FromStampsAt(Rate),
    NsAt(i64, Rate),
}

impl From<ClockSettings> for StoredClockSettings {
    fn from(settings: ClockSettings) -> Self {
        Self {
            alpha: settings.alpha,
            slip: match (settings.gap_slip_ns, settings.initial_rate) {
                (None, None) => StoredSlip::FromStamps,
                (Some(ns), None) => StoredSlip::Ns(ns),
                (None, Some(rate)) => StoredSlip::FromStampsAt(rate),
                (Some(ns), Some(rate)) => StoredSlip::NsAt(ns, rate),
            },
            max_gap_ns: settings.max_gap_ns,
        }
    }
}

impl From<StoredClockSettings> for ClockSettings {
    fn from(stored: StoredClockSettings) -> Self {
        let (gap_slip_ns, initial_rate) = match stored.slip {
            StoredSlip::FromStamps => (None, None),
            StoredSlip::Ns(ns) => (Some(ns), None),
            StoredSlip::FromStampsAt(rate) => (None, Some(rate)),
            StoredSlip::NsAt(ns, rate) => (Some(ns), Some(rate)),
        };
        Self {
            alpha: stored.alpha,
            gap_slip_ns,
            max_gap_ns: stored.max_gap_ns,
            initial_rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings in logs before the initial rate existed.
    #[derive(Serialize)]
    struct FirstClockSettings {
        alpha: f64,
        gap_slip_ns: Option<i64>,
        max_gap_ns: i64,
    }

    #[test]
    fn settings_keep_the_old_encoding_without_an_initial_rate() {
        for gap_slip_ns in [None, Some(0), Some(-1), Some(i64::MAX)] {
            let (alpha, max_gap_ns) = (0.95, 1 << 40);
            let before = FirstClockSettings {
                alpha,
                gap_slip_ns,
                max_gap_ns,
            };
            let bytes = postcard::to_stdvec(&before).unwrap();
            let mut settings = ClockSettings {
                alpha,
                gap_slip_ns,
                max_gap_ns,
                initial_rate: None,
            };
            assert_eq!(postcard::to_stdvec(&settings).unwrap(), bytes);
            assert_eq!(
                postcard::from_bytes::<ClockSettings>(&bytes).unwrap(),
                settings
            );
            settings.initial_rate = Some(Rate::new(2_000_001, 1000).unwrap());
            let bytes = postcard::to_stdvec(&settings).unwrap();
            assert_eq!(
                postcard::from_bytes::<ClockSettings>(&bytes).unwrap(),
                settings
            );
        }
    }
}
