//! Provisioning: how many hosts the queued work is worth, and which idle ones are released.

use rustc_hash::FxHashSet;

use crate::{Dispatcher, HostId, ObjectId, PlacementError};

/// How hosts are added and released.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProvisionOptions {
    /// Fewest hosts that take tasks; at least 1. Hosts that are starting do not count when others are released.
    pub min_hosts: usize,
    /// Most hosts; at least `min_hosts`.
    pub max_hosts: usize,
    /// Slots of a host that is added; at least 1.
    pub slots_per_host: u32,
    /// Nanoseconds within which the tasks that wait and run should be done; above 0. So many hosts are wanted.
    pub drain_time: u64,
    /// Most hosts that are asked for at a time; at least 1.
    pub max_step: usize,
    /// Nanoseconds for which a host must have been idle before it is released.
    pub idle_time: u64,
    /// Nanoseconds since it was last read after which an object counts as cold, unless a task waits for it.
    pub hot_time: u64,
    /// What an idle host costs in an hour, in any unit; at least 0.
    pub host_cost_per_hour: f64,
    /// What reading 10^9 bytes from storage costs, in the same unit; at least 0.
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

/// What to do about hosts now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPlan {
    /// Hosts to start.
    pub add: usize,
    /// Idle hosts to drain and end, in this order.
    pub release: Vec<HostId>,
}

/// Decides from time to time how many hosts there should be.
///
/// Growing follows Falkon's provisioner, which acquires by the length of the queue; here the length counts by what
/// tasks took so far. An idle host that alone holds hot data is kept until it has cost as much as reading that data
/// again: whatever comes, the cost is then at most twice that of knowing when the data is read next (the ski-rental
/// rule).
#[derive(Debug, Clone)]
pub struct Provisioner {
    options: ProvisionOptions,
    /// Moving mean of nanoseconds a task takes.
    task_time: Option<f64>,
}

/// Weight of the newest task in the moving mean.
const NEWEST: f64 = 0.05;

impl Provisioner {
    /// A provisioner that has seen no task.
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

    /// Notes how long a task took, from its decision to its end.
    pub fn note_task(&mut self, nanoseconds: u64) {
        let newest = nanoseconds as f64;
        let mean = self.task_time.get_or_insert(newest);
        *mean += NEWEST * (newest - *mean);
    }

    /// Hosts that the tasks which wait and run are worth. Until a task has ended, each is worth a slot.
    pub fn wanted(&self, tasks: usize) -> usize {
        let drain = self.options.drain_time as f64;
        let share = self.task_time.map_or(1.0, |time| (time / drain).min(1.0));
        let slots = tasks as f64 * share;
        let hosts = (slots / f64::from(self.options.slots_per_host)).ceil() as usize;
        hosts.clamp(self.options.min_hosts, self.options.max_hosts)
    }

    /// What to do now; `starting` hosts were asked for and have not been added to the dispatcher yet.
    ///
    /// Looks at each task's count only, and at the objects of hosts that may be released: not for every task, but
    /// once in a second or so.
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
        // Hosts that are starting may never come, so they do not count for the fewest.
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

    /// Bytes of hot objects that no other host holds, but those that leave.
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
