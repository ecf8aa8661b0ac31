//! Tasklets that are plans. Workers reuse a plan's state for its next range.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use isochrony_flow::{Plan, PlanOutput, RepeatedPlan, RunOptions};
use isochrony_tasklets::{Cause, ReturnValue, TaskletContext};
use isochrony_time::TimebaseId;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::plan::{NativePlan, object};

const STATES_PER_WORKER: usize = 4;

pub(super) struct PlanRegistry {
    /// By address; keeps the object, so no other gets the address.
    known: HashMap<usize, RegisteredPlan>,
    kept: Arc<PlanStateCache>,
}

/// A plan, its number, and its unfinished tasklets.
type RegisteredPlan = (Py<NativePlan>, usize, Arc<AtomicUsize>);

/// Least recently used first.
struct PlanStateCache {
    most: usize,
    idle: Mutex<Vec<(usize, RepeatedPlan)>>,
}

impl PlanStateCache {
    fn take(&self, number: usize) -> Option<RepeatedPlan> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|(of, _)| *of == number)?;
        Some(idle.remove(at).1)
    }

    fn give(&self, number: usize, repeated: RepeatedPlan) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = (idle.len() >= self.most).then(|| idle.remove(0));
        idle.push((number, repeated));
        drop(idle);
        drop(oldest);
    }

    fn forget(&self, number: usize) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |one: &(usize, RepeatedPlan)| one.0 == number;
        let (gone, rest) = std::mem::take(&mut *idle).into_iter().partition(of);
        *idle = rest;
        drop(idle);
        let _: Vec<_> = gone;
    }
}

impl PlanRegistry {
    pub(super) fn new(workers: usize) -> Self {
        let kept = PlanStateCache {
            most: STATES_PER_WORKER.saturating_mul(workers.max(1)),
            idle: Mutex::default(),
        };
        Self {
            known: HashMap::new(),
            kept: Arc::new(kept),
        }
    }

    pub(super) fn of(
        &mut self,
        plan: &Bound<'_, NativePlan>,
        ranges: Vec<(TimebaseId, Range<i64>)>,
    ) -> PlanTasklet {
        let number = self.known.len();
        let known = self.known.entry(plan.as_ptr() as usize);
        let made = || (plan.clone().unbind(), number, Arc::default());
        let (_, number, left) = known.or_insert_with(made);
        left.fetch_add(1, Ordering::Relaxed);
        PlanTasklet {
            plan: plan.get().plan().clone(),
            number: *number,
            left: Arc::clone(left),
            ranges,
            kept: Arc::clone(&self.kept),
        }
    }
}

pub(super) struct PlanTasklet {
    plan: Plan,
    number: usize,
    left: Arc<AtomicUsize>,
    ranges: Vec<(TimebaseId, Range<i64>)>,
    kept: Arc<PlanStateCache>,
}

impl PlanTasklet {
    /// The plan's output is stored, or is the result.
    pub(super) fn run(
        &self,
        results: &Py<PyDict>,
        context: &mut TaskletContext<'_>,
    ) -> Result<ReturnValue, Cause> {
        let kept = self.kept.take(self.number);
        let mut repeated = kept.unwrap_or_else(|| RepeatedPlan::new(&self.plan));
        let returned = match context.outputs() {
            0 => self.collect(&mut repeated, results, context),
            _ => self.fill(&mut repeated, context),
        };
        if returned.is_ok() {
            self.kept.give(self.number, repeated);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) <= 1 {
            self.kept.forget(self.number);
        }
        returned
    }

    fn fill(
        &self,
        repeated: &mut RepeatedPlan,
        context: &mut TaskletContext<'_>,
    ) -> Result<ReturnValue, Cause> {
        let port = self.plan.port();
        let Some(got) = port.dtype() else {
            return Err(format!(
                "the plan gives {port}, not samples; end it with samples or windows"
            )
            .into());
        };
        let (len, dtype) = context.output(0)?;
        let size = dtype.size();
        let block =
            (context.pool()).take(usize::try_from(len).unwrap_or(0).saturating_mul(size))?;
        let mut options = RunOptions::default();
        options.interrupt = Some(context.interrupt());
        let (block, bytes) = repeated.fill(&self.ranges, block, &options)?;
        let values = bytes / got.size() as u64;
        if got != dtype || values != len.cast_unsigned() {
            return Err(format!(
                "the plan gives {values} values of {got}, but its output is {len} of {dtype}; declare what it gives"
            )
            .into());
        }
        context.write_block(0, 0, block, true)?;
        Ok(ReturnValue::Nothing)
    }

    fn collect(
        &self,
        repeated: &mut RepeatedPlan,
        results: &Py<PyDict>,
        context: &TaskletContext<'_>,
    ) -> Result<ReturnValue, Cause> {
        let mut options = RunOptions::default();
        options.interrupt = Some(context.interrupt());
        let (gathered, _) = repeated.collect(&self.ranges, &options)?;
        if let PlanOutput::Count(count) = gathered {
            return Ok(ReturnValue::Value(json!(count)));
        }
        crate::interpreter::attach(|py| -> PyResult<()> {
            let (object, _) = object(py, &self.plan, gathered).map_err(PyErr::from)?;
            results.bind(py).set_item(context.name(), object)
        })?;
        Ok(ReturnValue::NotSerializable)
    }
}
