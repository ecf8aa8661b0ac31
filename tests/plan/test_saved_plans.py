"""Plans saved in a store and read as signals."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import isochrony as iso
from isochrony.cli import main
from isochrony.plan.saved import SAVED_PLANS
from made import START, pressure


def means(store: iso.Store) -> iso.Plan:
    return iso.scan(store["stn_10/pressure"]).rewindow(100, 50).map(lambda s: s.mean())


def test_a_view_reads_the_runs_own_windows_inside_what_is_asked(store: iso.Store) -> None:
    signal = pressure(store)
    store.save_plan("mine/means", means(store))
    view: Any = store["mine/means"]
    assert (view.dtype, view.rate, view.sources) == (np.float32, 2, ("stn_10/pressure",))
    part = view[130:1700]
    np.testing.assert_array_equal(part.indices(), [*range(150, 901, 50), 1500, 1550, 1600])
    np.testing.assert_array_equal(part.values()[:, 0], [*(np.arange(150, 901, 50) + 49.5), 1049.5, 1099.5, 1149.5])
    np.testing.assert_array_equal(np.asarray(part), part.values())
    by_time = view[iso.span("2010-03-01T00:00:01", "2010-03-01T00:00:03")]
    np.testing.assert_array_equal(by_time.indices(), [100, 150, 200])
    assert str(view.time_of(100)) == str(signal.time_of(100))
    np.testing.assert_array_equal(np.asarray(view, dtype="f4"), means(store).collect().astype("f4"))
    assert "rewindow" in repr(view)
    with pytest.raises(iso.OptionError, match=r"saved_plan\[a:b\]"):
        view[3]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_parts_of_a_plan_over_a_selection_have_its_windows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype="i4", rate=10)
        signal.append(np.arange(400, dtype="i4"))
        signal.append_gap(samples=7)
        signal.append(np.arange(407, 900, dtype="i4"))
        store.commit()
        start = data.draw(st.integers(0, 500))
        end = data.draw(st.integers(start + 1, 900))
        window, hop = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 80))
        # Each sample is its index, so windows say where they begin.
        plan = iso.scan(signal[start:end]).rewindow(window, hop).map(lambda s: s.min())
        store.save_plan("part", plan)
        saved: Any = store["part"]
        starts = plan.collect()[:, 0]
        expected = []
        for first, behind in ((0, 400), (407, 900)):
            first, behind = max(first, start), min(behind, end)
            expected += range(first, behind - window + 1, hop)
        assert starts.tolist() == expected
        a = data.draw(st.integers(0, 900))
        b = data.draw(st.integers(a, 900))
        inside = [one for one in expected if a <= one and one + window <= b]
        part = saved[a:b].plan
        for workers in (1, 3):
            assert part.collect(workers=workers)[:, 0].tolist() == inside


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_part_of_a_view_is_the_plan_over_that_part(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with iso.open(tmp_path_factory.mktemp("s") / "x.iso", "x") as store:
        signal = store.create("x", dtype="i4", rate=10)
        for count, gap in data.draw(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=4)):
            signal.append(np.arange(count, dtype="i4"))
            signal.append_gap(samples=gap)
        window, hop = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
        plan = lambda source, **anchor: iso.scan(source).rewindow(window, hop, **anchor).map(lambda s: s.max())  # noqa: E731
        store.save_plan("v", plan(signal))
        a, b = sorted(data.draw(st.tuples(st.integers(0, signal.end_index), st.integers(0, signal.end_index))))
        # The view's own windows, wherever its part begins.
        expected = plan(signal[a:b], anchor="run").collect() if b > a else np.empty((0, 1), "i4")
        np.testing.assert_array_equal(store.saved_plans["v"][a:b].values(), expected)


def test_views_are_kept_with_the_store_and_listed(store: iso.Store, capsys: pytest.CaptureFixture[str]) -> None:
    pressure(store)
    store.commit()
    store.save_plan("v", means(store))
    assert list(store.saved_plans) == ["v"]
    assert store.keys() == ["stn_10/pressure"]
    again = iso.open(store.path)
    assert again.saved_plans["v"].plan == means(again)
    assert again["v"][0:100].values().shape == (1, 1)
    store.close()
    assert main(["info", str(store.path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"v +scan\(stn_10/pressure\)", out)
    assert main(["info", f"{store.path}/v", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["saved_plans"][0]["name"] == "v"


def test_names_are_taken_once(store: iso.Store) -> None:
    pressure(store)
    plan = means(store)
    store.save_plan("v", plan)
    refused = (
        ("v", r"has a saved plan 'v'; .*store\.save_plan\('v', plan, overwrite=True\)"),
        ("stn_10/pressure", r"has a signal 'stn_10/pressure', .*store\.delete\('stn_10/pressure'\)"),
        ("", "needs a name"),
    )
    for name, message in refused:
        with pytest.raises(iso.StoreError, match=message) as error:
            store.save_plan(name, plan)
        assert isinstance(error.value, FileExistsError)
    for take in (
        lambda: store.create("v", dtype="f4", rate=1),
        lambda: store.create("v", dtype="f4", rate=1, overwrite=True),
        lambda: store.rename("stn_10/pressure", "v"),
        lambda: plan.sink(store, "v").run(),
    ):
        with pytest.raises((iso.StoreError, iso.RunError), match="saved plan of that name; choose"):
            take()
    assert store.keys() == ["stn_10/pressure"]
    store.save_plan("v", plan.filter(lambda s: s.max() > 5), overwrite=True)
    assert "filter" in str(store.saved_plans["v"].plan)
    store.saved_plans.rename("v", "w")
    assert list(store.saved_plans) == ["w"]
    with pytest.raises(KeyError, match="no saved plan is called 'v'; there are: w"):
        store.saved_plans.rename("v", "x")
    with pytest.raises(iso.StoreError, match="already has"):
        store.saved_plans.rename("w", "stn_10/pressure")
    del store.saved_plans["w"]
    assert len(store.saved_plans) == 0
    with pytest.raises(KeyError):
        del store.saved_plans["w"]
    with pytest.raises(KeyError, match="w"):
        store["w"]


def test_what_is_no_signal_cannot_be_a_view(store: iso.Store) -> None:
    pressure(store)
    plan = means(store)
    for wrong, part in [(plan.count(), "count"), (plan.ranges(), "ranges"), (plan.sink(store, "x"), "sink")]:
        with pytest.raises(iso.PlanError, match=part):
            store.save_plan("v", wrong)
    with pytest.raises(iso.PlanError, match="imported by name"):
        store.save_plan("v", plan.map(iso.py(lambda r: r)))
    store.commit()
    with pytest.raises(iso.StoreError, match="read"):
        iso.open(store.path).save_plan("v", plan)


def test_views_whose_plan_or_signal_is_gone_say_so(store: iso.Store) -> None:
    pressure(store)
    store.save_plan("v", means(store))
    store.rename("stn_10/pressure", "elsewhere")
    for read in (lambda: store["v"], lambda: store.saved_plans["v"]):
        with pytest.raises(
            iso.PlanError, match=r"saved plan 'v' cannot be opened.*stn_10/pressure.*del store\.saved_plans"
        ):
            read()
    assert store.saved_plans.texts()["v"].startswith("damaged")
    store.attrs[SAVED_PLANS] = {"v": {"isochrony_plan": 9}, "w": 3}
    for name in ("v", "w"):
        with pytest.raises(iso.PlanError, match="cannot be opened"):
            store[name]
    store.attrs[SAVED_PLANS] = 3
    assert len(store.saved_plans) == 0


def test_two_signals_meet_by_time(store: iso.Store) -> None:
    pressure(store)
    other = store.create("late", dtype="f4", rate=100, start=START)
    other.append(np.arange(1000, dtype="f4") * 10)
    merged = iso.scan(store["stn_10/pressure"]).rewindow(100).map(lambda s: s.max())
    store.save_plan("v", merged)
    assert store.saved_plans["v"][0:300].values()[:, 0].tolist() == [99, 199, 299]


FORKED = """
import os, sys, isochrony as iso
store = iso.open(sys.argv[1], "r+")
child = os.fork()
if child == 0:
    for change in (
        lambda: store.save_plan("child", iso.scan(store["x"]).rewindow(10)),
        lambda: store.saved_plans.save("kept", iso.scan(store["x"]).rewindow(10), overwrite=True),
        lambda: store.saved_plans.__delitem__("kept"),
        lambda: store.saved_plans.rename("kept", "mine"),
    ):
        try:
            change()
        except iso.StoreError as error:
            print(error.code, flush=True)
        else:
            print("done", flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(sorted(store.saved_plans))
store.save_plan("parent", iso.scan(store["x"]).rewindow(10))
"""


def test_a_forked_child_changes_no_saved_plans(tmp_path: Path) -> None:
    path = tmp_path / "a.iso"
    with iso.open(path, "x") as store:
        store.create("x", dtype="i2", rate=100).append(np.arange(100, dtype="i2"))
        store.commit()
        store.save_plan("kept", iso.scan(store["x"]).rewindow(20))
    done = subprocess.run([sys.executable, "-c", FORKED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *refused, kept = done.stdout.splitlines()
    assert len(refused) == 4, done.stdout
    assert "done" not in refused
    assert kept == "['kept']"
    assert sorted(iso.open(path).saved_plans) == ["kept", "parent"]
