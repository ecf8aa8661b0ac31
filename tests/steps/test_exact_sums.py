"""Sums of floats have the same bits however samples come: stored, in memory, live, in tasks, on several threads."""

import math
import socket
import statistics
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso

RATE = 1000
N = 3_000_017
NO_GAP = range(0)


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    """Magnitudes from 1e-6 to 1e6, so that each order of additions gives other bits."""
    noise = np.random.default_rng(5)
    return noise.standard_normal(N) * 10.0 ** noise.integers(-6, 7, N)


def pieces(samples: np.ndarray, length: int, gap: range) -> Iterator[tuple[int, np.ndarray]]:
    """In order, without the samples of a gap, which begins and ends with a piece."""
    for start in range(0, len(samples), length):
        if start not in gap:
            yield start, samples[start : start + length]


def generated(samples: np.ndarray, length: int, gap: range = NO_GAP) -> iso.Plan:
    return iso.generate(lambda: pieces(samples, length, gap), dtype="f8", rate=RATE, segment=length)


def bits(rows: iso.Table) -> list[bytes]:
    """Those of each column."""
    return [np.asarray(rows[name]).tobytes() for name in rows.columns]


@pytest.mark.parametrize("gap", [NO_GAP, range(1_000_000, 1_200_000)])
def test_statistics_of_all_samples_have_the_same_bits_wherever_they_come_from(
    samples: np.ndarray, gap: range, tmp_path: Path
) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("x", dtype="f8", rate=RATE)
        signal.append(samples[: gap.start])
        if gap:
            signal.append_gap(samples=len(gap))
        signal.append(samples[gap.stop :])
        store.commit()

        def plan(source: iso.Plan) -> iso.Plan:
            return source.stats("mean", "std", "min", "count")

        row = plan(iso.scan(signal)).collect(workers=1)
        want = bits(row)
        for memory in (None, "4 MB"):
            assert bits(plan(iso.scan(signal)).collect(workers=2, memory=memory)) == want
    for length in (1000, 50_000, 200_000):
        for workers in (1, 2):
            assert bits(plan(generated(samples, length, gap)).collect(workers=workers)) == want, (length, workers)
    kept = np.delete(samples, np.arange(gap.start, gap.stop))
    assert row["count"][0] == len(kept)
    assert row["mean"][0] == pytest.approx(math.fsum(kept) / len(kept), rel=1e-12)
    assert row["std"][0] == pytest.approx(kept.std(), rel=1e-12)


def test_sums_of_groups_are_exact_and_rounded_once(samples: np.ndarray) -> None:
    highs = samples[: N // 1000 * 1000].reshape(-1, 1000).max(axis=1)

    def plan(source: iso.Plan) -> iso.Plan:
        rows = source.rewindow(1000).stats("max")
        return rows.group_by().agg(sum=("max", "sum"), mean=("max", "mean"), std=("max", "std"))

    row = plan(iso.scan(samples, rate=RATE)).collect(workers=1)
    exact = [Fraction(float(high)) for high in highs]
    assert row["sum"][0] == math.fsum(highs)
    assert row["mean"][0] == float(sum(exact) / len(exact))
    assert row["std"][0] == pytest.approx(statistics.pstdev(exact), rel=1e-15)
    want = bits(row)
    assert bits(plan(iso.scan(samples, rate=RATE)).collect(workers=2)) == want
    for length in (999, 70_000):
        for workers in (1, 2):
            assert bits(plan(generated(samples, length)).collect(workers=workers)) == want, (length, workers)


@pytest.mark.parametrize(("dtype", "workers"), [("f4", 1), ("f4", 2), ("f8", 1), ("c8", 2)])
def test_a_feed_gives_what_the_same_samples_give_from_memory(samples: np.ndarray, dtype: str, workers: int) -> None:
    sent = samples[:300_001].astype(dtype)
    listener = iso.listen("tcp://127.0.0.1:0", dtype=dtype, rate=RATE, framing="raw", silence=60)
    host, port = listener.address.removeprefix("tcp://").split(":")

    def feed() -> None:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent.tobytes())

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    names = ("mean", "std", "count")
    live = iso.scan(listener).stats(*names).collect(workers=workers)
    thread.join(60)
    memory = iso.scan(sent, rate=RATE).stats(*names).collect(workers=1)
    for name in names:
        assert np.asarray(live[name]).tobytes() == np.asarray(memory[name]).tobytes(), name
