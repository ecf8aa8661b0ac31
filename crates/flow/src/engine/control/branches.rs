//! Adds branches to a running plan and removes them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{ActivePlan, Control, EarlyBranch};
use crate::engine::branches::{RunningBranches, TapInbox, TapWakers};
use crate::engine::options::RunOptions;
use crate::plan::graph::Edge;
use crate::{Plan, PlanError, RunError};

impl Control {
    /// Adds a branch: `branch` continues results of an operator of the running plan and ends in a sink or a function.
    /// It gets each item once, from the next one, or from the first if added before execution. The plan's results are
    /// unchanged. The branch runs in the caller's thread and ends with the plan; its errors end the execution.
    ///
    /// # Errors
    /// [`PlanError::Branch`], [`PlanError::NotRunning`]. If added before the execution, the execution fails instead.
    pub fn add(&self, branch: &Plan) -> Result<(), PlanError> {
        self.add_branch(branch, None)
    }

    /// The same from an index on, but not before items already given. Windows lie as if the branch were part of the
    /// plan. [`Report::branches`](crate::Report) lists the actual index.
    ///
    /// # Errors
    /// As [`add`](Self::add); [`PlanError::NoIndices`] if the items have none.
    pub fn add_from(&self, branch: &Plan, index: i64) -> Result<(), PlanError> {
        self.add_branch(branch, Some(index))
    }

    /// Removes a branch after what was given so far; its sink commits as at the end of an execution.
    ///
    /// # Errors
    /// [`PlanError::Branch`] if it is not part of the running plan.
    pub fn remove(&self, branch: &Plan) -> Result<(), PlanError> {
        self.remove_branch(branch, None)
    }

    /// Removes a branch, which still gets all that begins before an index.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_from(&self, branch: &Plan, index: i64) -> Result<(), PlanError> {
        self.remove_branch(branch, Some(index))
    }

    /// Whether a branch was added and has not ended.
    #[must_use]
    pub fn has(&self, branch: &Plan) -> bool {
        let state = self.state();
        let mut early = state.early_branches.iter();
        let is_early = early.any(|one| Arc::ptr_eq(&one.plan.node, &branch.node));
        let mut active = state.active.iter().flat_map(|active| &active.branches);
        is_early || active.any(|one| one.is_of(branch) && !one.tap.is_complete())
    }

    fn add_branch(&self, plan: &Plan, at: Option<i64>) -> Result<(), PlanError> {
        let mut state = self.state();
        match &mut state.active {
            Some(active) => self.add_to(active, plan, at),
            None => {
                let (plan, until) = (plan.clone(), None);
                state.early_branches.push(EarlyBranch { plan, at, until });
                Ok(())
            }
        }
    }

    pub(super) fn add_to(
        &self,
        active: &mut ActivePlan,
        plan: &Plan,
        at: Option<i64>,
    ) -> Result<(), PlanError> {
        let (mut branch, graph) = active.branch(plan, at)?;
        if active.is_open {
            branch.attach(&active.inboxes)?;
        }
        let mut running = self.branches();
        running.add(Arc::clone(&branch.tap), graph);
        self.has_branches.store(true, Ordering::Release);
        active.branches.push(branch);
        Ok(())
    }

    fn remove_branch(&self, plan: &Plan, at: Option<i64>) -> Result<(), PlanError> {
        let mut state = self.state();
        let unknown = PlanError::Branch {
            operator: plan.node.op.name(),
            change: "removed",
            what: "it is not a branch of the running plan".into(),
            mend: "give the plan that was added",
        };
        if let Some(active) = &mut state.active {
            let mut branches = active.branches.iter_mut().rev();
            let branch = branches
                .find(|one| one.is_of(plan) && !one.is_removed())
                .ok_or(unknown)?;
            branch.remove(at);
            return Ok(());
        }
        let mut early = state.early_branches.iter_mut().rev();
        let is_same = |one: &&mut EarlyBranch| Arc::ptr_eq(&one.plan.node, &plan.node);
        let found = early.find(is_same).ok_or(unknown)?;
        found.until = Some(at.unwrap_or(i64::MIN));
        Ok(())
    }

    pub(super) fn branches(&self) -> MutexGuard<'_, RunningBranches> {
        self.branches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an executor's `edges` tappable. The caller's thread comes last, without `wakers` or with its own.
    pub(crate) fn taps_of(
        &self,
        edges: HashMap<Edge, Edge>,
        wakers: Option<TapWakers>,
    ) -> Arc<TapInbox> {
        let inbox = Arc::new(TapInbox::new(edges, wakers));
        if let Some(active) = &mut self.state().active {
            active.inboxes.push(Arc::clone(&inbox));
        }
        inbox
    }

    /// Attaches the branches so far; all executors must be known.
    pub(crate) fn open_taps(&self) -> Result<(), PlanError> {
        let mut state = self.state();
        let Some(active) = &mut state.active else {
            return Ok(());
        };
        active.is_open = true;
        let (branches, inboxes) = (&mut active.branches, &active.inboxes);
        branches
            .iter_mut()
            .try_for_each(|branch| branch.attach(inboxes))
    }

    /// Executes branches in the caller's thread. `ended`: they end with the plan.
    pub(crate) fn run_branches(
        &self,
        options: &RunOptions<'_>,
        ended: bool,
    ) -> Result<(), RunError> {
        if !self.has_branches.load(Ordering::Acquire) {
            return Ok(());
        }
        let options = RunOptions {
            progress: None,
            control: None,
            ..*options
        };
        let mut running = std::mem::take(&mut *self.branches());
        loop {
            match ended {
                true => running.finish(&options)?,
                false => running.run(&options)?,
            }
            let mut new = self.branches();
            if !ended || new.is_empty() {
                running.extend(std::mem::take(&mut *new));
                *new = running;
                return Ok(());
            }
            running.extend(std::mem::take(&mut *new));
        }
    }
}
