//! What a run did, for its report.

use std::time::Duration;

use super::report::{OperatorReport, Report};
use super::{Run, slot};

impl Run {
    pub(crate) fn report(&self, elapsed: Duration) -> Report {
        let counts = slot::counts(&self.slots, &self.shared.cold);
        let given: u64 = self.feeds.iter().map(|feed| counts[feed.node].1).sum();
        let share = given as f64 / self.timed_samples.max(1) as f64;
        let each = self
            .shared
            .cold
            .iter()
            .zip(counts)
            .zip(&self.shared.useful_ns);
        let operators = each.map(|((cold, (items, samples)), &useful)| OperatorReport {
            name: cold.name,
            items,
            samples,
            gaps: cold.gaps,
            useful: Duration::from_nanos((useful as f64 * share) as u64),
        });
        Report {
            operators: operators.collect(),
            reads: self
                .feeds
                .iter()
                .filter_map(|feed| feed.source.reading())
                .collect(),
            bursts: self.bursts,
            elapsed,
            peak_bytes: self.shared.pool.peak(),
            workers: Vec::new(),
            tasks: Vec::new(),
            places: Vec::new(),
            processes: Vec::new(),
        }
    }
}
