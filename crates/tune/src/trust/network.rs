//! [`Network`]: a neural network with hidden rectifier layers.

use super::PerModel;
use super::features::Vector;

#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) weights: Vec<Vec<f64>>,
    pub(super) bias: Vec<f64>,
}

impl Layer {
    fn outputs(&self, inputs: &[f64]) -> Vec<f64> {
        let sum = |weights: &Vec<f64>| weights.iter().zip(inputs).map(|(w, x)| w * x).sum::<f64>();
        let rows = self.weights.iter().zip(&self.bias);
        rows.map(|(weights, bias)| sum(weights) + bias).collect()
    }
}

/// Log odds per model that it is right.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    pub(super) hidden: Vec<Layer>,
    pub(super) last: Layer,
}

impl Network {
    /// Inputs are standardised.
    pub(super) fn scores(&self, inputs: &Vector) -> PerModel {
        let mut values = inputs.to_vec();
        for layer in &self.hidden {
            values = layer.outputs(&values);
            values.iter_mut().for_each(|value| *value = value.max(0.0));
        }
        let scores = self.last.outputs(&values);
        std::array::from_fn(|i| scores[i])
    }
}
