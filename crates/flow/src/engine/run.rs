//! Runs an executor to the end, for a burst, or for a task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::{Duration, Instant};

use isochrony_runtime::thread_waker;

use super::burst::IDLE_WAIT;
use super::executor::{PlanExecutor, StepOutcome};
use super::first_error::panic_error;
use super::options::RunOptions;
use super::report::Report;
use crate::RunError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Burst {
    Ran,
    /// Call again when woken, and after [`IDLE_WAIT`].
    Idle,
    Ended,
}

impl PlanExecutor {
    pub(crate) fn run(&mut self, options: &RunOptions<'_>) -> Result<Report, RunError> {
        let begun = Instant::now();
        if let Some(progress) = options.progress {
            progress.set_total(self.total());
        }
        self.set_waker(&thread_waker());
        self.latencies = self.measures.then(Box::default);
        let mut idle = Duration::ZERO;
        loop {
            let burst = self.run_burst(options)?;
            if let Some(control) = options.control {
                control.run_branches(options, burst == Burst::Ended)?;
            }
            match burst {
                Burst::Ran => {}
                Burst::Idle => {
                    let parked = Instant::now();
                    std::thread::park_timeout(IDLE_WAIT);
                    idle += parked.elapsed();
                }
                Burst::Ended => {
                    let report = self.report(begun.elapsed());
                    return Ok(Report { idle, ..report });
                }
            }
        }
    }

    /// `waker` is called when a live source has something.
    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        for source in &mut self.source_order.sources {
            source.source.set_waker(waker);
        }
    }

    /// Asks each source again, since earlier wake-ups are forgotten when a burst begins. Idle then means no input
    /// since.
    pub(crate) fn run_burst(&mut self, options: &RunOptions<'_>) -> Result<Burst, RunError> {
        self.source_order.retry_idle();
        self.update_taps();
        self.asked = self.measures.then(Instant::now);
        let items = self.items;
        loop {
            if self.first_error.is_none() && self.source_order.all_ended() {
                self.close_taps();
                self.latencies.iter_mut().for_each(|one| one.end_burst());
                return self.starvation_error().map_or(Ok(Burst::Ended), Err);
            }
            match self.step(options)? {
                StepOutcome::Gave => {
                    let latencies = self.latencies.as_mut().filter(|_| self.items > items);
                    if let Some((latencies, arrived)) = latencies.zip(self.context.arrived) {
                        latencies.add_burst(arrived);
                    }
                    return Ok(Burst::Ran);
                }
                StepOutcome::Asked => {}
                StepOutcome::Idle => return Ok(Burst::Idle),
            }
        }
    }

    /// A task or a part of it, until all sources are idle or have ended.
    pub(crate) fn run_task(
        &mut self,
        begins: bool,
        completes: bool,
        options: &RunOptions<'_>,
    ) -> Result<(), RunError> {
        let sources = self.source_order.sources.iter_mut();
        sources.for_each(|source| match begins {
            true => source.reset(),
            false => source.idle = false,
        });
        let is_open = |executor: &Self| {
            let mut sources = executor.source_order.sources.iter();
            sources.any(|source| !source.ended && !source.idle)
        };
        while self.first_error.is_some() || is_open(self) {
            self.step(options)?;
        }
        // What operators hold back must not mix with the next task; items at fan-ins find no partner any more.
        let flushed = catch_unwind(AssertUnwindSafe(|| self.flush(completes)));
        flushed
            .unwrap_or_else(|panic| Err(panic_error(&*panic)))
            .map_err(|error| self.locate(error))
    }

    fn step(&mut self, options: &RunOptions<'_>) -> Result<StepOutcome, RunError> {
        if let Some(first) = self.first_error.take() {
            return self.drain(first, options);
        }
        let current = self.source_order.select(&self.slots);
        // One guard per burst. After a panic, only `context` is read, for the error.
        let burst = catch_unwind(AssertUnwindSafe(|| match current {
            Some(current) => {
                let gave = self.burst(current, options)?;
                self.flush_if_due().map(|()| gave)
            }
            None => self.go_idle().map(|()| false),
        }));
        let error = match burst {
            Ok(Ok(gave)) => {
                // Other sources may have got items meanwhile.
                let others = self.source_order.sources.iter_mut().enumerate();
                let others = others.filter(|&(at, _)| gave && Some(at) != current);
                others.for_each(|(_, source)| source.idle = source.is_stopped());
                return Ok(match current {
                    Some(_) if gave => StepOutcome::Gave,
                    Some(_) => StepOutcome::Asked,
                    None => StepOutcome::Idle,
                });
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                let current = current.into_iter();
                current.for_each(|current| self.end_downstream(current));
                panic_error(&*panic)
            }
        };
        match self.rank_error(error, current) {
            Some(first) => self.begin_drain(first, current).map(|()| StepOutcome::Gave),
            None => Err(RunError::Interrupted { items: self.items }),
        }
    }
}
