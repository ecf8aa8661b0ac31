//! What summarising costs by type of samples: scans are timed over 16-bit ones, and the others take more or less.

use std::collections::BTreeMap;

use isochrony_segment::DType;
use serde::{Deserialize, Serialize};

use super::costs::State;
use super::spread::Spread;
use super::timed::Scan;
use crate::error::IoError;
use crate::strategy::Strategy;

/// Seconds a byte that summarising samples of one type takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// In a buffer that was just filled: in the processor's cache.
    pub cached: Spread,
    /// Where they are mapped.
    pub memory: Spread,
}

/// Bytes that are summarised as each type: past any cache of a core's own.
const AMOUNT: u64 = 128 << 20;

/// Of all types of samples, by name, measured over the bytes of one source that is in the page cache. Types by turns, so
/// that what changes meanwhile is alike for all.
pub(super) fn kernels(scan: Scan<'_>, repeats: u32) -> Result<BTreeMap<String, Kernel>, IoError> {
    let most = (AMOUNT / scan.source.dtype().size() as u64).cast_signed();
    let first = [0..scan.source.end().min(most)];
    // Maps them.
    scan.time(Strategy::Mmap, State::Cached)?;
    let scan = Scan {
        parts: &first,
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
        Some(Kernel {
            cached: Spread::of(cached)?,
            memory: Spread::of(memory)?,
        })
    };
    let found = found.into_iter();
    let found = found.filter_map(|(name, seconds)| Some((name.to_owned(), kernel(seconds)?)));
    Ok(found.collect())
}

/// How samples come into the cache, and how they are mapped.
const SCANS: [(Strategy, State); 2] = [
    (Strategy::Read, State::Cached),
    (Strategy::Mmap, State::Mapped),
];
