//! Costs of summarising by type of samples, since scans are timed over 16-bit ones.

use std::collections::BTreeMap;

use isochrony_segment::DType;
use serde::{Deserialize, Serialize};

use super::costs::State;
use super::spread::Spread;
use super::timed::Scan;
use crate::error::IoError;
use crate::strategy::Strategy;

/// Seconds per byte of summarising samples of one type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// In the processor's cache: in a buffer that was just filled.
    pub cached: Spread,
    /// Mapped.
    pub memory: Spread,
}

/// Bytes summarised as each type: more than the cache of a core.
const AMOUNT: u64 = 128 << 20;

/// By name of type, measured over the cached bytes of one source. By turns, so that disturbances hit all types alike.
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

/// Scans that leave samples in the processor's cache, and that have them mapped.
const SCANS: [(Strategy, State); 2] = [
    (Strategy::Read, State::Cached),
    (Strategy::Mmap, State::Mapped),
];
