//! [`Model`]: models of a link, and their predictions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::LinkFeatures;
use crate::{FiniteQueue, Queue, TuneError};

/// A model of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// The slower of writer and reader limits throughput ([`flow_model`](crate::flow_model)); predicts no items.
    Flow,
    /// M/M/1/K.
    Mm1k,
    /// M/D/1/K.
    Md1k,
    /// [`Queue::gg1`] with finite room.
    TwoMoment,
}

/// Prediction for a link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Items per second.
    pub throughput: f64,
    /// Mean items in the link, without those held by writer and reader; None from the flow model.
    pub mean_items: Option<f64>,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 4] = [Self::Flow, Self::Mm1k, Self::Md1k, Self::TwoMoment];

    /// Name in the weights file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Mm1k => "mm1k",
            Self::Md1k => "md1k",
            Self::TwoMoment => "two_moment",
        }
    }

    /// Predicts a link with room for `capacity` items.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] from [`Queue::gg1`] or [`Queue::with_capacity`]; the queue's room adds the items held
    /// by writer and reader.
    pub fn predict(
        self,
        features: &LinkFeatures,
        capacity: usize,
    ) -> Result<Prediction, TuneError> {
        let queue = self.queue(features)?;
        if self == Self::Flow {
            let arrivals = features.interarrival_s.recip();
            return Ok(Prediction {
                throughput: arrivals.min(features.service_s.recip()),
                mean_items: None,
            });
        }
        let finite = queue.with_capacity(capacity.saturating_add(2))?;
        let shares =
            (0..=finite.capacity()).map(|n| waiting(n, capacity) as f64 * finite.probability(n));
        Ok(Prediction {
            throughput: finite.throughput(),
            mean_items: Some(shares.sum()),
        })
    }

    /// Throughput, and the shares of sends by occupancy in eighths.
    pub(super) fn measurable(
        self,
        features: &LinkFeatures,
    ) -> Result<(f64, Option<[f64; 9]>), TuneError> {
        let throughput = self.predict(features, features.capacity)?.throughput;
        if self == Self::Flow {
            return Ok((throughput, None));
        }
        let finite = self
            .queue(features)?
            .with_capacity(features.capacity.saturating_add(2))?;
        Ok((throughput, Some(occupancy(&finite, features.capacity))))
    }

    fn queue(self, features: &LinkFeatures) -> Result<Queue, TuneError> {
        let (rate, service) = (features.interarrival_s.recip(), features.service_s);
        match self {
            Self::Flow | Self::Mm1k => Queue::mm1(rate, service),
            Self::Md1k => Queue::md1(rate, service),
            Self::TwoMoment => Queue::gg1(
                rate,
                service,
                features.interarrival_cv.powi(2),
                features.service_cv.powi(2),
            ),
        }
    }
}

/// Of a full queue, the reader holds the first item and the writer the last.
fn waiting(in_system: usize, capacity: usize) -> usize {
    in_system.saturating_sub(1).min(capacity)
}

/// Shares of sends, without the last state: a waiting writer finishes no other item.
fn occupancy(finite: &FiniteQueue, capacity: usize) -> [f64; 9] {
    let mut shares = [0.0; 9];
    for n in 0..finite.capacity() {
        shares[8 * waiting(n, capacity) / capacity] += finite.probability(n);
    }
    let sum: f64 = shares.iter().sum();
    shares.map(|share| share / sum)
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flow => "the flow model",
            Self::Mm1k => "M/M/1/K",
            Self::Md1k => "M/D/1/K",
            Self::TwoMoment => "the two-moment approximation",
        })
    }
}
