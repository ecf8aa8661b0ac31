"""The names at the top of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import isochrony as iso


def test_every_public_name_loads_and_is_listed() -> None:
    for name in iso.__all__:
        assert getattr(iso, name) is not None
    assert set(iso.__all__) <= set(dir(iso)) <= {*iso.__all__, "__version__"}
    assert list(iso.__all__) == sorted(iso.__all__)


def test_a_store_is_verified_from_the_top_of_the_package(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        store.create("a", dtype="i2", rate=10).append(range(100))
    report = iso.verify(tmp_path / "a.iso")
    assert (report["signals"], report["damage"]) == (1, [])


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = "import sys, isochrony; print(*(n for n in ('numpy', 'isochrony._native') if n in sys.modules))"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert said.stdout.split() == []
