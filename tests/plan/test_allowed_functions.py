"""Reading what a stranger wrote runs no code of theirs: saved plans, views and journals of tasklets."""

from __future__ import annotations

import json
import pickle
import socket
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functions_of_tests as own
import isochrony as iso
from isochrony.cli import main
from isochrony.plan.saved import SAVED_PLANS
from made import pressure

HOSTILE = """
import pathlib
pathlib.Path({mark!r}).write_text("imported")
def work(*_):
    pathlib.Path({mark!r}).write_text("called")
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `hostile` that leaves a mark when it is imported."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "hostile.py").write_text(HOSTILE.format(mark=str(tmp_path / "mark")))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "hostile", raising=False)
    return tmp_path / "mark"


def saved(store: iso.Store) -> dict[str, Any]:
    """A saved plan with every kind of function."""
    windows = iso.scan(pressure(store)).rewindow(100)
    plan = windows.filter(iso.py(own.rising)).map(iso.py(own.peaks)).each(own.seen)
    store.commit()
    text: dict[str, Any] = json.loads(plan.to_json())
    return text


def renamed(saved: dict[str, Any], name: str) -> dict[str, Any]:
    """The same plan with another function in all places."""
    text = json.dumps(saved)
    for known in ("rising", "peaks", "seen"):
        text = text.replace(f"functions_of_tests:{known}", name)
    again: dict[str, Any] = json.loads(text)
    return again


def test_a_plan_with_functions_is_refused_and_they_are_listed(store: iso.Store, hostile: Path) -> None:
    plan = saved(store)
    with pytest.raises(iso.PlanError, match="functions_of_tests:peaks, functions_of_tests:rising") as caught:
        iso.Plan.from_json(plan, store=store)
    assert caught.value.code == "functions_not_allowed"
    assert "allow_functions=True" in str(caught.value)
    for bad in ("hostile:work", "hostile:work.__globals__", "os:system", "hostile", ":", ""):
        with pytest.raises(iso.PlanError):
            iso.Plan.from_json(renamed(plan, bad), store=store)
        with pytest.raises(iso.PlanError):
            iso.Plan.from_json(renamed(plan, bad), store=store, allow_functions=["functions_of_tests:peaks"])
    assert not hostile.exists()


def test_allowed_functions_are_those_named_or_all(store: iso.Store) -> None:
    plan = saved(store)
    names = [f"functions_of_tests:{name}" for name in ("rising", "peaks", "seen")]
    assert iso.Plan.from_json(plan, store=store, allow_functions=names) == iso.Plan.from_json(
        plan, store=store, allow_functions=True
    )
    with pytest.raises(iso.PlanError, match=r"modules: functions_of_tests:seen;"):
        iso.Plan.from_json(plan, store=store, allow_functions=names[:2])
    for wrong in ("functions_of_tests:seen", [], [1], ["seen"], 3, None):
        with pytest.raises(iso.OptionError, match="allow_functions"):
            iso.Plan.from_json(plan, store=store, allow_functions=wrong)  # type: ignore[arg-type]


def test_a_generator_and_a_compiled_function_are_functions_too(hostile: Path) -> None:
    generated = json.loads(iso.generate(own.ramp, dtype="i4", rate=10).to_json())
    assert "functions_of_tests:ramp" in json.dumps(generated)
    with pytest.raises(iso.PlanError, match="functions_of_tests:ramp"):
        iso.Plan.from_json(generated)
    assert iso.Plan.from_json(generated, allow_functions=True).kind == "samples"
    text = json.dumps(generated).replace("functions_of_tests:ramp", "hostile:work")
    node = {"op": "jit", "inputs": [[0, 0]], "params": {"function": "hostile:work", "as": "filter"}}
    for bad in (text, json.dumps({**generated, "nodes": [*generated["nodes"], node]})):
        with pytest.raises(iso.PlanError, match="hostile:work"):
            iso.Plan.from_json(bad, allow_functions=["functions_of_tests:ramp"])
    assert not hostile.exists()


def test_a_view_of_a_strangers_store_imports_nothing(
    store: iso.Store, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = iso.scan(pressure(store)).rewindow(100).map(iso.py(own.peaks))
    store.commit()
    store.save_plan("mine", plan)
    stranger = json.loads(
        json.dumps(dict(store.attrs[SAVED_PLANS])).replace("functions_of_tests:peaks", "hostile:work")
    )
    store.attrs[SAVED_PLANS] = {"mine": store.attrs[SAVED_PLANS]["mine"], "theirs": stranger["mine"]}
    for look in (
        lambda: store["theirs"],
        lambda: store.saved_plans["theirs"],
        lambda: store.saved_plans.open("theirs"),
    ):
        with pytest.raises(
            iso.PlanError, match=r"hostile:work.*saved_plans.open\('theirs', allow_functions=True\)"
        ) as caught:
            look()
        assert caught.value.code == "functions_not_allowed"
    assert "hostile:work" in store.saved_plans.texts()["theirs"]
    path = store.path
    part = store.saved_plans.open("mine", allow_functions=["functions_of_tests:peaks"])[0:1000]
    np.testing.assert_array_equal(part.values(), plan.collect()[:10])
    store.close()
    for line in (["info", str(path)], ["info", str(path), "--json"], ["verify", str(path)]):
        main(line)
    assert "hostile:work" in capsys.readouterr().out
    assert not hostile.exists()


def test_a_view_that_writes_is_refused_also_when_a_stranger_saved_it(store: iso.Store, tmp_path: Path) -> None:
    plan = iso.scan(pressure(store))
    store.commit()
    store.save_plan("v", plan)
    target = tmp_path / "precious"
    target.write_text("precious")
    writers: list[iso.Plan] = [
        plan.sink_wav(target),
        plan.sink_parquet(target),
        plan.sink_ipc(target),
        plan.send("udp://127.0.0.1:9"),
        plan.sink(store, "copy"),
    ]
    for one in writers:
        with pytest.raises(iso.PlanError, match="it would"):
            store.save_plan("w", one)
        store.attrs[SAVED_PLANS] = {"v": json.loads(one.to_json())}
        with pytest.raises(iso.PlanError, match="it would"):
            store["v"]
    assert target.read_text() == "precious"


def test_the_command_line_runs_functions_only_when_told_to(
    store: iso.Store, hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = saved(store)
    store.close()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(renamed(plan, "hostile:work")))
    for more in ([], ["--explain"], ["--store", str(store.path)], ["--allow-function", "functions_of_tests:peaks"]):
        assert main(["run", str(path), *more]) == 2
        said = capsys.readouterr().err
        assert "hostile:work" in said
        assert "--allow-functions" in said
        assert "allow_functions" not in said
    assert not hostile.exists()
    path.write_text(json.dumps(plan))
    assert main(["run", str(path), "--allow-functions"]) == 0
    one_by_one = [f"--allow-function=functions_of_tests:{name}" for name in ("rising", "peaks", "seen")]
    assert main(["run", str(path), *one_by_one]) == 0
    assert main(["run", str(path), *one_by_one[1:]]) == 2
    assert "functions_of_tests:rising" in capsys.readouterr().err


class Bomb:
    """What runs code where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.write_text, (self.mark, "unpickled")


def line(entry: dict[str, Any]) -> bytes:
    """An entry of a journal with its checksum (CRC-32C, bit by bit)."""
    text = json.dumps(entry, separators=(",", ":"))
    register = 0xFFFFFFFF
    for byte in text.encode():
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return f"{register ^ 0xFFFFFFFF:08x} {text}\n".encode()


def test_a_journal_is_text_that_is_never_unpickled(
    store: iso.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def plain(*_: Any) -> Any:
        ran.append("plain")
        return {"loudest": 7, "names": ["a", None, 1.5]}

    def other(*_: Any) -> Any:
        ran.append("other")
        return np.arange(3), Path("x")

    signal = pressure(store)
    journal = tmp_path / "journal"

    def run(*, resume: bool) -> Any:
        executor = iso.Executor(journal=journal)
        executor.add(iso.Tasklet(plain, [signal[:10]], name="plain"), iso.Tasklet(other, [signal[:10]], name="other"))
        return executor.run(resume=resume)

    run(resume=False)
    entries = [json.loads(one.split(b" ", 1)[1]) for one in journal.read_bytes().splitlines()]
    done = {one["done"]["name"]: one["done"] for one in entries if "done" in one}
    assert set(done) == {"plain"}  # what JSON cannot give back as it was is not kept
    assert line(next(one for one in entries if "done" in one)) in journal.read_bytes()
    # From here on nothing may be unpickled, and a stranger has written what would be.
    mark = tmp_path / "mark"
    bomb = pickle.dumps(Bomb(mark))
    bad = [bomb.decode("latin-1"), {"py/object": "os.system"}, zlib.compress(bomb).hex()]
    forged = [line({"done": {**done["plain"], "name": "other", "value": json.dumps(one)}}) for one in bad]
    with monkeypatch.context() as patch:
        for module in ("pickle", "_pickle"):
            for name in ("loads", "load", "Unpickler"):
                patch.setattr(sys.modules[module], name, None)
        for more in (b"", *forged, bomb, forged[0][:-5]):
            ran.clear()
            with journal.open("ab") as file:
                file.write(more)
            report = run(resume=True)
            assert ran == ["other"]
            assert report.values["plain"] == {"loudest": 7, "names": ["a", None, 1.5]}
    assert not mark.exists()


def feed(address: str, **options: Any) -> dict[str, Any]:
    """A saved plan over a feed, as somebody may write it."""
    common = {"name": "", "unit": "", "reorder": 0.05, "buffer": 1 << 20, "step": 0.01, "silence": 0.1}
    if not address.startswith(("udp", "tcp")):
        source: dict[str, Any] = {"listen": address, "driven": {**common, **options}}
    else:
        own = {"dtype": "<i2", "rate": "100", "framing": "isochrony", "max_frame": 1 << 20, "anyone": True}
        source = {"listen": address, **own, **common, **options}
    plan: dict[str, Any] = json.loads(iso.scan(iso.listen("udp://127.0.0.1:0", dtype="i2", rate=100)).to_json())
    (node,) = (node for node in plan["nodes"] if node["op"] == "scan")
    node["of"] = source
    return plan


def test_reading_a_plan_opens_no_sockets() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plan = iso.Plan.from_json(feed(f"tcp://0.0.0.0:{port}"))
    with socket.socket() as other:
        # The port is free.
        other.bind(("127.0.0.1", port))
    assert len(plan.collect()) == 0


def test_reading_a_plan_asks_no_server() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.1)
        address = f"seedlink://127.0.0.1:{server.getsockname()[1]}/XX.TEST..BHZ"
        with pytest.raises(iso.PlanError, match="has no dtype"):
            iso.Plan.from_json(feed(address, timeout=1e9))
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("source", ["listen", "follow"])
def test_a_view_over_a_feed_is_refused(store: iso.Store, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    signal = pressure(store)
    plan = iso.scan(signal).rewindow(100)
    store.save_plan("seen", plan)
    store.commit()
    views = dict(store.attrs[SAVED_PLANS])
    followed = json.loads(iso.scan(iso.follow(signal, silence=0.1)).rewindow(100).to_json())
    views["seen"] = followed if source == "follow" else feed("tcp://0.0.0.0:9")
    store.attrs[SAVED_PLANS] = views
    store.commit()
    path = str(store.path)
    with pytest.raises(iso.PlanError, match=f"would {source}"):
        store["seen"]
    other = iso.Plan.from_json(views["seen"], store=store)
    with pytest.raises(iso.PlanError, match=f"would {source}"):
        store.save_plan("other", other)
    store.close()
    assert main(["info", path]) == 0
    assert f"would {source}" in capsys.readouterr().out
