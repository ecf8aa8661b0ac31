//! [`SupportVectorMachine`]: a Gaussian kernel on landmarks.

use super::PerModel;
use super::features::Vector;

/// Weighted sum of the kernel at fixed landmarks (Nystroem approximation).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SupportVectorMachine {
    pub(super) gamma: f64,
    pub(super) landmarks: Vec<Vector>,
    pub(super) weights: [Vec<f64>; 4],
    pub(super) bias: PerModel,
}

impl SupportVectorMachine {
    /// Signed distances from the margin; inputs are standardised.
    pub(super) fn scores(&self, inputs: &Vector) -> PerModel {
        let mut scores = self.bias;
        for (i, landmark) in self.landmarks.iter().enumerate() {
            let pairs = inputs.iter().zip(landmark);
            let square: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
            let kernel = (-self.gamma * square).exp();
            for (score, weights) in scores.iter_mut().zip(&self.weights) {
                *score += weights[i] * kernel;
            }
        }
        scores
    }
}
