"""The tables of `docs/trust.md`: how often the classifiers and simpler rules are right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from trust_classifiers import ClassifierPair, threshold_for
from trust_data import HELD_OUT, Data, Rows
from trust_features import (
    FEATURES,
    MEASURED,
    MODELS,
    OCCUPANCY_TOLERANCE,
    OCCUPANCY_TOLERANCE_ITEMS,
    THROUGHPUT_TOLERANCE,
    Predictions,
    columns_of,
)
from trust_simulation import Array

Flags = NDArray[np.bool_]


def rates(trusted: Flags, right: Flags) -> tuple[float, float, float]:
    """Share that is classified correctly, true positives of what is right, false positives of what is wrong."""
    accuracy = float((trusted == right).mean())
    return accuracy, float(trusted[right].mean()), float(trusted[~right].mean())


def utilization_rules(train: Rows, rows: Rows, most_false: float | None) -> Flags:
    """Trust below a utilization: the most accurate one in training, or the largest with few false positives."""
    score, found = -train.features[:, 0], -rows.features[:, 0]
    trusted = []
    for right in train.right.T:
        if most_false is None:
            # Accuracy at each candidate: what is right above it and what is wrong below it.
            order = np.argsort(score)
            ordered = right[order]
            correct = ordered[::-1].cumsum()[::-1] + np.concatenate([[0], (~ordered).cumsum()[:-1]])
            threshold = score[order][np.argmax(correct)]
        else:
            threshold = threshold_for(score, right, most_false)
        trusted.append(found >= threshold)
    return np.column_stack(trusted)


def disagreement(rows: Rows) -> Array:
    """How far each model is from what was measured at the present capacity, in tolerances of the labels."""
    columns = columns_of(rows.measured)
    capacity = columns["capacity"].astype(np.int64)
    throughput = (1.0 - columns["writer_wait_share"]) / columns["interarrival_s"]
    counts = rows.measured[:, len(MEASURED) :]
    parts = np.arange(9) / 8.0 * capacity[:, None]
    items = (counts * parts).sum(axis=1) / counts.sum(axis=1)
    distances = []
    for model in MODELS:
        predictions = Predictions(model, columns, capacity)
        distance = np.abs(predictions.throughput / throughput - 1.0) / THROUGHPUT_TOLERANCE
        if model != "flow":
            allowed = np.maximum(OCCUPANCY_TOLERANCE * items, OCCUPANCY_TOLERANCE_ITEMS)
            distance = np.maximum(distance, np.abs((predictions.occupancy * parts).sum(axis=1) - items) / allowed)
        distances.append(distance)
    return np.column_stack(distances)


def agreement_rules(train: Rows, rows: Rows, most_false: float) -> Flags:
    """Trust a model that is as close to what was measured as gives few false positives in training."""
    limits = [
        threshold_for(-d, right, most_false) for d, right in zip(disagreement(train).T, train.right.T, strict=True)
    ]
    return -disagreement(rows) >= np.array(limits)


def tables(data: Data, judges: ClassifierPair) -> str:
    """Rows of held-out families by classifier and model; rows by family; the verdict."""
    held, scaling = data.held_out, judges.scaling
    rules = judges.trusted(held.features)
    majority = data.train.right.mean(axis=0) >= 0.5
    rules["majority class"] = np.broadcast_to(majority, held.right.shape)
    rules["utilization, most accurate"] = utilization_rules(data.train, held, None)
    rules["utilization, 5 % false"] = utilization_rules(data.train, held, 0.05)
    rules["agrees where measured"] = disagreement(held) <= 1.0
    rules["agrees, 5 % false"] = agreement_rules(data.train, held, 0.05)
    lines = [f"{len(held)} links of held-out families; right: " + by_model(held.right.mean(axis=0))]
    beyond = (held.features < scaling.least) | (held.features > scaling.most)
    lines.append(f"outside the trained range: {percent(beyond.any(axis=1).mean())}, most often by")
    lines[-1] += "".join(f" {FEATURES[n]} {percent(beyond[:, n].mean())}" for n in np.argsort(-beyond.mean(axis=0))[:3])
    lines += ["", "| classifier | " + " | ".join(MODELS) + " |", "|---" * (len(MODELS) + 1) + "|"]
    for name, trusted in rules.items():
        cells = ["/".join(f"{100 * rate:.1f}" for rate in rates(*pair)) for pair in pairs(trusted, held.right)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "| rows of both | links | " + " | ".join(MODELS) + " |", "|---" * (len(MODELS) + 2) + "|"]
    sets = {"trained families, other links": data.seen}
    sets |= {name: held.pick(held.has((name,))) for name in HELD_OUT}
    utilization = held.features[:, 0]
    for name, least, most in (("below 0.4", 0.0, 0.4), ("0.4 to 0.7", 0.4, 0.7), ("0.7 or more", 0.7, np.inf)):
        sets[f"held out, utilization {name}"] = held.pick((utilization >= least) & (utilization < most))
    for name, rows in sets.items():
        trusted = judges.trusted(rows.features)["both"]
        cells = ["/".join(f"{100 * rate:.1f}" for rate in rates(*pair)) for pair in pairs(trusted, rows.right)]
        lines.append(f"| {name} | {len(rows)} | " + " | ".join(cells) + " |")
    lines += ["", verdicts(judges, held), "", full_kernel(data, judges)]
    return "\n".join(lines)


def full_kernel(data: Data, judges: ClassifierPair) -> str:
    """How much the landmarks lose against a machine with all support vectors, both without a threshold."""
    inputs = [judges.scaling.standardised(rows.features) for rows in (data.train, data.held_out)]
    few = ((judges.svm.scores(inputs[1]) >= 0.0) == data.held_out.right).mean(axis=0)
    full, vectors = [], []
    for right, true in zip(data.train.right.T, data.held_out.right.T, strict=True):
        machine = SVC(C=10.0, gamma=judges.svm.gamma).fit(inputs[0], right)
        full.append((machine.predict(inputs[1]) == true).mean())
        vectors.append(int(machine.n_support_.sum()))
    return (
        f"Accuracy at threshold 0: landmarks {by_model(few)}; all support vectors {by_model(np.array(full))}; numbers"
        f" of these: {vectors}; kernel width gamma={judges.svm.gamma}"
    )


def verdicts(judges: ClassifierPair, rows: Rows) -> str:
    """What the verdict on whole links is worth: the queueing model with the largest margin, else the flow model."""
    margins = judges.margins(rows.features)
    queueing = 1 + margins[:, 1:].argmax(axis=1)
    model = np.where(margins[np.arange(len(rows)), queueing] >= 0.0, queueing, 0)
    given = margins[np.arange(len(rows)), model] >= 0.0
    wrong = given & ~rows.right[np.arange(len(rows)), model]
    shares = ", ".join(f"{name} {percent((given & (model == number)).mean())}" for number, name in enumerate(MODELS))
    return (
        f"Verdicts: {percent(given.mean())} of the links have a trusted model ({shares});"
        f" {percent(wrong[given].mean())} of these verdicts are wrong;"
        f" {percent(rows.right.any(axis=1).mean())} of the links have a model that is right."
    )


def ablations(data: Data, seed: int, train: Callable[[Rows, int, NDArray[np.int64]], ClassifierPair]) -> str:
    """Both classifiers with fewer features, on held-out families."""
    groups = {
        "without variation of times": ("ln_interarrival_cv", "ln_service_cv", "two_moment"),
        "without occupancy": ("occupancy", "histogram"),
        "without comparison with models": ("gap", "distance"),
        "utilization, capacity and items only": tuple(FEATURES[3:]),
    }
    lines = ["| features | " + " | ".join(MODELS) + " |", "|---" * (len(MODELS) + 1) + "|"]
    for name, words in groups.items():
        columns = np.array([n for n, feature in enumerate(FEATURES) if not any(word in feature for word in words)])
        trusted = train(data.train, seed, columns).trusted(data.held_out.features[:, columns])["both"]
        cells = ["/".join(f"{100 * rate:.1f}" for rate in rates(*pair)) for pair in pairs(trusted, data.held_out.right)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pairs(trusted: Flags, right: Flags) -> list[tuple[Flags, Flags]]:
    """The columns of both, model by model."""
    return [(trusted[:, number], right[:, number]) for number in range(len(MODELS))]


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %"


def by_model(shares: Array) -> str:
    """A share for each model."""
    return ", ".join(f"{model} {percent(share)}" for model, share in zip(MODELS, shares, strict=True))
