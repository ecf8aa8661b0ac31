//! A simulated server, with confidence intervals.

use fastrand::Rng;

/// The first is warm-up.
const BATCHES: usize = 31;

/// 0.9995 quantile of Student's t, 29 degrees of freedom: misses once in a thousand.
const T_QUANTILE: f64 = 3.659;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    pub(crate) half_width: f64,
}

impl Interval {
    fn of(batches: &[f64]) -> Self {
        let kept = &batches[1..];
        let count = kept.len() as f64;
        let mean = kept.iter().sum::<f64>() / count;
        let variance = kept.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self {
            mean,
            half_width: T_QUANTILE * (variance / count).sqrt(),
        }
    }

    pub(crate) fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Times {
    Constant,
    /// This many exponential phases; scv 1 / phases.
    Erlang(u32),
    /// Two exponential times, each contributing half of the mean; scv at least 1.
    Hyperexponential(f64),
    /// Scv above 0.
    Lognormal(f64),
}

impl Times {
    pub(crate) fn scv(self) -> f64 {
        match self {
            Self::Constant => 0.0,
            Self::Erlang(phases) => 1.0 / f64::from(phases),
            Self::Hyperexponential(scv) | Self::Lognormal(scv) => scv,
        }
    }

    fn draw(self, rng: &mut Rng) -> f64 {
        let exponential = |rng: &mut Rng| -(1.0 - rng.f64()).ln();
        match self {
            Self::Constant => 1.0,
            Self::Erlang(phases) => {
                (0..phases).map(|_| exponential(rng)).sum::<f64>() / f64::from(phases)
            }
            Self::Hyperexponential(scv) => {
                let often = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt());
                let branch = if rng.f64() < often {
                    often
                } else {
                    1.0 - often
                };
                exponential(rng) / (2.0 * branch)
            }
            Self::Lognormal(scv) => {
                let variance = scv.ln_1p();
                let normal =
                    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
                (variance.sqrt() * normal - variance / 2.0).exp()
            }
        }
    }
}

/// Mean service time 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Station {
    pub(crate) load: f64,
    pub(crate) arrivals: Times,
    pub(crate) service: Times,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) wait: Interval,
    pub(crate) throughput: Interval,
    pub(crate) blocked: Interval,
    /// Shares of arrivals by items found.
    pub(crate) seen: Vec<Interval>,
}

impl Station {
    /// Arrivals at `capacity` items are lost; `usize::MAX` for no bound. `items` per batch.
    pub(crate) fn lose(&self, capacity: usize, items: usize, seed: u64) -> Found {
        const SEEN: usize = 6;
        let mut rng = Rng::with_seed(seed);
        let mut ends = std::collections::VecDeque::new();
        let (mut now, mut last_end) = (0.0f64, 0.0f64);
        let (mut waits, mut rates, mut blocked) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = vec![Vec::new(); SEEN];
        for _ in 0..BATCHES {
            let start = now;
            let (mut waited, mut admitted, mut counts) = (0.0, 0.0, [0.0; SEEN]);
            for _ in 0..items {
                now += self.arrivals.draw(&mut rng) / self.load;
                while ends.front().is_some_and(|&end| end <= now) {
                    ends.pop_front();
                }
                if let Some(count) = counts.get_mut(ends.len()) {
                    *count += 1.0;
                }
                if ends.len() < capacity {
                    let begin = last_end.max(now);
                    waited += begin - now;
                    last_end = begin + self.service.draw(&mut rng);
                    ends.push_back(last_end);
                    admitted += 1.0;
                }
            }
            waits.push(waited / admitted);
            rates.push(admitted / (now - start));
            blocked.push(1.0 - admitted / items as f64);
            for (seen, count) in seen.iter_mut().zip(counts) {
                seen.push(count / items as f64);
            }
        }
        Found {
            wait: Interval::of(&waits),
            throughput: Interval::of(&rates),
            blocked: Interval::of(&blocked),
            seen: seen.iter().map(|shares| Interval::of(shares)).collect(),
        }
    }

    /// Throughput if the producer keeps a finished item until one of `slots` is free.
    pub(crate) fn wait(&self, slots: usize, items: usize, seed: u64) -> Interval {
        let mut rng = Rng::with_seed(seed);
        // When each slot's last item went on to the server.
        let mut freed = vec![0.0f64; slots];
        let (mut producer, mut server) = (0.0f64, 0.0f64);
        let mut rates = Vec::new();
        for batch in 0..BATCHES {
            let start = server;
            for item in batch * items..(batch + 1) * items {
                let finished = producer + self.arrivals.draw(&mut rng) / self.load;
                let room = if slots == 0 {
                    server
                } else {
                    freed[item % slots]
                };
                producer = finished.max(room);
                let begin = producer.max(server);
                if slots > 0 {
                    freed[item % slots] = begin;
                }
                server = begin + self.service.draw(&mut rng);
            }
            rates.push(items as f64 / (server - start));
        }
        Interval::of(&rates)
    }
}
