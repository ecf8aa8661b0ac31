"""What was written while the package was flat still loads: pickles, and journals that tell functions apart.

`earlier_versions/flat_package.json` was written by that version: pickles of what users hand to other processes, digests
of `identity`, and the public names of every module.
"""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony._former_paths import FORMER_PATHS
from isochrony.tasklets.identity import identity

WRITTEN = json.loads((Path(__file__).parent / "earlier_versions/flat_package.json").read_text(encoding="utf-8"))
MODULES: dict[str, list[str]] = WRITTEN["modules"]
SCAN = iso.scan(np.arange(12.0), rate=100)


def unpickled(name: str) -> Any:
    return pickle.loads(base64.b64decode(WRITTEN["pickles"][name]))


def test_plans_load_and_compute_what_they_did() -> None:
    plan = unpickled("plan")
    now = SCAN.lowpass(10).rewindow(4).filter(lambda s: s.std() > 0.5).map(lambda s: s - s.mean())
    assert type(plan) is iso.Plan and str(plan) == str(now)
    assert plan.collect().shape == (2, 4)
    np.testing.assert_array_equal(plan.collect(), now.collect())
    assert unpickled("count").collect() == 3
    np.testing.assert_array_equal(unpickled("python function").collect(), -np.arange(12.0).reshape(3, 4))


def test_values_load() -> None:
    table = iso.Table({"start": np.arange(3), "mean": np.array([0.5, 1.5, 2.5])}, {"mean": "kPa"})
    assert unpickled("table") == table and type(unpickled("table")) is iso.Table
    assert unpickled("rate") == iso.Rate(44_100_000, 1001)
    assert unpickled("report").results["sha256"].startswith("ba7816bf")
    assert type(unpickled("run result")) is type(SCAN.count().run())


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("plan error", iso.PlanError, "1000"),
        ("option error", iso.OptionError, "0"),
        ("store error", iso.StoreError, "/nowhere.iso"),
        ("usage error", iso.UsageError, "name a folder"),
    ],
)
def test_errors_load(name: str, kind: type[Exception], said: str) -> None:
    error = unpickled(name)
    assert isinstance(error, kind) and said in str(error)


def test_classes_and_functions_are_the_public_ones() -> None:
    named = [unpickled(f"{one.lower()} class") for one in ("Configuration", "Block", "Executor", "Listener", "Control")]
    assert named == [iso.Configuration, iso.Block, iso.Executor, iso.Listener, iso.Control]
    assert unpickled("followed class") is iso.Followed
    assert [one.__name__ for one in unpickled("functions")] == [
        "scan", "run", "collect", "generate", "from_obspy", "follow", "listen", "py", "jit", "nbuffer", "taper_factors",
        "import_files", "now",
    ]  # fmt: skip
    assert all(getattr(iso, one.__name__) is one for one in unpickled("functions"))


@pytest.mark.parametrize("module", MODULES)
def test_a_former_path_has_its_public_names(module: str) -> None:
    found = import_module(f"isochrony.{module}")
    assert [name for name in MODULES[module] if not hasattr(found, name)] == []


def test_a_former_path_gives_the_module_itself_whichever_is_imported_first() -> None:
    assert FORMER_PATHS.keys() <= MODULES.keys()
    for order in ("former, current", "current, former"):
        script = (
            "import importlib, json, sys; pairs = json.loads(sys.argv[1])\n"
            f"for former, current in pairs:\n    for one in ({order}): importlib.import_module(one)\n"
            "    assert sys.modules[former] is sys.modules[current], former\n"
            "    assert sys.modules[current].__spec__.name == current, current\n"
        )
        pairs = json.dumps([[f"isochrony.{one}" for one in pair] for pair in FORMER_PATHS.items()])
        subprocess.run([sys.executable, "-c", script, pairs], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("table", unpickled("table")),
        ("plan class", iso.Plan),
        ("table class", iso.Table),
        ("error class", iso.PlanError),
        ("rate", unpickled("rate")),
    ],
)
def test_a_journal_still_knows_what_tasklets_were_given(name: str, value: object) -> None:
    assert identity(value) == WRITTEN["identities"][name]
