//! Reads the weights file of `tools/train_trust.py`.

use serde::Deserialize;

use super::features::{FEATURES, Vector};
use super::network::{Layer, Network};
use super::svm::SupportVectorMachine;
use super::{Model, PerModel, Reason, TrustClassifier};
use crate::TuneError;

const FORMAT: u64 = 1;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scaling(Vec<FeatureEntry>);

impl Scaling {
    pub(super) fn check(&self, values: &[f64]) -> Result<(), Reason> {
        for (entry, &got) in self.0.iter().zip(values) {
            if !(got >= entry.least && got <= entry.most) {
                return Err(Reason::Untrained {
                    feature: entry.name.clone(),
                    got,
                    least: entry.least,
                    most: entry.most,
                });
            }
        }
        Ok(())
    }

    pub(super) fn standardised(&self, values: &Vector) -> Vector {
        std::array::from_fn(|i| (values[i] - self.0[i].center) / self.0[i].width)
    }
}

#[derive(Deserialize)]
struct WeightsHeader {
    format: u64,
}

/// Seed, versions and tolerances are for readers.
#[derive(Deserialize)]
struct WeightsFile {
    models: Vec<String>,
    features: Vec<FeatureEntry>,
    support_vector_machine: SvmEntry,
    network: NetworkEntry,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureEntry {
    name: String,
    center: f64,
    width: f64,
    least: f64,
    most: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SvmEntry {
    gamma: f64,
    landmarks: Vec<Vec<f64>>,
    outputs: Vec<OutputEntry>,
    thresholds: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputEntry {
    model: String,
    weights: Vec<f64>,
    bias: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkEntry {
    layers: Vec<Layer>,
    thresholds: Vec<f64>,
}

pub(super) fn parse(text: &str) -> Result<TrustClassifier, TuneError> {
    let syntax = |error: serde_json::Error| TuneError::WeightsSyntax {
        problem: error.to_string(),
    };
    let header: WeightsHeader = serde_json::from_str(text).map_err(syntax)?;
    if header.format != FORMAT {
        return Err(TuneError::WeightsFormat {
            got: header.format,
            supported: FORMAT,
        });
    }
    let file: WeightsFile = serde_json::from_str(text).map_err(syntax)?;
    names("models", &file.models, &Model::ALL.map(Model::name))?;
    let features: Vec<String> = file.features.iter().map(|f| f.name.clone()).collect();
    names("features", &features, &FEATURES)?;
    for FeatureEntry { name, width, .. } in &file.features {
        if *width <= 0.0 {
            let parameter = format!("width of the feature {name}");
            return Err(TuneError::parameter(parameter, width, "above 0"));
        }
    }
    let (svm, svm_thresholds) = support_vector_machine(file.support_vector_machine)?;
    Ok(TrustClassifier {
        scaling: Scaling(file.features),
        svm,
        svm_thresholds,
        network_thresholds: fixed("network.thresholds", file.network.thresholds)?,
        network: network(file.network.layers)?,
    })
}

fn support_vector_machine(entry: SvmEntry) -> Result<(SupportVectorMachine, PerModel), TuneError> {
    let landmarks = entry
        .landmarks
        .into_iter()
        .map(|landmark| fixed("support_vector_machine.landmarks", landmark));
    let landmarks: Vec<Vector> = landmarks.collect::<Result<_, _>>()?;
    let models: Vec<String> = entry.outputs.iter().map(|o| o.model.clone()).collect();
    let place = "support_vector_machine.outputs";
    names(place, &models, &Model::ALL.map(Model::name))?;
    for output in &entry.outputs {
        count(place, output.weights.len(), landmarks.len())?;
    }
    let bias = entry.outputs.iter().map(|output| output.bias).collect();
    let weights = entry.outputs.into_iter().map(|output| output.weights);
    let svm = SupportVectorMachine {
        gamma: entry.gamma,
        landmarks,
        weights: fixed(place, weights.collect())?,
        bias: fixed(place, bias)?,
    };
    Ok((
        svm,
        fixed("support_vector_machine.thresholds", entry.thresholds)?,
    ))
}

fn network(mut layers: Vec<Layer>) -> Result<Network, TuneError> {
    let place = "network.layers";
    let mut inputs = FEATURES.len();
    for layer in &layers {
        count(place, layer.bias.len(), layer.weights.len())?;
        for weights in &layer.weights {
            count(place, weights.len(), inputs)?;
        }
        inputs = layer.bias.len();
    }
    count(place, inputs, Model::ALL.len())?;
    match layers.pop() {
        Some(last) => Ok(Network {
            hidden: layers,
            last,
        }),
        None => Err(shape(place, 0, 1)),
    }
}

fn names(place: &'static str, got: &[String], needed: &[&str]) -> Result<(), TuneError> {
    if got == needed {
        return Ok(());
    }
    Err(TuneError::WeightsNames {
        place,
        got: got.join(", "),
        needed: needed.join(", "),
    })
}

fn count(place: &'static str, got: usize, needed: usize) -> Result<(), TuneError> {
    match got == needed {
        true => Ok(()),
        false => Err(shape(place, got, needed)),
    }
}

fn fixed<T, const N: usize>(place: &'static str, values: Vec<T>) -> Result<[T; N], TuneError> {
    values
        .try_into()
        .map_err(|values: Vec<T>| shape(place, values.len(), N))
}

fn shape(place: &'static str, got: usize, needed: usize) -> TuneError {
    TuneError::WeightsShape { place, got, needed }
}
