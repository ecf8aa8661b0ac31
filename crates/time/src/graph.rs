//! [`Graph`]: timebases joined by metrics.
//!
//! Invariant: every cycle of metrics is consistent within rounding and stated uncertainty, so all shortest paths are
//! equivalent.

use std::collections::VecDeque;

use crate::metric::{Edge, Metric};
use crate::{Exact, Fixed, Range, Time, TimeError, Timebase, TimebaseId, TimebaseKind};

/// Timebases and metrics; civil time always exists as [`TimebaseId::CIVIL`].
///
/// ```
/// use isochrony_time::{Derived, Fixed, Graph, Metric, Time, Timebase, TimebaseId, TimebaseKind};
/// let mut graph = Graph::new();
/// let kind = TimebaseKind::Index;
/// let a = graph.add(Timebase { name: "stn_10/pressure".into(), kind: kind.clone() })?;
/// let b = graph.add(Timebase { name: "stn_11/pressure".into(), kind })?;
/// let start = Fixed::from_int(1_267_401_600_000_000_000);
/// let later = Fixed::from_int(1_267_401_601_000_000_000);
/// graph.connect(a, TimebaseId::CIVIL, Metric::Derived(Derived::from_rate("2000".parse()?, start)?))?;
/// graph.connect(b, TimebaseId::CIVIL, Metric::Derived(Derived::from_rate("1000".parse()?, later)?))?;
/// assert_eq!(graph.convert(Time::new(4000, a), b)?.value, Fixed::from_int(1000));
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    timebases: Vec<Timebase>,
    edges: Vec<Edge>,
    edges_of: Vec<Vec<usize>>,
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// A graph of civil time only.
    pub fn new() -> Self {
        let utc = Timebase {
            name: "utc".into(),
            kind: TimebaseKind::Civil,
        };
        Self {
            timebases: vec![utc],
            edges: Vec::new(),
            edges_of: vec![Vec::new()],
        }
    }

    /// Adds a timebase, or finds an equal one.
    ///
    /// # Errors
    /// [`TimeError::DuplicateTimebase`] if the name has another kind.
    pub fn add(&mut self, timebase: Timebase) -> Result<TimebaseId, TimeError> {
        if let Ok(id) = self.id(&timebase.name) {
            let there = &self.timebases[id.0 as usize];
            if there.kind == timebase.kind {
                return Ok(id);
            }
            let existing = there.kind.to_string();
            return Err(TimeError::DuplicateTimebase {
                name: timebase.name,
                existing,
            });
        }
        self.timebases.push(timebase);
        self.edges_of.push(Vec::new());
        Ok(TimebaseId(self.timebases.len() as u32 - 1))
    }

    /// Id of a name.
    ///
    /// # Errors
    /// [`TimeError::UnknownTimebase`].
    pub fn id(&self, name: &str) -> Result<TimebaseId, TimeError> {
        let at = self.timebases.iter().position(|t| t.name == name);
        at.map(|i| TimebaseId(i as u32))
            .ok_or_else(|| self.unknown(name.to_owned()))
    }

    /// Timebase of an id.
    pub fn timebase(&self, id: TimebaseId) -> Option<&Timebase> {
        self.timebases.get(id.0 as usize)
    }

    /// Joins two timebases; `metric` maps `from` to `to`.
    ///
    /// # Errors
    /// [`TimeError::UnknownTimebase`], [`TimeError::ContradictoryCycle`] if a path already joins them and disagrees
    /// beyond rounding and stated uncertainties.
    pub fn connect(
        &mut self,
        from: TimebaseId,
        to: TimebaseId,
        metric: Metric,
    ) -> Result<(), TimeError> {
        for id in [from, to] {
            self.known(id)?;
        }
        let edge = Edge { from, to, metric };
        self.check_cycle(&edge)?;
        let n = self.edges.len();
        self.edges.push(edge);
        self.edges_of[from.0 as usize].push(n);
        if from != to {
            self.edges_of[to.0 as usize].push(n);
        }
        Ok(())
    }

    /// Replaces or adds the metric that joins `from` to `to` directly: for a growing signal.
    ///
    /// # Errors
    /// As [`Graph::connect`]; the graph is unchanged.
    pub fn replace(
        &mut self,
        from: TimebaseId,
        to: TimebaseId,
        metric: Metric,
    ) -> Result<(), TimeError> {
        let Some(n) = self.edges.iter().position(|e| (e.from, e.to) == (from, to)) else {
            return self.connect(from, to, metric);
        };
        let detach = |edges: &mut Vec<usize>| edges.retain(|&e| e != n);
        let before = (
            self.edges_of[from.0 as usize].clone(),
            self.edges_of[to.0 as usize].clone(),
        );
        detach(&mut self.edges_of[from.0 as usize]);
        detach(&mut self.edges_of[to.0 as usize]);
        let edge = Edge { from, to, metric };
        let checked = self.check_cycle(&edge);
        (self.edges_of[from.0 as usize], self.edges_of[to.0 as usize]) = before;
        checked?;
        self.edges[n] = edge;
        Ok(())
    }

    /// Converts along the path of fewest metrics, and rounds once.
    ///
    /// An index is whole if the time came from that signal's sample. `in_gap` is set if any step interpolated in a gap.
    ///
    /// # Errors
    /// [`TimeError::UnknownTimebase`], [`TimeError::Unreachable`], and those of [`crate::Empirical::index_of_time`].
    pub fn convert(&self, time: Time, to: TimebaseId) -> Result<Time, TimeError> {
        self.convert_exact(time.into(), to)?.rounded()
    }

    /// As [`Graph::convert`], without rounding.
    ///
    /// # Errors
    /// As [`Graph::convert`].
    pub fn convert_exact(
        &self,
        time: Time<Exact>,
        to: TimebaseId,
    ) -> Result<Time<Exact>, TimeError> {
        self.known(time.timebase)?;
        self.known(to)?;
        let path = self
            .path(time.timebase, to)
            .ok_or_else(|| self.unreachable(time.timebase, to))?;
        path.iter().try_fold(time, |t, &n| self.edges[n].apply(&t))
    }

    /// [`Graph::convert_exact`] with the half-width of the true value.
    ///
    /// # Errors
    /// As [`Graph::convert`].
    pub fn convert_with_uncertainty(
        &self,
        time: Time<Exact>,
        to: TimebaseId,
    ) -> Result<(Time<Exact>, f64), TimeError> {
        self.known(time.timebase)?;
        self.known(to)?;
        let path = self
            .path(time.timebase, to)
            .ok_or_else(|| self.unreachable(time.timebase, to))?;
        let mut steps = path.iter();
        steps.try_fold((time, 0.0), |(time, half), &n| {
            self.edges[n].apply_with_uncertainty(&time, half)
        })
    }

    pub(crate) fn convert_range(
        &self,
        range: Range<Exact>,
        to: TimebaseId,
    ) -> Result<Range<Exact>, TimeError> {
        let from = range.timebase();
        self.known(from)?;
        self.known(to)?;
        let path = self.path(from, to);
        let path = path.ok_or_else(|| self.unreachable(from, to))?;
        let mut steps = path.iter();
        steps.try_fold(range, |range, &n| self.edges[n].apply_range(&range))
    }

    /// Timebases on the shortest path, both ends included.
    ///
    /// # Errors
    /// As [`Graph::convert`].
    pub fn path_names(&self, from: TimebaseId, to: TimebaseId) -> Result<Vec<&str>, TimeError> {
        self.known(from)?;
        self.known(to)?;
        let path = self
            .path(from, to)
            .ok_or_else(|| self.unreachable(from, to))?;
        Ok(self.names_along(from, &path))
    }

    fn names_along(&self, from: TimebaseId, path: &[usize]) -> Vec<&str> {
        let mut at = from;
        let mut names = vec![self.name(at)];
        for &n in path {
            at = self.edges[n].other(at);
            names.push(self.name(at));
        }
        names
    }

    fn path(&self, from: TimebaseId, to: TimebaseId) -> Option<Vec<usize>> {
        let mut came_by: Vec<Option<usize>> = vec![None; self.timebases.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                let (mut path, mut at) = (Vec::new(), to);
                while at != from {
                    let edge = came_by[at.0 as usize]?;
                    path.push(edge);
                    at = self.edges[edge].other(at);
                }
                path.reverse();
                return Some(path);
            }
            for &n in &self.edges_of[at.0 as usize] {
                let next = self.edges[n].other(at);
                if next != from && came_by[next.0 as usize].is_none() {
                    came_by[next.0 as usize] = Some(n);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Sends probes along the new edge and back by the existing path.
    fn check_cycle(&self, edge: &Edge) -> Result<(), TimeError> {
        let Some(path) = self.path(edge.to, edge.from) else {
            return Ok(());
        };
        for value in edge.probes() {
            let probe = Time::exact(value.into(), edge.from);
            let (mut at, mut slack) = edge.apply_with_slack(probe, 0.0)?;
            for &n in &path {
                // The way back uses another clock.
                at.run = None;
                (at, slack) = self.edges[n].apply_with_slack(at, slack)?;
            }
            let at = at.rounded()?;
            let off = at.value.checked_sub(value).and_then(Fixed::checked_abs);
            let off = off.ok_or(TimeError::Overflow {
                what: "cycle of metrics",
            })?;
            if off.to_f64() > slack {
                let mut cycle = vec![self.name(edge.from)];
                cycle.extend(self.names_along(edge.to, &path));
                return Err(TimeError::ContradictoryCycle {
                    cycle: cycle.join(" -> "),
                    timebase: self.name(edge.from).to_owned(),
                    value,
                    back: at.value,
                    off,
                });
            }
        }
        Ok(())
    }

    fn name(&self, id: TimebaseId) -> &str {
        self.timebase(id).map_or("?", |t| &t.name)
    }

    fn known(&self, id: TimebaseId) -> Result<(), TimeError> {
        if (id.0 as usize) < self.timebases.len() {
            return Ok(());
        }
        Err(self.unknown(format!("#{}", id.0)))
    }

    fn unknown(&self, name: String) -> TimeError {
        let known: Vec<&str> = self.timebases.iter().map(|t| t.name.as_str()).collect();
        TimeError::UnknownTimebase {
            name,
            known: listed(known),
        }
    }

    fn unreachable(&self, from: TimebaseId, to: TimebaseId) -> TimeError {
        let island = |id| {
            let all = (0..self.timebases.len() as u32).map(TimebaseId);
            listed(
                all.filter(|&t| self.path(id, t).is_some())
                    .map(|t| self.name(t))
                    .collect(),
            )
        };
        TimeError::Unreachable {
            from: self.name(from).to_owned(),
            to: self.name(to).to_owned(),
            from_island: island(from),
            to_island: island(to),
        }
    }
}

impl Range {
    /// Converts both ends to another timebase.
    ///
    /// A negative slope swaps them. To civil time the end is that of the last index before it
    /// ([`crate::Empirical::end_of`]).
    ///
    /// # Errors
    /// As [`Graph::convert`]; [`TimeError::ReversedRange`] if a clock step within goes back before the start.
    pub fn convert(&self, graph: &Graph, to: TimebaseId) -> Result<Self, TimeError> {
        Range::<Exact>::from(*self).convert(graph, to)?.rounded()
    }
}

impl Range<Exact> {
    /// As [`Range::convert`], without rounding.
    ///
    /// # Errors
    /// As [`Range::convert`].
    pub fn convert(&self, graph: &Graph, to: TimebaseId) -> Result<Self, TimeError> {
        graph.convert_range(self.clone(), to)
    }
}

/// At most a dozen, to keep errors readable.
fn listed(names: Vec<&str>) -> String {
    let shown = names[..names.len().min(12)].join(", ");
    if names.len() <= 12 {
        shown
    } else {
        format!("{shown}, ... ({} in all)", names.len())
    }
}
