"""What tests of tasklets on Dask workers share: a store with samples and a place for results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import isochrony as iso

SAMPLES = np.random.default_rng(3).normal(size=40_000).astype("f4")


@contextmanager
def doubling_store(path: Path) -> Iterator[iso.Store]:
    """A store with the signal `x`, and `doubled` of as many reserved samples."""
    with iso.open(path, "x") as store:
        store.create("x", dtype="f4", rate=100).append(SAMPLES, at="2026-01-01")
        store.create("doubled", dtype="f8", rate=100).reserve(len(SAMPLES))
        store.commit()
        yield store
