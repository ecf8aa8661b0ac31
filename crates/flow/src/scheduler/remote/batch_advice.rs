//! [`advise_batch`]: words the recommendation of how many tasks a message to a slot should carry.

use std::time::Duration;

use isochrony_tune::{BatchAdvice, MIN_ADVICE_GAIN, MessageTimes};

use crate::engine::advice::{Advice, AdvisedChange, AdvisedValue};
use crate::engine::report::Report;

/// `messages` and `consumer_wait`: of the run that has ended and has this report.
pub(crate) fn advise_batch(
    messages: MessageTimes,
    consumer_wait: Duration,
    report: &Report,
) -> Advice {
    let messages = MessageTimes {
        slots: report.workers.len(),
        elapsed_s: report.elapsed.as_secs_f64(),
        consumer_wait_s: consumer_wait.as_secs_f64(),
        ..messages
    };
    let advice = match messages.advice() {
        Ok(advice) => advice,
        Err(why) => return Advice::none(format!("batch_tasks: nothing can be said: {why}")),
    };
    let BatchAdvice {
        batch_tasks,
        gain,
        message_s,
        task_s,
    } = advice;
    let task_ms = 1e3 * task_s;
    if batch_tasks == 0 {
        let waited = 100.0 * messages.wait_s / messages.busy_s;
        return Advice::none(format!(
            "batch_tasks: each slot decides; slots waited for messages for {waited:.1} % of the time that they computed, \
             and no number of tasks per message is predicted to gain {:.0} %",
            100.0 * MIN_ADVICE_GAIN
        ));
    }
    let mean = messages.tasks as f64 / messages.messages.max(1) as f64;
    Advice {
        text: format!(
            "batch_tasks={batch_tasks} instead of {mean:.1} on average: predicted {:+.1} %, since a message travels for \
             {:.1} ms and a task computes for {task_ms:.3} ms",
            100.0 * gain,
            1e3 * message_s
        ),
        change: Some(AdvisedChange {
            value: AdvisedValue::BatchTasks(batch_tasks),
            gain,
        }),
    }
}
