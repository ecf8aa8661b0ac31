//! Reading ahead: inputs of the next tasklets are asked for while others run.

use std::collections::VecDeque;

use crate::run::Run;
use crate::sync::PoisonError;

/// Tasklets that are asked for between two looks at how far the others are.
const SEVERAL: usize = 32;

impl Run<'_> {
    /// The prefetcher: asks for the inputs of tasklets behind those that have begun, in order, but for no more once so many
    /// bytes are asked for that nobody has begun to use.
    pub(crate) fn ahead(&self) {
        let mut asked: VecDeque<(usize, u64)> = VecDeque::new();
        let (mut next, mut waiting, mut prefetched) = (0, 0, 0);
        let mut behind = self.desk.lock();
        behind.more.wanted = usize::MAX;
        while !behind.more.over {
            let begun = behind.more.begun;
            while let Some((_, bytes)) = asked.front().filter(|(place, _)| *place < begun) {
                waiting -= bytes;
                asked.pop_front();
            }
            next = next.max(begun);
            if next >= behind.roster.serial().tasklets.len() {
                break;
            }
            if waiting > 0 && waiting >= self.options.prefetch {
                // Half of them at a time: to be woken for each would cost the workers more than it gains.
                let half = asked.get(asked.len() / 2);
                behind.more.wanted = half.map_or(0, |(place, _)| place + 1);
                behind = (self.began.wait(behind)).unwrap_or_else(PoisonError::into_inner);
                behind.more.wanted = usize::MAX;
                continue;
            }
            let more = &behind.roster.serial().tasklets[next..];
            let several: Vec<usize> = more.iter().copied().take(SEVERAL).collect();
            drop(behind);
            for tasklet in several {
                let bytes = self.work.prefetch(tasklet);
                asked.push_back((next, bytes));
                waiting += bytes;
                next += 1;
                prefetched += bytes;
                if waiting >= self.options.prefetch {
                    break;
                }
            }
            *self
                .prefetched
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = prefetched;
            behind = self.desk.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use crate::error::{Cause, TaskletError};
    use crate::executor::Options;
    use crate::graph::{Graph, Spec};
    use crate::order::{Order, Serial};
    use crate::roster::Roster;
    use crate::run::{Work, run};

    /// Tasklets of ten bytes; the first lasts until the prefetcher has come to rest.
    struct Reading {
        asked: AtomicU64,
        behind: AtomicU64,
    }

    impl Work for Reading {
        fn run(&self, tasklet: usize, _worker: usize) -> Result<(), Cause> {
            let patience = Instant::now() + Duration::from_secs(20);
            while tasklet == 0 && self.asked.load(Ordering::SeqCst) < 3 && Instant::now() < patience
            {
                thread::sleep(Duration::from_millis(1));
            }
            if tasklet == 0 {
                thread::sleep(Duration::from_millis(20));
                self.behind
                    .store(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            Ok(())
        }
        fn release(&self, _tasklet: usize) -> Result<(), TaskletError> {
            Ok(())
        }
        fn write_back(&self, _: &[usize]) {}
        fn keep(&self, _done: &[usize]) -> Result<(), TaskletError> {
            Ok(())
        }
        fn prefetch(&self, _tasklet: usize) -> u64 {
            self.asked.fetch_add(1, Ordering::SeqCst);
            10
        }
        fn weight(&self, _tasklet: usize) -> u64 {
            10
        }
        fn interrupt(&self) {}
        fn is_interrupted(&self) -> bool {
            false
        }
        fn keeps(&self) -> bool {
            false
        }
    }

    #[test]
    fn no_more_is_read_ahead_than_was_allowed() {
        let spec = |name: usize| Spec {
            name: name.to_string(),
            ..Spec::default()
        };
        let specs: Vec<Spec> = (0..50).map(spec).collect();
        let graph = Graph::new(&[], &specs).unwrap();
        let serial = Serial::new(&graph, &[false; 50], Order::Given, 0).unwrap();
        let options = Options {
            prefetch: 25,
            ..Options::default()
        };
        let work = Reading {
            asked: AtomicU64::new(0),
            behind: AtomicU64::new(0),
        };
        let roster = Roster::new(graph, serial, 0);
        let ran = run(roster, &work, &options, None, &mut |_| true).unwrap();
        // Three behind the first, and the first itself if the prefetcher came before the worker.
        let asked = work.behind.load(Ordering::SeqCst);
        assert!((3..=4).contains(&asked), "{asked} tasklets were read ahead");
        assert!(ran.prefetched <= 500 && ran.visits.len() == 50);
    }
}
