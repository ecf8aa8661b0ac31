//! [`best_configuration`]: searches the highest throughput.

use std::collections::BTreeMap;

use super::{SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource};
use crate::{Configuration, TuneError};

/// Search options.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigurationSearch {
    /// Source items measured at the flow model's rate, after a warm-up a quarter as long; at least 1.
    pub items: u64,
    /// Maximum runs; at least 1.
    pub max_runs: usize,
    /// Capacities tried, equal for all links.
    pub link_bytes: Vec<u64>,
    /// Seed of all runs, for equal service times.
    pub seed: u64,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct BestConfiguration {
    /// The configuration.
    pub configuration: Configuration,
    /// Source items delivered per second.
    pub rate: f64,
    /// Runs tried.
    pub runs: usize,
    /// The whole grid was tried.
    pub is_exhaustive: bool,
}

impl Default for ConfigurationSearch {
    /// 400 runs of 400 items; links of 256 KiB, 1 MiB, 4 MiB and 16 MiB.
    fn default() -> Self {
        Self {
            items: 400,
            max_runs: 400,
            link_bytes: vec![256 << 10, 1 << 20, 4 << 20, 16 << 20],
            seed: 1,
        }
    }
}

/// [`ConfigurationSearch::find`] with the defaults.
///
/// # Errors
/// As for [`ConfigurationSearch::find`].
pub fn best_configuration(
    plan: &SimulatedPlan,
    machine: &SimulatedMachine,
) -> Result<BestConfiguration, TuneError> {
    ConfigurationSearch::default().find(plan, machine)
}

const LEAST_GAIN: f64 = 1e-3;

type Point = Vec<usize>;

struct Grid<'a> {
    search: &'a ConfigurationSearch,
    plan: SimulatedPlan,
    machine: &'a SimulatedMachine,
    levels: Vec<Vec<u64>>,
    warm_up_s: f64,
    measured_s: f64,
    tried: BTreeMap<Point, f64>,
}

impl ConfigurationSearch {
    /// Searches a grid: replicas of 1, 2, 3, 4, 6, 8, 12, 16 and so on up to the cores, and the capacities. `workers`
    /// is the number of cores.
    ///
    /// Tries all points if at most `max_runs`. Else climbs by one or two steps of one coordinate, or one of all
    /// replicas, from the flow model's replicas, one each, and the maximum. Finite sources count as endless.
    ///
    /// # Errors
    /// [`TuneError`] for invalid plan, machine or search.
    pub fn find(
        &self,
        plan: &SimulatedPlan,
        machine: &SimulatedMachine,
    ) -> Result<BestConfiguration, TuneError> {
        plan.check()?;
        machine.check()?;
        for (field, value) in [
            ("items", self.items),
            ("max_runs", self.max_runs as u64),
            ("link_bytes: capacities", self.link_bytes.len() as u64),
        ] {
            if value == 0 {
                return Err(TuneError::parameter(field, value, "at least 1"));
            }
        }
        let mut grid = Grid::new(self, plan, machine);
        let points = grid
            .levels
            .iter()
            .fold(1usize, |points, levels| points.saturating_mul(levels.len()));
        let is_exhaustive = points <= self.max_runs;
        match is_exhaustive {
            true => grid.try_all()?,
            false => grid.climb()?,
        }
        let best = grid.best().cloned().unwrap_or_default();
        Ok(BestConfiguration {
            configuration: grid.configuration(&best),
            rate: grid.tried[&best],
            runs: grid.tried.len(),
            is_exhaustive,
        })
    }
}

impl<'a> Grid<'a> {
    fn new(
        search: &'a ConfigurationSearch,
        plan: &SimulatedPlan,
        machine: &'a SimulatedMachine,
    ) -> Self {
        let replicas = |most: usize| -> Vec<u64> {
            let most = most.min(machine.cores) as u64;
            let powers = (0..).map(|at| 1 << at).take_while(|&power| power <= most);
            let mut levels: Vec<u64> = powers.flat_map(|power| [power, power * 3 / 2]).collect();
            levels.push(most);
            levels.retain(|&level| level <= most);
            levels.sort_unstable();
            levels.dedup();
            levels
        };
        let stages = plan.stages.iter().map(|stage| replicas(stage.max_replicas));
        let mut capacities = search.link_bytes.clone();
        capacities.sort_unstable();
        let levels = stages.chain([capacities]).collect();
        let mut plan = plan.clone();
        for stage in &mut plan.stages {
            if let Some(SimulatedSource::Finite { .. }) = stage.source {
                stage.source = Some(SimulatedSource::Endless);
            }
        }
        let measured_s = search.items as f64 / flow_rate(&plan, machine.cores);
        Self {
            search,
            plan,
            machine,
            levels,
            warm_up_s: measured_s / 4.0,
            measured_s,
            tried: BTreeMap::new(),
        }
    }

    fn configuration(&self, point: &Point) -> Configuration {
        let stages = self.plan.stages.len();
        let value = |at: usize| self.levels[at][point[at]];
        Configuration {
            workers: self.machine.cores,
            replicas: (0..stages).map(|stage| value(stage) as usize).collect(),
            link_bytes: vec![value(stages); self.plan.links.len()],
            task_bytes: 0,
            batch_tasks: 0,
        }
    }

    fn rate(&mut self, point: &Point) -> Result<Option<f64>, TuneError> {
        if let Some(&rate) = self.tried.get(point) {
            return Ok(Some(rate));
        }
        if self.tried.len() >= self.search.max_runs {
            return Ok(None);
        }
        let mut run = SimulatedRun::new(
            self.plan.clone(),
            self.machine.clone(),
            self.configuration(point),
            self.search.seed,
        )?;
        run.window(self.warm_up_s);
        let rate = run.window(self.measured_s).rate();
        self.tried.insert(point.clone(), rate);
        Ok(Some(rate))
    }

    fn best(&self) -> Option<&Point> {
        let most = self.tried.values().copied().fold(0.0, f64::max);
        let good = |&(_, &rate): &(&Point, &f64)| rate >= most * (1.0 - LEAST_GAIN);
        let best = self.tried.iter().filter(good);
        let best = best.min_by_key(|(point, _)| point.iter().sum::<usize>());
        best.map(|(point, _)| point)
    }

    fn try_all(&mut self) -> Result<(), TuneError> {
        let mut point = vec![0; self.levels.len()];
        loop {
            self.rate(&point)?;
            // Counts with digits of different ranges.
            let mut digits = point.iter().zip(&self.levels);
            let Some(raised) = digits.position(|(&digit, levels)| digit + 1 < levels.len()) else {
                return Ok(());
            };
            point[raised] += 1;
            point[..raised].fill(0);
        }
    }

    fn climb(&mut self) -> Result<(), TuneError> {
        let last = self.levels.len() - 1;
        let capacity = self.levels[last].len() / 2;
        let flow = flow_replicas(&self.plan, self.machine.cores);
        let of_flow = flow.iter().zip(&self.levels).map(|(&wanted, levels)| {
            let enough = levels.iter().position(|&level| level >= wanted);
            enough.unwrap_or(levels.len() - 1)
        });
        let of_flow: Point = of_flow.chain([capacity]).collect();
        let mut least = vec![0; last + 1];
        let mut most: Point = self.levels.iter().map(|levels| levels.len() - 1).collect();
        (least[last], most[last]) = (capacity, capacity);
        for start in [of_flow, most, least] {
            self.climb_from(start)?;
        }
        Ok(())
    }

    fn climb_from(&mut self, start: Point) -> Result<(), TuneError> {
        let mut at = start;
        let Some(mut rate) = self.rate(&at)? else {
            return Ok(());
        };
        loop {
            let before = rate;
            for next in self.neighbours(&at) {
                match self.rate(&next)? {
                    Some(found) if found > rate * (1.0 + LEAST_GAIN) => {
                        (at, rate) = (next, found);
                        break;
                    }
                    Some(_) => {}
                    None => return Ok(()),
                }
            }
            if rate == before {
                return Ok(());
            }
        }
    }

    /// Changes one coordinate by one or two steps, or all replicas by one.
    fn neighbours(&self, at: &Point) -> Vec<Point> {
        let moved = |from: &Point, coordinate: usize, step: isize| {
            let mut to = from.clone();
            let moved = to[coordinate].checked_add_signed(step)?;
            to[coordinate] = moved;
            (moved < self.levels[coordinate].len()).then_some(to)
        };
        let last = self.levels.len() - 1;
        let mut all = Vec::new();
        for step in [1, -1, 2, -2] {
            all.extend((0..=last).filter_map(|coordinate| moved(at, coordinate, step)));
        }
        for step in [1, -1] {
            let mut to = at.clone();
            for coordinate in 0..last {
                to = moved(&to, coordinate, step).unwrap_or(to);
            }
            all.push(to);
        }
        all
    }
}

/// Source rate that cores and non-replicable stages allow.
fn flow_rate(plan: &SimulatedPlan, cores: usize) -> f64 {
    let visits = plan.visits();
    let stages = plan.stages.iter().zip(&visits);
    let loads = stages.map(|(stage, visits)| (stage, visits * stage.service.mean()));
    let (mut total, mut slowest) = (0.0, 0.0f64);
    for (stage, load) in loads {
        total += load;
        slowest = slowest.max(load / stage.max_replicas as f64);
    }
    1.0 / (total / cores as f64).max(slowest).max(f64::MIN_POSITIVE)
}

fn flow_replicas(plan: &SimulatedPlan, cores: usize) -> Vec<u64> {
    let rate = flow_rate(plan, cores);
    let stages = plan.stages.iter().zip(plan.visits());
    let wanted = stages.map(|(stage, visits)| (rate * visits * stage.service.mean()).ceil() as u64);
    wanted.map(|wanted| wanted.max(1)).collect()
}
