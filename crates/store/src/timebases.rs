//! Named timebases that belong to no signal, and metrics between them, as JSON in the store's attributes: readable by
//! other programs, and changed at once rather than by commits.

use std::sync::Arc;

use isochrony_time::{
    Derived, FitShape, Fixed, Graph, Metric, PointFit, PointFitOptions, PointPair, Timebase,
    TimebaseKind,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::StoreError;
use crate::store::Store;

/// Name of the store attribute.
pub const TIMEBASES: &str = "isochrony_timebases";

/// Timebases and metrics by name. `utc` is civil time; other names are signals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimebaseSet {
    /// Timebases that belong to no signal.
    pub timebases: Vec<NamedTimebase>,
    /// Metrics, in order of creation.
    pub metrics: Vec<NamedMetric>,
}

/// A named timebase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedTimebase {
    /// Unique among timebases and signals.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
}

/// A metric between two named timebases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedMetric {
    /// The first timebase.
    pub from: String,
    /// The second one.
    pub to: String,
    /// Maps values of `from` to values of `to`.
    #[serde(flatten)]
    pub definition: MetricDefinition,
}

/// Definition of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricDefinition {
    /// An exact rational line.
    Derived(Derived),
    /// A fit to points.
    Points {
        /// Value, value on the other timebase, half-width if any.
        points: Vec<(Fixed, Fixed, Option<Fixed>)>,
        /// Requested shape.
        shape: Option<FitShape>,
        /// See [`PointFitOptions::wander`].
        wander: f64,
    },
}

impl MetricDefinition {
    /// A fit to points.
    #[must_use]
    pub fn of_points(points: &[PointPair], options: &PointFitOptions) -> Self {
        let points = points.iter();
        Self::Points {
            points: points.map(|p| (p.from, p.to, p.uncertainty)).collect(),
            shape: options.shape,
            wander: options.wander,
        }
    }

    /// Computes the metric.
    ///
    /// # Errors
    /// [`StoreError::Time`] as for [`PointFit::new`].
    pub fn metric(&self) -> Result<Metric, StoreError> {
        match self {
            Self::Derived(map) => Ok(Metric::Derived(*map)),
            Self::Points {
                points,
                shape,
                wander,
            } => {
                let pair = |&(from, to, uncertainty): &(Fixed, Fixed, Option<Fixed>)| PointPair {
                    from,
                    to,
                    uncertainty,
                };
                let points: Vec<PointPair> = points.iter().map(pair).collect();
                let (shape, wander) = (*shape, *wander);
                let fit = PointFit::new(&points, &PointFitOptions { shape, wander })?;
                Ok(Metric::Points(Arc::new(fit.metric().clone())))
            }
        }
    }
}

impl Store {
    /// The store's timebases.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::DamagedFile`] also if the attribute holds something else.
    pub fn timebases(&self) -> Result<TimebaseSet, StoreError> {
        let kept = self.read_attributes()?;
        let Some(kept) = kept.and_then(|mut all| all.remove(TIMEBASES)) else {
            return Ok(TimebaseSet::default());
        };
        serde_json::from_value(kept).map_err(|_| StoreError::DamagedFile {
            path: self.path().join("zarr.json"),
            offset: 0,
            reason: "the attribute isochrony_timebases holds no timebases",
        })
    }

    /// Replaces the store's timebases, durably.
    ///
    /// ```
    /// use isochrony_store::timebases::{MetricDefinition, NamedMetric, NamedTimebase, TimebaseSet};
    /// use isochrony_store::{Mode, Store};
    /// use isochrony_time::{Fixed, PointFitOptions, PointPair, Time, TimebaseId};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path().join("water.iso"), Mode::Create)?;
    /// let points = [PointPair::new(0, 1_000).within(1), PointPair::new(100, 3_000).within(1)];
    /// store.set_timebases(&TimebaseSet {
    ///     timebases: vec![NamedTimebase { name: "camera".into(), unit: "frames".into() }],
    ///     metrics: vec![NamedMetric {
    ///         from: "camera".into(),
    ///         to: "utc".into(),
    ///         definition: MetricDefinition::of_points(&points, &PointFitOptions::default()),
    ///     }],
    /// })?;
    /// let graph = store.graph()?;
    /// let frame = Time::new(50, graph.id("camera")?);
    /// assert_eq!(graph.convert(frame, TimebaseId::CIVIL)?.value, Fixed::from_int(2_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Time`] for an unfittable metric, a name of neither timebase nor signal, and a contradiction;
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn set_timebases(&self, set: &TimebaseSet) -> Result<(), StoreError> {
        let mut graph = self.graph_of_signals()?;
        join(&mut graph, set)?;
        let mut attributes = self.attributes()?;
        if set == &TimebaseSet::default() {
            attributes.remove(TIMEBASES);
        } else {
            let kept = serde_json::to_value(set).unwrap_or(Value::Null);
            attributes.insert(TIMEBASES.into(), kept);
        }
        self.set_attributes(&attributes)
    }

    /// Civil time, the index timebases of signals related to it, by their names, and the store's
    /// [`timebases`](Self::timebases).
    ///
    /// # Errors
    /// [`StoreError::Time`], also if a signal joined to a timebase is gone; [`StoreError::DamagedTable`].
    pub fn graph(&self) -> Result<Graph, StoreError> {
        let mut graph = self.graph_of_signals()?;
        join(&mut graph, &self.timebases()?)?;
        Ok(graph)
    }
}

fn join(graph: &mut Graph, set: &TimebaseSet) -> Result<(), StoreError> {
    for timebase in &set.timebases {
        graph.add(Timebase {
            name: timebase.name.clone(),
            kind: TimebaseKind::Unit(timebase.unit.clone()),
        })?;
    }
    for metric in &set.metrics {
        let (from, to) = (graph.id(&metric.from)?, graph.id(&metric.to)?);
        graph.connect(from, to, metric.definition.metric()?)?;
    }
    Ok(())
}
