//! Dispatch policies and their options.

use crate::PlacementError;

/// Which free slot runs which waiting task.
///
/// The first four are those of Raicu et al., "Accelerating Large-Scale Data Exploration through Data Diffusion"
/// (2008), section 3.2.2. The last is from the authors' "The Quest for Scalable Support of Data-Intensive Workloads in
/// Distributed Systems" (HPDC 2009), of which the idea is taken: switch between two policies by utilisation, cap
/// replicas, look at a window of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The oldest task to the slot that has been free longest; nothing is said of where its objects are.
    FirstAvailable,
    /// As [`Policy::FirstAvailable`], with the holders of each object.
    FirstCacheAvailable,
    /// Each task to the host with most of its bytes; if that host has no free slot, the task waits for it, at most
    /// [`DispatchOptions::max_wait`].
    MaxCacheHit,
    /// No slot is idle while a task waits; among free hosts, the one with most of the task's bytes.
    MaxComputeUtil,
    /// [`Policy::MaxComputeUtil`] while less than [`DispatchOptions::utilization`] of the slots are busy, else
    /// [`Policy::MaxCacheHit`]; and a host without any of a task's bytes gets the task only while each of its objects
    /// has fewer than [`DispatchOptions::max_replicas`] copies, or none.
    GoodCacheCompute,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 5] = [
        Self::FirstAvailable,
        Self::FirstCacheAvailable,
        Self::MaxCacheHit,
        Self::MaxComputeUtil,
        Self::GoodCacheCompute,
    ];

    /// The name of the policy in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstAvailable => "first-available",
            Self::FirstCacheAvailable => "first-cache-available",
            Self::MaxCacheHit => "max-cache-hit",
            Self::MaxComputeUtil => "max-compute-util",
            Self::GoodCacheCompute => "good-cache-compute",
        }
    }

    /// Whether where objects are decides who runs a task.
    pub(crate) fn is_data_aware(self) -> bool {
        !matches!(self, Self::FirstAvailable | Self::FirstCacheAvailable)
    }
}

impl std::str::FromStr for Policy {
    type Err = PlacementError;

    fn from_str(name: &str) -> Result<Self, PlacementError> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| PlacementError::Parameter {
            parameter: "policy",
            got: name.into(),
            allowed: "first-available, first-cache-available, max-cache-hit, max-compute-util or good-cache-compute",
        })
    }
}

/// How tasks are dispatched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DispatchOptions {
    /// The policy.
    pub policy: Policy,
    /// How many of the oldest waiting tasks a decision chooses from; at least 1. Small where results are wanted in
    /// order, wide for maps and reductions.
    pub window: usize,
    /// Nanoseconds that a task may be passed over. A task that has been the oldest for so long goes to the next free
    /// slot, before the policy is asked; and a slot for which the policy has no task takes the oldest task that has
    /// been in the window for so long.
    pub max_wait: u64,
    /// Share of busy slots from which [`Policy::GoodCacheCompute`] prefers cache hits; 0 to 1.
    pub utilization: f64,
    /// Copies of an object, also ones that are being fetched, from which [`Policy::GoodCacheCompute`] gives the tasks
    /// that read it to no host that has none of their bytes; at least 1. More copies come about all the same: a host that
    /// has another object of a task takes it and copies the rest, and so does any host after `max_wait`. An object that
    /// is widespread does not count.
    pub max_replicas: usize,
    /// Copies of an object above which it no longer says where to run a task; at least `max_replicas`. It bounds the
    /// cost of a decision in a large cluster: see [`CacheIndex::new`](crate::CacheIndex::new).
    pub widespread: usize,
}

impl Default for DispatchOptions {
    fn default() -> Self {
        Self {
            policy: Policy::GoodCacheCompute,
            window: 4096,
            max_wait: 2_000_000_000,
            utilization: 0.9,
            max_replicas: 4,
            widespread: 64,
        }
    }
}

impl DispatchOptions {
    /// The defaults, with this policy.
    #[must_use]
    pub fn for_policy(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Refuses options outside their range.
    pub(crate) fn check(&self) -> Result<(), PlacementError> {
        let wrong = |parameter, got: String, allowed| {
            Err(PlacementError::Parameter {
                parameter,
                got,
                allowed,
            })
        };
        if self.window == 0 {
            return wrong("window", "0".into(), "at least 1");
        }
        if !(0.0..=1.0).contains(&self.utilization) {
            return wrong("utilization", self.utilization.to_string(), "0 to 1");
        }
        if self.max_replicas == 0 {
            return wrong("max_replicas", "0".into(), "at least 1");
        }
        if self.widespread < self.max_replicas {
            return wrong(
                "widespread",
                self.widespread.to_string(),
                "at least max_replicas",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_options_outside_their_range() {
        let refused = |change: fn(&mut DispatchOptions)| {
            let mut options = DispatchOptions::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(refused(|o| o.window = 0).starts_with("window=0 must be at least 1"));
        assert!(refused(|o| o.utilization = f64::NAN).starts_with("utilization=NaN"));
        assert!(refused(|o| o.max_replicas = 0).starts_with("max_replicas=0"));
        assert!(refused(|o| o.widespread = 1).starts_with("widespread=1"));
        assert_eq!(DispatchOptions::default().check(), Ok(()));
    }

    #[test]
    fn policies_are_found_by_their_names() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let refused = "fastest".parse::<Policy>().unwrap_err().to_string();
        assert!(refused.starts_with("policy=fastest must be first-available,"));
    }
}
