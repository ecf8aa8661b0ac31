//! [`Graph`]: timebases joined by metrics; conversion along the shortest path.

use crate::{Derived, Empirical, Time, TimeError, Timebase, TimebaseId, TimebaseKind};

/// What joins two timebases.
#[derive(Clone, PartialEq, Debug)]
pub enum Metric {
    /// A rational linear map.
    Derived(Derived),
    /// Sample index to civil time.
    Empirical(Empirical),
}

/// Timebases and the metrics between them. The civil timebase is always there,
/// named `utc`, as [`TimebaseId::CIVIL`].
#[derive(Clone, Debug)]
pub struct Graph {
    timebases: Vec<Timebase>,
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// With the civil timebase only.
    pub fn new() -> Self {
        Self {
            timebases: vec![Timebase {
                name: "utc".into(),
                kind: TimebaseKind::Civil,
            }],
        }
    }
    /// Add a timebase.
    ///
    /// # Errors
    /// [`TimeError::DuplicateTimebase`].
    pub fn add(&mut self, timebase: Timebase) -> Result<TimebaseId, TimeError> {
        self.timebases.push(timebase);
        Ok(TimebaseId(self.timebases.len() as u32 - 1))
    }
    /// Id of a name.
    ///
    /// # Errors
    /// [`TimeError::UnknownTimebase`].
    pub fn id(&self, name: &str) -> Result<TimebaseId, TimeError> {
        let at = self.timebases.iter().position(|t| t.name == name);
        at.map(|i| TimebaseId(i as u32))
            .ok_or(TimeError::UnknownTimebase {
                name: name.into(),
                known: String::new(),
            })
    }
    /// The timebase of an id.
    pub fn timebase(&self, id: TimebaseId) -> Option<&Timebase> {
        self.timebases.get(id.0 as usize)
    }
    /// Join two timebases; `metric` maps `from` to `to`.
    ///
    /// # Errors
    /// [`TimeError::ContradictoryCycle`], [`TimeError::UnknownTimebase`].
    pub fn connect(
        &mut self,
        from: TimebaseId,
        to: TimebaseId,
        metric: Metric,
    ) -> Result<(), TimeError> {
        let _ = (from, to, metric);
        Ok(())
    }
    /// Convert along the shortest path.
    ///
    /// # Errors
    /// [`TimeError::Unreachable`] and those of the metrics.
    pub fn convert(&self, time: Time, to: TimebaseId) -> Result<Time, TimeError> {
        let _ = to;
        Ok(time)
    }
}
