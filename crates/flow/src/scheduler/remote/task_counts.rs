//! [`TaskCounts`]: how much of a plan's tasks was sent to slots and completed. Tuning may change their size meanwhile.

/// Tasks are counted as shares of one with the size at the start, as well.
#[derive(Debug, Default)]
pub(super) struct TaskCounts {
    /// Expected, with the size at the start. Approximate: gaps make more.
    expected: f64,
    sent: f64,
    sent_tasks: f64,
    completed: f64,
}

impl TaskCounts {
    pub(super) fn expecting(tasks: u64) -> Self {
        Self {
            expected: tasks as f64,
            ..Self::default()
        }
    }

    /// `share`: of a task with the size at the start.
    pub(super) fn send(&mut self, share: f64) {
        self.sent += share;
        self.sent_tasks += 1.0;
    }

    /// It is sent again later.
    pub(super) fn repeat(&mut self, share: f64) {
        self.sent -= share;
        self.sent_tasks -= 1.0;
    }

    pub(super) fn complete(&mut self, share: f64) {
        self.completed += share;
    }

    /// Tasks that were not sent yet, at least one.
    pub(super) fn unsent(&self) -> u64 {
        self.tasks(self.expected - self.sent)
    }

    /// Tasks that are not completed, at least one, and the part of the completed ones that their work is, if any are.
    pub(super) fn left(&self) -> (u64, Option<f64>) {
        let left = self.expected - self.completed;
        let tasks = self.tasks(left);
        let ratio = (self.completed > 0.0).then(|| left.max(0.0) / self.completed);
        (tasks, ratio)
    }

    fn tasks(&self, shares: f64) -> u64 {
        let mean = match self.sent_tasks > 0.0 && self.sent > 0.0 {
            true => self.sent / self.sent_tasks,
            false => 1.0,
        };
        (shares / mean).ceil().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_counted_in_tasks_of_the_size_that_they_have() {
        let mut counts = TaskCounts::expecting(100);
        assert_eq!((counts.unsent(), counts.left()), (100, (100, None)));
        (0..20).for_each(|_| counts.send(2.0));
        assert_eq!((counts.unsent(), counts.left().0), (30, 50));
        (0..10).for_each(|_| counts.complete(2.0));
        assert_eq!(counts.left(), (40, Some(4.0)));
        counts.repeat(2.0);
        assert_eq!(counts.unsent(), 31);
    }

    #[test]
    fn more_tasks_than_expected_leave_one() {
        let mut counts = TaskCounts::expecting(2);
        (0..3).for_each(|_| counts.send(1.0));
        (0..3).for_each(|_| counts.complete(1.0));
        assert_eq!((counts.unsent(), counts.left()), (1, (1, Some(0.0))));
    }
}
