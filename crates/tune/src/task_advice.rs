//! [`TaskTimes`]: what a run in tasks of one size says about other sizes.

use std::iter::successors;

/// Shorter runs say little.
pub const MIN_ADVICE_S: f64 = 0.2;
/// A smaller predicted gain is within what two runs differ by.
pub const MIN_ADVICE_GAIN: f64 = 0.05;
/// Share of its time that the thread which takes results must wait for them; else it limits the run, whatever the size.
pub(crate) const MIN_CONSUMER_WAIT: f64 = 0.1;
const FACTOR: u64 = 2;

/// Times of a run in tasks of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskTimes {
    /// Threads that computed tasks.
    pub workers: usize,
    /// Tasks.
    pub tasks: u64,
    /// Bytes that a task read, without what lies around it.
    pub task_bytes: u64,
    /// Bytes that it read and computed around these.
    pub around_bytes: u64,
    /// Sizes that the run may have had.
    pub least_bytes: u64,
    /// Largest of these.
    pub most_bytes: u64,
    /// Seconds of the run.
    pub elapsed_s: f64,
    /// Seconds that all threads computed.
    pub busy_s: f64,
    /// Seconds that the thread which takes results waited for them.
    pub consumer_wait_s: f64,
}

/// Another size, with its predicted gain in throughput as a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskSizeAdvice {
    /// Bytes that a task reads.
    pub task_bytes: u64,
    /// Predicted gain.
    pub gain: f64,
}

impl TaskTimes {
    /// The best size, by powers of two; that of the run if none is clearly better.
    ///
    /// # Errors
    /// Why the run does not tell.
    pub fn advice(&self) -> Result<TaskSizeAdvice, String> {
        if self.elapsed_s < MIN_ADVICE_S {
            return Err(format!(
                "the run took {:.0} ms, too short to tell",
                1e3 * self.elapsed_s
            ));
        }
        if self.tasks == 0 || self.workers == 0 || self.task_bytes == 0 {
            return Err("it computed no tasks".into());
        }
        if self.consumer_wait_s < MIN_CONSUMER_WAIT * self.elapsed_s {
            return Err(
                "the thread that takes the results limits the run, whatever the size".into(),
            );
        }
        let now = self.seconds(self.task_bytes);
        let mut best = TaskSizeAdvice {
            task_bytes: self.task_bytes,
            gain: 0.0,
        };
        for task_bytes in self.sizes() {
            let gain = now / self.seconds(task_bytes) - 1.0;
            if gain >= MIN_ADVICE_GAIN && gain > best.gain {
                best = TaskSizeAdvice { task_bytes, gain };
            }
        }
        Ok(best)
    }

    /// Smaller and larger ones.
    fn sizes(&self) -> impl Iterator<Item = u64> {
        let (least, most) = (self.least_bytes.max(1), self.most_bytes);
        let smaller = successors(Some(self.task_bytes / FACTOR), |bytes| Some(bytes / FACTOR));
        let larger = successors(self.task_bytes.checked_mul(FACTOR), |bytes| {
            bytes.checked_mul(FACTOR)
        });
        let smaller = smaller.take_while(move |&bytes| bytes >= least);
        smaller.chain(larger.take_while(move |&bytes| bytes <= most))
    }

    /// Predicted seconds of the run: tasks compute what lies around them, too; each takes time to be handed out; and
    /// all threads wait for those with one task more.
    fn seconds(&self, task_bytes: u64) -> f64 {
        let with_around = |bytes: f64| 1.0 + self.around_bytes as f64 / bytes;
        let (own, bytes) = (self.task_bytes as f64, task_bytes as f64);
        let computed_s = self.busy_s * with_around(bytes) / with_around(own);
        let tasks = (own * self.tasks as f64 / bytes).ceil().max(1.0);
        self.rounds(tasks) * (computed_s / tasks + self.handing_out_s())
    }

    /// Tasks of a thread.
    fn rounds(&self, tasks: f64) -> f64 {
        (tasks / self.workers as f64).ceil()
    }

    /// Per task, as measured.
    fn handing_out_s(&self) -> f64 {
        let tasks = self.tasks as f64;
        (self.elapsed_s / self.rounds(tasks) - self.busy_s / tasks).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 64 MiB with two threads, in tasks of 1 MiB.
    fn times() -> TaskTimes {
        TaskTimes {
            workers: 2,
            tasks: 64,
            task_bytes: 1 << 20,
            around_bytes: 0,
            least_bytes: 1 << 14,
            most_bytes: 16 << 20,
            elapsed_s: 1.0,
            busy_s: 1.98,
            consumer_wait_s: 0.9,
        }
    }

    /// Seconds of tasks that two threads take in turn, each the next one as soon as it is free.
    fn simulated(tasks: u64, each_s: f64) -> f64 {
        let mut free = [0.0_f64; 2];
        for _ in 0..tasks {
            let next = usize::from(free[1] < free[0]);
            free[next] += each_s;
        }
        free[0].max(free[1])
    }

    #[test]
    fn what_lies_around_small_tasks_makes_larger_ones_better() {
        let around = TaskTimes {
            around_bytes: 1 << 20,
            ..times()
        };
        let advice = around.advice().unwrap();
        // Each byte is computed twice now.
        let expected = |bytes: u64| {
            let tasks = (64 << 20) / bytes;
            let each_s = 1.98 / 128.0 * (bytes + (1 << 20)) as f64 / f64::from(1 << 20);
            simulated(tasks, each_s)
        };
        let best = (0..9)
            .map(|power| (1u64 << 14) << power)
            .chain((0..5).map(|power| (1 << 20) << power));
        let best = best
            .min_by(|&a, &b| expected(a).total_cmp(&expected(b)))
            .unwrap();
        assert!(
            advice.task_bytes > 1 << 20
                && advice.task_bytes <= 2 * best
                && 2 * advice.task_bytes >= best
        );
        let gain = expected(1 << 20) / expected(advice.task_bytes) - 1.0;
        assert!((advice.gain - gain).abs() < 0.1 * gain, "{advice:?} {gain}");
    }

    #[test]
    fn few_tasks_leave_threads_idle_at_the_end() {
        let few = TaskTimes {
            tasks: 3,
            elapsed_s: 1.0,
            busy_s: 1.5,
            ..times()
        };
        let advice = few.advice().unwrap();
        assert!(advice.task_bytes < 1 << 20, "{advice:?}");
        assert!(advice.gain > 0.1, "{advice:?}");
    }

    #[test]
    fn time_for_handing_out_makes_larger_tasks_better() {
        let slow = TaskTimes {
            busy_s: 1.2,
            ..times()
        };
        let advice = slow.advice().unwrap();
        assert!(
            advice.task_bytes > 1 << 20 && advice.gain > 0.2,
            "{advice:?}"
        );
    }

    #[test]
    fn a_size_that_costs_little_stays() {
        let advice = times().advice().unwrap();
        assert_eq!((advice.task_bytes, advice.gain), (1 << 20, 0.0));
        let fixed = TaskTimes {
            least_bytes: 1 << 20,
            most_bytes: 1 << 20,
            around_bytes: 1 << 20,
            ..times()
        };
        assert_eq!(fixed.advice().unwrap().task_bytes, 1 << 20);
    }

    #[test]
    fn a_run_that_does_not_tell_says_why() {
        for (times, why) in [
            (
                TaskTimes {
                    elapsed_s: 0.1,
                    ..times()
                },
                "the run took 100 ms",
            ),
            (
                TaskTimes {
                    tasks: 0,
                    ..times()
                },
                "no tasks",
            ),
            (
                TaskTimes {
                    consumer_wait_s: 0.01,
                    ..times()
                },
                "takes the results limits",
            ),
        ] {
            assert!(times.advice().unwrap_err().contains(why));
        }
    }
}
