//! A simulated queue with one reader, sampled as by a monitor.

use isochrony_tune::service_rate::PeriodSample;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Service {
    Deterministic,
    Exponential,
    Normal,
    /// Nine in ten take half the mean, one 5.5 times the mean.
    Bimodal,
}

impl Service {
    pub(crate) const ALL: [Self; 4] = [
        Self::Deterministic,
        Self::Exponential,
        Self::Normal,
        Self::Bimodal,
    ];

    fn time(self, mean_s: f64, random: &mut fastrand::Rng) -> f64 {
        let unit = match self {
            Self::Deterministic => 1.0,
            Self::Exponential => -(1.0 - random.f64()).ln(),
            Self::Normal => {
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                (1.0 + 0.2 * radius * (std::f64::consts::TAU * random.f64()).cos()).max(0.05)
            }
            Self::Bimodal if random.f64() < 0.9 => 0.5,
            Self::Bimodal => 5.5,
        };
        unit * mean_s
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    Poisson,
    Regular,
    /// Eight at once, exponential intervals.
    Bursts,
}

impl Arrivals {
    fn burst(self) -> u64 {
        if self == Self::Bursts { 8 } else { 1 }
    }
}

const CAPACITY: u64 = 64;
const LOST: f64 = 0.01;

/// Random arrivals; the writer waits while the queue is full, the reader while too few items to fire are queued.
pub(crate) struct QueueSimulation {
    random: fastrand::Rng,
    service: Service,
    pub(crate) arrivals: Arrivals,
    pub(crate) mean_service_s: f64,
    pub(crate) mean_arrival_s: f64,
    firing: u64,
    now_s: f64,
    waiting: u64,
    next_arrival_s: f64,
    busy_until_s: Option<f64>,
}

impl QueueSimulation {
    pub(crate) fn new(
        service: Service,
        mean_s: f64,
        utilization: f64,
        firing: u64,
        seed: u64,
    ) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            service,
            arrivals: Arrivals::Poisson,
            mean_service_s: mean_s,
            mean_arrival_s: mean_s / utilization,
            firing,
            now_s: 0.0,
            waiting: 0,
            next_arrival_s: 0.0,
            busy_until_s: None,
        }
    }

    /// Periods are off by up to 5 %, one in a hundred by more.
    pub(crate) fn sample(&mut self, period_s: f64) -> PeriodSample {
        let late = if self.random.f64() < 0.01 { 2.0 } else { 1.0 };
        let elapsed_s = period_s * late * (0.95 + 0.1 * self.random.f64());
        let end_s = self.now_s + elapsed_s;
        let mut sample = PeriodSample::unblocked(elapsed_s, 0);
        loop {
            if self.busy_until_s.is_none() && self.waiting >= self.firing {
                self.waiting -= self.firing;
                sample.items += self.firing;
                let times = (0..self.firing)
                    .map(|_| self.service.time(self.mean_service_s, &mut self.random));
                self.busy_until_s = Some(self.now_s + times.sum::<f64>());
            }
            sample.reader_blocked |= self.busy_until_s.is_none();
            let full = self.waiting >= CAPACITY;
            sample.writer_blocked |= full;
            let arrival_s = if full {
                f64::INFINITY
            } else {
                self.next_arrival_s.max(self.now_s)
            };
            let service_end_s = self.busy_until_s.unwrap_or(f64::INFINITY);
            let next_s = arrival_s.min(service_end_s);
            if next_s > end_s {
                break;
            }
            self.now_s = next_s;
            if service_end_s <= arrival_s {
                self.busy_until_s = None;
            } else {
                let burst = self.arrivals.burst();
                self.waiting += burst;
                let gaps = match self.arrivals {
                    Arrivals::Regular => 1.0,
                    _ => -(1.0 - self.random.f64()).ln() * burst as f64,
                };
                self.next_arrival_s = self.now_s + gaps * self.mean_arrival_s;
            }
        }
        self.now_s = end_s;
        if self.random.f64() < LOST {
            sample.items = sample.items.saturating_sub(1);
        }
        sample
    }
}
