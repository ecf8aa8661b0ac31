"""Trains the classifier that says whether a model may be believed for a link, and reports how good it is.

It writes `crates/tune/src/trust/weights.json`, the rows of its tests in `crates/tune/tests/integration/trust/`, and
prints the tables of `docs/trust.md`. The needs of this tool are not needs of the package; install them into an
environment of their own:

    python3 -m venv venv-trust
    venv-trust/bin/pip install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
    venv-trust/bin/python tools/train_trust.py

The simulation takes some minutes of one core; `--data FILE` keeps its rows in a file and uses them again. With the same
seed, the versions above and one processor type, the output is the same byte for byte.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

# Before NumPy is imported: sums over several threads depend on their number.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import platform
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import trust_report
from numpy.typing import NDArray
from trust_classifiers import ClassifierPair, Network, Scaling, SupportVectorMachine, threshold_for
from trust_data import TRAINED, Data, Rows
from trust_features import (
    FEATURES,
    MEASURED,
    MODELS,
    OCCUPANCY_TOLERANCE,
    OCCUPANCY_TOLERANCE_ITEMS,
    THROUGHPUT_TOLERANCE,
)
from trust_simulation import CAPACITY_FACTORS, Array

FORMAT = 1
SEED = 20
#: Most rows of a family left out of training, of those on which a model is wrong, that may be trusted.
MOST_FALSE = 0.05

CRATE = Path(__file__).resolve().parents[1] / "crates" / "tune"
SCORED_ROWS = 200
HELD_OUT_ROWS = 500

Classifier = SupportVectorMachine | Network
Fit = Callable[[Array, NDArray[np.bool_]], Classifier]
#: Scores of the rows of each family left out, and their labels.
Validation = list[tuple[Array, NDArray[np.bool_]]]


def svm_fits(seed: int) -> list[Fit]:
    """Support vector machines to choose from."""

    def fit(gamma: float, penalty: float) -> Fit:
        return lambda inputs, right: SupportVectorMachine.fitted(inputs, right, gamma, penalty, seed)

    return [fit(gamma, penalty) for gamma, penalty in product((0.01, 0.03, 0.1), (1.0, 10.0, 100.0))]


def network_fits(seed: int) -> list[Fit]:
    """Networks to choose from."""

    def fit(decay: float) -> Fit:
        return lambda inputs, right: Network.fitted(inputs, right, decay, seed)

    return [fit(decay) for decay in (0.3, 3.0, 10.0, 30.0)]


def validated(fit: Fit, train: Rows, columns: NDArray[np.int64]) -> Validation:
    """Scores of the rows of each family by a classifier that was trained without it."""
    found = []
    for family in TRAINED:
        out = train.has((family,))
        kept = train.features[~out][:, columns]
        scaling = Scaling.fitted(kept)
        classifier = fit(scaling.standardised(kept), train.right[~out])
        scores = classifier.scores(scaling.standardised(train.features[out][:, columns]))
        found.append((scores, train.right[out]))
    return found


def thresholds(validation: Validation, model: int, most_false: float) -> float:
    """The least threshold of a model that keeps to a share of false positives in each family."""
    found = [threshold_for(scores[:, model], right[:, model], most_false) for scores, right in validation]
    return float(f"{max(found):.9g}")


def alone(validation: Validation) -> Array:
    """Thresholds of a classifier that decides alone."""
    return np.array([thresholds(validation, model, MOST_FALSE) for model in range(len(MODELS))])


def joint(svm: Validation, network: Validation) -> tuple[Array, Array]:
    """Thresholds of both classifiers, such that what both accept keeps to `MOST_FALSE` in each family.

    Each classifier alone may have the same larger share of false positives; the largest that is enough is taken.
    """
    pairs = []
    for model in range(len(MODELS)):
        pair = thresholds(svm, model, MOST_FALSE), thresholds(network, model, MOST_FALSE)
        for level in np.arange(MOST_FALSE, 0.3, 0.0025):
            wider = thresholds(svm, model, level), thresholds(network, model, level)
            false = [
                ((s[:, model] >= wider[0]) & (n[:, model] >= wider[1]))[~right[:, model]].mean()
                for (s, right), (n, _) in zip(svm, network, strict=True)
            ]
            if max(false) > MOST_FALSE:
                break
            pair = wider
        pairs.append(pair)
    return np.array(pairs)[:, 0], np.array(pairs)[:, 1]


def best(fits: list[Fit], train: Rows, columns: NDArray[np.int64]) -> tuple[Fit, Validation]:
    """The fit that trusts the most right models of families left out, and its scores of these."""
    found = [(fit, validated(fit, train, columns)) for fit in fits]

    def trusted(entry: tuple[Fit, Validation]) -> float:
        limits = alone(entry[1])
        return float(
            np.mean([((scores >= limits) & right).sum(axis=0) / right.sum(axis=0) for scores, right in entry[1]])
        )

    return max(found, key=trusted)


def train(rows: Rows, seed: int, columns: NDArray[np.int64]) -> ClassifierPair:
    """Both classifiers, trained on some feature columns."""
    scaling = Scaling.fitted(rows.features[:, columns])
    inputs = scaling.standardised(rows.features[:, columns])
    svm_fit, svm_scores = best(svm_fits(seed), rows, columns)
    network_fit, network_scores = best(network_fits(seed), rows, columns)
    svm_joint, network_joint = joint(svm_scores, network_scores)
    return ClassifierPair(
        scaling,
        svm_fit(inputs, rows.right),
        network_fit(inputs, rows.right),
        alone(svm_scores),
        alone(network_scores),
        svm_joint,
        network_joint,
    )


def weights_json(judges: ClassifierPair, seed: int) -> str:
    """The file of weights, one number list a line."""
    scaling = judges.scaling
    features = [
        {"name": name, "center": center, "width": width, "least": least, "most": most}
        for name, center, width, least, most in zip(
            FEATURES, *(v.tolist() for v in (scaling.center, scaling.width, scaling.least, scaling.most)), strict=True
        )
    ]
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    content: dict[str, Any] = {
        "format": FORMAT,
        "seed": seed,
        "versions": versions,
        "tolerance": {
            "throughput": THROUGHPUT_TOLERANCE,
            "occupancy": OCCUPANCY_TOLERANCE,
            "occupancy_items": OCCUPANCY_TOLERANCE_ITEMS,
            "capacity_factors": CAPACITY_FACTORS,
        },
        "models": MODELS,
        "features": features,
        "support_vector_machine": judges.svm.as_json() | {"thresholds": judges.svm_joint.tolist()},
        "network": judges.network.as_json() | {"thresholds": judges.network_joint.tolist()},
    }
    return json.dumps(content, separators=(",", ":")).replace("],[", "],\n[").replace("},{", "},\n{") + "\n"


def rows_csv(rows: Rows, columns: dict[str, Array]) -> str:
    """Measured rows and further columns as text."""
    names = [*MEASURED, *(f"occupancy_{part}" for part in range(9)), *columns]
    lines = [",".join(names)]
    for measured, *more in zip(rows.measured, *columns.values(), strict=True):
        lines.append(",".join([*(f"{value:.5g}" for value in measured), *(f"{value:.13g}" for value in more)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Trains, writes and reports."""
    parser = argparse.ArgumentParser(description="Train the trust classifier of crates/tune.")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--data", type=Path, help="file for the simulated rows; used again if it exists")
    parser.add_argument("--output", type=Path, default=CRATE, help="folder of the crate")
    options = parser.parse_args()
    if options.data and options.data.exists():
        data = Data.load(options.data)
    else:
        data = Data.random(options.seed)
        if options.data:
            data.save(options.data)
    judges = train(data.train, options.seed, np.arange(len(FEATURES)))
    weights = options.output / "src" / "trust" / "weights.json"
    weights.write_text(weights_json(judges, options.seed))

    rng = np.random.default_rng(options.seed)
    held = data.held_out.pick(np.sort(rng.choice(len(data.held_out), HELD_OUT_ROWS, replace=False)))
    # The crate gives no scores outside the range.
    inside = np.flatnonzero(judges.scaling.inside(held.features))
    scored = held.pick(inside[:: len(inside) // SCORED_ROWS][:SCORED_ROWS])
    inputs = judges.scaling.standardised(scored.features)
    scores = {
        f"{name}_{model}": classifier.scores(inputs)[:, number]
        for name, classifier in (("svm", judges.svm), ("network", judges.network))
        for number, model in enumerate(MODELS)
    }
    folder = options.output / "tests" / "integration" / "trust"
    (folder / "scored_rows.csv").write_text(rows_csv(scored, scores))
    right = {f"right_{model}": held.right[:, number].astype(float) for number, model in enumerate(MODELS)}
    (folder / "held_out_rows.csv").write_text(rows_csv(held, right))

    print(trust_report.tables(data, judges))
    print(trust_report.ablations(data, options.seed, train))


if __name__ == "__main__":
    main()
