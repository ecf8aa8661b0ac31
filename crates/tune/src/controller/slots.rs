//! Slots of a cluster, which come and go during a run.

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

    pub(super) fn keep(&mut self, configuration: &Configuration, limits: &ConfigurationLimits) {
        *self = Self {
            is_tried: true,
            ..Self::of(configuration, limits)
        };
    }

    /// The load has changed: more slots may be needed.
    pub(super) fn doubt(&mut self) {
        self.is_tried = false;
    }
}

impl Controller {
    /// A cluster has this many slots now. Another number ends a trial, and what was learnt is discarded.
    pub fn set_slots(&mut self, slots: usize) {
        let slots = slots.max(1);
        let before = std::mem::replace(&mut self.limits.workers, slots);
        if before == slots {
            return;
        }
        if self.limits.min_workers > 1 {
            self.limits.min_workers = slots;
        }
        // Nothing was learnt before the first windows.
        if !matches!(self.state, State::Observe) {
            let reason = format!("the cluster has {slots} slots, {before} before");
            self.push_decision(Outcome::LoadChanged, self.kept.clone(), reason, None, None);
        }
        self.limits.replicas = vec![slots; self.limits.replicas.len()];
        self.kept.replicas.clone_from(&self.limits.replicas);
        self.kept.workers = self.slots.used.map_or(slots, |used| used.min(slots));
        self.forget_load();
        self.settled = SettledLoads::default();
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
