//! Recommends how many tasks a message to a slot of a cluster should carry, by what messages took ([`MessageTimes`]).

use crate::task_advice::{MIN_ADVICE_GAIN, MIN_ADVICE_S, MIN_CONSUMER_WAIT};

/// Share of its computing time for which a slot may wait for messages.
const MAX_WAIT_SHARE: f64 = 0.05;
/// Messages that showed how long they travel; fewer say little.
const MIN_MESSAGES: f64 = 4.0;

/// Times of messages of a run on a cluster.
///
/// A message is sent at `s`, its answer arrives at `a`, that of the message before it was taken in at `p`, and its tasks
/// compute for `c`. Its slot waited for `a - max(s, p) - c`. Where that is more than nothing, the message did not wait
/// behind the one before it, so it travelled, both ways and with what encodes and decodes it, for `a - s - c`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MessageTimes {
    /// Slots.
    pub slots: usize,
    /// Messages of a slot that are under way at the same time.
    pub in_flight: usize,
    /// Most tasks that a message may carry.
    pub most_tasks: usize,
    /// Messages that were answered.
    pub messages: u64,
    /// Their tasks.
    pub tasks: u64,
    /// Seconds that these computed.
    pub busy_s: f64,
    /// Seconds that slots waited for messages.
    pub wait_s: f64,
    /// Messages that a slot waited for.
    pub travels: TravelTimes,
    /// Seconds of the run.
    pub elapsed_s: f64,
    /// Seconds that the thread which takes results waited for them.
    pub consumer_wait_s: f64,
}

/// Sums over messages that did not wait behind others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TravelTimes {
    count: f64,
    tasks: f64,
    squared_tasks: f64,
    seconds: f64,
    tasks_seconds: f64,
}

impl TravelTimes {
    fn add(&mut self, tasks: usize, seconds: f64) {
        let tasks = tasks as f64;
        self.count += 1.0;
        self.tasks += tasks;
        self.squared_tasks += tasks * tasks;
        self.seconds += seconds;
        self.tasks_seconds += tasks * seconds;
    }

    /// Seconds of a message, and in addition of each of its tasks, neither below 0: least squares.
    fn costs(&self) -> (f64, f64) {
        let mean = self.seconds / self.count;
        let spread = self.count * self.squared_tasks - self.tasks * self.tasks;
        let slope = (self.count * self.tasks_seconds - self.tasks * self.seconds) / spread;
        // All messages had the same number of tasks, or those with more travelled no longer.
        if spread <= 0.0 || slope <= 0.0 {
            return (mean, 0.0);
        }
        let message_s = mean - slope * self.tasks / self.count;
        match message_s > 0.0 {
            true => (message_s, slope),
            false => (0.0, self.tasks_seconds / self.squared_tasks),
        }
    }
}

/// A number of tasks per message, with its predicted gain in throughput as a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchAdvice {
    /// Tasks of a message; 0: each slot decides.
    pub batch_tasks: usize,
    /// Predicted gain.
    pub gain: f64,
    /// Seconds that a message travelled, but for those that each task added; 0 where none was waited for.
    pub message_s: f64,
    /// Seconds that a task computed.
    pub task_s: f64,
}

impl MessageTimes {
    /// Adds a message that was answered. `awaited_s`: how long its slot waited for it; `travel_s`: its travel time if it
    /// did not wait behind another one.
    pub fn add(&mut self, tasks: usize, busy_s: f64, awaited_s: f64, travel_s: f64) {
        self.messages += 1;
        self.tasks += tasks as u64;
        self.busy_s += busy_s;
        self.wait_s += awaited_s.max(0.0);
        if awaited_s > MAX_WAIT_SHARE * busy_s {
            self.travels.add(tasks, travel_s.max(0.0));
        }
    }

    /// The smallest number of tasks with which slots wait for messages for at most 5 % of their computing time, at most
    /// as many as leave each slot its messages in flight; 0 if that gains little over the run.
    ///
    /// # Errors
    /// Why the run does not tell.
    pub fn advice(&self) -> Result<BatchAdvice, String> {
        if self.elapsed_s < MIN_ADVICE_S {
            let took_ms = 1e3 * self.elapsed_s;
            return Err(format!("the run took {took_ms:.0} ms, too short to tell"));
        }
        if self.tasks == 0 || self.slots == 0 || self.in_flight == 0 || self.busy_s <= 0.0 {
            return Err("it computed no tasks".into());
        }
        if self.consumer_wait_s < MIN_CONSUMER_WAIT * self.elapsed_s {
            return Err(
                "the thread that takes the results limits the run, whatever messages carry".into(),
            );
        }
        let task_s = self.busy_s / self.tasks as f64;
        if self.travels.count < MIN_MESSAGES {
            return Ok(BatchAdvice {
                batch_tasks: 0,
                gain: 0.0,
                message_s: 0.0,
                task_s,
            });
        }
        let (message_s, added_s) = self.travels.costs();
        let hidden_s = self.hidden_share() * task_s - added_s;
        let enough = match hidden_s > 0.0 {
            true => (message_s / hidden_s).ceil(),
            false => f64::INFINITY,
        };
        let share = self.tasks / (self.slots * self.in_flight) as u64;
        let most = share.clamp(1, self.most_tasks.max(1) as u64);
        let batch_tasks = enough.clamp(1.0, most as f64) as usize;
        let now_s = (self.busy_s + self.wait_s) / self.tasks as f64;
        let travel_s = message_s + batch_tasks as f64 * added_s;
        let gain = now_s / self.seconds_of_task(batch_tasks, travel_s, task_s) - 1.0;
        // With fewer tasks a message, slots wait no less.
        let is_larger = batch_tasks as u64 * self.messages > self.tasks;
        let gains = is_larger && gain >= MIN_ADVICE_GAIN;
        Ok(BatchAdvice {
            batch_tasks: if gains { batch_tasks } else { 0 },
            gain: if gains { gain } else { 0.0 },
            message_s,
            task_s,
        })
    }

    /// Seconds between two tasks of a slot: each of its messages comes back after it has travelled and was computed.
    fn seconds_of_task(&self, batch: usize, travel_s: f64, task_s: f64) -> f64 {
        let computed_s = batch as f64 * task_s;
        let period_s = (travel_s + computed_s) / self.in_flight as f64;
        period_s.max(computed_s) / batch as f64
    }

    /// How long a message may travel, as a share of its computing time, so that slots wait no longer than they may.
    fn hidden_share(&self) -> f64 {
        ((1.0 + MAX_WAIT_SHARE) * self.in_flight as f64 - 1.0).max(MAX_WAIT_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots with two messages in flight, each computed after those before it, all `batch` tasks of `task_s` seconds.
    fn simulated(
        slots: usize,
        tasks: u64,
        batch: usize,
        task_s: f64,
        message_s: f64,
    ) -> MessageTimes {
        let mut times = MessageTimes {
            slots,
            in_flight: 2,
            most_tasks: 32,
            ..MessageTimes::default()
        };
        let computed_s = batch as f64 * task_s;
        let mut elapsed_s = 0.0;
        for _ in 0..slots {
            let (mut sent, mut answered) = ([0.0; 2], 0.0_f64);
            for message in 0..tasks as usize / slots / batch {
                let begun: f64 = sent[message % 2];
                let ends = (begun + message_s).max(answered) + computed_s;
                let waited = ends - begun.max(answered) - computed_s;
                times.add(batch, computed_s, waited, ends - begun - computed_s);
                (sent[message % 2], answered) = (ends, ends);
            }
            elapsed_s = answered;
        }
        times.elapsed_s = elapsed_s;
        times.consumer_wait_s = elapsed_s;
        times
    }

    #[test]
    fn messages_that_travel_for_long_carry_more_tasks() {
        let advice = simulated(4, 8000, 2, 1e-3, 20e-3).advice().unwrap();
        assert!((advice.message_s / 20e-3 - 1.0).abs() < 0.05, "{advice:?}");
        // 20 ms of messages are hidden behind 19 tasks, but for 5 %.
        assert_eq!(advice.batch_tasks, 19, "{advice:?}");
        let now = simulated(4, 8000, 2, 1e-3, 20e-3).elapsed_s;
        let then = simulated(4, 8000, 19, 1e-3, 20e-3).elapsed_s;
        let gain = now / then - 1.0;
        assert!((advice.gain / gain - 1.0).abs() < 0.05, "{advice:?} {gain}");
        // With one fewer they are not.
        let fewer = simulated(4, 8000, 18, 1e-3, 20e-3);
        assert!(fewer.wait_s > MAX_WAIT_SHARE * fewer.busy_s);
        let more = simulated(4, 8000, 19, 1e-3, 20e-3);
        assert!(more.wait_s < MAX_WAIT_SHARE * more.busy_s);
    }

    #[test]
    fn messages_that_are_hidden_behind_the_one_before_stay_as_they_are() {
        for message_s in [0.0, 1e-3, 9e-3] {
            let times = simulated(4, 8000, 10, 1e-3, message_s);
            // Each but the first waited behind another one, which is not travel.
            assert!(times.travels.count <= 4.0, "{times:?}");
            let advice = times.advice().unwrap();
            assert_eq!((advice.batch_tasks, advice.gain), (0, 0.0), "{advice:?}");
        }
    }

    #[test]
    fn a_message_carries_no_more_than_it_may() {
        let advice = simulated(4, 8000, 2, 1e-4, 20e-3).advice().unwrap();
        assert_eq!(advice.batch_tasks, 32);
        // Two messages for each of 4 slots.
        let advice = simulated(4, 80, 1, 1e-3, 20e-3).advice().unwrap();
        assert_eq!(advice.batch_tasks, 10);
        // Nothing is gained over the largest.
        let advice = simulated(4, 8000, 32, 1e-4, 20e-3).advice().unwrap();
        assert_eq!((advice.batch_tasks, advice.gain), (0, 0.0));
    }

    #[test]
    fn what_each_task_adds_to_the_travel_is_no_reason_for_more_of_them() {
        let mut times = MessageTimes {
            slots: 1,
            in_flight: 2,
            most_tasks: 32,
            elapsed_s: 1.0,
            consumer_wait_s: 1.0,
            ..MessageTimes::default()
        };
        // A narrow network: 3 ms for each task, which takes 1 ms, and 10 ms for each message.
        for batch in [1, 2, 4, 8, 8, 8] {
            let tasks = batch as f64;
            let travel_s = 10e-3 + tasks * 3e-3;
            times.add(batch, tasks * 1e-3, travel_s / 2.0, travel_s);
        }
        let (message_s, added_s) = times.travels.costs();
        assert!((message_s / 10e-3 - 1.0).abs() < 1e-6 && (added_s / 3e-3 - 1.0).abs() < 1e-6);
        let mut cheap = MessageTimes {
            travels: TravelTimes::default(),
            messages: 0,
            tasks: 0,
            ..times
        };
        // Messages cost nothing by themselves, and a tenth of their tasks' time for each of these.
        for batch in [1, 2, 4, 8, 16, 32, 32, 32] {
            let tasks = batch as f64;
            cheap.add(batch, tasks * 1e-3, tasks * 1e-4, tasks * 1e-4);
        }
        assert_eq!(cheap.advice().unwrap().batch_tasks, 0);
    }

    #[test]
    fn a_single_message_in_flight_carries_tasks_for_twenty_times_its_travel() {
        let times = MessageTimes {
            in_flight: 1,
            most_tasks: 1000,
            ..simulated(4, 8000, 2, 1e-3, 3.97e-3)
        };
        assert_eq!(times.advice().unwrap().batch_tasks, 80);
    }

    #[test]
    fn a_run_that_does_not_tell_says_why() {
        let times = simulated(4, 8000, 2, 1e-3, 20e-3);
        let short = MessageTimes {
            elapsed_s: 0.1,
            ..times
        };
        let idle = MessageTimes { tasks: 0, ..times };
        let limited = MessageTimes {
            consumer_wait_s: 0.01,
            ..times
        };
        for (times, why) in [
            (short, "the run took 100 ms"),
            (idle, "no tasks"),
            (limited, "takes the results limits"),
        ] {
            assert!(times.advice().unwrap_err().contains(why));
        }
    }
}
