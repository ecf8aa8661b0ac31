"""Every parameter that names a dtype refuses what names none, with an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import isochrony as iso

ODD: list[Any] = ["loud", "0001-01-01", "(1,)(", "2**99i", "(", "f4,", "f4,f4", "(3,)f4", "", object(), 3, 3.5, {}, [1]]
ODD += [None, np.dtype([("a", "f4")]), np.dtype((np.float32, 3)), "\x1b[31m", "x" * 10_000]


def calls(store: iso.Store) -> dict[str, Callable[[Any], Any]]:
    """A call of each function with the parameter."""
    windows = iso.scan(np.arange(8.0), rate=10).rewindow(4)
    port = iso.Port("samples", dtype="float64")
    return {
        "create": lambda dtype: store.create("x", dtype=dtype, rate=10),
        "scratch": lambda dtype: store.scratch(dtype=dtype, rate=10),
        "listen": lambda dtype: iso.listen("udp://127.0.0.1:0", dtype=dtype, rate=10),
        "listen to audio": lambda dtype: iso.listen("audio:", dtype=dtype),
        "generate": lambda dtype: iso.generate(list, dtype=dtype, rate=10),
        "py": lambda dtype: windows.map(iso.py(len, dtype=dtype)),
        "jit": lambda dtype: windows.map(iso.jit(len, dtype=dtype)),
        "astype": lambda dtype: windows.map(lambda s: s.astype(dtype)),
        "Port.of": port.of,
        "Port.rows": lambda dtype: port.rows(field=dtype),
    }


def test_what_names_no_dtype_is_an_error_that_says_what_does(store: iso.Store) -> None:
    for name, call in calls(store).items():
        for odd in ODD:
            if odd is None and name not in ("create", "scratch", "astype"):
                # Elsewhere it means the default.
                continue
            with pytest.raises(iso.IsochronyError) as caught:
                call(odd)
            text = str(caught.value)
            assert "int16" in text or "floating" in text or "float32" in text, f"{name}: {text}"
            assert "\x1b" not in text, name
            assert len(text) < 1000, name


def test_spellings_of_numpy_are_dtypes(store: iso.Store) -> None:
    for number, dtype in enumerate(["i2", "<i2", np.int16, np.dtype("int16"), "short"]):
        assert store.create(f"a{number}", dtype=dtype, rate=10).dtype == np.dtype("i2")
        assert iso.generate(list, dtype=dtype, rate=10).collect().dtype == np.dtype("i2")
        iso.listen("udp://127.0.0.1:0", dtype=dtype, rate=10)
