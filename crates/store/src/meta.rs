//! What is known of a signal besides its samples: type, rate, calibration, geometry, attributes.

use isochrony_segment::DType;
use isochrony_time::Rate;
use serde::{Deserialize, Serialize};

/// A signal's metadata. Field order is part of the log format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalMeta {
    /// Sample type.
    pub dtype: DType,
    /// Nominal sample rate.
    pub rate: Rate,
    /// Physical unit of calibrated values; empty if unknown.
    pub unit: String,
    /// Physical value = count * scale + offset. `None` if uncalibrated.
    pub calibration: Option<(f64, f64)>,
    /// Samples per inner chunk of `data`, a power of two.
    pub chunk_samples: u64,
    /// Inner chunks per shard of `data`.
    pub shard_chunks: u64,
    /// Sealing codec of `data` ("zstd", "blosc"); empty for the flat layout.
    pub codec: String,
    /// Settings of the clock estimate and of gap detection, kept so that later imports continue alike.
    pub clock: ClockSettings,
    /// User attributes: a JSON object as text.
    pub attributes: String,
}

/// Options of clock estimation and gap detection (see `isochrony_time::ClockConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockSettings {
    /// Weight of the running estimate of the rate.
    pub alpha: f64,
    /// Tolerance between predicted and stamped time in ns; `None`: from the stamps themselves.
    pub gap_slip_ns: Option<i64>,
    /// Gaps longer than this take one inner chunk of index.
    pub max_gap_ns: i64,
}
