//! [`Tuning`]: measures a plan while it runs, and changes its threads, replicas, links and tasks.
//!
//! [`isochrony_tune::TuningSession`] decides; it knows neither clocks nor threads. This module reads the counters,
//! chooses the windows, and applies a [`Configuration`]. Results keep their bits.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use isochrony_runtime::{Progress, start_scoped_helper};
use isochrony_system::usage::process_cpu_time;
use isochrony_tune::controller::Bottleneck;
use isochrony_tune::session::{MAX_WINDOW_S, MIN_RESULTS, MIN_WINDOW_S};
use isochrony_tune::{
    Configuration, ConfigurationLimits, ControllerOptions, FunctionPlace, LinkWindow,
    PlaceDecision, PlaceOutcome, StageWindow, StartSettings, TuneError, TuningMode, TuningReport,
    TuningSession, Window,
};

use super::advice::Advice;
use super::report::StageMeasurement;
use super::run_status::RunStatus;
use super::start_settings::{GivenSettings, fix_io, has_several_caches};
use crate::PlanError;
use crate::plan::graph::Graph;

/// A plan executed in several threads, or on a cluster.
pub(crate) trait RunningPlan: Send + Sync {
    /// Executed in stages; else in tasks.
    fn is_staged(&self) -> bool;
    fn names(&self) -> Vec<String>;
    fn configuration(&self) -> Configuration;
    fn limits(&self) -> ConfigurationLimits;
    fn set_workers(&self, workers: usize);
    /// Only of tasks.
    fn set_task_bytes(&self, _bytes: u64) {}
    /// Only on a cluster.
    fn set_batch_tasks(&self, _tasks: usize) {}
    fn set_replicas(&self, stage: usize, replicas: usize) -> Result<(), PlanError>;
    fn set_link_capacity(&self, link: usize, bytes: u64) -> Result<(), PlanError>;
    fn measurement(&self) -> StageMeasurement;
    /// None: threads of this process execute it.
    fn slots(&self) -> Option<SlotCounts> {
        None
    }
    /// Most slots that a cluster should be asked for; None: as many as it can have.
    fn set_enough_slots(&self, _slots: Option<usize>) {}
}

/// Slots of a cluster, and their messages so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotCounts {
    /// Present, used or not.
    pub(crate) present: usize,
    /// Fewest that may be used.
    pub(crate) min_used: usize,
    /// Some are still to join: nothing can be compared.
    pub(crate) are_joining: bool,
    pub(crate) messages: u64,
    /// Of results that reached the sequential part. Its progress is counted burst by burst: with few and small results
    /// a burst is longer than a window.
    pub(crate) consumed_samples: u64,
    /// Messages of a window: as many as were sent before a change, and as many after it.
    pub(crate) window_messages: u64,
}

/// Tunes one run, in [`RunOptions::tuning`](crate::RunOptions::tuning).
pub struct Tuning {
    mode: TuningMode,
    /// The user chose the number of threads: it is not changed.
    has_fixed_workers: bool,
    options: ControllerOptions,
    given: GivenSettings,
    start: Mutex<StartSettings>,
    placed: Mutex<PlacedFunctions>,
    /// File for the state of the run.
    status: Option<PathBuf>,
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Tuning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tuning")
            .field("mode", &self.mode)
            .field("has_fixed_workers", &self.has_fixed_workers)
            .finish_non_exhaustive()
    }
}

/// How functions were placed before the start.
#[derive(Default)]
struct PlacedFunctions {
    decisions: Vec<PlaceDecision>,
    /// Threads of the run.
    workers: usize,
}

impl PlacedFunctions {
    /// For a run in one thread, if other threads should call a function.
    fn configuration(&self) -> Option<Configuration> {
        let is_elsewhere = |one: &PlaceDecision| {
            one.outcome == PlaceOutcome::Chosen && one.place != FunctionPlace::Inline
        };
        let is_worth_it = self.decisions.iter().any(is_elsewhere);
        is_worth_it.then(|| Configuration {
            workers: self.workers,
            replicas: Vec::new(),
            link_bytes: Vec::new(),
            task_bytes: 0,
            batch_tasks: 0,
        })
    }
}

#[derive(Default)]
struct State {
    running: Option<Arc<dyn RunningPlan>>,
    /// The configuration of the run if it were not tuned.
    own: Option<(Configuration, ConfigurationLimits)>,
    ended: bool,
    report: TuningReport,
    /// Task size at the start, if no configuration stated one: a size that was not changed is not reported, since it is
    /// that of the recording.
    unstated_task_bytes: Option<u64>,
    advice: Vec<Advice>,
    error: Option<TuneError>,
}

/// A window with few results is longer: each is a large part of it.
const MIN_WINDOW: Duration = Duration::from_nanos((1e9 * MIN_WINDOW_S) as u64);
const MAX_WINDOW: Duration = Duration::from_nanos((1e9 * MAX_WINDOW_S) as u64);
const LOOK_INTERVAL: Duration = Duration::from_millis(4);
/// Above this share of a window spent waiting, a source had nothing to give.
const STARVED_SHARE: f64 = 0.1;

impl Tuning {
    /// Tunes one run. `has_fixed_workers`: the number of threads stays.
    #[must_use]
    pub fn new(mode: TuningMode, has_fixed_workers: bool) -> Self {
        Self {
            mode,
            has_fixed_workers,
            options: ControllerOptions::default(),
            given: GivenSettings::default(),
            start: Mutex::default(),
            placed: Mutex::default(),
            status: None,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// States settings that are otherwise chosen before the start.
    #[must_use]
    pub fn with_settings(mut self, given: GivenSettings) -> Self {
        // Of a plan with a control nothing else is chosen.
        self.start().pin = given.pin.unwrap_or(false);
        self.given = given;
        self
    }

    /// Chooses what stays for the run, and fixes it in the plan. `pin`: threads are pinned in any case.
    ///
    /// # Errors
    /// Strategies were given for another number of stored signals.
    pub(crate) fn choose_settings(&self, graph: &mut Graph, pin: bool) -> Result<(), TuneError> {
        if self.chooses_workers() {
            *self.start() = StartSettings {
                pin: pin || self.given.pin.unwrap_or_else(has_several_caches),
                io: fix_io(graph, self.given.io.as_deref())?,
                cuts: Vec::new(),
                places: Vec::new(),
            };
        }
        Ok(())
    }

    /// Stage of each operator.
    pub(crate) fn given_cuts(&self) -> Option<&[usize]> {
        self.given.cuts.as_deref()
    }

    /// Whether cuts may be others than those of a run that is not tuned.
    pub(crate) fn chooses_cuts(&self) -> bool {
        self.mode == TuningMode::Change
    }

    /// Where functions are called.
    pub(crate) fn given_places(&self) -> Option<&[FunctionPlace]> {
        self.given.places.as_deref()
    }

    /// Whether functions are measured before the start.
    pub(crate) fn measures_functions(&self) -> bool {
        match self.mode {
            TuningMode::Change | TuningMode::ChangeFrom(_) | TuningMode::Recommend => true,
            TuningMode::Measure | TuningMode::Apply(_) => false,
        }
    }

    /// A recommendation changes nothing.
    pub(crate) fn recommends(&self) -> bool {
        self.mode == TuningMode::Recommend
    }

    /// Where functions are called, or should be.
    pub(crate) fn note_places(
        &self,
        places: Vec<FunctionPlace>,
        decisions: Vec<PlaceDecision>,
        workers: usize,
    ) {
        self.start().places = places;
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        *placed = PlacedFunctions { decisions, workers };
    }

    /// What the run is cut into.
    pub(crate) fn note_cuts(&self, stage_of: &[usize]) {
        if self.chooses_workers() {
            self.start().cuts = stage_of.to_vec();
        }
    }

    /// Whether threads are pinned. A recommendation changes nothing.
    pub(crate) fn pins(&self, own: bool) -> bool {
        match self.mode {
            TuningMode::Measure | TuningMode::Recommend => own,
            TuningMode::Change | TuningMode::ChangeFrom(_) | TuningMode::Apply(_) => {
                own || self.start().pin
            }
        }
    }

    fn start(&self) -> MutexGuard<'_, StartSettings> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the state of the run to a JSON file while it lasts. Write errors are ignored.
    #[must_use]
    pub fn with_status(mut self, path: PathBuf) -> Self {
        self.status = Some(path);
        self
    }

    /// Findings and changes of the run that has ended. The configuration states a task size if one was given, or found.
    ///
    /// # Errors
    /// The start configuration is of another plan, or has values that this plan or machine cannot have.
    pub fn report(&self) -> Result<TuningReport, TuneError> {
        let mut state = self.state();
        match state.error.take() {
            None => {
                let mut report = state.report.clone();
                report.start = self.start().clone();
                let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
                report.places.clone_from(&placed.decisions);
                if report.configuration.is_none() {
                    report.configuration = placed.configuration();
                }
                if let Some(configuration) = &mut report.configuration
                    && state.unstated_task_bytes == Some(configuration.task_bytes)
                {
                    configuration.task_bytes = 0;
                }
                for advice in state.advice.clone() {
                    advice.add_to(&mut report);
                }
                Ok(report)
            }
            Some(error) => Err(error),
        }
    }

    /// Whether tuning chooses the number of threads, also for plans that one thread executes by default.
    pub(crate) fn chooses_workers(&self) -> bool {
        self.mode != TuningMode::Measure
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan begins to run in several threads. On an error (the configuration does not fit) nothing was changed.
    pub(crate) fn attach(&self, running: Arc<dyn RunningPlan>) -> Result<(), TuneError> {
        let mut state = self.state();
        let (own, limits) = (running.configuration(), running.limits());
        let states_size = (self.mode.start()).is_some_and(|stated| stated.task_bytes > 0);
        state.unstated_task_bytes = (!states_size).then_some(own.task_bytes);
        if let Some(configuration) = self.mode.fitted_to(&own, &limits).start() {
            if let Err(error) = limits.check(configuration, own.link_bytes.len()) {
                state.error = Some(error.clone());
                return Err(error);
            }
            apply(&*running, &own, configuration);
        }
        // Also reported if the run ends before the first window.
        state.report.configuration = Some(running.configuration());
        (state.running, state.own) = (Some(running), Some((own, limits)));
        self.changed.notify_all();
        Ok(())
    }

    /// Whether the sources gave no more at the end of the run.
    pub(crate) fn keeps_up(&self) -> bool {
        self.state().report.bottleneck == Some(Bottleneck::Sources)
    }

    /// What the run that has ended says about what it did not change.
    pub(crate) fn advise(&self, advice: Advice) {
        self.state().advice.push(advice);
    }

    pub(crate) fn detach(&self) {
        self.state().running = None;
    }

    /// Runs a plan beside the tuning thread. `progress` counts what has reached the end of the plan; `latency_s`: how
    /// long its results may be held back.
    pub(crate) fn during<T>(
        &self,
        progress: &Progress,
        latency_s: Option<f64>,
        run: impl FnOnce() -> T,
    ) -> T {
        *self.state() = State::default();
        std::thread::scope(|scope| {
            // Without a thread the plan runs untuned.
            let _unused = start_scoped_helper(scope, "tuner", || self.tune(progress, latency_s));
            let ends = EndOnDrop(self);
            let result = run();
            drop(ends);
            result
        })
    }

    fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.running = None;
        self.changed.notify_all();
    }

    fn tune(&self, progress: &Progress, latency_s: Option<f64>) {
        let mut state = self.state();
        while state.running.is_none() && !state.ended {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let Some((running, (own, limits))) = state.running.clone().zip(state.own.clone()) else {
            return;
        };
        drop(state);
        let start = running.configuration();
        let mode = self.mode.fitted_to(&start, &limits);
        let limits = match self.has_fixed_workers {
            true => ConfigurationLimits {
                min_workers: start.workers,
                workers: start.workers,
                ..limits
            },
            false => limits,
        };
        let options = ControllerOptions {
            latency_s,
            cores: match running.slots() {
                // Those of other machines.
                Some(_) => usize::MAX,
                None => self.options.cores,
            },
            ..self.options
        };
        let session = TuningSession::new(mode, own, limits, options);
        let Ok(mut session) = session else {
            // Unreachable: the run's own values fit it.
            return;
        };
        let mut applied = start;
        let mut last = Reading::of(&*running, progress);
        let mut status =
            (self.status.as_deref()).map(|path| RunStatus::new(path, running.names(), last.at));
        drop(running);
        while let Some(next) = self.wait_for_window(&last, progress) {
            if next.slots.is_some_and(|slots| slots.are_joining) {
                last = next;
                continue;
            }
            let window = next.since(&last);
            let left = progress
                .total()
                .map(|total| total.saturating_sub(next.done));
            let remaining = left.map(|left| left as f64 / window.rate().max(1.0));
            if let Some(slots) = next.slots.filter(|_| !self.has_fixed_workers) {
                session.set_slots(slots.present, slots.min_used);
            }
            let wanted = session.observe(&window, remaining).clone();
            let mut state = self.state();
            let Some(running) = &state.running else {
                break;
            };
            if wanted != applied {
                apply(&**running, &applied, &wanted);
                applied = wanted;
            }
            running.set_enough_slots(session.enough_slots());
            state.report = session.report().clone();
            if let Some(status) = &mut status {
                let present = next.slots.map(|slots| slots.present);
                status.write(&window, session.report(), progress, &applied, present);
            }
            drop(state);
            last = match window.elapsed_s > 0.0 {
                true => next,
                false => last,
            };
        }
    }

    /// Waits for enough results, then reads the counters; None when the run has ended.
    fn wait_for_window(&self, last: &Reading, progress: &Progress) -> Option<Reading> {
        let mut done = progress.done();
        let mut results = 0u64;
        loop {
            let state = self.state();
            let running = state.running.clone().filter(|_| !state.ended)?;
            let elapsed = last.at.elapsed();
            let (had, wanted) = match (running.slots(), last.slots) {
                (Some(now), Some(then)) => (now.messages - then.messages, now.window_messages),
                _ => (results, MIN_RESULTS),
            };
            if elapsed >= MAX_WINDOW || elapsed >= MIN_WINDOW && had >= wanted {
                drop(state);
                return Some(Reading::of(&*running, progress));
            }
            // The run may own things that only its end frees.
            drop(running);
            let waited = self.changed.wait_timeout(state, LOOK_INTERVAL);
            drop(waited);
            let now = progress.done();
            results += u64::from(now != done);
            done = now;
        }
    }
}

fn apply(running: &dyn RunningPlan, from: &Configuration, to: &Configuration) {
    if from.workers != to.workers {
        running.set_workers(to.workers);
    }
    if from.task_bytes != to.task_bytes {
        running.set_task_bytes(to.task_bytes);
    }
    if from.batch_tasks != to.batch_tasks {
        running.set_batch_tasks(to.batch_tasks);
    }
    let changed = |(_, (from, to)): &(usize, (&usize, &usize))| from != to;
    let replicas = from.replicas.iter().zip(&to.replicas).enumerate();
    for (stage, (_, &replicas)) in replicas.filter(changed) {
        // Cannot fail: the limits are those of the run.
        let set = running.set_replicas(stage, replicas);
        debug_assert!(set.is_ok(), "{set:?}");
    }
    let links = from.link_bytes.iter().zip(&to.link_bytes).enumerate();
    for (link, (from, &bytes)) in links {
        if *from != bytes {
            let set = running.set_link_capacity(link, bytes);
            debug_assert!(set.is_ok(), "{set:?}");
        }
    }
}

struct EndOnDrop<'a>(&'a Tuning);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Reading {
    at: Instant,
    done: u64,
    cpu: Duration,
    measurement: StageMeasurement,
    slots: Option<SlotCounts>,
}

impl Reading {
    fn of(running: &dyn RunningPlan, progress: &Progress) -> Self {
        let slots = running.slots();
        Self {
            at: Instant::now(),
            done: slots.map_or_else(|| progress.done(), |slots| slots.consumed_samples),
            cpu: process_cpu_time().unwrap_or_default(),
            measurement: running.measurement(),
            slots,
        }
    }

    fn since(&self, before: &Self) -> Window {
        let elapsed_s = self.at.duration_since(before.at).as_secs_f64();
        let stages = self.measurement.stages.iter();
        let numbers = stages.clone().map(|stage| stage.number + 1).max();
        let mut sums = vec![StageWindow::default(); numbers.unwrap_or(0)];
        for (now, then) in stages.zip(&before.measurement.stages) {
            let sum = &mut sums[now.number];
            let (time, earlier) = (now.time, then.time);
            let seconds = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
            sum.items += now.items.saturating_sub(then.items) as f64;
            sum.busy_s += seconds(time.busy, earlier.busy);
            sum.input_wait_s += seconds(time.input, earlier.input);
            sum.output_wait_s += seconds(time.output, earlier.output);
            sum.core_wait_s += seconds(time.core, earlier.core);
        }
        let links = self.measurement.links.iter().zip(&before.measurement.links);
        let links: Vec<LinkWindow> = links
            .map(|(now, then)| LinkWindow {
                from: now.from,
                to: now.to,
                bytes: now.bytes.saturating_sub(then.bytes) as f64,
                occupancy: mean_occupancy(&now.occupancy, &then.occupancy),
            })
            .collect();
        let reads_links = |stage: usize| links.iter().any(|link| link.to == stage);
        let mut sources = (0..sums.len())
            .filter(|&stage| !reads_links(stage))
            .peekable();
        let is_starved = |stage: usize| sums[stage].input_wait_s > STARVED_SHARE * elapsed_s;
        let has_sources = self.measurement.is_of_stages && sources.peek().is_some();
        Window {
            elapsed_s,
            delivered: self.done.saturating_sub(before.done) as f64,
            starved: has_sources && sources.all(is_starved),
            cpu_s: self.cpu.saturating_sub(before.cpu).as_secs_f64(),
            stages: sums,
            links,
            messages: match (self.slots, before.slots) {
                (Some(now), Some(then)) => (now.messages - then.messages) as f64,
                _ => 0.0,
            },
        }
    }
}

fn mean_occupancy(now: &[u64; 9], then: &[u64; 9]) -> f64 {
    let counts = now
        .iter()
        .zip(then)
        .map(|(now, then)| now.saturating_sub(*then));
    let (mut sent, mut full) = (0, 0);
    for (eighths, count) in (0u64..).zip(counts) {
        sent += count;
        full += eighths * count;
    }
    full as f64 / (8 * sent).max(1) as f64
}
