"""Labelled links for `train_trust.py`: which distribution families are trained on, and which are held out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from trust_features import features, labels, measured_rows
from trust_simulation import FAMILIES, TOPOLOGIES, Array, Links, simulate

TRAINED = ("deterministic", "exponential", "erlang", "bimodal")
HELD_OUT = ("lognormal", "heavy_tailed")

#: Items after the measured window from which the true throughput and occupancy are taken.
TRUTH_ITEMS = 60_000

#: Links of each topology, by set.
SIZES = {"train": 1_600, "seen": 400, "held_out": 1_000}


@dataclass(frozen=True)
class Rows:
    """Measured links with their labels."""

    #: As stored: see `trust_features.MEASURED`.
    measured: Array
    features: Array
    #: Whether each model is right, shape (rows, models).
    right: NDArray[np.bool_]
    #: Index of the family of the writer's and of the reader's times.
    writer: NDArray[np.int64]
    reader: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.measured)

    def pick(self, rows: NDArray[np.generic]) -> Rows:
        """Some rows, by a mask or by their numbers."""
        return Rows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def has(self, families: tuple[str, ...]) -> NDArray[np.bool_]:
        """Rows whose writer or reader is of one of the families."""
        numbers = [FAMILIES.index(family) for family in families]
        return np.isin(self.writer, numbers) | np.isin(self.reader, numbers)

    @classmethod
    def joined(cls, parts: list[Rows]) -> Rows:
        """All rows of several sets."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    @classmethod
    def random(cls, rng: np.random.Generator, rows: int, held_out: bool) -> Rows:
        """Random links, `rows` of each topology.

        If `held_out`, the writer or the reader of each is of a held-out family and the other of any; else both are of
        trained ones.
        """
        held = np.array([FAMILIES.index(family) for family in HELD_OUT])
        pool = np.arange(len(FAMILIES)) if held_out else np.array([FAMILIES.index(family) for family in TRAINED])
        parts = []
        for topology in TOPOLOGIES:
            writer, reader = rng.choice(pool, rows), rng.choice(pool, rows)
            if held_out:
                lacks = ~(np.isin(writer, held) | np.isin(reader, held))
                writes = rng.random(rows) < 0.5
                drawn = rng.choice(held, rows)
                writer = np.where(lacks & writes, drawn, writer)
                reader = np.where(lacks & ~writes, drawn, reader)
            links = Links.random(rng, topology, writer, reader)
            outcome = simulate(rng, links, TRUTH_ITEMS)
            measured = measured_rows(outcome, links.capacity, links.window)
            right = labels(measured, links.capacities(), outcome)
            parts.append(cls(measured, features(measured), right, writer, reader))
        return cls.joined(parts)


@dataclass(frozen=True)
class Data:
    """All sets of rows."""

    train: Rows
    #: Not trained on, of trained families.
    seen: Rows
    held_out: Rows

    @classmethod
    def random(cls, seed: int) -> Data:
        """Simulates all sets; takes minutes."""
        generators = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(len(SIZES)))
        sets = {
            name: Rows.random(rng, size, held_out=name == "held_out")
            for rng, (name, size) in zip(generators, SIZES.items(), strict=True)
        }
        return cls(**sets)

    def save(self, path: Path) -> None:
        """Writes all rows into an .npz file."""
        arrays = {
            f"{field.name}_{column.name}": getattr(getattr(self, field.name), column.name)
            for field in fields(self)
            for column in fields(Rows)
            if column.name != "features"
        }
        np.savez_compressed(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote."""
        sets = {}
        with np.load(path) as arrays:
            for field in fields(cls):
                names = [column.name for column in fields(Rows) if column.name != "features"]
                columns = {name: arrays[f"{field.name}_{name}"] for name in names}
                sets[field.name] = Rows(features=features(columns["measured"]), **columns)
        return cls(**sets)
