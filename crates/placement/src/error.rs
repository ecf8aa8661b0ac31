//! Errors of placement.

/// What is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// Host never added, or removed.
    #[error(
        "host {host} is unknown: {hosts} hosts were added so far, and removed ones are not used again; add the host first"
    )]
    UnknownHost {
        /// Host number.
        host: u32,
        /// Hosts added so far.
        hosts: usize,
    },
    /// Task that was never admitted or has ended.
    #[error(
        "task {task}.{generation} is {state}, not {expected}; use the identifier that admit() returned, until the task ends"
    )]
    TaskState {
        /// Slot.
        task: u32,
        /// Generation of the slot.
        generation: u32,
        /// State.
        state: &'static str,
        /// Expected state.
        expected: &'static str,
    },
    /// Parameter out of range.
    #[error("{parameter}={got} must be {allowed} (placement); change {parameter}")]
    Parameter {
        /// Parameter.
        parameter: &'static str,
        /// Given value.
        got: String,
        /// Allowed values.
        allowed: &'static str,
    },
    /// Cache that cannot free enough bytes.
    #[error(
        "cannot free {needed} bytes: {evictable} of {bytes} bytes in the cache are not in use; unpin objects, or give the cache more bytes"
    )]
    NotEvictable {
        /// Bytes to free.
        needed: u64,
        /// Bytes that can be freed.
        evictable: u64,
        /// Total bytes.
        bytes: u64,
    },
    /// Key that is already cached.
    #[error("{key} is in the cache already; remove it before inserting it again, or touch it")]
    AlreadyCached {
        /// Key.
        key: String,
    },
    /// Key that is not cached.
    #[error("{key} is not in the cache, so it cannot be {action}; insert it first")]
    NotCached {
        /// Key.
        key: String,
        /// Attempted action.
        action: &'static str,
    },
    /// Key unpinned more often than pinned.
    #[error("{key} is not pinned; unpin an object as often as it was pinned")]
    NotPinned {
        /// Key.
        key: String,
    },
    /// Simulation without further events.
    #[error(
        "the simulation stopped at {at_s} s with {left} of {tasks} tasks not run; give it hosts with slots"
    )]
    Stalled {
        /// Simulated seconds.
        at_s: f64,
        /// Tasks not run.
        left: u64,
        /// Total tasks.
        tasks: u64,
    },
}

impl PlacementError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownHost { .. } => "unknown_host",
            Self::TaskState { .. } => "task_state",
            Self::Parameter { .. } => "parameter",
            Self::NotEvictable { .. } => "not_evictable",
            Self::AlreadyCached { .. } => "already_cached",
            Self::NotCached { .. } => "not_cached",
            Self::NotPinned { .. } => "not_pinned",
            Self::Stalled { .. } => "stalled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PlacementError as E;

    #[test]
    fn every_message_states_cause_place_and_fix() {
        let cases = [
            (
                E::UnknownHost { host: 7, hosts: 3 },
                "unknown_host",
                "host 7 is unknown: 3 hosts were added so far, and removed ones are not used again; add the host first",
            ),
            (
                E::TaskState {
                    task: 4,
                    generation: 2,
                    state: "ended",
                    expected: "running",
                },
                "task_state",
                "task 4.2 is ended, not running; use the identifier that admit() returned, until the task ends",
            ),
            (
                E::Parameter {
                    parameter: "window",
                    got: "0".into(),
                    allowed: "at least 1",
                },
                "parameter",
                "window=0 must be at least 1 (placement); change window",
            ),
            (
                E::NotEvictable {
                    needed: 10,
                    evictable: 4,
                    bytes: 12,
                },
                "not_evictable",
                "cannot free 10 bytes: 4 of 12 bytes in the cache are not in use; unpin objects, or give the cache more bytes",
            ),
            (
                E::AlreadyCached { key: "7".into() },
                "already_cached",
                "7 is in the cache already; remove it before inserting it again, or touch it",
            ),
            (
                E::NotCached {
                    key: "7".into(),
                    action: "pinned",
                },
                "not_cached",
                "7 is not in the cache, so it cannot be pinned; insert it first",
            ),
            (
                E::NotPinned { key: "7".into() },
                "not_pinned",
                "7 is not pinned; unpin an object as often as it was pinned",
            ),
            (
                E::Stalled {
                    at_s: 1.5,
                    left: 2,
                    tasks: 9,
                },
                "stalled",
                "the simulation stopped at 1.5 s with 2 of 9 tasks not run; give it hosts with slots",
            ),
        ];
        for (error, code, message) in cases {
            assert_eq!(error.code(), code);
            assert_eq!(error.to_string(), message);
        }
    }
}
