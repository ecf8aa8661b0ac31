"""The store as a mapping of names, its modes, commits, readers and pickles."""

import copy
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from made import START, pressure


def test_mapping(store: iso.Store) -> None:
    for name in ("b/y", "a/x", "b/x"):
        pressure(store, name)
    assert list(store) == store.keys() == ["a/x", "b/x", "b/y"]
    assert [signal.name for signal in store.find("b/*")] == ["b/x", "b/y"]
    assert [name for name, _ in store.items()] == [s.name for s in store.values()]
    assert "a/x" in store
    assert 5 not in store
    assert store.get("nothing") is None
    assert store.get("a/x") == store["a/x"]
    assert len(store) == 3


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x"):
        with pytest.raises(iso.StoreError) as caught:
            iso.open(tmp_path / "a.iso", "r+")
        message = str(caught.value)
        # Who to ask, or to end: the process and its command.
        assert re.search(rf"\b{os.getpid()}\b", message)
        assert Path(sys.argv[0]).name in message or Path(sys.executable).name in message
        assert "\n" not in message
    iso.open(tmp_path / "a.iso", "r+").close()


def test_rename_and_delete(store: iso.Store) -> None:
    signal = pressure(store, "a")
    store.commit()
    store.rename("a", "c/d")
    store.commit()
    assert signal.name == "c/d"
    np.testing.assert_array_equal(np.asarray(signal[0:3]), [0, 1, 2])
    del store["c/d"]
    store.commit()
    assert len(store) == 0
    with pytest.raises(KeyError, match="removed"):
        signal.sample_count  # noqa: B018


def test_names(store: iso.Store) -> None:
    pressure(store, "stn_10/pressure")
    with pytest.raises(KeyError, match='did you mean "stn_10/pressure"') as caught:
        store["stn_10/presure"]
    assert caught.value.code == "no_such_signal"
    assert not str(caught.value).startswith(("'", '"'))
    with pytest.raises(FileExistsError):
        pressure(store, "stn_10/pressure")
    for bad in ("../up", "/abs", "a//b", "data", "stn_10/pressure/deeper", "stn_10"):
        with pytest.raises(ValueError, match=r"signal|name"):
            pressure(store, bad)
    replaced = store.create("stn_10/pressure", dtype="i2", rate=1, overwrite=True)
    assert replaced.sample_count == 0


def test_opening(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        iso.open(tmp_path / "nothing.iso")
    assert isinstance(caught.value, iso.StoreError)
    assert caught.value.code == "not_a_store"
    iso.open(tmp_path / "a.iso", "a").close()
    with pytest.raises(FileExistsError):
        iso.open(tmp_path / "a.iso", "x")
    with pytest.raises(iso.OptionError, match="mode"):
        iso.open(tmp_path / "a.iso", "w")


def test_reading_refuses_writing(store: iso.Store) -> None:
    pressure(store)
    store.commit()
    reader = iso.open(store.path)
    with pytest.raises(PermissionError, match=r"mode .r\+."):
        reader["stn_10/pressure"].append([1.0])
    with pytest.raises(PermissionError):
        reader.create("x", dtype="i2", rate=1)
    with pytest.raises(PermissionError):
        reader["stn_10/pressure"].attrs["a"] = 1


def test_one_writer(store: iso.Store) -> None:
    program = f"import isochrony as iso; iso.open({str(store.path)!r}, 'r+')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "StoreLockedError" in done.stderr


def test_readers_follow(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=10, start=START)
    store.commit()
    reader = iso.open(store.path)
    seen = reader["x"]
    signal.append(np.arange(100, dtype="i2"))
    assert seen.sample_count == 0
    assert not reader.refresh()
    store.commit(publish=False)
    assert seen.sample_count == 0
    assert reader.refresh()
    assert seen.sample_count == 100
    np.testing.assert_array_equal(seen.counts[:], np.arange(100))
    store.create("y", dtype="i2", rate=10)
    store.commit()
    assert seen.refresh()
    assert list(reader) == ["x", "y"]


def test_leaving_commits_and_an_exception_does_not(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        pressure(store, "kept")
    assert store.closed
    with pytest.raises(RuntimeError, match="mine"), iso.open(tmp_path / "a.iso", "a") as store:
        pressure(store, "lost")
        raise RuntimeError("mine")
    assert list(iso.open(tmp_path / "a.iso")) == ["kept"]
    store = iso.open(tmp_path / "a.iso", "a")
    pressure(store, "dropped")
    assert store.has_pending
    store.close(commit=False)
    store.close()
    assert list(iso.open(tmp_path / "a.iso")) == ["kept"]
    with pytest.raises(iso.StoreError, match="closed"):
        store["kept"]


def test_a_pickled_signal_shows_what_it_showed(store: iso.Store) -> None:
    signal = pressure(store)
    store.commit()
    sent = pickle.dumps(signal)
    assert len(sent) < 1000
    back = pickle.loads(sent)
    np.testing.assert_array_equal(np.asarray(back[0:10]), np.arange(10))
    assert back.sample_count == signal.sample_count
    assert copy.copy(signal).name == signal.name
    signal.append([1.0])
    store.commit()
    back = pickle.loads(sent)
    assert back.sample_count == 2000
    assert back.refresh()
    assert back.sample_count == 2001
    assert not back.refresh()


def test_a_pickle_shows_what_is_not_committed_here_and_is_refused_elsewhere(store: iso.Store) -> None:
    signal = pressure(store)
    store.commit()
    end, count = signal.end_index, signal.sample_count
    signal.append([7.0, 8.0])
    sent = pickle.dumps(signal)
    back = pickle.loads(sent)
    np.testing.assert_array_equal(np.asarray(back[end:]), [7.0, 8.0])
    load = f"import pickle, isochrony; pickle.loads({sent!r})"
    ended = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=False)
    assert "commit before pickling" in ended.stderr
    store.commit()
    load = f"import pickle, isochrony; print(pickle.loads({pickle.dumps(signal)!r}).sample_count)"
    ended = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(count + 2)


def test_refresh_shows_what_a_plan_over_the_reader_took_in(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        written = pressure(store)
        store.commit()
        reader = iso.open(tmp_path / "a.iso")
        seen = reader["stn_10/pressure"]
        written.append([1.0, 2.0])
        store.commit()
        end = written.end_index
        assert seen.end_index == end - 2
        iso.scan(seen).rewindow(2).stats("count").collect()
        assert seen.end_index == end - 2
        assert reader.refresh()
        assert seen.end_index == end
        assert not reader.refresh()


def test_a_pickle_of_a_newer_commit_is_refused_clearly(store: iso.Store, tmp_path: Path) -> None:
    pressure(store)
    store.commit()
    store.close()
    older = shutil.copytree(tmp_path / "water.iso", tmp_path / "older.iso")
    with iso.open(tmp_path / "water.iso", "r+") as store:
        store["stn_10/pressure"].append([1.0])
        store.commit()
        sequence = store.sequence
        sent = pickle.dumps(store["stn_10/pressure"])
    shutil.rmtree(tmp_path / "water.iso")
    older.rename(tmp_path / "water.iso")
    with pytest.raises(iso.StoreError, match=f"pickled at commit {sequence} ") as caught:
        pickle.loads(sent)
    assert caught.value.code == "older_commit"


def test_reprs(store: iso.Store) -> None:
    signal = pressure(store)
    signal.events.add("note", 5)
    for thing in (
        store, signal, signal[0:1500], signal.gaps, signal.gaps[0], signal.runs()[0], signal.events,
        signal.events[0], signal.timebase, signal[0:5].segments[0], signal.counts, signal.view(pixels=10),
    ):  # fmt: skip
        assert repr(thing).startswith("<")
    assert "stn_10/pressure" in store._repr_html_()
    assert "kPa" in signal._repr_html_()
