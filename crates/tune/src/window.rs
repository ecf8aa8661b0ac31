//! [`Window`]: counters over an interval.

use serde::{Deserialize, Serialize};

/// Differences of a plan's counters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Length in seconds.
    pub elapsed_s: f64,
    /// Source samples whose results reached the end, counted after the last stage: else draining a backlog would look
    /// like a gain.
    pub delivered: f64,
    /// The source was empty for a part of the interval.
    pub starved: bool,
    /// CPU seconds of all threads.
    pub cpu_s: f64,
    /// Stages in plan order.
    pub stages: Vec<StageWindow>,
    /// Links in plan order.
    pub links: Vec<LinkWindow>,
    /// Messages with results of tasks, from slots of a cluster.
    pub messages: f64,
}

/// All replicas of a stage. The four times sum to at most interval times replicas.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StageWindow {
    /// Items taken from sources and earlier stages.
    pub items: f64,
    /// Computing seconds.
    pub busy_s: f64,
    /// Seconds waiting for input.
    pub input_wait_s: f64,
    /// Seconds waiting for room in a link.
    pub output_wait_s: f64,
    /// Seconds ready while all threads were busy.
    pub core_wait_s: f64,
}

/// Statistics of a link.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkWindow {
    /// Number of the writing stage.
    pub from: usize,
    /// Number of the reading stage.
    pub to: usize,
    /// Bytes carried.
    pub bytes: f64,
    /// Mean occupancy at sends, 0 to 1.
    pub occupancy: f64,
}

impl Window {
    /// Samples per second delivered; 0 in an empty interval.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self.elapsed_s > 0.0 {
            true => self.delivered / self.elapsed_s,
            false => 0.0,
        }
    }

    /// Seconds that what came last waited in links of these capacities, one after another (Little's law).
    #[must_use]
    pub fn link_wait_s(&self, link_bytes: &[u64]) -> f64 {
        let links = self.links.iter().zip(link_bytes);
        links
            .filter(|(link, _)| link.bytes > 0.0)
            .map(|(link, &capacity)| link.occupancy * capacity as f64 * self.elapsed_s / link.bytes)
            .sum()
    }

    /// Adds the next interval.
    pub fn add(&mut self, next: &Self) {
        self.elapsed_s += next.elapsed_s;
        self.delivered += next.delivered;
        self.starved |= next.starved;
        self.cpu_s += next.cpu_s;
        self.messages += next.messages;
        self.stages
            .resize(next.stages.len(), StageWindow::default());
        for (sum, one) in self.stages.iter_mut().zip(&next.stages) {
            sum.items += one.items;
            sum.busy_s += one.busy_s;
            sum.input_wait_s += one.input_wait_s;
            sum.output_wait_s += one.output_wait_s;
            sum.core_wait_s += one.core_wait_s;
        }
        self.links.resize(next.links.len(), LinkWindow::default());
        for (sum, one) in self.links.iter_mut().zip(&next.links) {
            let bytes = sum.bytes + one.bytes;
            let weighted = sum.occupancy * sum.bytes + one.occupancy * one.bytes;
            sum.occupancy = if bytes > 0.0 { weighted / bytes } else { 0.0 };
            (sum.from, sum.to, sum.bytes) = (one.from, one.to, bytes);
        }
    }
}
