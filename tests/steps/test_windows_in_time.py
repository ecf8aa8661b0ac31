"""Groups in windows of time: tumbling, hopping and session windows, emitted while a plan runs."""

from __future__ import annotations

import math
import socket
import threading
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

import isochrony as iso
from made import pressure

START = np.datetime64("2026-03-01T10:20:00", "ns")
RATE = 10


def recorded(path: Path, seed: int) -> Any:
    """Noise of some minutes, with gaps that no window begins or ends at."""
    rng = np.random.default_rng(seed)
    with iso.open(path, "x") as store:
        signal = store.create("noise", dtype="i2", rate=RATE, start=str(START) + "Z")
        for _ in range(rng.integers(1, 6)):
            signal.append(rng.integers(-9, 9, rng.integers(100, 4000)).astype("i2"))
            signal.append_gap(samples=int(rng.integers(1, 3000)))
        store.commit()
    return iso.open(path)["noise"]


def columns(table: Any) -> dict[str, npt.NDArray[Any]]:
    return {name: np.asarray(table[name]) for name in table.columns}


def windows(rows: dict[str, npt.NDArray[Any]], every: int, period: int) -> list[tuple[Any, ...]]:
    """Begin, key, count, sum and last mean of each window of civil time, in ns, one window after another."""
    at = rows["time"].astype("i8")
    found = []
    for begin in range((at.min() - period) // every * every, at.max() + every, every):
        inside = np.flatnonzero((at >= begin) & (at < begin + period))
        for key in dict.fromkeys(rows["max"][inside]):
            chosen = inside[rows["max"][inside] == key]
            means = rows["mean"][chosen]
            found.append((begin, key, len(chosen), math.fsum(means), means[-1]))
    return found


AGGREGATES: dict[str, Any] = {"n": "count", "total": ("mean", "sum"), "last": ("mean", "last")}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("every", "period"), [(60, None), (60, 150), (90, 20)])
def test_windows_are_those_of_a_loop_and_of_polars(tmp_path: Path, seed: int, every: int, period: int | None) -> None:
    polars = pytest.importorskip("polars")
    rows = iso.scan(recorded(tmp_path / "a.iso", seed)).rewindow(7).stats("max", "mean")
    table = rows.group_by("max", every=every, period=period).agg(**AGGREGATES).collect()
    second = 1_000_000_000
    ours = list(zip(*(np.asarray(table[name]).tolist() for name in ("time", "max", "n", "total", "last")), strict=True))
    expected = windows(columns(rows.collect()), every * second, (period or every) * second)
    assert ours == expected
    if period is None:
        frame = polars.DataFrame(columns(rows.collect()))
        grouped = frame.group_by_dynamic("time", every=f"{every}s", group_by="max", start_by="window")
        theirs = grouped.agg(n=polars.len(), total=polars.col("mean").sum(), last=polars.col("mean").last())
        theirs = theirs.sort("time", "max")
        mine = polars.DataFrame(columns(table)).sort("time", "max")
        assert mine["time"].to_list() == theirs["time"].to_list()
        assert mine["n"].to_list() == theirs["n"].to_list()
        np.testing.assert_allclose(mine["total"].to_numpy(), theirs["total"].to_numpy(), atol=1e-9)
    check_indices(table, iso.scan(recorded(tmp_path / "b.iso", seed)), (period or every) * second)


def check_indices(table: Any, samples: iso.Plan, period: int) -> None:
    """`start` is the first sample of a window, `end` the first behind it."""
    times = columns(samples.rewindow(1).stats("max").collect())
    at = dict(zip(times["start"].tolist(), times["time"].astype("i8").tolist(), strict=True))
    for start, end, begin in zip(table["start"], table["end"], table["time"].astype("i8"), strict=True):
        # Where there is no sample, in a gap or beyond the recording, nothing is known here.
        assert start >= 0
        assert start == 0 or at.get(start, begin) >= begin
        assert at.get(start - 1, begin - 1) < begin
        assert at.get(end, begin + period) >= begin + period
        assert at.get(end - 1, begin) < begin + period


def test_windows_behind_resampling_have_indices_of_its_grid(tmp_path: Path) -> None:
    samples = iso.scan(recorded(tmp_path / "a.iso", 3)).resample(up=3, down=7, attenuation_db=30)
    rows = samples.rewindow(5).stats("max", "mean")
    table = rows.group_by(every=13, period=17).agg(n="count").collect()
    assert len(table) > 20
    check_indices(table, samples, 17_000_000_000)
    times = rows.collect()["time"].astype("i8")
    counts = [
        np.count_nonzero((times >= begin) & (times < begin + 17_000_000_000)) for begin in table["time"].astype("i8")
    ]
    assert table["n"].tolist() == counts


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gap", [0.4, 30.0])
def test_sessions_are_those_of_a_loop(tmp_path: Path, seed: int, gap: float) -> None:
    rows = iso.scan(recorded(tmp_path / "a.iso", seed)).rewindow(7).stats("max", "mean").filter(lambda r: r.max > 6)
    table = rows.group_by("max", session=gap).agg(**AGGREGATES).collect()
    sessions: list[dict[str, Any]] = []
    given_rows = columns(rows.collect())
    for k, (begin, key) in enumerate(zip(given_rows["time"].astype("i8"), given_rows["max"], strict=True)):
        last = next((one for one in reversed(sessions) if one["max"] == key), None)
        if last is None or begin - last["until"] > gap * 1e9:
            last = {"max": key, "start": given_rows["start"][k], "time": begin, "n": 0, "means": []}
            sessions.append(last)
        last.update(until=begin + 700_000_000, end=given_rows["end"][k], last=given_rows["mean"][k])
        last["n"] += 1
        last["means"].append(given_rows["mean"][k])
    assert len(sessions) > 1
    for session in sessions:
        session["total"] = math.fsum(session["means"])
    for name in ("start", "end", "time", "max", "n", "total", "last"):
        assert np.asarray(table[name]).astype("f8").tolist() == [float(one[name]) for one in sessions], name


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_windows_of_samples_count_from_index_0(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.integers(-9, 9, data.draw(st.integers(1, 400))).astype("i2")
    every = data.draw(st.integers(1, 60))
    given_every = data.draw(st.sampled_from([f"{every} samples", every / RATE]))
    segment = data.draw(st.sampled_from([None, 7, 64]))
    rows = iso.scan(x, segment, rate=RATE).rewindow(1).stats("min", "max")
    table = rows.group_by(every=given_every).agg(n="count", least=("min", "min")).collect()
    all_rows = columns(rows.collect())
    number = all_rows["start"] // every
    wanted = np.unique(number)
    assert table.columns == ("start", "end", "n", "least")
    np.testing.assert_array_equal(table["start"], wanted * every)
    np.testing.assert_array_equal(table["end"], wanted * every + every)
    np.testing.assert_array_equal(table["n"], [np.count_nonzero(number == one) for one in wanted])
    np.testing.assert_array_equal(table["least"], [all_rows["min"][number == one].min() for one in wanted])


def test_a_new_run_has_windows_of_its_own(tmp_path: Path) -> None:
    """A clock set back within an hour gives that hour twice, and a selection by time the runs in the order of time."""
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("s", dtype="i2", rate=1, start="2026-01-01T10:30:00Z")
        signal.append(np.arange(3600, dtype="i2"))
        signal.append(np.arange(3600, dtype="i2"), at="2026-01-01T09:45:00Z")
        store.commit()
        rows = iso.scan(signal).rewindow(60).stats("max")
        table = rows.group_by(every="1h").agg(n="count").collect()
        hours = [f"2026-01-01T{hour:02}:00:00" for hour in (10, 11, 9, 10)]
        assert np.array_equal(table["time"], np.array(hours, "M8[ns]"))
        assert table["n"].tolist() == [30, 30, 15, 45]
        assert table["start"].tolist() == [0, 1800, 3600, 4500]
        assert table["end"].tolist()[:3] == [1800, 3600, 4500]
        by_time = iso.scan(signal["2026-01-01T09:00":"2026-01-01T12:00"]).rewindow(60).stats("max")
        table = by_time.group_by(every="1h").agg(n="count").collect()
        expected = by_time.collect()["time"].astype("M8[h]")
        steps = np.flatnonzero(np.diff(by_time.collect()["start"]) != 60)
        parts = np.split(expected, steps + 1)
        counts = [np.count_nonzero(part == hour) for part in parts for hour in dict.fromkeys(part)]
        assert table["n"].tolist() == counts
        sums = rows.join(rows.select("start", "end", most=lambda r: r.max)).group_by(every="1h").agg(n="count")
        assert sums.collect()["n"].tolist() == [30, 30, 15, 45]


def test_windows_meet_others_and_are_filtered_stored_saved_and_grouped_again(store: iso.Store) -> None:
    slow, fast = pressure(store, name="slow", rate=10), pressure(store, name="fast", rate=100)
    per_window = iso.scan(slow).rewindow(10).stats("max", "mean").group_by(every=20).agg(n="count", top=("max", "max"))
    other = iso.scan(fast).rewindow(50).stats("mean").group_by(every="20s").agg(rows="count")
    ours, theirs = per_window.collect(), other.collect()
    met = per_window.join(other, suffix="_fast").collect()
    common = np.intersect1d(ours["time"], theirs["time"])
    assert len(common) > 1
    assert np.array_equal(met["time"], common)
    assert np.array_equal(met["time_fast"], common)
    beside = iso.scan(slow).rewindow(10).stats("max").join(per_window, suffix="_window").collect()
    assert np.all((beside["start_window"] <= beside["start"]) & (beside["start"] < beside["end_window"]))
    assert len(beside) == iso.scan(slow).rewindow(10).count().collect()
    loud = per_window.filter(lambda r: r.n > 10).select("time", "top", twice=lambda r: 2 * r.n).collect()
    assert np.array_equal(loud["twice"], 2 * ours["n"][ours["n"] > 10])
    longer = per_window.group_by(every="1min").agg(windows="count", n=("n", "sum"))
    direct = iso.scan(slow).rewindow(10).stats("max").group_by(every="1min").agg(n="count")
    assert longer.collect()["n"].tolist() == direct.collect()["n"].tolist()
    saved = iso.Plan.from_json(longer.to_json(), store=store)
    assert saved == longer
    assert saved.collect() == longer.collect(workers=2)
    assert longer.limit(2).collect().num_rows == 2


def test_real_recordings_count_the_same_with_any_number_of_workers(recordings: Path, tmp_path: Path) -> None:
    with iso.open(tmp_path / "event.iso", "x") as store:
        iso.import_files(store, recordings / "seismic")
    signal = next(iter(iso.open(tmp_path / "event.iso").values()))
    rows = (
        iso.scan(signal)
        .rewindow(20)
        .stats("max", "mean")
        .select("start", "end", "time", "mean", max=lambda r: r.max > 0)
    )
    found = {}
    for workers in (1, 2):
        table = rows.group_by("max", every="1500ms", period="4s").agg(**AGGREGATES).collect(workers=workers)
        found[workers] = [np.asarray(table[name]).tolist() for name in ("time", "max", "n", "total", "last")]
    assert found[1] == found[2]
    expected = windows(columns(rows.collect()), 1_500_000_000, 4_000_000_000)
    assert list(zip(*found[1], strict=True)) == expected
    assert len(expected) > 10


def test_a_live_feed_gives_the_row_of_a_second_before_it_ends() -> None:
    """Two and a half seconds of samples are sent, and nothing more until the row of the first second has come."""
    arrived = threading.Event()
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=1000, framing="raw", silence=60)
    host, port = listener.address.removeprefix("tcp://").split(":")

    def feed() -> None:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(np.arange(2500, dtype="<i2").tobytes())
            if arrived.wait(30):
                connection.sendall(np.zeros(500, "<i2").tobytes())

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    counts: list[int] = []

    def seen(table: Any, start: int) -> None:
        counts.extend(table["n"].tolist())
        arrived.set()

    rows = iso.scan(listener).rewindow(100).stats("max")
    rows.group_by(every="1000 samples").agg(n="count").each(seen).run()
    thread.join(30)
    assert listener.counts["samples"] == 3000, "no row came while the feed was open"
    assert counts == [10, 10, 10]


def test_a_window_of_a_live_feed_meets_its_rows_when_it_is_over() -> None:
    """Though no further window follows it before the feed goes on."""
    arrived = threading.Event()
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=1000, framing="raw", silence=60)
    host, port = listener.address.removeprefix("tcp://").split(":")

    def feed() -> None:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(np.arange(1500, dtype="<i2").tobytes())
            if arrived.wait(30):
                connection.sendall(np.zeros(500, "<i2").tobytes())

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    starts: list[int] = []

    def seen(table: Any, start: int) -> None:
        starts.extend(table["start_right"].tolist())
        arrived.set()

    rows = iso.scan(listener).rewindow(100).stats("max")
    rows.group_by(every="1000 samples").agg(n="count").join(rows).each(seen).run()
    thread.join(30)
    assert listener.counts["samples"] == 2000, "no pair came while the feed was open"
    assert starts == list(range(0, 2000, 100))


def test_a_followed_signal_gives_windows_while_it_grows_though_nothing_passes_a_filter(tmp_path: Path) -> None:
    """What is quiet closes windows, too: by progress marks."""
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("s", dtype="i4", rate=1000, start="2026-01-01")
        store.commit()
        followed = iso.follow(iso.open(tmp_path / "a.iso")["s"], silence=20)
        loud = iso.scan(followed).rewindow(100).stats("max").filter(lambda r: r.max > 0)
        seen: list[tuple[str, int]] = []
        plan = (
            loud.group_by(every="1s")
            .agg(n="count")
            .each(
                lambda table, start: seen.extend(
                    zip(table["time"].astype("M8[s]").astype(str), table["n"], strict=True)
                )
            )
        )
        thread = threading.Thread(target=lambda: plan.limit(2).run(), daemon=True)
        thread.start()
        signal.append(np.r_[np.ones(300, "i4"), np.zeros(900, "i4")])
        store.commit()
        until = time.monotonic() + 15
        while not seen and time.monotonic() < until:
            time.sleep(0.01)
        assert seen == [("2026-01-01T00:00:00", 3)]
        signal.append(np.ones(2000, "i4"))
        store.commit()
        thread.join(30)
        assert seen[1] == ("2026-01-01T00:00:01", 8)


def test_wrong_windows_are_refused_with_what_to_do(store: iso.Store) -> None:
    rows = iso.scan(pressure(store)).rewindow(100).stats("mean")
    for wrong, error, text in (
        ({"every": "1h", "session": 5}, iso.PlanError, "either every="),
        ({"period": "1h"}, iso.PlanError, "needs every="),
        ({"every": "1h", "period": "5 samples"}, iso.PlanError, "both as times"),
        ({"every": 0}, iso.PlanError, "every=0"),
        ({"every": "1d"}, iso.PlanError, "125ms"),
        ({"every": True}, iso.OptionError, "every=True"),
        ({"session": float("nan")}, iso.OptionError, "session=nan"),
    ):
        with pytest.raises(error, match=text):
            rows.group_by(**wrong).agg(n="count")  # type: ignore[arg-type]
    with pytest.raises(iso.PlanError, match="start and end"):
        rows.select("mean").group_by(every=1).agg(n="count")
    with pytest.raises(iso.PlanError, match='"time"'):
        rows.group_by("time", every=1).agg(n="count")
    with pytest.raises(iso.RunError, match="most=3"):
        rows.group_by("mean", every="1h", most=3).agg(n="count").collect()
    assert rows.group_by("mean", every="1s", most=1).agg(n="count").collect()["n"].tolist() == [1] * 20
