"""Operators in Python: classes with several inputs and outputs, notices of breaks, functions of rows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import functions_of_tests as own
import isochrony as iso

Array = npt.NDArray[Any]


def stretches() -> Iterator[tuple[int, Array]]:
    """Samples 0 to 5, a gap, 100 to 103, a gap, 200 and 201."""
    yield 0, np.arange(3.0)
    yield 3, np.arange(3.0, 6.0)
    yield 100, np.arange(4.0)
    yield 200, np.array([7.0, 8.0])


def gapped() -> iso.Plan:
    return iso.generate(stretches, dtype="f8", rate=10)


class Recorder(iso.Operator):
    """Notes what it is told, and passes everything on."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def outputs(self, *inputs: iso.Port) -> tuple[iso.Port, ...]:
        return ()

    def process(self, *blocks_and_emit: Any) -> None:
        blocks = blocks_and_emit[:-1]
        self.notes.append(
            [(block.input, block.start, block.end, np.asarray(block.values).tolist()) for block in blocks]
        )

    def on_break(self, why: iso.Break, emit: iso.Emitter) -> None:
        self.notes.append((why.kind, why.start, why.end, why.input))

    def finish(self, emit: iso.Emitter) -> None:
        self.notes.append("end")


def test_blocks_breaks_and_the_end_are_told_in_order() -> None:
    notes: list[Any] = []
    passed = gapped().apply(Recorder, notes=notes).collect()
    assert passed.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 7, 8]
    assert notes == [
        [(0, 0, 3, [0, 1, 2])],
        [(0, 3, 6, [3, 4, 5])],
        ("gap", 6, 100, 0),
        [(0, 100, 104, [0, 1, 2, 3])],
        ("gap", 104, 200, 0),
        [(0, 200, 202, [7, 8])],
        "end",
    ]


def test_what_a_filter_left_out_is_told_as_removed() -> None:
    notes: list[Any] = []
    windows = iso.scan(np.arange(12.0), rate=10, segment=3).rewindow(3).filter(lambda s: (s.min() < 3) | (s.min() > 5))
    windows.apply(Recorder, notes=notes).run()
    assert [note[0] for note in notes if isinstance(note, tuple)] == ["removed"]


class Longest(iso.Operator):
    """Sums of the stretch so far: they begin anew behind a gap."""

    def __init__(self) -> None:
        self.sum = 0.0

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:
        sums = self.sum + np.cumsum(block.values)
        self.sum = sums[-1]
        emit(sums)

    def on_break(self, why: iso.Break, emit: iso.Emitter) -> None:
        self.sum = 0.0


def test_each_run_has_an_instance_of_its_own() -> None:
    plan = gapped().apply(Longest)
    sums = [0, 1, 3, 6, 10, 15, 0, 1, 3, 6, 7, 15]
    assert plan.collect().tolist() == sums
    assert plan.collect().tolist() == sums
    assert plan.collect(workers=2).tolist() == sums


class Split(iso.Operator):
    """Sum and difference of two inputs, and how many values were positive, as rows."""

    def outputs(self, first: iso.Port, second: iso.Port) -> tuple[iso.Port, ...]:  # type: ignore[override]
        return first.of(unit="V"), second, first.rows(start="int64", end="int64", positive="int64")

    def process(self, first: iso.Block, second: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        assert (first.start, first.end) == (second.start, second.end)
        total = first.values + second.values
        emit(total, output=0)
        emit(first.values - second.values, output=1)
        count = int((total > 0).sum())
        if count:
            emit({"start": [first.start], "end": [first.end], "positive": [count]}, output=2)


def test_two_inputs_meet_by_index_and_there_may_be_any_number_of_outputs() -> None:
    a = iso.scan(np.arange(8.0), rate=10, segment=3)
    b = iso.scan(-np.arange(8.0)[::-1], rate=10, segment=5)
    total, difference, rows = a.apply(Split, b)
    got = iso.collect(total, difference, rows)
    x, y = np.arange(8.0), -np.arange(8.0)[::-1]
    np.testing.assert_array_equal(got[0], x + y)
    np.testing.assert_array_equal(got[1], x - y)
    assert got[2]["positive"].sum() == (x + y > 0).sum()
    assert "in V" in total._native.port


class Late(iso.Operator):
    """The mean of every three samples, when they are there: nothing for some blocks, several for others."""

    def __init__(self) -> None:
        self.kept = np.empty(0)
        self.start = 0

    def outputs(self, samples: iso.Port) -> iso.Port:  # type: ignore[override]
        return samples.rows(start="int64", end="int64", mean="float64", parts=("float64", 3))

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        if not len(self.kept):
            self.start = block.start or 0
        values = np.concatenate([self.kept, block.values])
        while len(values) >= 3:
            parts = values[:3]
            emit({"start": [self.start], "end": [self.start + 3], "mean": [parts.mean()], "parts": parts[None]})
            values, self.start = values[3:], self.start + 3
        self.kept = values

    def on_break(self, why: iso.Break, emit: iso.Emitter) -> None:
        self.kept = np.empty(0)

    lag = 3


@pytest.mark.parametrize("segment", [1, 2, 4, 100])
def test_any_number_of_rows_may_come_of_a_block(segment: int) -> None:
    rows = iso.scan(np.arange(10.0), rate=10, segment=segment).apply(Late).collect()
    assert rows["start"].tolist() == [0, 3, 6]
    assert rows["mean"].tolist() == [1, 4, 7]
    assert rows["parts"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    # They are rows like all others.
    high = iso.scan(np.arange(10.0), rate=10).apply(Late).filter(lambda r: r.mean > 3).count()
    assert high.collect() == 2


class Found(iso.Operator):
    """Ranges of what is above a level."""

    def outputs(self, samples: iso.Port) -> iso.Port:  # type: ignore[override]
        return samples.ranges()

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        above = np.flatnonzero(block.values > 2)
        if len(above):
            emit(np.array([[block.start + above[0], block.start + above[-1] + 1]]))


def test_ranges_that_come_out_choose_samples() -> None:
    samples = iso.scan(np.array([0.0, 1, 5, 5, 1, 0]), rate=10)
    (around,) = samples.sync(on=samples.apply(Found))
    assert around.collect().tolist() == [5, 5]


class Windows(iso.Operator):
    def outputs(self, windows: iso.Port) -> iso.Port:  # type: ignore[override]
        assert (windows.kind, windows.window, windows.hop, windows.width) == ("frames", 4, 2, 4)
        return windows.of("float32", width=2)

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        emit(np.stack([block.values.min(axis=1), block.values.max(axis=1)], axis=1).astype("f4"))


def test_windows_become_rows_of_values_with_their_places() -> None:
    windows = iso.scan(np.arange(10.0), rate=10, segment=3).rewindow(4, 2)
    extremes = windows.apply(Windows)
    assert extremes.collect().tolist() == [[0, 3], [2, 5], [4, 7], [6, 9]]
    assert extremes.collect().dtype == "f4"
    assert extremes.rows(low=lambda s: s.min()).collect()["start"].tolist() == [0, 2, 4, 6]


class InTime(iso.Operator):
    meet = "time"

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def outputs(self, *inputs: iso.Port) -> tuple[iso.Port, ...]:
        return ()

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        self.notes.append((block.start, block.input))


def test_inputs_of_different_kinds_come_in_the_order_of_time() -> None:
    notes: list[Any] = []
    samples = iso.scan(np.arange(12.0), rate=10, segment=4)
    windows = iso.scan(np.arange(12.0), rate=10, segment=4).rewindow(3)
    samples.apply(InTime, windows, notes=notes).run()
    assert notes == sorted(notes)
    assert {at for _, at in notes} == {0, 1}


class Wrong(iso.Operator):
    def __init__(self, how: str) -> None:
        self.how = how

    def outputs(self, samples: iso.Port) -> Any:  # type: ignore[override]
        return 3 if self.how == "outputs" else samples

    def process(self, block: iso.Block, emit: iso.Emitter) -> None:  # type: ignore[override]
        match self.how:
            case "raises":
                raise ValueError("no good")
            case "dtype":
                emit(block.values.astype("f4"))
            case "back":
                emit(block.values, start=0)
            case "output":
                emit(block.values, output=1)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raises", "no good"),
        ("dtype", "emitted float32 of shape .n,., but outputs.. states float64"),
        ("back", "begins at index 0, but items from index 3 on are expected; .*lag = 3"),
        ("output", "got an item for output 1, but outputs.. returned 1"),
    ],
)
def test_what_an_operator_does_wrong_is_named(how: str, says: str) -> None:
    with pytest.raises(iso.RunError, match=says) as error:
        gapped().apply(Wrong, how=how).run()
    assert "operator (node 1" in str(error.value)


def test_what_cannot_be_applied_is_refused_when_the_plan_is_built() -> None:
    samples = gapped()
    with pytest.raises(iso.PlanError, match="give the operator's class"):
        samples.apply(Longest())  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError, match=r"^apply\(int\): int is not a subclass of isochrony\.Operator; give a"):
        samples.apply(int)  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError, match=r"outputs\(\) returned int"):
        samples.apply(Wrong, how="outputs")
    with pytest.raises(iso.PlanError, match=r"input 0 is .* but input 1"):
        samples.apply(Split, samples.rewindow(2))


def test_a_plan_with_an_operator_is_saved_by_the_name_of_its_class() -> None:
    plan = iso.generate(own.stretches, dtype="f8", rate=10).apply(own.Above, limit=4.0)
    text = plan.to_json()
    assert '"functions_of_tests:Above"' in text
    with pytest.raises(iso.PlanError, match="functions_of_tests:Above"):
        iso.Plan.from_json(text)
    again = iso.Plan.from_json(text, allow_functions=True)
    assert str(again) == str(plan) == "scan(stretches) -> Above(limit=4.0)"
    gc.collect()
    assert again.collect()["start"].tolist() == plan.collect()["start"].tolist() == [5]
    with pytest.raises(iso.PlanError, match="not JSON"):
        iso.generate(own.stretches, dtype="f8", rate=10).apply(own.Above, limit=np.float32(3)).to_json()


def test_state_is_made_anew_at_each_gap_and_for_each_run() -> None:
    made = []

    def fresh() -> dict[str, float]:
        made.append(0)
        return {"sum": 0.0}

    def running(samples: Array, before: dict[str, float]) -> Array:
        sums: Array = before["sum"] + np.cumsum(samples)
        before["sum"] = sums[-1]
        return sums

    plan = gapped().map(iso.py(running, state=fresh, dtype="f8"))
    assert plan.collect().tolist() == [0, 1, 3, 6, 10, 15, 0, 1, 3, 6, 7, 15]
    assert len(made) == 3
    assert plan.collect(workers=2).tolist() == [0, 1, 3, 6, 10, 15, 0, 1, 3, 6, 7, 15]
    assert len(made) == 6


def test_functions_that_remember_by_themselves_can_ask_for_breaks() -> None:
    told: list[tuple[str, int | None, int | None]] = []
    function = iso.py(lambda s: s, on_break=lambda why: told.append((why.kind, why.start, why.end)))
    gapped().map(function).run()
    assert told == [("gap", 6, 100), ("gap", 104, 200)]
    for on_workers in ("processes", "threads"):
        with pytest.raises(iso.OptionError, match="called inline"):
            iso.py(lambda s: s, on_break=told.append, on_workers=on_workers)  # type: ignore[arg-type]


def test_rows_are_shown_to_functions_as_tables() -> None:
    rows = iso.scan(np.arange(12.0), rate=10, segment=4).rewindow(2).stats("min", "max")
    seen: list[tuple[int | None, list[float]]] = []
    rows.filter(lambda r: r.max > 6).each(lambda table, start: seen.append((start, table["max"].tolist()))).run()
    assert [value for _, values in seen for value in values] == [7, 9, 11]
    grouped: list[Any] = []
    rows.group_by().agg(n="count").each(lambda table, start: grouped.append((start, table["n"].tolist()))).run()
    assert grouped == [(None, [6])]


def test_rows_pass_where_a_function_of_the_table_says_so() -> None:
    rows = iso.scan(np.arange(12.0), rate=10, segment=4).rewindow(2).stats("min", "max")
    odd = rows.filter(iso.py(lambda table: table["max"] % 4 == 3))
    assert odd.collect()["max"].tolist() == [3, 7, 11]
    with pytest.raises(iso.RunError, match="return one bool per row"):
        rows.filter(iso.py(lambda table: table["max"])).run()


def test_columns_that_a_function_gives_take_the_place_of_fields() -> None:
    rows = iso.scan(np.arange(12.0), rate=10, segment=4).rewindow(2).stats("min", "max")
    spread = rows.map(
        iso.py(
            lambda t: {
                "spread": t["max"] - t["min"],
                "both": np.stack([t["min"], t["max"]], axis=1),
                "ok": t["min"] > 3,
            }
        )
    )
    got = spread.collect()
    assert got.columns == ("start", "end", "spread", "both", "ok")
    assert got["spread"].tolist() == [1] * 6
    assert got["both"].tolist() == [[k, k + 1] for k in range(0, 12, 2)]
    assert got["ok"].tolist() == [False, False, True, True, True, True]
    assert spread.filter(lambda r: r.ok).select("start").collect()["start"].tolist() == [4, 6, 8, 10]


def test_alerts_of_a_live_plan_keep_their_times(tmp_path: Path) -> None:
    store = iso.open(tmp_path / "a.iso", "x")
    signal = store.create("p", dtype="f8", rate=10, start="2026-01-01T00:00:00Z")
    signal.append(np.array([0.0, 0, 9, 9, 0, 0]))
    store.commit()
    times: list[Any] = []
    loud = iso.scan(signal).rewindow(2).stats("max").filter(lambda r: r.max > 5)
    loud.each(lambda table, start: times.extend(table["time"])).run()
    assert times == [np.datetime64("2026-01-01T00:00:00.200")]
    shifted = loud.map(iso.py(lambda t: {"time": t["time"] + np.timedelta64(1, "s"), "max": t["max"]}))
    assert shifted.collect()["time"].tolist() == [np.datetime64("2026-01-01T00:00:01.200", "ns").astype(int)]


class Owner:
    """Keeps a plan whose function is one of its own methods."""

    def __init__(self, how: str) -> None:
        self.block = np.zeros(1000)
        base = iso.scan(self.block, rate=10).rewindow(10)
        match how:
            case "each":
                self.plans = [base.each(self.look)]
            case "branches":
                mapped = base.map(iso.py(self.means, dtype="f8"))
                self.plans = [mapped, mapped.count(), mapped.filter(lambda s: s.max() > 1), mapped.merge(mapped)]
            case "generate":
                self.plans = [iso.generate(self.samples, dtype="f8", rate=10).rewindow(2)]
            case "operator":
                self.plans = [base.apply(Recorder, notes=[self])]
            case "saved":
                self.plans = [base.map(iso.py(own.doubled)).each(self.look)]
            case "state":
                self.plans = [base.map(iso.py(lambda r, s: r, state=self.fresh, dtype="f8", width=10))]
        for plan in self.plans:
            plan.collect()

    def look(self, values: Array, start: int) -> None:
        pass

    def means(self, rows: Array) -> Array:
        result: Array = rows.mean(axis=1)
        return result

    def samples(self) -> Iterator[Array]:
        yield self.block[:4]

    def fresh(self) -> object:
        return self


@pytest.mark.parametrize("how", ["each", "branches", "generate", "operator", "saved", "state"])
def test_a_plan_kept_by_whom_its_function_belongs_to_is_freed(how: str) -> None:
    def alive() -> int:
        gc.collect()
        # A weak proxy of a library has no class any more once its object is gone.
        return sum(issubclass(type(one), Owner) for one in gc.get_objects())

    for _ in range(20):
        Owner(how)
    assert alive() == 0


def test_a_plan_stays_whole_as_long_as_a_part_of_it_is_kept() -> None:
    class Holder:
        def look(self, values: Array, start: int) -> None:
            seen.append(start)

    seen: list[int] = []
    plan = iso.scan(np.zeros(20), rate=10).each(Holder().look)
    kept = plan.rewindow(10).count()
    del plan
    gc.collect()
    assert kept.collect() == 2
    assert seen == [0]


def test_very_long_chains_of_functions_are_freed_without_recursion() -> None:
    plan = iso.scan(np.zeros(4), rate=10)
    for _ in range(20_000):
        plan = plan.each(lambda values, start: None)
    del plan
    gc.collect()
