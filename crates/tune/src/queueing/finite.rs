//! Queues of bounded capacity.

use super::{DepartureChain, MAX_CAPACITY, Queue};
use crate::TuneError;

/// A queue of bounded capacity, in steady state.
///
/// Arrivals at a full queue are lost. A waiting Poisson producer gives the same throughput; for others see the table of
/// [`queueing`](crate::queueing).
///
/// M/M/1/K: `p(n) ∝ ρ^n`. Other Poisson arrivals: the chain at departures (Tijms, A First Course in Stochastic Models,
/// 2003, chapter 9), exact for constant and gamma-distributed service. Else the approximation of Buzacott and
/// Shanthikumar (Stochastic Models of Manufacturing Systems, 1993): geometric between the ends with the ratio σ of the
/// unbounded queue, and `p(0) = (1 - ρ) / (1 - ρ² σ^(K-1))`; above utilization 1 with producer and server exchanged, so
/// that free slots are the items.
///
/// ```
/// use isochrony_tune::Queue;
///
/// // Bursty arrivals, steady service, a buffer of 7 slots and the item in service.
/// let queue = Queue::gg1(80.0, 0.010, 4.0, 0.25)?.with_capacity(8)?;
/// assert!(queue.throughput() > 70.0 && queue.throughput() < 80.0);
/// let lost = 80.0 * queue.blocking_probability();
/// assert!((queue.throughput() + lost - 80.0).abs() < 1e-9);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FiniteQueue {
    queue: Queue,
    probabilities: Vec<f64>,
}

impl FiniteQueue {
    pub(super) fn new(queue: Queue, capacity: usize) -> Result<Self, TuneError> {
        let smallest = smallest_legal(&queue);
        if !(smallest..=MAX_CAPACITY).contains(&capacity) {
            let allowed = match smallest {
                1 => "1 to 65536",
                _ => "2 to 65536 for arrivals other than Poisson",
            };
            return Err(TuneError::parameter("capacity", capacity, allowed));
        }
        let probabilities = match queue.is_poisson() && queue.service_scv != 1.0 {
            true => departure_probabilities(&queue, capacity),
            false => geometric_probabilities(&queue, capacity),
        };
        Ok(Self {
            queue,
            probabilities,
        })
    }

    /// Maximum items waiting or in service.
    pub fn capacity(&self) -> usize {
        self.probabilities.len() - 1
    }

    /// Probability of `items` waiting or in service; 0 above the capacity.
    pub fn probability(&self, items: usize) -> f64 {
        self.probabilities.get(items).copied().unwrap_or(0.0)
    }

    /// Probability of `items` waiting; 0 above the capacity.
    pub fn probability_waiting(&self, items: usize) -> f64 {
        match items {
            0 => self.probability(0) + self.probability(1),
            _ => self.probability(items.saturating_add(1)),
        }
    }

    /// Share of arrivals lost.
    pub fn blocking_probability(&self) -> f64 {
        self.probability(self.capacity())
    }

    /// Served items per second.
    pub fn throughput(&self) -> f64 {
        // From the server's side: from the arrivals', rounding could exceed the service rate at a high load.
        (1.0 - self.probability(0)) / self.queue.service_time
    }

    /// Mean items waiting or in service.
    pub fn mean_items(&self) -> f64 {
        let pairs = self.probabilities.iter().enumerate();
        pairs.map(|(items, share)| items as f64 * share).sum()
    }

    /// Mean items waiting.
    pub fn mean_queue_length(&self) -> f64 {
        let pairs = self.probabilities.iter().skip(1).enumerate();
        pairs.map(|(waiting, share)| waiting as f64 * share).sum()
    }

    /// Mean seconds an admitted item waits.
    pub fn mean_wait(&self) -> f64 {
        self.mean_queue_length() / self.throughput()
    }
}

/// The approximation for general arrivals needs a place to wait.
fn smallest_legal(queue: &Queue) -> usize {
    if queue.is_poisson() { 1 } else { 2 }
}

/// Converts those at departures: arrivals see probabilities over time (PASTA), less lost ones.
fn departure_probabilities(queue: &Queue, capacity: usize) -> Vec<f64> {
    let load = queue.utilization();
    let mut chain = DepartureChain::new(load, queue.service_scv);
    while chain.len() < capacity {
        chain.push();
    }
    let scale = chain.empty() + load;
    let mut shares: Vec<f64> = (0..capacity)
        .map(|items| chain.probability(items) / scale)
        .collect();
    shares.push((1.0 - 1.0 / scale).max(0.0));
    shares
}

fn geometric_probabilities(queue: &Queue, capacity: usize) -> Vec<f64> {
    let (line, exchanged) = GeometricLine::of(queue);
    let mut shares = vec![line.empty(capacity)];
    let mut share = line.single(capacity);
    for _ in 1..capacity {
        shares.push(share);
        share *= line.decay;
    }
    shares.push(line.full(capacity));
    if exchanged {
        shares.reverse();
    }
    shares
}

/// For a load of at most 1; symmetric in producer and server except for the load.
struct GeometricLine {
    load: f64,
    variability: f64,
    decay: f64,
}

impl GeometricLine {
    /// Also whether producer and server are exchanged.
    fn of(queue: &Queue) -> (Self, bool) {
        let offered = queue.utilization();
        let exchanged = offered > 1.0;
        let load = if exchanged { 1.0 / offered } else { offered };
        let line = Self {
            load,
            variability: queue.variability(),
            decay: 1.0 - queue.one_less_decay(load),
        };
        (line, exchanged)
    }

    /// `p(0) = (1 - ρ) / (1 - ρ² σ^(K-1))`.
    fn empty(&self, capacity: usize) -> f64 {
        let steps = (capacity - 1) as f64;
        let missing = 1.0 - self.load;
        if missing == 0.0 {
            // Limit of the quotient.
            return 1.0 / (2.0 + steps / self.variability);
        }
        let mut log = 2.0 * self.load.ln();
        if steps > 0.0 {
            let one_less_decay = missing / (missing + self.load * self.variability);
            log += steps * (-one_less_decay).ln_1p();
        }
        missing / -log.exp_m1()
    }

    /// `p(1) = p(0) ρ (1 - σ) / (1 - ρ)`.
    fn single(&self, capacity: usize) -> f64 {
        let below = 1.0 - self.load + self.load * self.variability;
        match below > 0.0 {
            true => self.empty(capacity) * self.load / below,
            // Producer and server are constant and equally fast.
            false => 1.0,
        }
    }

    /// `p(K) = p(0) ρ σ^(K-1)`.
    fn full(&self, capacity: usize) -> f64 {
        self.empty(capacity) * self.load * self.decay.powf((capacity - 1) as f64)
    }
}

pub(super) fn smallest_capacity(queue: &Queue, fraction: f64) -> Result<usize, TuneError> {
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(TuneError::parameter(
            "fraction",
            fraction,
            "above 0 and below 1",
        ));
    }
    let load = queue.utilization();
    let wanted = fraction * load.min(1.0);
    let found = if queue.is_poisson() && queue.service_scv != 1.0 {
        by_departures(queue, wanted)
    } else {
        by_bisection(queue, wanted)
    };
    found.ok_or(TuneError::BufferTooLarge {
        fraction,
        utilization: load,
        limit: MAX_CAPACITY,
    })
}

/// Extends the chain until the server's busy share is `wanted`.
fn by_departures(queue: &Queue, wanted: f64) -> Option<usize> {
    let load = queue.utilization();
    let mut chain = DepartureChain::new(load, queue.service_scv);
    while load / (chain.empty() + load) < wanted {
        if chain.len() == MAX_CAPACITY {
            return None;
        }
        chain.push();
    }
    Some(chain.len())
}

/// The busy share grows with the capacity: bisection finds the smallest sufficient one.
fn by_bisection(queue: &Queue, wanted: f64) -> Option<usize> {
    let (line, exchanged) = GeometricLine::of(queue);
    let busy = |capacity| match exchanged {
        true => 1.0 - line.full(capacity),
        false => 1.0 - line.empty(capacity),
    };
    let (mut short, mut enough) = (smallest_legal(queue) - 1, MAX_CAPACITY);
    if busy(enough) < wanted {
        return None;
    }
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        match busy(middle) < wanted {
            true => short = middle,
            false => enough = middle,
        }
    }
    Some(enough)
}
