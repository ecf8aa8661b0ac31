//! The timebases of one graph.
//!
//! Each use takes the newest metrics of growing signals, asked before the lock is taken, as that may wait for the
//! interpreter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_store::timebases::{MetricDefinition, NamedMetric, NamedTimebase, TimebaseSet};
use isochrony_time::{
    Derived, Empirical, Fixed, Graph, Metric, Rate, TimeError, TimebaseId, TimebaseKind,
};
use pyo3::prelude::*;

use crate::errors::Result;
use crate::signal::Signal;

#[derive(Default)]
pub(crate) struct Network {
    state: Mutex<NetworkState>,
}

#[derive(Default)]
struct NetworkState {
    graph: Arc<Graph>,
    members: Vec<NetworkSignal>,
    /// Without signals, to save.
    set: TimebaseSet,
}

struct NetworkSignal {
    id: TimebaseId,
    axis: TimebaseId,
    signal: Py<Signal>,
    joined: Option<Arc<Empirical>>,
}

#[derive(Clone, Copy)]
pub(crate) enum DerivationBase {
    /// From its own values to civil time.
    Civil,
    /// From this timebase's values to its own.
    Timebase(TimebaseId),
}

impl NetworkState {
    fn connect(
        &mut self,
        from: TimebaseId,
        to: TimebaseId,
        metric: Metric,
        definition: MetricDefinition,
    ) -> Result<()> {
        let graph = Arc::make_mut(&mut self.graph);
        graph.connect(from, to, metric)?;
        let name = |id| graph.timebase(id).map(|one| one.name.clone());
        self.set.metrics.push(NamedMetric {
            from: name(from).unwrap_or_default(),
            to: name(to).unwrap_or_default(),
            definition,
        });
        Ok(())
    }
}

impl Network {
    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn current(&self, py: Python<'_>) -> Result<Arc<Graph>> {
        let members: Vec<_> = {
            let state = self.lock();
            let members = state.members.iter();
            members
                .map(|one| (one.id, one.signal.clone_ref(py)))
                .collect()
        };
        let mut newest = Vec::with_capacity(members.len());
        for (id, signal) in members {
            let signal = signal.get().get(py)?;
            newest.push((id, signal.empirical()?.map(Arc::clone)));
        }
        let mut state = self.lock();
        let NetworkState { graph, members, .. } = &mut *state;
        for (id, metric) in newest {
            let member = members.iter_mut().find(|member| member.id == id);
            let (Some(member), Some(metric)) = (member, metric) else {
                continue;
            };
            if member
                .joined
                .as_ref()
                .is_none_or(|have| !Arc::ptr_eq(have, &metric))
            {
                let edge = Metric::Empirical(Arc::clone(&metric));
                Arc::make_mut(graph).replace(id, TimebaseId::CIVIL, edge)?;
                member.joined = Some(metric);
            }
        }
        Ok(Arc::clone(graph))
    }

    pub(crate) fn id(&self, name: &str) -> Result<TimebaseId> {
        Ok(self.lock().graph.id(name)?)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let graph = Arc::clone(&self.lock().graph);
        let all = (0..).map_while(|id| graph.timebase(TimebaseId(id)));
        all.map(|timebase| timebase.name.clone()).collect()
    }

    pub(crate) fn name(&self, id: TimebaseId) -> String {
        let state = self.lock();
        let timebase = state.graph.timebase(id);
        timebase
            .map(|timebase| timebase.name.clone())
            .unwrap_or_default()
    }

    pub(crate) fn kind(&self, id: TimebaseId) -> TimebaseKind {
        let state = self.lock();
        let timebase = state.graph.timebase(id);
        timebase.map_or(TimebaseKind::Civil, |timebase| timebase.kind.clone())
    }

    /// The timebase of a signal, by the store's id.
    pub(crate) fn member(&self, axis: TimebaseId) -> Option<TimebaseId> {
        let state = self.lock();
        let mut members = state.members.iter();
        members
            .find(|member| member.axis == axis)
            .map(|member| member.id)
    }

    pub(crate) fn signal(&self, py: Python<'_>, axis: TimebaseId) -> Option<Py<Signal>> {
        let state = self.lock();
        let mut members = state.members.iter();
        let member = members.find(|member| member.axis == axis)?;
        Some(member.signal.clone_ref(py))
    }

    pub(crate) fn axis(&self, id: TimebaseId) -> Option<TimebaseId> {
        let state = self.lock();
        let mut members = state.members.iter();
        members
            .find(|member| member.id == id)
            .map(|member| member.axis)
    }

    /// Returns the existing timebase if the signal has one.
    pub(crate) fn add_signal(
        &self,
        signal: &Bound<'_, Signal>,
        name: Option<&str>,
    ) -> Result<TimebaseId> {
        let now = signal.get().get(signal.py())?;
        let axis = now.timebase();
        let name = name.unwrap_or(now.name());
        if let Some(id) = self.member(axis) {
            return Ok(id);
        }
        let id = self.add(name, TimebaseKind::Index)?;
        self.lock().members.push(NetworkSignal {
            id,
            axis,
            signal: signal.clone().unbind(),
            joined: None,
        });
        Ok(id)
    }

    /// `name` must be new.
    pub(crate) fn add(&self, name: &str, kind: TimebaseKind) -> Result<TimebaseId> {
        let mut state = self.lock();
        if let Ok(id) = state.graph.id(name) {
            let existing = state.graph.timebase(id).map(|there| there.kind.to_string());
            return Err(TimeError::DuplicateTimebase {
                name: name.to_owned(),
                existing: existing.unwrap_or_default(),
            }
            .into());
        }
        let timebase = isochrony_time::Timebase {
            name: name.to_owned(),
            kind,
        };
        if let TimebaseKind::Unit(unit) = &timebase.kind {
            let (name, unit) = (name.to_owned(), unit.clone());
            state.set.timebases.push(NamedTimebase { name, unit });
        }
        Ok(Arc::make_mut(&mut state.graph).add(timebase)?)
    }

    pub(crate) fn connect(
        &self,
        py: Python<'_>,
        from: TimebaseId,
        to: TimebaseId,
        definition: MetricDefinition,
    ) -> Result<()> {
        let metric = definition.metric()?;
        self.current(py)?;
        self.lock().connect(from, to, metric, definition)
    }

    pub(crate) fn derive(
        &self,
        name: &str,
        unit: &str,
        map: Derived,
        other: DerivationBase,
    ) -> Result<TimebaseId> {
        let id = self.add(name, TimebaseKind::Unit(unit.to_owned()))?;
        let (from, to) = match other {
            DerivationBase::Civil => (id, TimebaseId::CIVIL),
            DerivationBase::Timebase(other) => (other, id),
        };
        // A new timebase is in no cycle.
        let definition = MetricDefinition::Derived(map);
        self.lock()
            .connect(from, to, Metric::Derived(map), definition)?;
        Ok(id)
    }

    pub(crate) fn set(&self) -> TimebaseSet {
        self.lock().set.clone()
    }

    /// Joins two timebases by name, as saved with a store.
    pub(crate) fn rejoin(&self, py: Python<'_>, metric: &NamedMetric) -> Result<()> {
        let (from, to) = (self.id(&metric.from)?, self.id(&metric.to)?);
        self.connect(py, from, to, metric.definition.clone())
    }

    pub(crate) fn signal_of(&self, py: Python<'_>, id: TimebaseId) -> Option<Py<Signal>> {
        let state = self.lock();
        let member = state.members.iter().find(|member| member.id == id)?;
        Some(member.signal.clone_ref(py))
    }
}

/// Counts at `rate` from a civil time on.
pub(crate) fn counting(
    network: &Arc<Network>,
    name: &str,
    unit: &str,
    rate: Rate,
    start: Fixed,
) -> Result<TimebaseId> {
    let map = Derived::from_rate(rate, start)?;
    network.derive(name, unit, map, DerivationBase::Civil)
}
