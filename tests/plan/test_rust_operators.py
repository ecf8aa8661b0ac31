"""Operators of another Rust crate: `examples/rust_operators` is an extension module with one of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USE = """
import sys
import numpy as np, isochrony as iso
from isochrony.plan.declarations import docstring, declared
assert iso.scan.__module__ == "isochrony.plan.sources" and sys.modules["isochrony._native"].__name__ == "_native"
samples = np.tile(np.array([1, 1.5, 90, 1.25], "f4"), 1000)
plan = iso.scan(samples, rate=100).despike(10)
assert plan.collect().tolist() == [1.0, 1.5, 1.5, 1.25] * 1000, plan.collect()
assert str(plan) == "scan(array) -> despike(limit=10.0)"
assert plan.rewindow(4).stats("max").collect()["max"].max() == 1.5
for wrong, error in (("x", iso.OptionError), (-1, iso.PlanError)):
    try:
        iso.scan(samples, rate=100).despike(wrong)
    except error:
        continue
    raise AssertionError(wrong)
# Saved plans, and worker processes, which are given blocks of what it made.
store = iso.open(sys.argv[1] + "/a.iso", "x")
_ = store.create("p", dtype="f4", rate=100).append(samples), store.commit()
saved = iso.scan(store["p"]).despike(10).to_json()
assert iso.Plan.from_json(saved, store=store).collect().max() == 1.5
peaks = plan.rewindow(4).map(iso.py(lambda block: block.max(axis=1)))
assert peaks.collect(workers=2).max() == 1.5
import doctest
test = doctest.DocTestParser().get_doctest(iso.Plan.despike.__doc__, {}, "despike", None, None)
assert test.examples and doctest.DocTestRunner(verbose=False).run(test).failed == 0
print(len(declared(added=True)), "more")
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's extension module."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target / "tested/libdespike.so"
    if not built.exists():
        assert os.environ.get("CI") != "true", f"{built} is not there; make build-example builds it"
        pytest.skip(f"{built} is not there; make build-example builds it")
    folder = tmp_path_factory.mktemp("extension")
    shutil.copy(built, folder / "despike.abi3.so")
    return folder


def run(extension: Path, native: str, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(extension), "ISOCHRONY_NATIVE": native}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_an_operator_of_another_crate_is_a_method_of_plans(extension: Path, tmp_path: Path) -> None:
    done = run(extension, "despike", USE, str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "1 more\n"), done.stderr


@pytest.mark.parametrize(
    ("native", "says"),
    [
        ("nowhere", "set ISOCHRONY_NATIVE to the name of a module that Python can import"),
        ("json", "json has no _native"),
    ],
)
def test_a_module_without_the_native_half_is_refused(tmp_path: Path, native: str, says: str) -> None:
    done = run(tmp_path, native, "import isochrony")
    assert done.returncode == 1
    assert "ISOCHRONY_NATIVE" in done.stderr and says in done.stderr
