//! A plan whose throughput is a formula, for tests of the controller.

use isochrony_tune::{
    Configuration, ConfigurationLimits, Controller, ControllerOptions, LinkWindow, StageWindow,
    Window,
};

/// Stages share threads; throughput is a formula, with noise.
pub(crate) struct FormulaPlan {
    pub(crate) costs: Vec<f64>,
    cores: usize,
    /// Loss of speed per further busy thread, as a fraction.
    pub(crate) contention: f64,
    pub(crate) noise: f64,
    /// Per second; None: unlimited.
    pub(crate) arrivals: Option<f64>,
    /// Per thousand samples; stages take turns if a link holds fewer than two items.
    pub(crate) item_bytes: f64,
    /// Task size of the greatest throughput; each doubling or halving loses a tenth. 0: it does not matter.
    pub(crate) best_task: f64,
    random: fastrand::Rng,
}

impl FormulaPlan {
    pub(crate) fn new(costs: &[f64], cores: usize, seed: u64) -> Self {
        Self {
            costs: costs.to_vec(),
            cores,
            contention: 0.0,
            noise: 0.03,
            arrivals: None,
            item_bytes: 0.0,
            best_task: 0.0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    pub(crate) fn rate(&self, configuration: &Configuration) -> f64 {
        let takes_turns =
            (configuration.link_bytes.iter()).any(|&bytes| (bytes as f64) < 2.0 * self.item_bytes);
        let threads = match takes_turns {
            true => 1.0,
            false => configuration.workers.min(self.cores) as f64,
        };
        let speed = 1.0 / (1.0 + self.contention * (threads - 1.0));
        let stages = self.costs.iter().zip(&configuration.replicas);
        let stage = stages
            .map(|(cost, &replicas)| replicas as f64 / cost)
            .fold(f64::INFINITY, f64::min);
        let all: f64 = self.costs.iter().sum();
        let doublings = match self.best_task > 0.0 {
            true => (configuration.task_bytes as f64 / self.best_task).log2(),
            false => 0.0,
        };
        speed * stage.min(threads / all) / (1.0 + 0.1 * doublings.abs())
    }

    pub(crate) fn window(&mut self, configuration: &Configuration) -> Window {
        let elapsed_s = 0.05;
        // A sum of twelve uniform numbers has deviation 1.
        let normal = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
        let rate = self.rate(configuration) * (self.noise * normal).exp();
        let starved = self.arrivals.is_some_and(|arrivals| rate > arrivals);
        let rate = self.arrivals.map_or(rate, |arrivals| rate.min(arrivals));
        let threads = configuration.workers.min(self.cores) as f64;
        let slowness = 1.0 + self.contention * (threads - 1.0);
        let busy = |cost: &f64| StageWindow {
            busy_s: rate * elapsed_s * cost * slowness,
            items: rate * elapsed_s / 1000.0,
            ..StageWindow::default()
        };
        let stages: Vec<StageWindow> = self.costs.iter().map(busy).collect();
        let busy: f64 = stages.iter().map(|stage| stage.busy_s).sum();
        Window {
            elapsed_s,
            delivered: rate * elapsed_s,
            starved,
            cpu_s: busy + 0.05 * elapsed_s * threads,
            stages,
            links: (1..self.costs.len())
                .map(|to| LinkWindow {
                    from: to - 1,
                    to,
                    bytes: self.item_bytes * rate * elapsed_s / 1000.0,
                    occupancy: (rate / self.rate(configuration)).powi(4).min(1.0),
                })
                .collect(),
            messages: 0.0,
        }
    }
}

pub(crate) fn start(stages: usize, workers: usize, replicas: usize) -> Configuration {
    Configuration {
        workers,
        replicas: vec![replicas; stages],
        link_bytes: vec![1 << 20; stages - 1],
        task_bytes: 0,
        batch_tasks: 0,
    }
}

pub(crate) fn limits(replicas: &[usize], workers: usize) -> ConfigurationLimits {
    ConfigurationLimits {
        min_workers: 1,
        workers,
        replicas: replicas.to_vec(),
        min_link_bytes: 1 << 12,
        max_link_bytes: 1 << 26,
        min_task_bytes: 0,
        max_task_bytes: 0,
        max_batch_tasks: 0,
    }
}

pub(crate) fn options(cores: usize) -> ControllerOptions {
    ControllerOptions {
        cores,
        ..ControllerOptions::default()
    }
}

/// Seconds that are left of a run that never ends.
pub(crate) const ENDLESS: Option<f64> = Some(f64::INFINITY);

pub(crate) fn settle(controller: &mut Controller, plan: &mut FormulaPlan, most: usize) -> usize {
    for windows in 0..most {
        let configuration = controller.configuration().clone();
        controller.observe(&plan.window(&configuration), ENDLESS);
        if controller.is_settled() {
            return windows + 1;
        }
    }
    panic!(
        "not settled after {most} windows: {:#?}",
        controller.decisions()
    );
}
