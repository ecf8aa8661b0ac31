//! [`RejectedSizes`]: numbers of threads and replicas that gained nothing in a trial against others.
//!
//! They outlast a change of the load. Where another program makes throughput vary, a prediction would otherwise undo at
//! once what a trial found, again and again.

use crate::Configuration;

const MAX_REMEMBERED: usize = 16;

#[derive(PartialEq, Eq)]
struct Size {
    workers: usize,
    replicas: Vec<usize>,
}

impl Size {
    fn of(configuration: &Configuration) -> Self {
        Self {
            workers: configuration.workers,
            replicas: configuration.replicas.clone(),
        }
    }
}

/// The newest ones.
#[derive(Default)]
pub(super) struct RejectedSizes(Vec<Size>);

impl RejectedSizes {
    /// `rejected` gained nothing against `kept`, which is then rejected no longer. Those that differ in other values only
    /// say nothing about sizes.
    pub(super) fn add(&mut self, rejected: &Configuration, kept: &Configuration) {
        let (rejected, kept) = (Size::of(rejected), Size::of(kept));
        if rejected == kept {
            return;
        }
        self.0.retain(|one| *one != rejected && *one != kept);
        if self.0.len() == MAX_REMEMBERED {
            self.0.remove(0);
        }
        self.0.push(rejected);
    }

    pub(super) fn contains(&self, configuration: &Configuration) -> bool {
        self.0.contains(&Size::of(configuration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(workers: usize, link_bytes: u64) -> Configuration {
        Configuration {
            workers,
            replicas: vec![1],
            link_bytes: vec![link_bytes],
            task_bytes: 0,
            batch_tasks: 0,
        }
    }

    #[test]
    fn a_size_is_rejected_until_it_wins_and_links_say_nothing_about_it() {
        let mut sizes = RejectedSizes::default();
        sizes.add(&configuration(1, 1), &configuration(2, 1));
        assert!(sizes.contains(&configuration(1, 8)));
        sizes.add(&configuration(1, 8), &configuration(1, 1));
        assert!(sizes.contains(&configuration(1, 1)));
        sizes.add(&configuration(2, 1), &configuration(1, 1));
        assert!(!sizes.contains(&configuration(1, 1)) && sizes.contains(&configuration(2, 1)));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut sizes = RejectedSizes::default();
        (2..=MAX_REMEMBERED + 2).for_each(|workers| {
            sizes.add(&configuration(workers, 1), &configuration(1, 1));
        });
        assert!(!sizes.contains(&configuration(2, 1)) && sizes.contains(&configuration(3, 1)));
    }
}
