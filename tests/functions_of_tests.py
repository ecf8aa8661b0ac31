"""Functions that plans of the tests save by name."""

from typing import Any

import numpy as np
import numpy.typing as npt

import isochrony as iso

Array = npt.NDArray[Any]


def peaks(rows: Array) -> Array:
    return np.abs(rows).max(axis=1)


def rising(rows: Array) -> Any:
    return rows[:, -1] > rows[:, 0]


def summed(rows: Array, out: Array) -> int:
    for k in range(len(rows)):
        out[k] = rows[k].sum()
    return 0


@iso.py
def decorated(rows: Array) -> Array:
    return rows.mean(axis=1)


def ramp() -> Any:
    return (np.arange(10, dtype="i4") + 10 * k for k in range(7))


def seen(rows: Array, start: int) -> None:
    SEEN.append((start, rows.shape))


SEEN: list[tuple[int, tuple[int, ...]]] = []


def stretches() -> Any:
    yield 0, np.arange(6.0)
    yield 100, np.arange(4.0)


def doubled(rows: Array) -> Array:
    return rows * 2


class Above(iso.Operator):
    """Rows of the samples above a limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def outputs(self, samples: iso.Port) -> iso.Port:  # type: ignore[override]
        return samples.rows(start="int64", end="int64")

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        at = np.flatnonzero(block.values > self.limit) + (block.start or 0)
        emit({"start": at, "end": at + 1})
