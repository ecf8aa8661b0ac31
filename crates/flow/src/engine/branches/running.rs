//! Executes branches in the caller's thread.

use std::sync::Arc;

use super::queue::Tap;
use crate::RunError;
use crate::engine::executor::PlanExecutor;
use crate::engine::options::RunOptions;
use crate::engine::run::Burst;
use crate::plan::graph::Graph;

struct RunningBranch {
    tap: Arc<Tap>,
    graph: Graph,
    /// Present between the first burst and the end.
    executor: Option<PlanExecutor>,
    ended: bool,
}

#[derive(Default)]
pub(crate) struct RunningBranches(Vec<RunningBranch>);

impl RunningBranches {
    pub(crate) fn add(&mut self, tap: Arc<Tap>, graph: Graph) {
        self.0.push(RunningBranch {
            tap,
            graph,
            executor: None,
            ended: false,
        });
    }

    pub(crate) fn run(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        let mut open = self.0.iter_mut();
        open.try_for_each(|branch| branch.run(options))?;
        self.0.retain(|branch| !branch.ended);
        Ok(())
    }

    pub(crate) fn finish(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        self.0.iter().for_each(|branch| branch.tap.end());
        self.run(options)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl RunningBranch {
    fn run(&mut self, options: &RunOptions<'_>) -> Result<(), RunError> {
        if self.ended {
            return Ok(());
        }
        let executor = match &mut self.executor {
            Some(executor) => executor,
            none => {
                let new = PlanExecutor::new(&self.graph, options)?;
                none.insert(new.by_block(false).awaiting_sources())
            }
        };
        loop {
            match executor.run_burst(options)? {
                Burst::Ran => {}
                Burst::Idle => return Ok(()),
                Burst::Ended => break,
            }
        }
        self.tap.complete();
        (self.executor, self.ended) = (None, true);
        Ok(())
    }
}
