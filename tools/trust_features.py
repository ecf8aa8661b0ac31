"""Predictions of the queueing models and the features of a link, as `crates/tune/src/trust` computes them.

Written from the formulas and not from the Rust code: a test of the crate compares both on stored rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from trust_simulation import CAPACITY_FACTORS, Array, Outcome

MODELS = ("flow", "mm1k", "md1k", "two_moment")
QUEUEING_MODELS = MODELS[1:]

#: What a plan measures on a link, in the order of a stored row; the nine counts of occupancy follow.
MEASURED = (
    "items",
    "capacity",
    "interarrival_s",
    "interarrival_cv",
    "service_s",
    "service_cv",
    "writer_wait_share",
    "reader_wait_share",
    "reader_output_wait_share",
)

FEATURES = (
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
    *(f"{model}_throughput_gap" for model in MODELS),
    *(f"{model}_occupancy_gap" for model in QUEUEING_MODELS),
    *(f"{model}_histogram_distance" for model in QUEUEING_MODELS),
)

#: A prediction is right if it is as close as this to the long run.
THROUGHPUT_TOLERANCE = 0.05
OCCUPANCY_TOLERANCE = 0.25
OCCUPANCY_TOLERANCE_ITEMS = 0.5


def measured_rows(outcome: Outcome, capacity: NDArray[np.int64], window: NDArray[np.int64]) -> Array:
    """What the plans measured, one row a link, rounded as it is stored."""
    columns = {"items": window.astype(float), "capacity": capacity.astype(float), **outcome.measured}
    rows = np.column_stack([columns[name] for name in MEASURED] + [outcome.occupancy.astype(float)])
    # A time of constant items has no spread but for rounding.
    spread = [MEASURED.index(name) for name in ("interarrival_cv", "service_cv")]
    rows[:, spread] = np.where(rows[:, spread] < 1e-6, 0.0, rows[:, spread])
    return np.array([[float(f"{value:.5g}") for value in row] for row in rows])


def state_probabilities(
    model: str, load: Array, arrival_scv: Array, service_scv: Array, room: NDArray[np.int64]
) -> Array:
    """Probability of 0 to `room` items in the system, shape (rows, largest room + 1).

    M/M/1/K has powers of the load. M/D/1/K comes from the chain at departures. The two-moment approximation is that of
    Buzacott and Shanthikumar, geometric between the ends; for Poisson arrivals it is the chain too.
    """
    states = np.arange(int(room.max()) + 1)
    if model == "md1k":
        return _chain_probabilities(load, np.zeros_like(load), room, states)
    if model == "mm1k":
        arrival_scv = service_scv = np.ones_like(load)
    shares = _geometric_probabilities(load, arrival_scv, service_scv, room, states)
    poisson = (arrival_scv == 1.0) & (service_scv != 1.0)
    if poisson.any():
        shares[poisson] = _chain_probabilities(load[poisson], service_scv[poisson], room[poisson], states)
    return shares


def _geometric_probabilities(
    load: Array, arrival_scv: Array, service_scv: Array, room: NDArray[np.int64], states: NDArray[np.int64]
) -> Array:
    exchanged = load > 1.0
    inner = np.where(exchanged, 1.0 / load, load)
    variability = (arrival_scv + service_scv) / 2.0
    below = 1.0 - inner + inner * variability
    decay = inner * variability / below
    missing = 1.0 - inner
    power = decay ** (room - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        empty = np.where(missing == 0, 1.0 / (2.0 + (room - 1) / variability), missing / (1.0 - inner**2 * power))
    shares = (empty * inner / below)[:, None] * decay[:, None] ** np.maximum(states - 1, 0)
    shares[:, 0] = empty
    shares = np.where(states == room[:, None], (empty * inner * power)[:, None], shares)
    shares = np.where(states > room[:, None], 0.0, shares)
    mirrored = np.take_along_axis(shares, np.maximum(room[:, None] - states, 0), axis=1)
    mirrored = np.where(states > room[:, None], 0.0, mirrored)
    return np.where(exchanged[:, None], mirrored, shares)


def _chain_probabilities(load: Array, scv: Array, room: NDArray[np.int64], states: NDArray[np.int64]) -> Array:
    """Poisson arrivals and gamma-distributed service: arrivals during a service are negative binomial."""
    count = len(states)
    # Far enough for a sum of the tail to 16 digits; Poisson counts end sooner.
    counts = np.zeros((len(load), count + (4_000 if scv.any() else 200)))
    spread = load * scv
    with np.errstate(divide="ignore", invalid="ignore"):
        counts[:, 0] = np.where(scv > 0.0, np.exp(-np.log1p(spread) / scv), np.exp(-load))
    for k in range(1, counts.shape[1]):
        counts[:, k] = counts[:, k - 1] * load * (1.0 + scv * (k - 1)) / (k * (1.0 + spread))
    # more[:, k]: probability of more than k arrivals during a service.
    more = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, 1:]
    weights = np.zeros((len(load), count))
    weights[:, 0] = 1.0
    for n in range(count - 1):
        upward = weights[:, 0] * more[:, n] + (weights[:, 1 : n + 1] * more[:, n:0:-1]).sum(axis=1)
        weights[:, n + 1] = upward / counts[:, 0]
        large = weights[:, n + 1] > 1e150
        weights[large] /= weights[large, n + 1 : n + 2]
    inside = np.where(states < room[:, None], weights, 0.0)
    at_departures = inside / inside.sum(axis=1, keepdims=True)
    scale = at_departures[:, :1] + load[:, None]
    return np.where(states == room[:, None], 1.0 - 1.0 / scale, at_departures / scale)


class Predictions:
    """What one model says of links at a capacity."""

    def __init__(self, model: str, columns: Mapping[str, Array], capacity: NDArray[np.int64]) -> None:
        interval, service = columns["interarrival_s"], columns["service_s"]
        load = service / interval
        self.model = model
        if model == "flow":
            self.throughput = np.minimum(1.0 / interval, 1.0 / service)
            return
        scv = (columns["interarrival_cv"] ** 2, columns["service_cv"] ** 2)
        room = capacity + 2
        shares = state_probabilities(model, load, *scv, room)
        self.throughput = (1.0 - shares[:, 0]) / service
        states = np.arange(shares.shape[1])
        waiting = np.clip(states - 1, 0, capacity[:, None])
        self.mean_items = (waiting * shares).sum(axis=1)
        # A writer that waits with a finished item finishes no other one.
        seen = np.where(states < room[:, None], shares, 0.0)
        seen /= seen.sum(axis=1, keepdims=True)
        eighths = 8 * waiting // capacity[:, None]
        self.occupancy = np.stack([np.where(eighths == part, seen, 0.0).sum(axis=1) for part in range(9)], axis=1)


def columns_of(rows: Array) -> dict[str, Array]:
    """The measured values of rows by name."""
    return {name: rows[:, number] for number, name in enumerate(MEASURED)}


def features(rows: Array) -> Array:
    """The features of measured rows, in the order of `FEATURES`."""
    columns = columns_of(rows)
    capacity = columns["capacity"].astype(np.int64)
    counts = rows[:, len(MEASURED) :]
    shares = counts / counts.sum(axis=1, keepdims=True)
    parts = np.arange(9) / 8.0
    mean = shares @ parts
    deviation = np.sqrt(np.maximum((shares * (parts - mean[:, None]) ** 2).sum(axis=1), 0.0))
    found = {
        "utilization": columns["service_s"] / columns["interarrival_s"],
        "ln_capacity": np.log(columns["capacity"]),
        "ln_items": np.log(columns["items"]),
        "ln_interarrival_cv": np.log1p(columns["interarrival_cv"]),
        "ln_service_cv": np.log1p(columns["service_cv"]),
        "occupancy_mean": mean,
        "occupancy_deviation": deviation,
    }
    for name in ("writer_wait_share", "reader_wait_share", "reader_output_wait_share"):
        found[name] = columns[name]
    throughput = (1.0 - columns["writer_wait_share"]) / columns["interarrival_s"]
    for model in MODELS:
        predictions = Predictions(model, columns, capacity)
        found[f"{model}_throughput_gap"] = np.log(predictions.throughput / throughput)
        if model != "flow":
            found[f"{model}_occupancy_gap"] = predictions.occupancy @ parts - mean
            found[f"{model}_histogram_distance"] = np.abs(predictions.occupancy - shares).sum(axis=1) / 2.0
    return np.column_stack([found[name] for name in FEATURES])


def labels(rows: Array, capacities: NDArray[np.int64], outcome: Outcome) -> NDArray[np.bool_]:
    """Whether each model is right at half the capacity, the same and the double one, shape (rows, models)."""
    columns = columns_of(rows)
    right = np.ones((len(rows), len(MODELS)), bool)
    for factor in range(len(CAPACITY_FACTORS)):
        for number, model in enumerate(MODELS):
            predictions = Predictions(model, columns, capacities[factor])
            throughput = outcome.throughput[factor]
            right[:, number] &= np.abs(predictions.throughput / throughput - 1.0) <= THROUGHPUT_TOLERANCE
            if model != "flow":
                right[:, number] &= items_agree(predictions.mean_items, outcome.mean_items[factor])
    return right


def items_agree(predicted: Array, true: Array) -> NDArray[np.bool_]:
    """Whether a number of items in the link is within the tolerance."""
    return np.abs(predicted - true) <= np.maximum(OCCUPANCY_TOLERANCE * true, OCCUPANCY_TOLERANCE_ITEMS)
