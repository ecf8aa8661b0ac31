//! Dispatch policies and their options.

use crate::PlacementError;

/// Assigns waiting tasks to free slots.
///
/// The first four are from Raicu et al., "Accelerating Large-Scale Data Exploration through Data Diffusion" (2008),
/// section 3.2.2. The last follows their "The Quest for Scalable Support of Data-Intensive Workloads in Distributed
/// Systems" (HPDC 2009).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The oldest task to the slot free longest, without locations of objects.
    FirstAvailable,
    /// Like [`Policy::FirstAvailable`], with the holders of each object.
    FirstCacheAvailable,
    /// Each task to the host with most of its bytes; waits for a slot there at most [`DispatchOptions::max_wait`].
    MaxCacheHit,
    /// No slot idles while a task waits; prefers the free host with most of the task's bytes.
    MaxComputeUtil,
    /// [`Policy::MaxComputeUtil`] while less than [`DispatchOptions::utilization`] of the slots are busy, else
    /// [`Policy::MaxCacheHit`]. A host without any of a task's bytes gets it only while each of its objects has fewer
    /// than [`DispatchOptions::max_replicas`] copies.
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

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstAvailable => "first-available",
            Self::FirstCacheAvailable => "first-cache-available",
            Self::MaxCacheHit => "max-cache-hit",
            Self::MaxComputeUtil => "max-compute-util",
            Self::GoodCacheCompute => "good-cache-compute",
        }
    }

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

/// Dispatch options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DispatchOptions {
    /// The policy.
    pub policy: Policy,
    /// Oldest waiting tasks considered; at least 1. Small for results in order, large for maps and reductions.
    pub window: usize,
    /// Maximum nanoseconds that a task is passed over. The task that has been the oldest for so long gets the next free
    /// slot; one in the window for so long gets a slot without a task by policy.
    pub max_wait: u64,
    /// Busy share of slots, 0 to 1, from which [`Policy::GoodCacheCompute`] prefers cache hits.
    pub utilization: f64,
    /// Copies of an object, including fetches, from which [`Policy::GoodCacheCompute`] gives its tasks to no host
    /// without any of their bytes; at least 1. Not strict: a host with another object of a task copies the rest, and so
    /// does any host after `max_wait`. Widespread objects do not count.
    pub max_replicas: usize,
    /// Copies above which an object does not affect where tasks run; at least `max_replicas`. Bounds the cost of a
    /// decision: see [`CacheIndex::new`](crate::CacheIndex::new).
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
    /// The defaults of a policy.
    #[must_use]
    pub fn for_policy(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

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
