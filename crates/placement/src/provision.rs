//! Provisioning: hosts for the queued work, and idle ones to release.

use rustc_hash::FxHashSet;

use crate::{Dispatcher, HostId, ObjectId, PlacementError};

/// Provisioning options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProvisionOptions {
    /// Minimum hosts that accept tasks; at least 1. Starting hosts do not count.
    pub min_hosts: usize,
    /// Maximum hosts; at least `min_hosts`.
    pub max_hosts: usize,
    /// Slots per added host; at least 1.
    pub slots_per_host: u32,
    /// Nanoseconds, above 0, to finish all waiting and running tasks.
    pub drain_time: u64,
    /// Maximum hosts per request; at least 1.
    pub max_step: usize,
    /// Idle nanoseconds before a host is released.
    pub idle_time: u64,
    /// Nanoseconds without reads after which an object is cold, unless a task waits for it.
    pub hot_time: u64,
    /// Cost of an idle host per hour, in any unit; at least 0.
    pub host_cost_per_hour: f64,
    /// Cost of reading 10^9 bytes from storage; at least 0.
    pub read_cost_per_gb: f64,
}

impl Default for ProvisionOptions {
    fn default() -> Self {
        Self {
            min_hosts: 1,
            max_hosts: 64,
            slots_per_host: 1,
            drain_time: 60_000_000_000,
            max_step: usize::MAX,
            idle_time: 60_000_000_000,
            hot_time: 3_600_000_000_000,
            host_cost_per_hour: 1.0,
            read_cost_per_gb: 0.01,
        }
    }
}

/// Host changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPlan {
    /// Hosts to start.
    pub add: usize,
    /// Idle hosts to drain and stop, in order.
    pub release: Vec<HostId>,
}

/// Decides periodically how many hosts there should be.
///
/// Growth follows Falkon's provisioner: by queue length, here weighted by the observed task time. An idle host that
/// alone holds hot data is kept until it has cost as much as reading that data again: at most twice the cost with
/// knowledge of the next read (ski-rental rule).
#[derive(Debug, Clone)]
pub struct Provisioner {
    options: ProvisionOptions,
    task_time: Option<f64>,
}

const NEWEST_WEIGHT: f64 = 0.05;

impl Provisioner {
    /// A provisioner without observed tasks.
    pub fn new(options: ProvisionOptions) -> Result<Self, PlacementError> {
        let wrong = |parameter, got: String, allowed| {
            Err(PlacementError::Parameter {
                parameter,
                got,
                allowed,
            })
        };
        let at_least_one = [
            ("min_hosts", options.min_hosts),
            ("slots_per_host", options.slots_per_host as usize),
            ("max_step", options.max_step),
        ];
        for (parameter, value) in at_least_one {
            if value == 0 {
                return wrong(parameter, "0".into(), "at least 1");
            }
        }
        if options.max_hosts < options.min_hosts {
            let got = options.max_hosts.to_string();
            return wrong("max_hosts", got, "at least min_hosts");
        }
        if options.drain_time == 0 {
            return wrong("drain_time", "0".into(), "above 0");
        }
        let costs = [
            ("host_cost_per_hour", options.host_cost_per_hour),
            ("read_cost_per_gb", options.read_cost_per_gb),
        ];
        for (parameter, value) in costs {
            if !(value.is_finite() && value >= 0.0) {
                return wrong(parameter, value.to_string(), "finite and at least 0");
            }
        }
        Ok(Self {
            options,
            task_time: None,
        })
    }

    /// Records a task's duration, from decision to end.
    pub fn note_task(&mut self, nanoseconds: u64) {
        let newest = nanoseconds as f64;
        let mean = self.task_time.get_or_insert(newest);
        *mean += NEWEST_WEIGHT * (newest - *mean);
    }

    /// Hosts needed for waiting and running tasks; until one has ended, each needs a slot.
    pub fn wanted(&self, tasks: usize) -> usize {
        let drain = self.options.drain_time as f64;
        let share = self.task_time.map_or(1.0, |time| (time / drain).min(1.0));
        let slots = tasks as f64 * share;
        let hosts = (slots / f64::from(self.options.slots_per_host)).ceil() as usize;
        hosts.clamp(self.options.min_hosts, self.options.max_hosts)
    }

    /// The changes to make now; `starting` hosts are not yet in the dispatcher. Call it about once per second: it
    /// visits all objects of releasable hosts.
    pub fn plan(&self, dispatcher: &Dispatcher, starting: usize, now: u64) -> HostPlan {
        let counts = dispatcher.counts();
        let wanted = self.wanted(counts.window + counts.backlog + counts.running);
        let open: Vec<_> = dispatcher.open_hosts().collect();
        let open_hosts = open.len();
        let there = open_hosts + starting;
        if wanted >= there {
            return HostPlan {
                add: (wanted - there).min(self.options.max_step),
                release: Vec::new(),
            };
        }
        let mut idle: Vec<_> = open
            .into_iter()
            .filter_map(|(host, since)| Some((since?, host)))
            .filter(|&(since, _)| now.saturating_sub(since) >= self.options.idle_time)
            .collect();
        idle.sort_unstable();
        let mut leaving = FxHashSet::default();
        let mut release = Vec::new();
        // Starting hosts may fail.
        let most = (there - wanted).min(open_hosts.saturating_sub(self.options.min_hosts));
        for (since, host) in idle {
            if release.len() == most {
                break;
            }
            let kept_for = now.saturating_sub(since) as f64;
            let idle_cost = kept_for / 3.6e12 * self.options.host_cost_per_hour;
            let bytes = self.sole_hot_bytes(dispatcher, host, &leaving, now);
            if idle_cost >= bytes as f64 / 1e9 * self.options.read_cost_per_gb {
                leaving.insert(host);
                release.push(host);
            }
        }
        HostPlan { add: 0, release }
    }

    fn sole_hot_bytes(
        &self,
        dispatcher: &Dispatcher,
        host: HostId,
        leaving: &FxHashSet<HostId>,
        now: u64,
    ) -> u64 {
        let index = dispatcher.index();
        let stays = |other: HostId| {
            other != host && !leaving.contains(&other) && !dispatcher.is_draining(other)
        };
        let hot = |object: ObjectId| {
            let last = dispatcher.last_read(object);
            let read = last.is_some_and(|at| now.saturating_sub(at) <= self.options.hot_time);
            read || dispatcher.waiting_for(object).next().is_some()
        };
        let objects = index.held_by(host);
        let sole = objects.filter(|&object| hot(object) && !index.holders(object).any(stays));
        sole.map(|object| index.bytes(object)).sum()
    }
}
