//! Queueing models of one server.
//!
//! [`Queue`] has an unbounded buffer, [`FiniteQueue`] room for a number of items. Arrivals and service have a mean and
//! a squared coefficient of variation (*scv*: variance over squared mean; 0 for constant, 1 for exponential times).
//!
//! | model | arrivals | service | waits and lengths | probabilities, blocking, throughput |
//! |---|---|---|---|---|
//! | M/M/1 | Poisson | exponential | exact | exact |
//! | M/D/1 | Poisson | constant | exact | exact |
//! | M/G/1 | Poisson | any | exact: Pollaczek-Khinchine | exact for gamma-distributed service, else an approximation |
//! | G/G/1 | any | any | approximation: Kingman; Allen and Cunneen | approximation: Buzacott and Shanthikumar |
//!
//! # Error of the approximation with a finite buffer
//!
//! Largest error of [`FiniteQueue::throughput`] in percent over utilizations 0.5, 0.8, 0.95 and 1.25, against a
//! simulation; positive: the model promises too much. *Lost*: arrivals at a full queue are turned away. *Waits*: the
//! producer keeps its finished item until one of `K - 2` slots is free. Distributions: constant (scv 0), Erlang (0.25),
//! exponential (1), hyperexponential with balanced means (4).
//!
//! | arrival scv | service scv | lost, K=2 | K=5 | K=10 | waits, K=2 | K=5 | K=10 |
//! |---|---|---|---|---|---|---|---|
//! | 1 | 0.25 | 0 | 0 | 0 | 0 | 0 | 0 |
//! | 1 | 4 | -6 | -4 | -2 | -5 | -4 | -2 |
//! | 0.25 | 0.25 | -4 | -1 | 0 | 5 | 0 | 0 |
//! | 0.25 | 1 | -6 | -1 | 0 | -2 | -1 | 0 |
//! | 4 | 1 | 6 | 3 | 1 | -7 | -5 | -2 |
//! | 4 | 4 | 2 | -3 | -2 | -8 | -7 | -4 |
//! | 0 | 1 | -7 | -1 | 0 | -3 | -1 | 0 |
//! | 0.25 | 0 | -3 | 0 | 0 | 6 | 0 | 0 |
//! | 4 | 0.25 | 5 | -2 | -1 | -10 | -6 | -2 |
//!
//! Larger errors are on the safe side, except for `K = 2` and for bursty arrivals that are lost. At `K = 10` no error
//! exceeds 4 %.

mod embedded;
mod finite;

pub use finite::FiniteQueue;

use serde::{Deserialize, Serialize};

use crate::TuneError;
use embedded::DepartureChain;

/// Largest utilization; beyond it the server is never idle.
pub const MAX_UTILIZATION: f64 = 100.0;

/// Largest scv; beyond it two moments say little.
pub const MAX_SCV: f64 = 100.0;

/// Largest capacity tried by [`Queue::smallest_capacity`].
pub const MAX_CAPACITY: usize = 1 << 16;

/// A server with an unbounded first-come first-served buffer.
///
/// ```
/// use isochrony_tune::Queue;
///
/// let queue = Queue::mm1(80.0, 0.010)?;
/// assert!((queue.utilization() - 0.8).abs() < 1e-12);
/// assert!((queue.mean_wait()? - 0.040).abs() < 1e-12);
/// assert!((queue.mean_queue_length()? - 3.2).abs() < 1e-12);
/// // Constant service halves the wait.
/// assert!((Queue::md1(80.0, 0.010)?.mean_wait()? - 0.020).abs() < 1e-12);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    arrival_rate: f64,
    service_time: f64,
    arrival_scv: f64,
    service_scv: f64,
}

impl Queue {
    /// M/M/1: Poisson arrivals, exponential service.
    ///
    /// `arrival_rate` is in items per second, `service_time` in seconds; both finite and above 0, their product at most
    /// [`MAX_UTILIZATION`].
    ///
    /// # Errors
    ///
    /// [`TuneError::Parameter`].
    pub fn mm1(arrival_rate: f64, service_time: f64) -> Result<Self, TuneError> {
        Self::gg1(arrival_rate, service_time, 1.0, 1.0)
    }

    /// M/D/1: Poisson arrivals, constant service. Otherwise as [`mm1`](Self::mm1).
    pub fn md1(arrival_rate: f64, service_time: f64) -> Result<Self, TuneError> {
        Self::gg1(arrival_rate, service_time, 1.0, 0.0)
    }

    /// M/G/1: Poisson arrivals, any service; `service_scv` is 0 to [`MAX_SCV`]. Otherwise as [`mm1`](Self::mm1).
    pub fn mg1(arrival_rate: f64, service_time: f64, service_scv: f64) -> Result<Self, TuneError> {
        Self::gg1(arrival_rate, service_time, 1.0, service_scv)
    }

    /// G/G/1: independent inter-arrival and service times, scv 0 to [`MAX_SCV`]. An `arrival_scv` of 1 means Poisson
    /// arrivals. Otherwise as [`mm1`](Self::mm1).
    pub fn gg1(
        arrival_rate: f64,
        service_time: f64,
        arrival_scv: f64,
        service_scv: f64,
    ) -> Result<Self, TuneError> {
        for (field, value) in [
            ("arrival_rate", arrival_rate),
            ("service_time", service_time),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(TuneError::parameter(field, value, "finite and above 0"));
            }
        }
        let utilization = arrival_rate * service_time;
        if !(utilization > 0.0 && utilization <= MAX_UTILIZATION) {
            let allowed = "above 0 and at most 100: a server as busy as that is never idle";
            return Err(TuneError::parameter(
                "arrival_rate * service_time",
                utilization,
                allowed,
            ));
        }
        for (field, value) in [("arrival_scv", arrival_scv), ("service_scv", service_scv)] {
            if !(0.0..=MAX_SCV).contains(&value) {
                return Err(TuneError::parameter(field, value, "0 to 100"));
            }
        }
        Ok(Self {
            arrival_rate,
            service_time,
            arrival_scv,
            service_scv,
        })
    }

    /// Arrival rate times service time: the busy share, if below 1.
    pub fn utilization(&self) -> f64 {
        self.arrival_rate * self.service_time
    }

    /// Mean seconds an item waits before service.
    ///
    /// `ρ / (1 - ρ) · (arrival_scv + service_scv) / 2 · service_time` with utilization ρ. Poisson arrivals: exact
    /// (Pollaczek and Khinchine; Kleinrock, Queueing Systems I, 1975, section 5.6). Else the approximation of Kingman
    /// (1961) and of Allen and Cunneen (Allen, Probability, Statistics and Queueing Theory, 1990), exact as ρ goes to 1
    /// and mostly too high for steadier arrivals.
    ///
    /// # Errors
    ///
    /// [`TuneError::Unstable`] for a utilization from 1.
    pub fn mean_wait(&self) -> Result<f64, TuneError> {
        let load = self.stable_load()?;
        Ok(load / (1.0 - load) * self.variability() * self.service_time)
    }

    /// Mean items waiting (Little's law).
    ///
    /// # Errors
    ///
    /// As for [`mean_wait`](Self::mean_wait).
    pub fn mean_queue_length(&self) -> Result<f64, TuneError> {
        Ok(self.mean_wait()? * self.arrival_rate)
    }

    /// Mean items waiting or in service.
    ///
    /// # Errors
    ///
    /// As for [`mean_wait`](Self::mean_wait).
    pub fn mean_items(&self) -> Result<f64, TuneError> {
        Ok(self.mean_queue_length()? + self.utilization())
    }

    /// Probability of `items` waiting or in service; takes time up to `items` squared for M/G/1.
    ///
    /// M/M/1: `(1 - ρ) ρ^n`. Other Poisson arrivals: the chain at departures, exact for constant and gamma-distributed
    /// service. Else geometric above 0, with the idle share and [`mean_items`](Self::mean_items) (Buzacott and
    /// Shanthikumar, Stochastic Models of Manufacturing Systems, 1993).
    ///
    /// # Errors
    ///
    /// As for [`mean_wait`](Self::mean_wait); [`TuneError::Parameter`] for `items` above [`MAX_CAPACITY`].
    ///
    /// ```
    /// use isochrony_tune::Queue;
    ///
    /// let queue = Queue::mm1(50.0, 0.010)?;
    /// assert!((queue.probability(3)? - 0.0625).abs() < 1e-15);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn probability(&self, items: usize) -> Result<f64, TuneError> {
        let load = self.stable_load()?;
        if items > MAX_CAPACITY {
            return Err(TuneError::parameter("items", items, "at most 65536"));
        }
        if self.is_poisson() && self.service_scv != 1.0 {
            let mut chain = DepartureChain::new(load, self.service_scv);
            while chain.len() <= items {
                chain.push();
            }
            return Ok((1.0 - load) * chain.ratio(items));
        }
        let decay = 1.0 - self.one_less_decay(load);
        Ok(match items {
            0 => 1.0 - load,
            _ => load * (1.0 - decay) * decay.powi(items as i32 - 1),
        })
    }

    /// Probability of `items` waiting. Errors as for [`probability`](Self::probability).
    pub fn probability_waiting(&self, items: usize) -> Result<f64, TuneError> {
        match items {
            0 => Ok(self.probability(0)? + self.probability(1)?),
            _ => self.probability(items + 1),
        }
    }

    /// This queue with room for `capacity` items, with the one in service.
    ///
    /// Has a steady state at every utilization. `capacity` is at least 1, or 2 for non-Poisson arrivals, and at most
    /// [`MAX_CAPACITY`].
    ///
    /// # Errors
    ///
    /// [`TuneError::Parameter`] for `capacity`.
    ///
    /// ```
    /// use isochrony_tune::Queue;
    ///
    /// let queue = Queue::mm1(100.0, 0.010)?.with_capacity(4)?;
    /// assert!((queue.blocking_probability() - 0.2).abs() < 1e-12);
    /// assert!((queue.throughput() - 80.0).abs() < 1e-9);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn with_capacity(&self, capacity: usize) -> Result<FiniteQueue, TuneError> {
        FiniteQueue::new(*self, capacity)
    }

    /// The smallest capacity, including the item in service, with at least `fraction` of the unbounded throughput;
    /// `fraction` is above 0 and below 1.
    ///
    /// The unbounded throughput is the lower of arrival and service rate. A buffer needs one slot less than the
    /// capacity, two less if the producer holds a finished item while it waits.
    ///
    /// # Errors
    ///
    /// [`TuneError::Parameter`] for `fraction`, [`TuneError::BufferTooLarge`] above [`MAX_CAPACITY`].
    ///
    /// ```
    /// use isochrony_tune::Queue;
    ///
    /// // Throughput with room for K items is K / (K + 1) of the rate where both rates are equal.
    /// assert_eq!(Queue::mm1(100.0, 0.010)?.smallest_capacity(0.95)?, 19);
    /// // Constant service needs little more than half of that.
    /// assert_eq!(Queue::md1(100.0, 0.010)?.smallest_capacity(0.95)?, 11);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn smallest_capacity(&self, fraction: f64) -> Result<usize, TuneError> {
        finite::smallest_capacity(self, fraction)
    }

    fn is_poisson(&self) -> bool {
        self.arrival_scv == 1.0
    }

    /// Mean of both scv; 1 for M/M/1.
    fn variability(&self) -> f64 {
        (self.arrival_scv + self.service_scv) / 2.0
    }

    /// 1 minus the geometric ratio: load over mean items.
    fn one_less_decay(&self, load: f64) -> f64 {
        (1.0 - load) / (1.0 - load + load * self.variability())
    }

    fn stable_load(&self) -> Result<f64, TuneError> {
        let utilization = self.utilization();
        match utilization < 1.0 {
            true => Ok(utilization),
            false => Err(TuneError::Unstable { utilization }),
        }
    }
}
