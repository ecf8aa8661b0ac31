//! Derives costs of copies, requests and page faults from timed scans.
//!
//! As in 5.3.4 of the paper, a scan has an *outer* part, which requests samples (copies, system calls), and an *inner*
//! part, which summarises them and, if mapped, faults pages in.

use serde::{Deserialize, Serialize};

use super::quartiles::Quartiles;
use crate::strategy::Strategy;

/// State of samples before a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// On disk only.
    Cold,
    /// In the page cache, not mapped.
    Cached,
    /// Mapped by this process.
    Mapped,
}

/// A timed scan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Its strategy.
    pub strategy: Strategy,
    /// State of the samples before.
    pub state: CacheState,
    /// Bytes of samples.
    pub bytes: f64,
    /// Seconds requesting samples.
    pub outer: f64,
    /// Seconds of summarising and page faults.
    pub inner: f64,
    /// Minor page faults.
    pub minor: f64,
    /// Major page faults, which wait for the disk.
    pub major: f64,
}

impl Trial {
    /// Total seconds.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.outer + self.inner
    }
}

/// Disk-independent costs, in seconds and seconds per byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Summarising a byte (of 16-bit samples) in the CPU cache.
    pub summarise: Quartiles,
    /// Summarising a mapped byte: mostly memory bandwidth.
    pub summarise_mapped: Quartiles,
    /// A minor page fault, if any.
    pub minor_fault: Option<Quartiles>,
    /// The same per page: one fault maps several.
    pub page: Option<Quartiles>,
}

/// Costs of a strategy on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StrategyCosts {
    /// Seconds per cached byte of requesting: copy, or advice.
    pub ask: Option<Quartiles>,
    /// Cached bytes per minor fault, if any.
    pub fault_bytes: Option<Quartiles>,
    /// Costs of uncached samples, if the cache could be dropped.
    pub cold: Option<ColdCosts>,
}

/// Costs of samples on disk only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ColdCosts {
    /// Seconds per byte of waiting, beyond other costs.
    pub wait: Quartiles,
    /// Bytes that a minor fault maps right after reading, if any.
    pub fault_bytes: Option<Quartiles>,
    /// Total bytes per second.
    pub throughput: Quartiles,
    /// Bytes per major fault, if any.
    pub major_bytes: Option<Quartiles>,
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Quartiles> {
    Quartiles::of(values.collect())
}

fn bytes_each(trials: &[&Trial], count: impl Fn(&Trial) -> f64) -> Option<Quartiles> {
    if trials.iter().any(|trial| count(trial) < 1.0) {
        return None;
    }
    spread(trials.iter().map(|trial| trial.bytes / count(trial)))
}

fn of(trials: &[Trial], strategy: Strategy, state: CacheState) -> Vec<&Trial> {
    let is = |trial: &&Trial| trial.strategy == strategy && trial.state == state;
    trials.iter().filter(is).collect()
}

impl Costs {
    /// From trials of `read` and `mmap` over cached samples, and of `mmap` over mapped ones; None if one is missing.
    /// `page`: bytes per memory page.
    #[must_use]
    pub fn derive(trials: &[Trial], page: f64) -> Option<Self> {
        let copied = of(trials, Strategy::Read, CacheState::Cached);
        let mapped = of(trials, Strategy::Mmap, CacheState::Mapped);
        let faulted = of(trials, Strategy::Mmap, CacheState::Cached);
        let summarise = spread(copied.iter().map(|one| one.inner / one.bytes))?;
        let summarise_mapped = spread(mapped.iter().map(|one| one.total() / one.bytes))?;
        spread(faulted.iter().map(|one| one.total()))?;
        // Cost of unmapped pages, by pairs of a repetition.
        let more = || {
            let pairs = faulted.iter().zip(&mapped);
            pairs.map(|(first, again)| ((first.total() - again.total()).max(0.0), first))
        };
        let counted = faulted.len() == mapped.len() && faulted.iter().all(|one| one.minor >= 1.0);
        Some(Self {
            summarise,
            summarise_mapped,
            minor_fault: spread(more().map(|(more, one)| more / one.minor)).filter(|_| counted),
            page: spread(more().map(|(more, one)| more / (one.bytes / page))).filter(|_| counted),
        })
    }

    /// Seconds per byte of access: just copied, or mapped.
    #[must_use]
    pub fn touch(&self, strategy: Strategy) -> Quartiles {
        match strategy.copies() {
            true => self.summarise,
            false => self.summarise_mapped,
        }
    }

    /// Seconds per byte of minor faults of this size.
    #[must_use]
    pub fn faults(&self, fault_bytes: Option<Quartiles>) -> Quartiles {
        match (self.minor_fault, fault_bytes) {
            (Some(fault), Some(bytes)) => fault.map(|fault| fault / bytes.median.max(1.0)),
            _ => Quartiles::exact(0.0),
        }
    }
}

impl StrategyCosts {
    /// From its trials and the strategy-independent costs.
    #[must_use]
    pub fn derive(trials: &[Trial], strategy: Strategy, costs: &Costs) -> Self {
        let cached = of(trials, strategy, CacheState::Cached);
        let cold = of(trials, strategy, CacheState::Cold);
        let ask = spread(cached.iter().map(|one| one.outer / one.bytes));
        let fault_bytes = match strategy.copies() {
            true => None,
            false => bytes_each(&cached, |one| one.minor),
        };
        let touch = costs.touch(strategy).median;
        // `direct` has no cached trial.
        let known = ask.map_or(0.0, |ask| ask.median) + touch;
        let cold = spread(cold.iter().map(|one| one.bytes / one.total())).map(|throughput| {
            let fault_bytes = match strategy.copies() {
                true => None,
                false => bytes_each(&cold, |one| one.minor),
            };
            let faults = costs.faults(fault_bytes).median;
            let waited = |one: &&Trial| (one.total() / one.bytes - known - faults).max(0.0);
            ColdCosts {
                wait: spread(cold.iter().map(waited)).unwrap_or(Quartiles::exact(0.0)),
                fault_bytes,
                throughput,
                major_bytes: bytes_each(&cold, |one| one.major),
            }
        });
        Self {
            ask,
            fault_bytes,
            cold,
        }
    }

    /// Seconds of a major page fault, from cold scans by `mmap`, as in the paper: unexplained time over faults. None if
    /// faults are few: with kernel read-ahead, waits for pages in flight count as minor faults.
    #[must_use]
    pub fn major_fault(&self) -> Option<Quartiles> {
        let cold = self.cold?;
        let bytes = cold.major_bytes?.median;
        (bytes <= MAX_BYTES_PER_FAULT).then(|| cold.wait.map(|wait| wait * bytes))
    }
}

/// Beyond it, major faults do not explain the time of a scan.
const MAX_BYTES_PER_FAULT: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables 5.2 and 5.3 of the paper.
    fn paper() -> Vec<Trial> {
        let bytes = 3_947_364_352.0;
        let trial = |strategy, state, outer, inner, minor, major| Trial {
            strategy,
            state,
            bytes,
            outer,
            inner,
            minor,
            major,
        };
        vec![
            // Reading takes 5.97 s in the inner part; read-ahead has 963,712 reclaims in 17.25 s.
            trial(Strategy::Read, CacheState::Cached, 0.0, 5.97, 0.0, 0.0),
            trial(Strategy::Mmap, CacheState::Mapped, 0.0, 5.97, 0.0, 0.0),
            trial(
                Strategy::Mmap,
                CacheState::Cached,
                0.0,
                17.25,
                963_712.0,
                0.0,
            ),
            trial(
                Strategy::Mmap,
                CacheState::Cold,
                0.0,
                44.42,
                903_481.0,
                60_231.0,
            ),
        ]
    }

    #[test]
    fn the_papers_measurements_give_the_papers_costs() {
        let trials = paper();
        let costs = Costs::derive(&trials, 4096.0).unwrap();
        let reclaim = costs.minor_fault.unwrap().median;
        assert!((reclaim - 11.7e-6).abs() < 0.05e-6, "{reclaim}");
        assert!((costs.page.unwrap().median - reclaim).abs() < 1e-12);
        let path = StrategyCosts::derive(&trials, Strategy::Mmap, &costs);
        let fault = path.major_fault().unwrap().median;
        assert!((fault - 0.46e-3).abs() < 0.005e-3, "{fault}");
    }

    #[test]
    fn too_few_faults_give_no_fault_cost() {
        let mut trials = paper();
        trials[3].major = 1.0;
        let costs = Costs::derive(&trials, 4096.0).unwrap();
        let path = StrategyCosts::derive(&trials, Strategy::Mmap, &costs);
        assert_eq!(path.major_fault(), None);
        assert!(path.cold.unwrap().wait.median > 0.0);
    }

    #[test]
    fn without_trials_nothing_is_derived() {
        assert_eq!(Costs::derive(&[], 4096.0), None);
        let costs = Costs::derive(&paper(), 4096.0).unwrap();
        let path = StrategyCosts::derive(&paper(), Strategy::Populate, &costs);
        assert_eq!((path.ask, path.cold), (None, None));
        assert_eq!(path.major_fault(), None);
    }

    #[test]
    fn request_cost_is_the_time_of_the_copy() {
        let bytes = 1e9;
        let read = Trial {
            strategy: Strategy::Read,
            state: CacheState::Cached,
            bytes,
            outer: 0.15,
            inner: 0.03,
            minor: 5.0,
            major: 0.0,
        };
        let mapped = Trial {
            strategy: Strategy::Mmap,
            state: CacheState::Mapped,
            outer: 0.0,
            inner: 0.08,
            ..read
        };
        let cached = Trial {
            state: CacheState::Cached,
            inner: 0.09,
            minor: 500.0,
            ..mapped
        };
        let cold = Trial {
            state: CacheState::Cold,
            outer: 0.65,
            ..read
        };
        let trials = [read, mapped, cached, cold];
        let costs = Costs::derive(&trials, 4096.0).unwrap();
        assert!((costs.minor_fault.unwrap().median - 0.01 / 500.0).abs() < 1e-12);
        let path = StrategyCosts::derive(&trials, Strategy::Read, &costs);
        assert!((path.ask.unwrap().median - 0.15e-9).abs() < 1e-18);
        assert_eq!(path.fault_bytes, None);
        assert!((path.cold.unwrap().wait.median - 0.5e-9).abs() < 1e-15);
    }
}
