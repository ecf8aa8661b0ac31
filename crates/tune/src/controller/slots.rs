//! Slots of a cluster, which come and go during a run.

use super::rejected_sizes::RejectedSizes;
use super::settled_loads::SettledLoads;
use super::{Controller, Outcome, State};
use crate::{Configuration, ConfigurationLimits};

/// How many slots are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotChoice {
    /// None: all that there are.
    used: Option<usize>,
    /// A trial at the present load chose them.
    is_tried: bool,
}

impl SlotChoice {
    pub(super) fn of(configuration: &Configuration, limits: &ConfigurationLimits) -> Self {
        Self {
            used: (configuration.workers < limits.workers).then_some(configuration.workers),
            is_tried: false,
        }
    }

    /// A kept change. Only one to fewer slots shows that more are of no use.
    pub(super) fn keep(
        &mut self,
        before: &Configuration,
        after: &Configuration,
        limits: &ConfigurationLimits,
    ) {
        let is_same = after.workers == before.workers;
        *self = Self {
            is_tried: after.workers < before.workers || self.is_tried && is_same,
            ..Self::of(after, limits)
        };
    }

    /// The load has changed: more slots may be needed.
    pub(super) fn doubt(&mut self) {
        self.is_tried = false;
    }
}

impl Controller {
    /// A cluster has this many slots now, of which at least `min_used` are used. Another number ends a trial, and what
    /// was learnt is discarded.
    pub fn set_slots(&mut self, slots: usize, min_used: usize) {
        let slots = slots.max(1);
        self.limits.min_workers = min_used.clamp(1, slots);
        let before = std::mem::replace(&mut self.limits.workers, slots);
        if before == slots {
            return;
        }
        // Nothing was learnt before the first windows.
        if !matches!(self.state, State::Observe) {
            let reason = format!("the cluster has {slots} slots, {before} before");
            self.push_decision(Outcome::LoadChanged, self.kept.clone(), reason, None, None);
        }
        self.limits.replicas = vec![slots; self.limits.replicas.len()];
        self.kept.replicas.clone_from(&self.limits.replicas);
        self.kept.workers = match self.slots.used {
            Some(used) => used.clamp(self.limits.min_workers, slots),
            None => slots,
        };
        if let Some(default) = &mut self.default {
            default.workers = slots;
            default.replicas.clone_from(&self.limits.replicas);
        }
        self.forget_load();
        self.settled = SettledLoads::default();
        self.rejected_sizes = RejectedSizes::default();
        self.before = None;
        self.observed.clear();
        self.state = State::Observe;
        self.settles = true;
    }

    /// Slots that are used; None: all that there are.
    pub(crate) fn used_slots(&self) -> Option<usize> {
        self.slots.used
    }

    /// Most slots that are worth having: those that trials found to be as fast as more; None: all.
    #[must_use]
    pub fn enough_slots(&self) -> Option<usize> {
        self.slots.used.filter(|_| self.slots.is_tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ControllerOptions;

    #[test]
    fn sizes_that_other_slots_rejected_may_be_tried_again() {
        let of = |slots: usize, workers: usize| Configuration {
            workers,
            replicas: vec![slots],
            link_bytes: Vec::new(),
            task_bytes: 0,
            batch_tasks: 0,
        };
        let limits = ConfigurationLimits {
            min_workers: 1,
            workers: 8,
            replicas: vec![8],
            min_link_bytes: 0,
            max_link_bytes: 0,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        };
        let options = ControllerOptions::default();
        let mut controller = Controller::new(of(8, 8), limits, options).unwrap();
        controller.rejected_sizes.add(&of(8, 6), &of(8, 8));
        controller.set_slots(8, 1);
        assert!(controller.rejected_sizes.contains(&of(8, 6)));
        controller.set_slots(4, 1);
        controller.set_slots(8, 1);
        assert!(!controller.rejected_sizes.contains(&of(8, 6)));
    }
}
