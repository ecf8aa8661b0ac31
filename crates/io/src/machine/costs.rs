//! Costs of system calls, copies and page faults, derived from scans that were timed.
//!
//! As the paper does in 5.3.4: a scan's time is split into its *outer* part, in which samples are asked for (a copy, a
//! request to the system), and its *inner* part, in which they are summarised and pages are faulted in. The inner part of
//! a scan that copies is summarising alone; what the inner part of a scan over mapped pages takes beyond summarising is
//! its page faults.

use serde::{Deserialize, Serialize};

use super::spread::Spread;
use crate::strategy::Strategy;

/// Where samples are before a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// On the disk only.
    Cold,
    /// In the page cache, where this process has not looked.
    Cached,
    /// In the page tables of this process, too.
    Mapped,
}

/// A scan that was timed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// How it read.
    pub strategy: Strategy,
    /// Where samples were.
    pub state: State,
    /// How many bytes of samples.
    pub bytes: f64,
    /// Seconds in which samples were asked for.
    pub outer: f64,
    /// Seconds in which they were summarised, page faults included.
    pub inner: f64,
    /// Minor page faults.
    pub minor: f64,
    /// Major page faults, for which a disk was waited.
    pub major: f64,
}

impl Trial {
    /// Seconds in all.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.outer + self.inner
    }
}

/// What does not depend on the disk. Seconds and seconds a byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Summarising a byte (16-bit samples) that is in the processor's cache.
    pub summarise: Spread,
    /// Summarising a byte that is mapped: memory bandwidth, mostly.
    pub summarise_mapped: Spread,
    /// A minor page fault; None where none was counted.
    pub minor_fault: Option<Spread>,
    /// The same a page of memory, since one fault maps many.
    pub page: Option<Spread>,
}

/// What a strategy costs from a disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Seconds a byte in which samples are asked for that are cached: the copy, or the advice.
    pub ask: Option<Spread>,
    /// Bytes that a minor fault maps of what is cached; None: there is no fault.
    pub fault_bytes: Option<Spread>,
    /// From the disk; None if what is cached could not be dropped.
    pub cold: Option<Cold>,
}

/// What a strategy costs where samples are on the disk only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cold {
    /// Seconds a byte that asking, summarising and minor faults do not explain: waiting for the disk.
    pub wait: Spread,
    /// Bytes that a minor fault maps of what was read so; None: there is no fault.
    pub fault_bytes: Option<Spread>,
    /// Bytes a second, all in all.
    pub throughput: Spread,
    /// Bytes from one major fault to the next; None: there was none.
    pub major_bytes: Option<Spread>,
}

fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    Spread::of(values.collect())
}

/// Bytes a fault; None unless faults were counted in each trial.
fn bytes_each(trials: &[&Trial], count: impl Fn(&Trial) -> f64) -> Option<Spread> {
    if trials.iter().any(|trial| count(trial) < 1.0) {
        return None;
    }
    spread(trials.iter().map(|trial| trial.bytes / count(trial)))
}

fn of(trials: &[Trial], strategy: Strategy, state: State) -> Vec<&Trial> {
    let is = |trial: &&Trial| trial.strategy == strategy && trial.state == state;
    trials.iter().filter(is).collect()
}

impl Costs {
    /// From trials of `read` and `mmap` over what is cached, and of `mmap` over what is mapped; None if one of them is
    /// missing. `page` is the size of a page of memory.
    #[must_use]
    pub fn derive(trials: &[Trial], page: f64) -> Option<Self> {
        let copied = of(trials, Strategy::Read, State::Cached);
        let mapped = of(trials, Strategy::Mmap, State::Mapped);
        let faulted = of(trials, Strategy::Mmap, State::Cached);
        let summarise = spread(copied.iter().map(|one| one.inner / one.bytes))?;
        let summarise_mapped = spread(mapped.iter().map(|one| one.total() / one.bytes))?;
        spread(faulted.iter().map(|one| one.total()))?;
        // What a scan over pages that are not mapped takes more, by pairs of one repetition.
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

    /// Seconds a byte that touching takes: where it lies in a buffer that was just filled, and where it is mapped.
    #[must_use]
    pub fn touch(&self, strategy: Strategy) -> Spread {
        match strategy.copies() {
            true => self.summarise,
            false => self.summarise_mapped,
        }
    }

    /// Seconds a byte for minor faults of so many bytes each.
    #[must_use]
    pub fn faults(&self, fault_bytes: Option<Spread>) -> Spread {
        match (self.minor_fault, fault_bytes) {
            (Some(fault), Some(bytes)) => fault.map(|fault| fault / bytes.median.max(1.0)),
            _ => Spread::exact(0.0),
        }
    }
}

impl Path {
    /// What the trials of a strategy tell, given the costs that do not depend on it.
    #[must_use]
    pub fn derive(trials: &[Trial], strategy: Strategy, costs: &Costs) -> Self {
        let cached = of(trials, strategy, State::Cached);
        let cold = of(trials, strategy, State::Cold);
        let ask = spread(cached.iter().map(|one| one.outer / one.bytes));
        let fault_bytes = match strategy.copies() {
            true => None,
            false => bytes_each(&cached, |one| one.minor),
        };
        let touch = costs.touch(strategy).median;
        // Past the page cache there is nothing but the disk.
        let known = ask.map_or(0.0, |ask| ask.median) + touch;
        let cold = spread(cold.iter().map(|one| one.bytes / one.total())).map(|throughput| {
            let fault_bytes = match strategy.copies() {
                true => None,
                false => bytes_each(&cold, |one| one.minor),
            };
            let faults = costs.faults(fault_bytes).median;
            let waited = |one: &&Trial| (one.total() / one.bytes - known - faults).max(0.0);
            Cold {
                // There is one for each throughput.
                wait: spread(cold.iter().map(waited)).unwrap_or(Spread::exact(0.0)),
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

    /// Seconds that a major page fault takes, from scans of `mmap` over what is on the disk, as the paper derives it: the
    /// time that is not explained otherwise, over the faults. None where faults are too few to carry it, which is so where
    /// the kernel reads ahead of the faults: then the wait is for pages on their way, and counts as minor faults.
    #[must_use]
    pub fn major_fault(&self) -> Option<Spread> {
        let cold = self.cold?;
        let bytes = cold.major_bytes?.median;
        (bytes <= MAJOR_BYTES).then(|| cold.wait.map(|wait| wait * bytes))
    }
}

/// Most bytes between major faults that still explain the time of a scan.
const MAJOR_BYTES: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's figures: table 5.2 and 5.3, of 3,947,364,352 bytes.
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
            // Reading takes 5.97 s inside; what is read ahead has reclaims only: 17.25 s for 963,712 of them.
            trial(Strategy::Read, State::Cached, 0.0, 5.97, 0.0, 0.0),
            trial(Strategy::Mmap, State::Mapped, 0.0, 5.97, 0.0, 0.0),
            trial(Strategy::Mmap, State::Cached, 0.0, 17.25, 963_712.0, 0.0),
            trial(Strategy::Mmap, State::Cold, 0.0, 44.42, 903_481.0, 60_231.0),
        ]
    }

    #[test]
    fn the_papers_measurements_give_the_papers_costs() {
        let trials = paper();
        let costs = Costs::derive(&trials, 4096.0).unwrap();
        let reclaim = costs.minor_fault.unwrap().median;
        assert!((reclaim - 11.7e-6).abs() < 0.05e-6, "{reclaim}");
        // One reclaim a page, then.
        assert!((costs.page.unwrap().median - reclaim).abs() < 1e-12);
        let path = Path::derive(&trials, Strategy::Mmap, &costs);
        let fault = path.major_fault().unwrap().median;
        assert!((fault - 0.46e-3).abs() < 0.005e-3, "{fault}");
    }

    #[test]
    fn faults_that_are_too_few_carry_no_time() {
        let mut trials = paper();
        trials[3].major = 1.0;
        let costs = Costs::derive(&trials, 4096.0).unwrap();
        let path = Path::derive(&trials, Strategy::Mmap, &costs);
        assert_eq!(path.major_fault(), None);
        assert!(path.cold.unwrap().wait.median > 0.0);
    }

    #[test]
    fn without_trials_nothing_is_derived() {
        assert_eq!(Costs::derive(&[], 4096.0), None);
        let costs = Costs::derive(&paper(), 4096.0).unwrap();
        let path = Path::derive(&paper(), Strategy::Populate, &costs);
        assert_eq!((path.ask, path.cold), (None, None));
        assert_eq!(path.major_fault(), None);
    }

    #[test]
    fn a_copy_is_what_asking_takes() {
        let bytes = 1e9;
        let read = Trial {
            strategy: Strategy::Read,
            state: State::Cached,
            bytes,
            outer: 0.15,
            inner: 0.03,
            minor: 5.0,
            major: 0.0,
        };
        let mapped = Trial {
            strategy: Strategy::Mmap,
            state: State::Mapped,
            outer: 0.0,
            inner: 0.08,
            ..read
        };
        let cached = Trial {
            state: State::Cached,
            inner: 0.09,
            minor: 500.0,
            ..mapped
        };
        let cold = Trial {
            state: State::Cold,
            outer: 0.65,
            ..read
        };
        let trials = [read, mapped, cached, cold];
        let costs = Costs::derive(&trials, 4096.0).unwrap();
        assert!((costs.minor_fault.unwrap().median - 0.01 / 500.0).abs() < 1e-12);
        let path = Path::derive(&trials, Strategy::Read, &costs);
        assert!((path.ask.unwrap().median - 0.15e-9).abs() < 1e-18);
        assert_eq!(path.fault_bytes, None);
        assert!((path.cold.unwrap().wait.median - 0.5e-9).abs() < 1e-15);
    }
}
