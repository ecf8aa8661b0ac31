//! [`Window`]: what a running plan did in a short interval, as the controller sees it.

use serde::{Deserialize, Serialize};

/// What a plan did between two readings of its counters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Length of the interval, in seconds.
    pub elapsed_s: f64,
    /// Source samples whose results have reached the end of the plan in the interval. It is counted behind the last
    /// stage, because draining a backlog in front of it would look like a gain.
    pub delivered: f64,
    /// Whether the source had nothing to give for a part of the interval, as a feed that the plan keeps up with.
    pub starved: bool,
    /// Processor time of all threads, in seconds.
    pub cpu_s: f64,
    /// Stages, in the order of the plan.
    pub stages: Vec<StageWindow>,
    /// Links, in the order of the plan.
    pub links: Vec<LinkWindow>,
}

/// What all replicas of one stage did. The four times add up to at most the interval times the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StageWindow {
    /// Items taken from sources and earlier stages.
    pub items: f64,
    /// Seconds of computing.
    pub busy_s: f64,
    /// Seconds of waiting for input.
    pub input_wait_s: f64,
    /// Seconds of waiting for room in a link.
    pub output_wait_s: f64,
    /// Seconds in which it could have computed, but all threads were busy.
    pub core_wait_s: f64,
}

/// What one link carried.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkWindow {
    /// Number of the stage that writes into it.
    pub from: usize,
    /// Number of the stage that reads from it.
    pub to: usize,
    /// Bytes that it carried.
    pub bytes: f64,
    /// Mean part of its capacity that was full when something was sent, 0 to 1.
    pub occupancy: f64,
}

impl Window {
    /// Samples per second that reached the end of the plan; 0 in an empty interval.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self.elapsed_s > 0.0 {
            true => self.delivered / self.elapsed_s,
            false => 0.0,
        }
    }

    /// Adds what happened in the next interval.
    pub fn add(&mut self, next: &Self) {
        self.elapsed_s += next.elapsed_s;
        self.delivered += next.delivered;
        self.starved |= next.starved;
        self.cpu_s += next.cpu_s;
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
