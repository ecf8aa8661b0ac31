//! [`LinkFeatures`]: measurements of a link.

use serde::{Deserialize, Serialize};

use super::{Model, Reason};

pub(super) const FEATURES: [&str; 20] = [
    "utilization",
    "ln_capacity",
    "ln_items",
    "ln_interarrival_cv",
    "ln_service_cv",
    "writer_wait_share",
    "reader_wait_share",
    "reader_output_wait_share",
    "occupancy_mean",
    "occupancy_deviation",
    "flow_throughput_gap",
    "mm1k_throughput_gap",
    "md1k_throughput_gap",
    "two_moment_throughput_gap",
    "mm1k_occupancy_gap",
    "md1k_occupancy_gap",
    "two_moment_occupancy_gap",
    "mm1k_histogram_distance",
    "md1k_histogram_distance",
    "two_moment_histogram_distance",
];

/// Number of features without a model.
pub(super) const MEASURED: usize = 10;

const COMPARED: usize = FEATURES.len() - MEASURED;

pub(super) type Vector = [f64; FEATURES.len()];

/// A link under one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFeatures {
    /// Items carried.
    pub items: u64,
    /// Capacity in items.
    pub capacity: usize,
    /// Mean seconds per item of the writer, including its waits for input, excluding waits for room in the link.
    pub interarrival_s: f64,
    /// Its coefficient of variation.
    pub interarrival_cv: f64,
    /// Mean computing seconds per item of the reader.
    pub service_s: f64,
    /// Its coefficient of variation.
    pub service_cv: f64,
    /// Share of time the writer waited for room in the link, 0 to 1.
    pub writer_wait_share: f64,
    /// Share of time the reader waited for items, 0 to 1.
    pub reader_wait_share: f64,
    /// Share of time the reader waited for room in its output, 0 to 1.
    pub reader_output_wait_share: f64,
    /// Sends by occupancy: 0 to 7 eighths, and full.
    pub occupancy: [u64; 9],
}

impl LinkFeatures {
    /// Mean service over mean inter-arrival time: the reader's busy share with an unbounded link.
    pub fn utilization(&self) -> f64 {
        self.service_s / self.interarrival_s
    }

    /// Items carried per second.
    pub fn throughput(&self) -> f64 {
        (1.0 - self.writer_wait_share) / self.interarrival_s
    }

    pub(super) fn measured(&self) -> Result<[f64; MEASURED], Reason> {
        self.check()?;
        let [mean, deviation] = self.occupancy_moments();
        Ok([
            self.utilization(),
            (self.capacity as f64).ln(),
            (self.items as f64).ln(),
            self.interarrival_cv.ln_1p(),
            self.service_cv.ln_1p(),
            self.writer_wait_share,
            self.reader_wait_share,
            self.reader_output_wait_share,
            mean,
            deviation,
        ])
    }

    /// The measurements must be valid.
    pub(super) fn compared(&self) -> Result<[f64; COMPARED], Reason> {
        let mut found = [0.0; COMPARED];
        let [mean, _] = self.occupancy_moments();
        let sent = self.sent();
        for (i, model) in Model::ALL.into_iter().enumerate() {
            let (throughput, occupancy) =
                model.measurable(self).map_err(|error| Reason::Invalid {
                    feature: model.to_string(),
                    got: f64::NAN,
                    allowed: error.to_string(),
                })?;
            found[i] = (throughput / self.throughput()).ln();
            let Some(occupancy) = occupancy else { continue };
            let queueing = i - 1;
            found[Model::ALL.len() + queueing] = eighths(&occupancy) - mean;
            let pairs = occupancy.iter().zip(&self.occupancy);
            let distance = pairs.map(|(share, &count)| (share - count as f64 / sent).abs());
            found[2 * Model::ALL.len() - 1 + queueing] = distance.sum::<f64>() / 2.0;
        }
        Ok(found)
    }

    fn check(&self) -> Result<(), Reason> {
        let unless = |holds: bool, feature: &str, got: f64, allowed: &str| match holds {
            true => Ok(()),
            false => Err(Reason::Invalid {
                feature: feature.into(),
                got,
                allowed: allowed.into(),
            }),
        };
        unless(self.items > 0, "items", self.items as f64, "at least 1")?;
        let capacity = self.capacity as f64;
        unless(self.capacity > 0, "capacity", capacity, "at least 1")?;
        for (feature, got) in [
            ("interarrival_s", self.interarrival_s),
            ("service_s", self.service_s),
        ] {
            let holds = got.is_normal() && got > 0.0 && got.recip().is_finite();
            unless(holds, feature, got, "finite and above 0")?;
        }
        for (feature, got) in [
            ("interarrival_cv", self.interarrival_cv),
            ("service_cv", self.service_cv),
        ] {
            unless(
                got.is_finite() && got >= 0.0,
                feature,
                got,
                "finite and at least 0",
            )?;
        }
        for (feature, got) in [
            ("writer_wait_share", self.writer_wait_share),
            ("reader_wait_share", self.reader_wait_share),
            ("reader_output_wait_share", self.reader_output_wait_share),
        ] {
            unless((0.0..=1.0).contains(&got), feature, got, "0 to 1")?;
        }
        unless(
            self.sent() > 0.0,
            "occupancy",
            0.0,
            "a count of at least one item sent",
        )
    }

    fn sent(&self) -> f64 {
        self.occupancy.iter().map(|&count| count as f64).sum()
    }

    fn occupancy_moments(&self) -> [f64; 2] {
        let sent = self.sent();
        let shares = self.occupancy.map(|count| count as f64 / sent);
        let mean = eighths(&shares);
        let squares = (0u8..)
            .zip(&shares)
            .map(|(part, share)| share * (f64::from(part) / 8.0 - mean).powi(2));
        [mean, squares.sum::<f64>().max(0.0).sqrt()]
    }
}

fn eighths(shares: &[f64; 9]) -> f64 {
    (0u8..)
        .zip(shares)
        .map(|(part, share)| f64::from(part) / 8.0 * share)
        .sum()
}
