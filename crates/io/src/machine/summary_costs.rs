//! Costs of summarising by sample type.

use std::collections::BTreeMap;

use isochrony_segment::DType;
use serde::{Deserialize, Serialize};

use super::costs::CacheState;
use super::quartiles::Quartiles;
use super::timed_scan::TimedScan;
use crate::error::IoError;
use crate::strategy::Strategy;

/// Seconds per byte of summarising a type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SummaryCosts {
    /// In the CPU cache.
    pub cached: Quartiles,
    /// Mapped.
    pub memory: Quartiles,
}

/// More than a core's cache.
const BYTES: u64 = 128 << 20;

/// Types alternate, so disturbances affect all.
pub(super) fn kernels(
    scan: TimedScan<'_>,
    repeats: u32,
) -> Result<BTreeMap<String, SummaryCosts>, IoError> {
    let most = (BYTES / scan.source.dtype().size() as u64).cast_signed();
    let first = 0..scan.source.end().min(most);
    scan.time(Strategy::Mmap, CacheState::Cached)?;
    let scan = TimedScan {
        parts: std::slice::from_ref(&first),
        ..scan
    };
    let mut found = BTreeMap::<&str, [Vec<f64>; 2]>::new();
    for _ in 0..repeats {
        for dtype in DType::ALL {
            for (k, (strategy, state)) in SCANS.into_iter().enumerate() {
                if let Some(one) = scan.time_as(dtype, strategy, state)? {
                    found.entry(dtype.name()).or_default()[k].push(one.inner / one.bytes);
                }
            }
        }
    }
    let kernel = |[cached, memory]: [Vec<f64>; 2]| {
        Some(SummaryCosts {
            cached: Quartiles::of(cached)?,
            memory: Quartiles::of(memory)?,
        })
    };
    let found = found.into_iter();
    let found = found.filter_map(|(name, seconds)| Some((name.to_owned(), kernel(seconds)?)));
    Ok(found.collect())
}

const SCANS: [(Strategy, CacheState); 2] = [
    (Strategy::Read, CacheState::Cached),
    (Strategy::Mmap, CacheState::Mapped),
];
