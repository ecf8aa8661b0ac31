"""Functions that Numba compiles: each once, and anew where what it takes for a constant has changed."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import isochrony as iso
from isochrony.functions.compiling import compiled

pytest.importorskip("numba")

LIMIT: Any = 10
SETTINGS = types.ModuleType("settings")
TABLE = np.array([1.0, 2.0])


def above(rows: npt.NDArray[Any], out: npt.NDArray[Any]) -> int:
    for k in range(len(rows)):
        out[k] = rows[k, 0] > LIMIT
    return 0


def of_module(rows: npt.NDArray[Any], out: npt.NDArray[Any]) -> int:
    for k in range(len(rows)):
        out[k] = rows[k, 0] > SETTINGS.limit
    return 0


def of_table(rows: npt.NDArray[Any], out: npt.NDArray[Any]) -> int:
    for k in range(len(rows)):
        out[k] = rows[k, 0] > TABLE[0]
    return 0


def counted(function: Any) -> int:
    return int(iso.scan(np.arange(100.0), rate=10).rewindow(1).filter(iso.jit(function)).count().collect())


def test_a_changed_global_is_seen_by_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted(above) == 89
    windows = iso.scan(np.arange(100.0), rate=10).rewindow(1)
    before = windows.filter(iso.jit(above)).count()
    monkeypatch.setitem(globals(), "LIMIT", 20)
    assert counted(above) == 79
    # A plan keeps what it was built with.
    assert before.collect() == 89
    monkeypatch.setitem(globals(), "LIMIT", 20.5)
    assert counted(above) == 79
    monkeypatch.setitem(globals(), "LIMIT", float("nan"))
    assert counted(above) == 0


def test_a_changed_attribute_of_a_module_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "limit", 10, raising=False)
    assert counted(of_module) == 89
    monkeypatch.setattr(SETTINGS, "limit", 20)
    assert counted(of_module) == 79


def test_an_array_that_was_written_to_is_seen() -> None:
    assert counted(of_table) == 98
    TABLE[0] = 50
    assert counted(of_table) == 49


def test_a_changed_enclosed_variable_is_seen() -> None:
    limit = 10

    def enclosed(rows: npt.NDArray[Any], out: npt.NDArray[Any]) -> int:
        for k in range(len(rows)):
            out[k] = rows[k, 0] > limit
        return 0

    assert counted(enclosed) == 89
    limit = 20
    assert counted(enclosed) == 79


def test_a_function_whose_constants_are_the_same_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled(above, "float64", "bool", 1)
    assert compiled(above, "float64", "bool", 1) is first
    monkeypatch.setitem(globals(), "LIMIT", 77)
    other = compiled(above, "float64", "bool", 1)
    assert other is not first
    assert compiled(above, "float64", "bool", 1) is other
