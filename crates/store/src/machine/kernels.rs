//! What summarising costs by type of samples: scans are timed over 16-bit ones, and the others take more or less.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::stats::{Statistic, summary};
use isochrony_segment::{DType, Sample, dispatch};
use serde::{Deserialize, Serialize};

use super::spread::Spread;
use crate::error::StoreError;
use crate::interrupt;
use crate::strategy::system::free_memory;

/// Seconds a byte that summarising samples of one type takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// In the processor's cache.
    pub cached: Spread,
    /// In memory.
    pub memory: Spread,
}

/// Bytes that stay in the processor's cache.
const SMALL: usize = 256 << 10;

/// Of all types of samples, by name.
pub(super) fn kernels(bytes: u64, repeats: u32) -> Result<BTreeMap<String, Kernel>, StoreError> {
    // Past any cache of a core's own; a cache that cores share may hold it, which what is mapped shows by itself.
    let len = bytes.min(64 << 20).min(free_memory() / 4) as usize;
    let mut found = BTreeMap::new();
    for dtype in DType::ALL {
        interrupt::look("calibrate")?;
        let kernel = dispatch!(dtype, T => measure::<T>(len, repeats));
        if let Some(kernel) = kernel {
            found.insert(dtype.name().to_owned(), kernel);
        }
    }
    Ok(found)
}

fn measure<T: Sample + Statistic + bytemuck::Zeroable>(len: usize, repeats: u32) -> Option<Kernel> {
    let memory = vec![T::zeroed(); (len / size_of::<T>()).max(1)];
    let small = &memory[..memory.len().min(SMALL / size_of::<T>())];
    let each = |samples: &[T], times: u32| {
        let mut seconds = Vec::new();
        // The first one fills the cache.
        for round in 0..=repeats {
            let begun = Instant::now();
            for _ in 0..times {
                _ = black_box(summary(black_box(samples)));
            }
            let bytes = size_of_val(samples) as f64 * f64::from(times);
            if round > 0 {
                seconds.push(begun.elapsed().as_secs_f64() / bytes);
            }
        }
        Spread::of(seconds)
    };
    Some(Kernel {
        cached: each(small, 16)?,
        memory: each(&memory, 1)?,
    })
}
