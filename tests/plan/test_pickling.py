"""Stores, signals, selections, plans, tables, segments and events in pickles: here, and in other processes."""

from __future__ import annotations

import concurrent.futures
import copy
import importlib.util
import multiprocessing
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pytest

import isochrony as iso
import pickled

SECOND = 1_000_000_000
METHODS = ("spawn", "forkserver", "fork")


def recorded(store: iso.Store, name: str = "x") -> iso.Signal:
    """Two runs at about 100 Hz, with a gap and an event, calibrated; a later stamp fits the last run anew."""
    signal = store.create(name, dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1.0)
    signal.append(np.arange(300, dtype="i2"), at="2010-03-01T00:00:00Z")
    signal.append(np.arange(300, 500, dtype="i2"), at="2010-03-01T00:00:05.5Z")
    signal.append(np.arange(500, 700, dtype="i2"), at="2010-02-01T00:00:00Z")
    signal.events.add("burst", 20, 30, peak=7)
    store.commit()
    return signal


def grown(signal: iso.Signal, store: iso.Store) -> None:
    """Behind the end: samples whose stamp fits the clock of the last run anew."""
    before = signal.time_of(800)
    signal.append(np.arange(200, dtype="i2"), at="2010-02-01T00:00:02.004Z")
    signal.events.add("late", signal.end_index - 10)
    store.commit()
    assert signal.time_of(800) != before


@pytest.fixture(scope="module", params=["spawn", "forkserver"])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Calls a function with one argument in another process, which imports everything itself."""
    context = multiprocessing.get_context(request.param)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        yield lambda function, argument: pool.submit(function, argument).result(60)


def here(function: Callable[[Any], Any], argument: Any) -> Any:
    """The same in this process."""
    return function(pickle.loads(pickle.dumps(argument)))


def test_signals_and_selections_show_the_same_elsewhere(store: iso.Store, elsewhere: Callable[..., Any]) -> None:
    signal = recorded(store)
    by_time = signal[iso.span("2010-03-01T00:00:01", "2010-03-01T00:00:06")]
    for handle in (signal, signal[50:650], by_time, signal.select(overlap="all"), signal[700:700]):
        expected = pickled.shown(handle)
        assert expected["values"] == [] or expected["gaps"] or handle is by_time
        assert elsewhere(pickled.shown, handle) == expected
        assert here(pickled.shown, handle) == expected
        assert pickled.shown(copy.deepcopy(handle)) == expected
    assert pickle.loads(pickle.dumps(signal)) == signal
    assert pickle.loads(pickle.dumps(by_time)).ranges == by_time.ranges
    event = signal.events[0]
    assert elsewhere(pickled.event_shown, event) == pickled.event_shown(event)


def test_what_is_appended_does_not_matter(store: iso.Store, elsewhere: Callable[..., Any]) -> None:
    signal = recorded(store)
    reader = iso.open(store.path)
    handles = [signal, signal[50:650], reader["x"], reader["x"]["2010-02-01":"2010-02-02"]]
    sent = [(pickle.dumps(handle), pickled.shown(handle)) for handle in handles]
    event = (pickle.dumps(signal.events[0]), pickled.event_shown(signal.events[0]))
    whole = (pickle.dumps(reader), pickled.store_shown(reader))
    for change in (lambda: grown(signal, store), store.checkpoint, signal.seal, signal.unseal):
        change()
        for data, expected in sent:
            assert pickled.shown(pickle.loads(data)) == expected
            assert elsewhere(pickled.unpickled_shown, data) == expected
        assert elsewhere(pickled.unpickled_event_shown, event[0]) == event[1]
        assert elsewhere(pickled.unpickled_store_shown, whole[0]) == whole[1]
        assert pickled.store_shown(pickle.loads(whole[0])) == whole[1]
    back, shown = pickle.loads(sent[2][0]), pickled.shown(signal)
    assert back.refresh()
    assert pickled.shown(back) == shown
    opened = pickle.loads(whole[0])
    assert opened.refresh() and pickled.shown(opened["x"]) == shown


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store["x"].write(5, np.array([-7], "i2")),
        lambda store: (store["x"].mark_invalid(10, 20), store["x"].fill(10, np.zeros(10, "i2"))),
        lambda store: store.create("x", dtype="i2", rate=100, overwrite=True),
        lambda store: store.delete("x"),
    ],
)
def test_a_change_below_the_end_is_refused(
    store: iso.Store, elsewhere: Callable[..., Any], change: Callable[[iso.Store], object]
) -> None:
    signal = recorded(store)
    reader = iso.open(store.path)
    handles = (signal, signal[100:200], signal.events[0], iso.scan(reader["x"]), reader["x"])
    sent = [pickle.dumps(handle) for handle in handles]
    whole = pickle.dumps(reader)
    change(store)
    store.commit()
    for data in sent:
        for code, text in (pickled.code_of(data), elsewhere(pickled.code_of, data)):
            assert code == "snapshot_moved", text
            assert '"x"' in text and "with end 950" in text
    with pytest.raises(iso.StoreError, match="not as it was at commit") as caught:
        pickle.loads(whole)["x"]
    assert caught.value.code == "snapshot_moved"


def test_a_store_that_went_is_told(tmp_path: Path, elsewhere: Callable[..., Any]) -> None:
    path = tmp_path / "water.iso"
    with iso.open(path, "x") as store:
        signal = recorded(store)
        sent = pickle.dumps(signal[0:100])
        plan = pickle.dumps(iso.scan(signal))
    whole = pickle.dumps(iso.open(path))
    shutil.move(path, tmp_path / "moved.iso")
    for data in (sent, plan, whole):
        for code, text in (pickled.code_of(data), elsewhere(pickled.code_of, data)):
            assert code == "not_a_store" and str(path) in text and "put it back" in text
    with pytest.raises(FileNotFoundError):
        pickle.loads(whole)
    with iso.open(path, "x") as store:
        recorded(store)
    for data in (sent, plan, whole):
        assert elsewhere(pickled.code_of, data)[0] == "other_store"


def test_writers_are_refused_by_name(store: iso.Store) -> None:
    signal = recorded(store)
    with pytest.raises(iso.StoreError, match=r'open for writing \(mode "x"\).*a signal of this one') as caught:
        pickle.dumps(store)
    assert caught.value.code == "not_picklable" and isinstance(caught.value, TypeError)
    back = pickle.loads(pickle.dumps(signal))
    with pytest.raises(PermissionError, match="cannot append"):
        back.append(np.zeros(3, "i2"))
    scratch = store.scratch(dtype="i2", rate=100)
    scratch.append(np.zeros(9, "i2"))
    for handle in (scratch, scratch[0:5], iso.scan(scratch)):
        with pytest.raises(iso.IsochronyError, match=r"scratch signal \(9 samples\)"):
            pickle.dumps(handle)


def test_plans_that_write_or_listen_are_refused_by_name(store: iso.Store, tmp_path: Path) -> None:
    signal = recorded(store)
    plan = iso.scan(signal)
    listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100)
    for one, named in (
        (plan.sink(store, "y"), r"sink\(.*y.*a writer of this process"),
        (plan.sink_wav(tmp_path / "x.wav"), "sink_wav.*a writer of this process"),
        (plan.triggers(on=4).annotate(signal, "burst"), "annotate.*a writer of this process"),
        (iso.scan(listener), "scan.*a feed of this process"),
        (iso.scan(iso.follow(signal)), r"scan\(x\).*a feed of this process"),
    ):
        with pytest.raises(iso.PlanError, match=named) as caught:
            pickle.dumps(one)
        assert caught.value.code == "not_picklable" and ";" in str(caught.value)


def test_plans_give_the_same_elsewhere(store: iso.Store, elsewhere: Callable[..., Any]) -> None:
    signal = recorded(store)
    windows = iso.scan(signal).rewindow(50)
    array = iso.scan(np.arange(40, dtype="f4"), rate=100, unit="V")
    plans = [
        iso.scan(signal),
        iso.scan(signal[40:90]).map(lambda s: s * 2),
        iso.scan(signal, clock=signal, io="read").limit(7),
        windows.filter(lambda s: s.std() > 1).power(),
        windows.filter(iso.py(pickled.loud)),
        array.rewindow(4).map(lambda s: s - s.mean()),
        array.apply(pickled.Doubled, by=3.0),
        iso.scan(np.arange(9.0), rate=10, start="2010-03-01").rewindow(3).stats("mean", "max"),
        iso.scan(np.arange(950.0), clock=signal).rewindow(50).stats("max"),
        iso.generate(pickled.ramp, dtype="f8", rate=10, unit="V", start="2010-03-01"),
        iso.scan(signal).map(lambda a, b: a + b, iso.scan(signal[0:200])),
        windows.count(),
    ]
    for plan in plans:
        expected = pickled.collected(plan)
        assert elsewhere(pickled.collected, plan) == expected
        assert here(pickled.collected, plan) == expected
        twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(plan))))
        assert pickled.collected(twice) == expected
    sent = [(pickle.dumps(plan), pickled.collected(plan)) for plan in plans]
    rows = pickle.loads(pickle.dumps(windows.stats("mean", "max")))
    times = rows.collect()
    sent_rows = pickle.dumps(rows)
    grown(signal, store)
    for data, expected in sent:
        assert pickled.collected(pickle.loads(data)) == expected
    assert pickle.loads(sent_rows).collect() == times
    # A plan that was not pickled reads what there is.
    assert windows.count().collect() == times.shape[0] + 4


def test_arrays_of_plans_go_by_value() -> None:
    array = np.arange(6.0)
    back = pickle.loads(pickle.dumps(iso.scan(array, rate=100)))
    array[0] = 99
    np.testing.assert_array_equal(back.collect(), np.arange(6.0))
    buffers: list[pickle.PickleBuffer] = []
    big = iso.scan(np.zeros(1 << 16), rate=100)
    data = pickle.dumps(big, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 10_000 and len(buffers) == 1
    assert len(pickle.loads(data, buffers=buffers).collect()) == 1 << 16


def test_a_lambda_is_refused_by_pickle_and_taken_by_cloudpickle(store: iso.Store) -> None:
    limit = 30.0
    plan = iso.scan(recorded(store)).rewindow(50).filter(iso.py(lambda rows: rows.max(axis=1) > limit))
    with pytest.raises(iso.PlanError, match=r"<lambda>.*cannot be pickled.*at the top of a module.*cloudpickle"):
        pickle.dumps(plan)
    back = pickle.loads(cloudpickle.dumps(plan))
    np.testing.assert_array_equal(back.collect(), plan.collect())


def test_a_copy_of_cloudpickle_in_another_package_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """joblib and PySpark carry one."""
    name = "joblib.externals.cloudpickle"
    for package in ("joblib", "joblib.externals"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    spec = importlib.util.spec_from_file_location(name, cloudpickle.cloudpickle.__file__)
    assert spec is not None and spec.loader is not None
    carried = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, carried)
    spec.loader.exec_module(carried)
    plan = iso.scan(np.arange(6.0), rate=100).rewindow(2).filter(iso.py(lambda rows: rows.max(axis=1) > 2))
    np.testing.assert_array_equal(pickle.loads(carried.dumps(plan)).collect(), plan.collect())


def test_functions_that_came_are_saved_by_their_names(store: iso.Store) -> None:
    plan = iso.scan(recorded(store)).rewindow(50).filter(iso.py(pickled.loud))
    back = pickle.loads(pickle.dumps(plan))
    assert back.to_json() == plan.to_json()
    # A form that names what did not come, as a stranger's might.
    text = back.to_json().replace('"pickled:loud"', '{"object": 0}')
    with pytest.raises(iso.PlanError, match="lacks an object"):
        iso.Plan.from_json(text, store=store, allow_functions=True)


def test_segments_go_with_their_samples(store: iso.Store, elsewhere: Callable[..., Any]) -> None:
    signal = recorded(store)
    segments = [*signal[0:650].segments, *iso.scan(signal).collect(as_="segments")]
    segments += [iso.Segment(np.array(kind, dtype)) for kind, dtype in ([[], "f4"], [[1 + 2j], "c8"], [[True], "?"])]
    for segment in segments:
        expected = pickled.segment_shown(segment)
        assert elsewhere(pickled.segment_shown, segment) == expected
        assert here(pickled.segment_shown, segment) == expected
    first = pickle.loads(pickle.dumps(signal[0:100].segments[0]))
    assert len(first.append(signal[100:200].segments[0])) == 200


def test_many_handles_of_a_signal_share_one_snapshot(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=100, start="2010-03-01")
    for _ in range(300):
        signal.append(np.zeros(3, "i2"))
        signal.append_gap(samples=2)
    signal.append(np.zeros(3, "i2"))
    for at in range(100):
        signal.events.add("burst", at)
    store.commit()
    one, many = len(pickle.dumps(signal[0:5])), len(pickle.dumps([signal[at : at + 5] for at in range(200)]))
    assert many < one + 200 * 120
    events = pickle.loads(pickle.dumps(list(signal.events)))
    assert [event.time for event in events] == [event.time for event in signal.events]


@pytest.mark.parametrize("method", METHODS)
def test_a_data_set_of_windows_gives_them_in_worker_processes(tmp_path: Path, method: str) -> None:
    with iso.open(tmp_path / "water.iso", "x") as store:
        signal = store.create("x", dtype="f4", rate=100, start="2010-03-01")
        signal.append(np.arange(4000, dtype="f4"))
        store.commit()
        reader = iso.open(tmp_path / "water.iso")
        for source in (reader, reader["x"].select()):
            windows = pickled.Windows(source, 64)
            expected = [windows[at] for at in range(len(windows))]
            order = np.random.default_rng(1).permutation(len(windows)).tolist()
            context = multiprocessing.get_context(method)
            with context.Pool(2, pickled.begin, (windows,)) as pool:
                # Recorded on meanwhile.
                signal.append(np.zeros(100, "f4"), at="2010-03-01T00:00:40.3Z")
                store.commit()
                found = pool.map_async(pickled.item, order, chunksize=4).get(60)
            assert found == [expected[at] for at in order]


def test_every_task_may_bring_its_data_set(store: iso.Store) -> None:
    windows = pickled.Windows(recorded(store)[0:700], 50)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        tasks = [pool.submit(windows.__getitem__, at) for at in range(6)]
        assert [task.result(60) for task in tasks] == [windows[at] for at in range(6)]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        data = pickle.dumps([windows, store["x"]])
        for back, signal in threads.map(pickle.loads, [data] * 32):
            assert back[2] == windows[2] and signal.end_index == 950


def test_statistics_of_an_unpickled_plan_are_those_of_its_snapshot(tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(-1000, 1000, 2_000_000).astype("i2")
    x[500] = 30_000
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("p", dtype="i2", rate=1000)
        signal.append(x)
        store.commit()
        with iso.open(tmp_path / "a.iso") as reader:
            plan = iso.scan(reader["p"]).stats("min", "max", "count")
            assert "stored pyramid" in plan.explain()
            first = pickle.dumps(plan)
            signal.mark_invalid(490, 510)
            store.commit()
            reader.refresh()
            second = pickle.dumps(iso.scan(reader["p"]).stats("min", "max", "count"))
        before, after = pickle.loads(first), pickle.loads(second)
        for optimise in (True, False):
            table = before.collect(optimise=optimise)
            assert (table["max"].tolist(), table["count"].tolist()) == ([30_000], [2_000_000])
            table = after.collect(optimise=optimise)
            assert (table["max"].tolist(), table["count"].tolist()) == ([x[x < 30_000].max()], [2_000_000 - 20])
        # Two snapshots of one signal are two recordings.
        old, new = iso.collect(before, after)
        assert (old["count"][0], new["count"][0]) == (2_000_000, 1_999_980)


@pytest.mark.parametrize("name", ["lowpass", "rewindow", "explain", "from_json", "power"])
def test_methods_of_plans_are_pickled_by_their_names(name: str) -> None:
    method = getattr(iso.Plan, name)
    assert pickle.loads(pickle.dumps(method)) == method
