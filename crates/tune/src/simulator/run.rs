//! [`SimulatedRun`]: a plan in simulated time.

use super::engine::Engine;
use super::stage_queue::Notice;
use super::{SimulatedMachine, SimulatedPlan, SimulatedSource};
use crate::{Configuration, LinkWindow, StageWindow, TuneError, Window};

/// A plan running on a machine in simulated time.
///
/// Deterministic. The n-th item of a stage takes the same time in every configuration (common random numbers).
///
/// ```
/// use isochrony_tune::simulator::{
///     SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource, SimulatedStage, TimeDistribution,
/// };
///
/// let stage = |name, mean_s| SimulatedStage::new(name, TimeDistribution::Constant { mean_s });
/// let plan = SimulatedPlan::chain(
///     vec![
///         stage("scan", 0.001).with_source(SimulatedSource::Endless),
///         stage("filter", 0.004).with_replicas(4),
///         stage("sink", 0.001),
///     ],
///     65536,
/// );
/// let mut configuration = plan.configuration(4, 1 << 20);
/// let mut run = SimulatedRun::new(plan, SimulatedMachine::ideal(4), configuration.clone(), 1)?;
/// run.window(1.0);
/// assert!((run.window(1.0).rate() - 250.0).abs() < 5.0);
/// configuration.replicas[1] = 2;
/// run.configure(&configuration)?;
/// run.window(1.0);
/// assert!((run.window(1.0).rate() - 500.0).abs() < 5.0);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
pub struct SimulatedRun {
    engine: Engine,
    counted: Counts,
}

/// Statistics that a real run lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTotals {
    /// All windows as one.
    pub window: Window,
    /// Events handled by the simulator.
    pub events: u64,
    /// Items computed by each stage.
    pub computed: Vec<u64>,
    /// Items from each stage's source; 0 without one.
    pub given: Vec<u64>,
    /// By link, in plan order.
    pub links: Vec<LinkTotals>,
}

/// Statistics of a link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkTotals {
    /// Items sent.
    pub sent: u64,
    /// Items received.
    pub received: u64,
    /// Items in it now.
    pub held: u64,
    /// Seconds in it, summed over received items.
    pub wait_s: f64,
    /// Integral over time of the items in it.
    pub item_seconds: f64,
}

#[derive(Clone, Default)]
struct Counts {
    now: f64,
    delivered: u64,
    starved_s: f64,
    cpu_s: f64,
    stages: Vec<StageWindow>,
    links: Vec<(u64, f64)>,
}

impl SimulatedRun {
    /// A run at time 0.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] and others for invalid values; [`TuneError::OtherPlan`] for a configuration of another
    /// plan.
    pub fn new(
        plan: SimulatedPlan,
        machine: SimulatedMachine,
        start: Configuration,
        seed: u64,
    ) -> Result<Self, TuneError> {
        let engine = Engine::new(plan, machine, start, seed)?;
        let counted = Counts {
            stages: vec![StageWindow::default(); engine.stages.len()],
            links: vec![(0, 0.0); engine.links.len()],
            ..Counts::default()
        };
        Ok(Self { engine, counted })
    }

    /// Runs for so many seconds, or to the end.
    ///
    /// # Panics
    /// If `seconds` is negative or not finite.
    pub fn window(&mut self, seconds: f64) -> Window {
        assert!(
            seconds.is_finite() && seconds >= 0.0,
            "a window of {seconds} s; it must be finite and at least 0"
        );
        self.engine.advance(self.engine.now + seconds);
        let counts = self.count();
        let before = std::mem::replace(&mut self.counted, counts);
        self.difference(&before)
    }

    /// Changes the configuration. Unwanted replicas and threads complete their burst.
    ///
    /// # Errors
    /// As for [`new`](Self::new); the run is unchanged.
    pub fn configure(&mut self, configuration: &Configuration) -> Result<(), TuneError> {
        let engine = &mut self.engine;
        engine.plan.check_configuration(configuration)?;
        engine.configuration = configuration.clone();
        for (link, &bytes) in configuration.link_bytes.iter().enumerate() {
            if engine.links[link].capacity != bytes {
                engine.links[link].capacity = bytes;
                engine.notify_stage(engine.links[link].link.from, Notice::Room);
            }
        }
        for (stage, &replicas) in configuration.replicas.iter().enumerate() {
            let state = &mut engine.stages[stage];
            state.replicas = replicas;
            let entries = state.entries.clone();
            for entry in entries.take(replicas) {
                engine.recall(entry);
            }
        }
        engine.retire_replicas();
        engine.assign_threads();
        engine.look_all();
        Ok(())
    }

    /// Runs to the end and returns the total time; infinite, without effect, if the plan never ends.
    pub fn run_to_end(&mut self) -> f64 {
        let mut sources = self.engine.plan.stages.iter().map(|stage| &stage.source);
        let is_endless = sources.any(|source| match source {
            Some(SimulatedSource::Endless) => true,
            Some(SimulatedSource::Arrivals { items, .. }) => items.is_none(),
            Some(SimulatedSource::Finite { .. }) | None => false,
        });
        if !is_endless {
            self.engine.advance(f64::INFINITY);
        }
        match self.is_over() {
            true => self.engine.now,
            false => f64::INFINITY,
        }
    }

    /// Whether everything has reached the end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.engine.is_over
    }

    /// Seconds since the start.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.engine.now
    }

    /// Current configuration.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.engine.configuration
    }

    /// Statistics since the start; ends no window.
    pub fn totals(&mut self) -> RunTotals {
        let counts = self.count();
        let counted = std::mem::replace(&mut self.counted, counts);
        let none = Counts {
            stages: vec![StageWindow::default(); counted.stages.len()],
            links: vec![(0, 0.0); counted.links.len()],
            ..Counts::default()
        };
        let window = self.difference(&none);
        self.counted = counted;
        let stages = &self.engine.stages;
        let links = self.engine.links.iter();
        RunTotals {
            window,
            events: self.engine.handled,
            computed: stages.iter().map(|stage| stage.done).collect(),
            given: stages.iter().map(|stage| stage.given).collect(),
            links: links
                .map(|link| LinkTotals {
                    sent: link.sent,
                    received: link.received,
                    held: link.len() as u64,
                    wait_s: link.wait_s,
                    item_seconds: link.item_seconds,
                })
                .collect(),
        }
    }

    fn count(&mut self) -> Counts {
        let engine = &mut self.engine;
        engine.count_cpu_time();
        engine.queue.count_times(engine.now);
        for link in &mut engine.links {
            link.count_time(engine.now);
        }
        let times = engine.queue.times.iter().zip(&engine.stages);
        let stages = times.map(|(times, stage)| StageWindow {
            items: stage.done as f64,
            busy_s: times.busy,
            input_wait_s: times.input,
            output_wait_s: times.output,
            core_wait_s: times.core,
        });
        let fed = engine.plan.stages.iter().zip(&engine.queue.times);
        let fed =
            fed.filter(|(stage, _)| matches!(stage.source, Some(SimulatedSource::Arrivals { .. })));
        Counts {
            now: engine.now,
            delivered: engine.delivered.iter().sum(),
            starved_s: fed.map(|(_, times)| times.input).sum(),
            cpu_s: engine.cpu_s,
            stages: stages.collect(),
            links: engine
                .links
                .iter()
                .map(|link| (link.sent, link.occupancy_sum))
                .collect(),
        }
    }

    fn difference(&self, before: &Counts) -> Window {
        let now = &self.counted;
        let stages = now.stages.iter().zip(&before.stages);
        let links = now.links.iter().zip(&before.links);
        let links = links.zip(&self.engine.plan.links);
        Window {
            elapsed_s: now.now - before.now,
            delivered: (now.delivered - before.delivered) as f64,
            starved: now.starved_s > before.starved_s,
            cpu_s: now.cpu_s - before.cpu_s,
            stages: stages
                .map(|(now, before)| StageWindow {
                    items: now.items - before.items,
                    busy_s: now.busy_s - before.busy_s,
                    input_wait_s: now.input_wait_s - before.input_wait_s,
                    output_wait_s: now.output_wait_s - before.output_wait_s,
                    core_wait_s: now.core_wait_s - before.core_wait_s,
                })
                .collect(),
            links: links
                .map(|((now, before), link)| {
                    let sent = now.0 - before.0;
                    LinkWindow {
                        from: link.from,
                        to: link.to,
                        bytes: (sent * link.item_bytes) as f64,
                        occupancy: match sent {
                            0 => 0.0,
                            sent => (now.1 - before.1) / sent as f64,
                        },
                    }
                })
                .collect(),
            messages: 0.0,
        }
    }
}
