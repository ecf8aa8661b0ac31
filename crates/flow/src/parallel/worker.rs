//! A worker: its own copy of every front, driven over one portion after another.
//!
//! Operators are made once a worker and front, not once a task: behind each portion comes a break, by which they forget
//! what they know, and what they hold back goes on, so that the next portion meets them as they were made. Memory of one
//! task is used again by the next.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use isochrony_store::Reading;

use super::dispatch::{Dispatch, Failure, Parcel, Task};
use super::line::Line;
use super::order::Seat;
use super::portions::Current;
use super::split::Front;
use crate::exec::pool::Pool;
use crate::exec::{RunOptions, panicked};
use crate::report::{OperatorReport, TaskReport, WorkerReport};
use crate::{OpError, OpErrorKind, RunError};

/// What a worker did.
pub(super) struct Done {
    number: usize,
    busy: Duration,
    samples: u64,
    /// By front and number.
    pub(super) tasks: Vec<((usize, u64), TaskReport)>,
    count: u64,
    /// Of each front, its operators.
    pub(super) operators: Vec<Option<Vec<OperatorReport>>>,
    /// Of each front, how each of its recordings was read.
    pub(super) reads: Vec<Vec<Option<Reading>>>,
}

impl Done {
    pub(super) fn summary(&self) -> WorkerReport {
        WorkerReport {
            number: self.number,
            tasks: self.count,
            samples: self.samples,
            busy: self.busy,
        }
    }
}

pub(super) struct Worker<'a> {
    number: usize,
    fronts: &'a [Front],
    options: &'a RunOptions<'a>,
    lines: Vec<Option<Line>>,
    /// Of each front, the memory of a line that failed, for the next.
    pools: Vec<Option<Pool>>,
    /// Of each front, what operators of lines did that failed.
    before: Vec<Option<Vec<OperatorReport>>>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(number: usize, fronts: &'a [Front], options: &'a RunOptions<'a>) -> Self {
        Self {
            number,
            fronts,
            options,
            lines: fronts.iter().map(|_| None).collect(),
            pools: fronts.iter().map(|_| None).collect(),
            before: vec![None; fronts.len()],
        }
    }

    /// Works until there is nothing more to do.
    pub(super) fn work(mut self, dispatch: &Dispatch) -> Done {
        let there = There(dispatch);
        let mut seat = Seat::default();
        let mut done = Done {
            number: self.number,
            busy: Duration::ZERO,
            samples: 0,
            tasks: Vec::new(),
            count: 0,
            operators: Vec::new(),
            reads: Vec::new(),
        };
        while let Some(task) = dispatch.take(&mut seat, || self.tidy()) {
            let begun = Instant::now();
            let ran = catch_unwind(AssertUnwindSafe(|| self.task(&task)));
            let ran = ran.unwrap_or_else(|panic| Err(self.located(&task, 0, panicked(&*panic))));
            if ran.as_ref().is_err_and(is_short_of_memory) && dispatch.put_back(&task) {
                done.busy += begun.elapsed();
                self.close(task.front);
                continue;
            }
            let gave = self.parcel(&task, ran.err());
            let elapsed = begun.elapsed();
            done.busy += elapsed;
            done.count += 1;
            let report = TaskReport {
                range: task.portion.range.clone(),
                worker: self.number,
                elapsed,
            };
            done.tasks.push(((task.front, task.number), report));
            dispatch.give(&task, gave);
        }
        std::mem::forget(there);
        for ((line, before), front) in self.lines.iter().zip(self.before).zip(self.fronts) {
            let mut report = line.as_ref().map(|line| line.report(done.busy));
            if let (Some(report), Some(before)) = (&mut report, &before) {
                let both = report.operators.iter_mut().zip(before);
                both.for_each(|(one, before)| one.add(before));
            }
            done.samples += report
                .iter()
                // Scans come first.
                .flat_map(|report| report.operators.iter().take(front.recordings.len()))
                .map(|scan| scan.samples)
                .sum::<u64>();
            done.reads
                .push(line.as_ref().map_or_else(Vec::new, Line::readings));
            done.operators
                .push(report.map(|report| report.operators).or(before));
        }
        // Who waits for its memory goes on when it has left.
        (self.lines, self.pools) = (Vec::new(), Vec::new());
        dispatch.leave(&seat);
        done
    }

    /// Lets go of memory that no task needs.
    fn tidy(&mut self) {
        for front in 0..self.lines.len() {
            match &mut self.lines[front] {
                // What operators hold goes with them.
                Some(line) if line.run.holds() => self.close(front),
                Some(line) => line.run.tidy(),
                None => {}
            }
        }
        for pool in self.pools.iter_mut().flatten() {
            pool.shrink(0);
        }
    }

    /// Drops a line whose operators must not be called again.
    fn close(&mut self, front: usize) {
        let Some(line) = self.lines[front].take() else {
            return;
        };
        let did = line.report(Duration::ZERO).operators;
        match &mut self.before[front] {
            Some(before) => before.iter_mut().zip(&did).for_each(|(a, b)| a.add(b)),
            none => *none = Some(did),
        }
        let mut pool = line.run.into_pool();
        pool.shrink(0);
        self.pools[front] = Some(pool);
    }

    fn located(&self, task: &Task, recording: usize, error: OpError) -> RunError {
        let read = &self.fronts[task.front].recordings[recording];
        let start = task.portion.range.start;
        RunError::Operator {
            operator: "scan",
            node: read.node,
            time: read.snapshot.time_of(start),
            range: Some(task.portion.range.clone()),
            error,
        }
    }

    /// What a task gave, all of it or up to an error; operators that failed are not called again.
    fn parcel(&mut self, task: &Task, error: Option<RunError>) -> Parcel {
        let front = &self.fronts[task.front];
        let place = &mut self.lines[task.front];
        let (exits, samples) = place.as_mut().map_or((Vec::new(), 0), |line| {
            let exits = line.leaving(front, task, error.is_some());
            let currents = line.currents.iter();
            let currents = currents.map(|one| one.lock().unwrap_or_else(PoisonError::into_inner));
            (exits, currents.map(|one| one.samples).sum())
        });
        let failure = error.map(|error| {
            let leads = place.as_ref().map(|line| line.leads(front, &error));
            let time = front.met_at(&error);
            let time = time.unwrap_or_else(|| front.recordings[0].time(task.portion.range.start));
            Failure::new(error, time, leads.unwrap_or_default())
        });
        if failure.is_some() {
            self.close(task.front);
        }
        Parcel::new(exits, samples, failure).of(&task.portion)
    }

    fn task(&mut self, task: &Task) -> Result<(), RunError> {
        let front = &self.fronts[task.front];
        if let Some(line) = &self.lines[task.front] {
            let done = line.currents.iter();
            done.for_each(|one| one.lock().unwrap_or_else(PoisonError::into_inner).close());
        }
        let read = front.recordings.iter().zip(&task.portion.reads).enumerate();
        let currents = read.map(|(at, (recording, read))| {
            let portion = read.portion.as_ref();
            let source = recording.open(task.number, portion);
            let source = source.map_err(|error| self.located(task, at, error))?;
            let range = portion.map_or(&task.portion.range, |portion| &portion.range);
            Ok(Current::of(source, range.clone(), recording.reach, read))
        });
        let currents: Vec<Current> = currents.collect::<Result<_, RunError>>()?;
        let line = match &mut self.lines[task.front] {
            Some(line) => line,
            none => {
                let pool = self.pools[task.front].take();
                none.insert(Line::new(front, self.options, pool)?)
            }
        };
        for (own, current) in line.currents.iter().zip(currents) {
            let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
            own.go_on(current);
        }
        line.task(front, task, self.options)
    }
}

/// Whether a task ended because there was not enough memory for it.
fn is_short_of_memory(error: &RunError) -> bool {
    let RunError::Operator { error, .. } = error else {
        return false;
    };
    matches!(
        error.kind(),
        OpErrorKind::MemoryCap { .. } | OpErrorKind::FanInStarved { .. }
    )
}

/// Says that a worker is gone, unless it has come to its end.
struct There<'a>(&'a Dispatch);

impl Drop for There<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}
