//! The prefetcher reads inputs of tasklets that have not started.
//!
//! ```text
//!  serial order:   started steps | prefetched, at most `prefetch` bytes | not prefetched yet
//!                                  ^ budget is freed as these start
//! ```

use std::collections::VecDeque;

use crate::sync::PoisonError;
use crate::worker_pool::WorkerPool;

const BATCH_SIZE: usize = 32;

impl WorkerPool<'_> {
    /// Prefetches in serial order until all inputs are read or the execution ends.
    pub(crate) fn read_ahead(&self) {
        // Step and bytes, prefetched and not started.
        let mut outstanding: VecDeque<(usize, u64)> = VecDeque::new();
        let (mut next_step, mut outstanding_bytes, mut prefetched) = (0, 0, 0);
        let mut state = self.shared.lock();
        state.extra.wake_prefetcher_at = usize::MAX;
        while !state.extra.is_over {
            let started = state.extra.started_steps;
            while let Some((_, bytes)) = outstanding.front().filter(|(step, _)| *step < started) {
                outstanding_bytes -= bytes;
                outstanding.pop_front();
            }
            next_step = next_step.max(started);
            if next_step >= state.scheduler.serial().tasklets.len() {
                break;
            }
            if outstanding_bytes > 0 && outstanding_bytes >= self.options.prefetch {
                // Waking up for each would cost the workers too much.
                let half = outstanding.get(outstanding.len() / 2);
                state.extra.wake_prefetcher_at = half.map_or(0, |(step, _)| step + 1);
                state = (self.prefetch_wanted.wait(state)).unwrap_or_else(PoisonError::into_inner);
                state.extra.wake_prefetcher_at = usize::MAX;
                continue;
            }
            let remaining = &state.scheduler.serial().tasklets[next_step..];
            let batch: Vec<usize> = remaining.iter().copied().take(BATCH_SIZE).collect();
            drop(state);
            for tasklet in batch {
                let bytes = self.runner.prefetch(tasklet);
                outstanding.push_back((next_step, bytes));
                outstanding_bytes += bytes;
                next_step += 1;
                prefetched += bytes;
                if outstanding_bytes >= self.options.prefetch {
                    break;
                }
            }
            *self
                .prefetched
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = prefetched;
            state = self.shared.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use crate::error::{Cause, TaskletError};
    use crate::graph::{DependencyGraph, TaskletSpec};
    use crate::options::ExecutorOptions;
    use crate::runner::TaskletRunner;
    use crate::scheduler::TaskletScheduler;
    use crate::serial_order::{OrderPolicy, SerialOrder};
    use crate::worker_pool::execute;

    /// The first tasklet runs until the prefetcher waits.
    struct CountingRunner {
        prefetched: AtomicU64,
        prefetched_during_first: AtomicU64,
    }

    impl TaskletRunner for CountingRunner {
        fn run(&self, tasklet: usize, _worker: usize) -> Result<(), Cause> {
            if tasklet == 0 {
                let deadline = Instant::now() + Duration::from_secs(20);
                while self.prefetched.load(Ordering::SeqCst) < 3 && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(Duration::from_millis(20));
                let prefetched = self.prefetched.load(Ordering::SeqCst);
                self.prefetched_during_first
                    .store(prefetched, Ordering::SeqCst);
            }
            Ok(())
        }
        fn release_scratch(&self, _tasklet: usize) -> Result<(), TaskletError> {
            Ok(())
        }
        fn commit(&self, _finished: &[usize]) -> Result<(), TaskletError> {
            Ok(())
        }
        fn write_back(&self, _finished: &[usize]) {}
        fn prefetch(&self, _tasklet: usize) -> u64 {
            self.prefetched.fetch_add(1, Ordering::SeqCst);
            10
        }
        fn byte_count(&self, _tasklet: usize) -> u64 {
            10
        }
        fn interrupt(&self) {}
        fn is_interrupted(&self) -> bool {
            false
        }
        fn has_commits(&self) -> bool {
            false
        }
    }

    #[test]
    fn reads_ahead_no_more_than_the_limit() {
        let spec = |name: usize| TaskletSpec {
            name: name.to_string(),
            ..TaskletSpec::default()
        };
        let specs: Vec<TaskletSpec> = (0..50).map(spec).collect();
        let graph = DependencyGraph::new(&[], &specs).unwrap();
        let serial = SerialOrder::new(&graph, &[false; 50], OrderPolicy::Given, 0).unwrap();
        let options = ExecutorOptions {
            prefetch: 25,
            ..ExecutorOptions::default()
        };
        let runner = CountingRunner {
            prefetched: AtomicU64::new(0),
            prefetched_during_first: AtomicU64::new(0),
        };
        let scheduler = TaskletScheduler::new(graph, serial, 0);
        let outcome = execute(scheduler, &runner, &options, None, &mut |_| true).unwrap();
        let prefetched = runner.prefetched_during_first.load(Ordering::SeqCst);
        assert!(
            (3..=4).contains(&prefetched),
            "{prefetched} tasklets were read ahead"
        );
        assert!(outcome.prefetched <= 500 && outcome.timings.len() == 50);
    }
}
