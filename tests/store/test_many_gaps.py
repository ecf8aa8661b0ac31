"""A million gaps: lazy, and as quick to open and to ask as one."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from made import START

COUNT = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every odd sample of two million and one is a gap."""
    path = tmp_path_factory.mktemp("gaps") / "x.iso"
    with iso.open(path, "x") as store:
        signal = store.create("x", dtype="u1", rate=1000, start=START)
        signal.append(np.ones(2 * COUNT + 1, "u1"))
        starts = np.arange(1, 2 * COUNT, 2)
        signal.mark_invalid(np.stack([starts, np.ones_like(starts)], axis=1))
    return path


def best(call: Callable[[], object], times: int) -> float:
    """Seconds of the quickest of several calls: what it costs where nobody else computes."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return min(took)


def test_stay_lazy(folder: Path) -> None:
    with iso.open(folder) as store:
        gaps = store["x"].gaps
        assert len(gaps) == gaps.missing == COUNT
        assert gaps[COUNT - 1].start == 2 * COUNT - 1
        assert gaps[-1] == gaps[COUNT - 1]
        assert [g.start for g in gaps[10:14]] == [21, 23, 25, 27]
        assert [g.start for g in gaps[13:9:-2]] == [27, 23]
        with pytest.raises(IndexError, match=str(COUNT)):
            gaps[COUNT]
        assert sum(1 for _ in gaps[: COUNT // 10]) == COUNT // 10
        rows = np.asarray(gaps)
        np.testing.assert_array_equal(rows[:, 0], np.arange(1, 2 * COUNT, 2))
        assert (rows[:, 1] == 1).all()
        assert store["x"].sample_count == COUNT + 1


def test_open_in_well_under_a_second(folder: Path) -> None:
    def opened() -> None:
        with iso.open(folder) as store:
            assert not store["x"].contiguous(COUNT, COUNT + 2)

    # Some 30 ms where nobody else computes; a second where everybody does.
    assert best(opened, 5) < 1.0


def test_are_asked_in_microseconds(folder: Path) -> None:
    with iso.open(folder) as store:
        signal = store["x"]
        places = np.random.default_rng(1).integers(0, COUNT, 1000).tolist()

        def contiguous() -> None:
            for place in places:
                assert signal.contiguous(2 * place, 2 * place + 1)
                assert not signal.contiguous(2 * place, 2 * place + 2)

        # Looking at every gap would take a millisecond at best, so this tells one from the other on any machine.
        assert best(contiguous, 5) / (2 * len(places)) < 100e-6

        def part() -> None:
            for place in places[:100]:
                assert signal[place : place + 10].sample_count == 5

        assert best(part, 5) / 100 < 500e-6


def test_many_stretches_are_marked_as_one_by_one(store: iso.Store) -> None:
    rng = np.random.default_rng(2)
    signals = [store.create(name, dtype="i2", rate=100, start=START) for name in "ab"]
    for signal in signals:
        signal.append(np.arange(1000, dtype="i2"))
    rows = np.stack([rng.integers(0, 900, 40), rng.integers(1, 20, 40)], axis=1)
    signals[0].mark_invalid(rows)
    for start, length in rows.tolist():
        signals[1].mark_invalid(start, start + length)
    np.testing.assert_array_equal(np.asarray(signals[0].gaps), np.asarray(signals[1].gaps))
    for bad in (np.zeros((2, 3), int), np.array([[1, 0]]), np.array([[1.0, 2.0]])):
        with pytest.raises((TypeError, ValueError), match="range"):
            signals[0].mark_invalid(bad)
    with pytest.raises(IndexError):
        signals[0].mark_invalid(np.array([[990, 20]]))
