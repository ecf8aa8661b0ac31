//! Runs an executor: to the end, or for one task of a worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::executor::PlanExecutor;
use super::first_error::panic_error;
use super::options::RunOptions;
use super::report::Report;
use crate::RunError;

impl PlanExecutor {
    pub(crate) fn run(&mut self, options: &RunOptions<'_>) -> Result<Report, RunError> {
        self.run_with(options, |_| ())
    }

    /// The same; `after_burst` is called after each.
    pub(crate) fn run_with(
        &mut self,
        options: &RunOptions<'_>,
        mut after_burst: impl FnMut(&mut Self),
    ) -> Result<Report, RunError> {
        let begun = Instant::now();
        if let Some(progress) = options.progress {
            progress.set_total(self.total());
        }
        self.set_wakers();
        while !self.source_order.all_ended() {
            self.step(options)?;
            after_burst(self);
        }
        match self.starvation_error() {
            Some(error) => Err(error),
            None => Ok(self.report(begun.elapsed())),
        }
    }

    /// This thread is woken when a live source has something.
    pub(crate) fn set_wakers(&mut self) {
        for source in &mut self.source_order.sources {
            source.source.set_waker(&std::thread::current());
        }
    }

    /// One burst; false if all sources have ended.
    pub(crate) fn run_burst(&mut self, options: &RunOptions<'_>) -> Result<bool, RunError> {
        if self.source_order.all_ended() {
            return self.starvation_error().map_or(Ok(false), Err);
        }
        self.step(options)?;
        Ok(true)
    }

    /// One task of a worker: until all sources are idle or have ended.
    pub(crate) fn run_task(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        let sources = &mut self.source_order.sources;
        sources.iter_mut().for_each(|source| source.reset());
        let is_open = |executor: &Self| {
            let mut sources = executor.source_order.sources.iter();
            sources.any(|source| !source.ended && !source.idle)
        };
        while is_open(self) {
            self.step(options)?;
        }
        // Nothing that operators hold back may mix with the next task; what waits at fan-ins finds no partner any
        // more.
        let flushed = catch_unwind(AssertUnwindSafe(|| self.flush(true)));
        flushed
            .unwrap_or_else(|panic| Err(panic_error(&*panic)))
            .map_err(|error| self.locate(error))
    }

    /// One burst, or a sleep while no source has items.
    fn step(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        let current = self.source_order.select(&self.slots);
        // One guard per burst: error reports need only `context`, which is read after a panic but not continued with.
        let burst = catch_unwind(AssertUnwindSafe(|| match current {
            Some(current) => self.burst(current, options),
            None => self.wait_for_sources(options).map(|()| false),
        }));
        let error = match burst {
            Ok(Ok(gave)) => {
                // Meanwhile other sources may have got items.
                let others = self.source_order.sources.iter_mut().enumerate();
                let others = others.filter(|&(at, _)| gave && Some(at) != current);
                others.for_each(|(_, source)| source.idle = false);
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                let current = current.into_iter();
                current.for_each(|current| self.end_downstream(current));
                panic_error(&*panic)
            }
        };
        Err(match self.rank_error(error, current) {
            Some(first) => self.resolve_error(first, current, options),
            None => RunError::Interrupted { items: self.items },
        })
    }
}
