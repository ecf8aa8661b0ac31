"""The classifiers of `train_trust.py`: a support vector machine and a neural network, in the form in which they ship.

Both are fitted by scikit-learn and then evaluated from their stored, rounded weights only, so that the figures are of
what ships.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from trust_features import MODELS
from trust_simulation import Array

LANDMARKS = 96
HIDDEN = (20, 10)


def rounded(values: Array, digits: int) -> Array:
    """Values with so many significant digits."""
    return np.array([float(f"{value:.{digits}g}") for value in np.ravel(values)]).reshape(np.shape(values))


def _rounded_up(values: Array) -> Array:
    """Values with seven significant digits, none of them smaller than it was."""
    found = rounded(values, 7)
    return np.where(found < values, rounded(found + 1e-6 * np.abs(found), 7), found)


@dataclass(frozen=True)
class Scaling:
    """Centre and width by which features are standardised, and the range in which they were trained."""

    center: Array
    width: Array
    least: Array
    most: Array

    @classmethod
    def fitted(cls, features: Array) -> Scaling:
        """The scaling of training rows."""
        center, width = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-3)
        # Outward, so that the rows at the ends are inside: a fifth of the links may share the smallest capacity.
        least, most = -_rounded_up(-features.min(axis=0)), _rounded_up(features.max(axis=0))
        return cls(rounded(center, 7), rounded(width, 7), least, most)

    def standardised(self, features: Array) -> Array:
        """Features with mean 0 and deviation 1."""
        return (features - self.center) / self.width

    def inside(self, features: Array) -> NDArray[np.bool_]:
        """Rows whose features are all in the trained range."""
        return ((features >= self.least) & (features <= self.most)).all(axis=1)


@dataclass(frozen=True)
class SupportVectorMachine:
    """A machine with a Gaussian kernel on landmarks (Nystroem), and one output a model."""

    gamma: float
    landmarks: Array
    weights: Array
    bias: Array

    @classmethod
    def fitted(
        cls, inputs: Array, right: NDArray[np.bool_], gamma: float, penalty: float, seed: int
    ) -> SupportVectorMachine:
        """Trains on standardised features; landmarks are random training rows."""
        rng = np.random.default_rng(seed)
        landmarks = np.round(inputs[np.sort(rng.choice(len(inputs), LANDMARKS, replace=False))], 3)
        values, vectors = np.linalg.eigh(_kernel(landmarks, landmarks, gamma))
        root = vectors / np.sqrt(np.maximum(values, 1e-4))
        mapped = _kernel(inputs, landmarks, gamma) @ root
        weights, bias = [], []
        for number in range(right.shape[1]):
            machine = LinearSVC(C=penalty, dual=False, tol=1e-6, max_iter=5_000)
            machine.fit(mapped, right[:, number])
            weights.append(root @ machine.coef_[0])
            bias.append(machine.intercept_[0])
        return cls(gamma, landmarks, rounded(np.array(weights), 9), rounded(np.array(bias), 9))

    def scores(self, inputs: Array) -> Array:
        """Signed distances from the margin, shape (rows, models)."""
        return _kernel(inputs, self.landmarks, self.gamma) @ self.weights.T + self.bias

    def as_json(self) -> dict[str, Any]:
        """For the file of weights."""
        outputs = zip(MODELS, self.weights.tolist(), self.bias.tolist(), strict=True)
        return {
            "gamma": self.gamma,
            "landmarks": self.landmarks.tolist(),
            "outputs": [{"model": model, "weights": weights, "bias": bias} for model, weights, bias in outputs],
        }


def _kernel(inputs: Array, landmarks: Array, gamma: float) -> Array:
    # Differences and not products of inputs and landmarks: those would cancel digits.
    square = np.stack([((inputs - landmark) ** 2).sum(axis=1) for landmark in landmarks], axis=1)
    return np.exp(-gamma * square)


@dataclass(frozen=True)
class Network:
    """Two hidden layers of rectifiers, one output a model: the logarithm of the odds that it is right."""

    layers: list[tuple[Array, Array]]

    @classmethod
    def fitted(cls, inputs: Array, right: NDArray[np.bool_], decay: float, seed: int) -> Network:
        """Trains on standardised features."""
        network = MLPClassifier(HIDDEN, alpha=decay, solver="lbfgs", max_iter=400, random_state=seed)
        with warnings.catch_warnings():
            # Stopping early is meant: later iterations fit the trained families more closely.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(inputs, right.astype(int))
        layers = zip(network.coefs_, network.intercepts_, strict=True)
        return cls([(rounded(weights.T, 7), rounded(bias, 7)) for weights, bias in layers])

    def scores(self, inputs: Array) -> Array:
        """Logarithms of odds, shape (rows, models)."""
        for number, (weights, bias) in enumerate(self.layers):
            inputs = inputs @ weights.T + bias
            if number + 1 < len(self.layers):
                inputs = np.maximum(inputs, 0.0)
        return inputs

    def as_json(self) -> dict[str, Any]:
        """For the file of weights."""
        return {"layers": [{"weights": weights.tolist(), "bias": bias.tolist()} for weights, bias in self.layers]}


@dataclass(frozen=True)
class ClassifierPair:
    """Both classifiers with thresholds: those of each alone, and those of both together."""

    scaling: Scaling
    svm: SupportVectorMachine
    network: Network
    #: By model, for a classifier that decides alone.
    svm_alone: Array
    network_alone: Array
    #: By model, where both have to accept.
    svm_joint: Array
    network_joint: Array

    def trusted(self, features: Array) -> dict[str, NDArray[np.bool_]]:
        """What each classifier alone and both together trust, shape (rows, models); nothing outside the range."""
        inputs, inside = self.scaling.standardised(features), self.scaling.inside(features)[:, None]
        svm, network = self.svm.scores(inputs), self.network.scores(inputs)
        return {
            "SVM": (svm >= self.svm_alone) & inside,
            "network": (network >= self.network_alone) & inside,
            "both": (svm >= self.svm_joint) & (network >= self.network_joint) & inside,
        }

    def margins(self, features: Array) -> Array:
        """Smaller score less threshold; negative infinity outside the trained range."""
        inputs = self.scaling.standardised(features)
        margins = np.minimum(self.svm.scores(inputs) - self.svm_joint, self.network.scores(inputs) - self.network_joint)
        margins[~self.scaling.inside(features)] = -np.inf
        return margins


def threshold_for(scores: Array, right: NDArray[np.bool_], most_false: float) -> float:
    """The least threshold at which at most the share `most_false` of the rows that are not right reaches it."""
    wrong = np.sort(scores[~right])[::-1]
    allowed = int(most_false * len(wrong))
    return float(np.nextafter(wrong[allowed], np.inf)) if allowed < len(wrong) else -np.inf
