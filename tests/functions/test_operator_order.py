"""The order of what operators in Python emit, and what they are told where indices go back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import isochrony as iso

Array = npt.NDArray[Any]


def stretches() -> Iterator[tuple[int, Array]]:
    yield 0, np.arange(6.0)
    yield 100, np.arange(4.0)


def gapped() -> iso.Plan:
    return iso.generate(stretches, dtype="f8", rate=10)


class Noting(iso.Operator):
    """Notes where blocks begin and what breaks it is told of."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        self.notes.append(block.start)
        emit(block.values)

    def on_break(self, why: iso.Break, emit: iso.Emitter) -> None:
        self.notes.append((why.kind, why.start, why.end))


def test_a_selection_that_goes_back_is_no_loss_of_samples(tmp_path: Path) -> None:
    store = iso.open(tmp_path / "a.iso", "x")
    signal = store.create("p", dtype="f8", rate=10, start="2026-01-01T00:01:00Z")
    signal.append(np.arange(10.0))
    signal.append(np.arange(10.0, 20.0), at="2026-01-01T00:00:00Z")
    store.commit()
    notes: list[Any] = []
    # In the order of time: the second run first.
    selection = signal["2026-01-01":"2026-01-02"]  # type: ignore[misc]
    passed = iso.scan(selection).apply(Noting, notes=notes).collect()
    assert passed.tolist() == [*range(10, 20), *range(10)]
    assert notes == [10, ("back", None, None), ("clock", None, None), 0]
    told: list[str] = []
    iso.scan(selection).map(iso.py(lambda s: s, on_break=lambda why: told.append(why.kind))).run()
    assert told == ["back", "clock"]


class Emitting(iso.Operator):
    """Emits the same for each block."""

    def __init__(self, kind: str, what: list[Any], start: int | None = None) -> None:
        self.kind, self.what, self.start = kind, what, start

    def outputs(self, samples: iso.Port) -> iso.Port:  # type: ignore[override]
        match self.kind:
            case "ranges":
                return samples.ranges()
            case "rows":
                return samples.rows(start="int64", end="int64")
        return samples

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        for what in self.what:
            if self.kind == "rows":
                emit({"start": [start for start, _ in what], "end": [end for _, end in what]})
            else:
                emit(np.array(what), start=self.start)


@pytest.mark.parametrize(
    ("kind", "what", "says"),
    [
        ("ranges", [[[100, 110], [50, 60]]], "emitted ranges go back, from 100 to 50"),
        ("ranges", [[[10, 5]]], r"range \[10, 5\] ends before it starts"),
        ("ranges", [[[100, 110]], [[50, 60]]], "begins at index 50, but items from index 100 on are expected"),
        ("rows", [[[100, 110], [50, 60]]], '"start" of the emitted rows goes back'),
        ("rows", [[[100, 110]], [[50, 60]]], "begins at index 50, but items from index 100 on are expected"),
    ],
)
def test_ranges_and_rows_are_emitted_in_the_order_of_their_starts(kind: str, what: list[Any], says: str) -> None:
    samples = iso.scan(np.arange(6.0), rate=10)
    with pytest.raises(iso.RunError, match=says):
        samples.apply(Emitting, kind=kind, what=what).collect()


@pytest.mark.parametrize("kind", ["ranges", "rows"])
def test_ranges_and_rows_may_overlap(kind: str) -> None:
    samples = iso.scan(np.arange(6.0), rate=10)
    what = [[[100, 110], [100, 105]], [[100, 120]]]
    emitted = samples.apply(Emitting, kind=kind, what=what)
    assert emitted.count().collect() == 3


def test_indices_do_not_begin_anew_behind_a_gap() -> None:
    class AfterGap(iso.Operator):
        def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
            emit(block.values, start=None if block.start == 0 else 0)

    with pytest.raises(iso.RunError, match="begins at index 0, but items from index 6 on are expected"):
        gapped().apply(AfterGap).collect()


def test_what_is_emitted_at_a_break_follows_on_what_was_emitted_before() -> None:
    class AtBreak(iso.Operator):
        lag = 1

        def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
            emit(block.values[:-1])

        def on_break(self, why: iso.Break, emit: iso.Emitter) -> None:
            emit(np.array([7.0]))

        def finish(self, emit: iso.Emitter) -> None:
            emit(np.array([8.0]))

    assert gapped().apply(AtBreak).collect().tolist() == [0, 1, 2, 3, 4, 7, 0, 1, 2, 8]
