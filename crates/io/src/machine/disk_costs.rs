//! Predicts scan times from costs.

use std::collections::BTreeMap;

use isochrony_segment::DType;
use serde::{Deserialize, Serialize};

use super::costs::{CacheState, Costs, StrategyCosts};
use super::quartiles::Quartiles;
use super::summary_costs::SummaryCosts;
use crate::strategy::Strategy;

/// Amount of samples to scan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// Bytes of samples.
    pub bytes: f64,
    /// Cached fraction, 0 to 1.
    pub cached: Option<f64>,
    /// Type of the samples.
    pub dtype: DType,
}

/// Scan costs of one disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskCosts {
    /// Measured folder.
    pub folder: String,
    /// Type of its file system.
    pub filesystem: String,
    /// File system identity.
    pub disk: String,
    /// Major and minor number; may change at boot.
    pub device: String,
    /// UTC time of the measurement.
    pub made: String,
    /// Bytes of each scan.
    pub bytes: u64,
    /// Repetitions.
    pub repeats: u32,
    /// Strategy-independent costs, for 16-bit samples.
    pub costs: Costs,
    /// Summarising costs by sample type.
    pub kernels: BTreeMap<String, SummaryCosts>,
    /// Costs by strategy.
    pub paths: BTreeMap<String, StrategyCosts>,
    /// Seconds of a major fault without read-ahead.
    pub major_fault: Option<Quartiles>,
}

impl DiskCosts {
    /// Seconds of requesting and summarising `bytes`, if measured.
    ///
    /// Cached: requests, accesses, minor faults. Cold: also waiting for the disk, and faults of pages just read.
    /// Strategies past the page cache are always cold.
    #[must_use]
    pub fn predict(
        &self,
        strategy: Strategy,
        state: CacheState,
        bytes: f64,
        dtype: DType,
    ) -> Option<Quartiles> {
        let path = self.paths.get(strategy.name())?;
        let touch = self.costs.touch(strategy);
        let more = self.more(strategy, dtype)?;
        let state = match (strategy, state) {
            (direct, _) if direct.bypasses_page_cache() => CacheState::Cold,
            (_, state) => state,
        };
        let each = match state {
            CacheState::Mapped if strategy.copies() => {
                path.ask?.plus(touch).map(|each| each + more)
            }
            CacheState::Mapped => touch.map(|each| each + more),
            CacheState::Cached => (path.ask?.plus(touch))
                .plus(self.costs.faults(path.fault_bytes))
                .map(|each| each + more),
            CacheState::Cold => {
                let cold = path.cold?;
                // For `direct` it is part of the wait.
                let ask = path.ask.unwrap_or(Quartiles::exact(0.0));
                let known = ask.plus(touch).plus(self.costs.faults(cold.fault_bytes));
                // Read-ahead overlaps slower computing with waits.
                let more = if more > 0.0 {
                    (more - cold.wait.median).max(0.0)
                } else {
                    more
                };
                let each = known.plus(cold.wait).map(|each| each + more);
                // Faster computing does not make the disk faster.
                each.map(|each| each.max(cold.wait.low))
            }
        };
        Some(each.map(|each| each.max(0.0) * bytes))
    }

    /// Additional seconds per byte over 16-bit samples; may be negative.
    fn more(&self, strategy: Strategy, dtype: DType) -> Option<f64> {
        if dtype == DType::I16 {
            return Some(0.0);
        }
        let (own, timed) = (
            self.kernels.get(dtype.name())?,
            self.kernels.get(DType::I16.name())?,
        );
        Some(match strategy.copies() {
            true => own.cached.median - timed.cached.median,
            false => own.memory.median - timed.memory.median,
        })
    }

    /// The same for partly cached samples.
    #[must_use]
    pub fn predict_now(&self, strategy: Strategy, amount: Amount) -> Option<Quartiles> {
        let cached = amount.cached?.clamp(0.0, 1.0);
        let part = |state, share: f64| match share {
            0.0 => Some(Quartiles::exact(0.0)),
            share => self.predict(strategy, state, amount.bytes * share, amount.dtype),
        };
        Some(part(CacheState::Cached, cached)?.plus(part(CacheState::Cold, 1.0 - cached)?))
    }

    /// The best allowed strategy: `mmap`, unless another is faster by more than both spreads.
    #[must_use]
    pub fn best(&self, amount: Amount, allowed: impl Fn(Strategy) -> bool) -> Option<Strategy> {
        let usual = self.predict_now(Strategy::Mmap, amount)?;
        let predicted = Strategy::ALL
            .into_iter()
            .filter(|&one| allowed(one))
            .filter_map(|one| Some((one, self.predict_now(one, amount)?)));
        let better = predicted
            .filter(|(_, time)| time.high < usual.low && time.median < 0.95 * usual.median);
        let best = better.min_by(|one, other| one.1.median.total_cmp(&other.1.median));
        Some(best.map_or(Strategy::Mmap, |(strategy, _)| strategy))
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::ColdCosts;
    use super::*;

    fn ns(value: f64) -> Quartiles {
        Quartiles::exact(value * 1e-9)
    }

    fn kernel(cached: f64, memory: f64) -> SummaryCosts {
        SummaryCosts {
            cached: ns(cached),
            memory: ns(memory),
        }
    }

    /// Round figures: 0.1 ns per byte in the cache, 0.2 mapped; a minor fault of 10 us maps 1 MB.
    fn volume() -> DiskCosts {
        let cold = |wait, fault_bytes| {
            Some(ColdCosts {
                wait: ns(wait),
                fault_bytes,
                throughput: Quartiles::exact(1e9),
                major_bytes: None,
            })
        };
        let (mega, small) = (Some(Quartiles::exact(1e6)), Some(Quartiles::exact(1e5)));
        let path = |ask: Option<f64>, fault_bytes, cold| StrategyCosts {
            ask: ask.map(ns),
            fault_bytes,
            cold,
        };
        let paths = [
            (Strategy::Read, path(Some(0.3), None, cold(1.0, None))),
            (Strategy::Mmap, path(Some(0.0), mega, cold(2.0, mega))),
            (
                Strategy::Readahead,
                path(Some(0.05), mega, cold(0.5, small)),
            ),
            (Strategy::Direct, path(None, None, cold(0.9, None))),
        ];
        DiskCosts {
            folder: "/data".into(),
            filesystem: "ext4".into(),
            disk: "ext4:1".into(),
            device: "8:1".into(),
            made: String::new(),
            bytes: 1 << 30,
            repeats: 5,
            costs: Costs {
                summarise: ns(0.1),
                summarise_mapped: ns(0.2),
                minor_fault: Some(Quartiles::exact(10e-6)),
                page: None,
            },
            kernels: BTreeMap::from([
                (DType::I16.name().to_owned(), kernel(0.1, 0.2)),
                (DType::F64.name().to_owned(), kernel(0.4, 0.9)),
            ]),
            paths: paths
                .map(|(one, path)| (one.name().to_owned(), path))
                .into(),
            major_fault: None,
        }
    }

    fn close(found: Option<Quartiles>, seconds: f64) {
        let found = found.unwrap().median;
        assert!((found - seconds).abs() < 1e-9, "{found} for {seconds}");
    }

    #[test]
    fn predicted_times_equal_manual_sums() {
        let volume = volume();
        let predict = |strategy, state| volume.predict(strategy, state, 1e9, DType::I16);
        close(predict(Strategy::Read, CacheState::Cached), 0.3 + 0.1);
        close(predict(Strategy::Read, CacheState::Mapped), 0.3 + 0.1);
        close(predict(Strategy::Read, CacheState::Cold), 0.3 + 0.1 + 1.0);
        close(predict(Strategy::Mmap, CacheState::Cached), 0.2 + 0.01);
        close(predict(Strategy::Mmap, CacheState::Mapped), 0.2);
        close(predict(Strategy::Mmap, CacheState::Cold), 0.2 + 0.01 + 2.0);
        // Smaller pages: ten thousand faults.
        close(
            predict(Strategy::Readahead, CacheState::Cached),
            0.05 + 0.2 + 0.01,
        );
        close(
            predict(Strategy::Readahead, CacheState::Cold),
            0.05 + 0.2 + 0.1 + 0.5,
        );
        close(predict(Strategy::Direct, CacheState::Cold), 0.1 + 0.9);
        close(predict(Strategy::Direct, CacheState::Cached), 0.1 + 0.9);
        assert_eq!(
            predict(Strategy::Populate, CacheState::Cached),
            None,
            "not measured"
        );
    }

    #[test]
    fn costs_of_other_types_count_unless_hidden_by_the_disk() {
        let volume = volume();
        let predict = |strategy, state| volume.predict(strategy, state, 1e9, DType::F64);
        close(predict(Strategy::Read, CacheState::Cached), 0.3 + 0.4);
        close(predict(Strategy::Mmap, CacheState::Mapped), 0.9);
        close(predict(Strategy::Mmap, CacheState::Cached), 0.9 + 0.01);
        // 0.3 more per byte during a wait of 1.0; 0.7 during one of 0.5.
        close(predict(Strategy::Read, CacheState::Cold), 0.3 + 0.1 + 1.0);
        close(
            predict(Strategy::Readahead, CacheState::Cold),
            0.05 + 0.2 + 0.1 + 0.5 + (0.7 - 0.5),
        );
        let unknown = volume.predict(Strategy::Read, CacheState::Cached, 1e9, DType::C64);
        assert_eq!(unknown, None);
    }

    #[test]
    fn a_partly_cached_scan_is_predicted_as_such() {
        let half = Amount {
            bytes: 2e9,
            cached: Some(0.5),
            dtype: DType::I16,
        };
        close(volume().predict_now(Strategy::Read, half), 0.4 + 1.4);
        let unknown = Amount {
            cached: None,
            ..half
        };
        assert_eq!(volume().predict_now(Strategy::Read, unknown), None);
    }

    #[test]
    fn the_best_strategy_is_faster_by_more_than_both_spreads() {
        let cold = Amount {
            bytes: 1e9,
            cached: Some(0.0),
            dtype: DType::I16,
        };
        let warm = Amount {
            cached: Some(1.0),
            ..cold
        };
        let any = |_| true;
        let mut volume = volume();
        assert_eq!(volume.best(cold, any), Some(Strategy::Readahead));
        assert_eq!(volume.best(warm, any), Some(Strategy::Mmap));
        // Overlapping figures do not decide.
        for path in volume.paths.values_mut() {
            if let Some(cold) = &mut path.cold {
                cold.wait.high *= 10.0;
                cold.wait.low /= 10.0;
            }
        }
        assert_eq!(volume.best(cold, any), Some(Strategy::Mmap));
        // Without cold measurements, nothing is predicted for uncached samples.
        volume.paths.values_mut().for_each(|path| path.cold = None);
        assert_eq!(volume.best(cold, any), None);
        assert_eq!(volume.best(warm, any), Some(Strategy::Mmap));
    }
}
