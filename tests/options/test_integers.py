"""Integers that do not fit where they are given are an error of ours that says what does."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

HUGE = 1 << 200
STUBS = Path(str(iso.__file__)).with_name("_native.pyi")


def calls(store: iso.Store) -> dict[str, Callable[[int], Any]]:
    """A call of every native function of users that takes an integer, by class, name and argument."""
    signal = store.create("x", dtype="i2", rate=100, start="2026-01-01")
    signal.append(np.arange(1000, dtype="i2"))
    store.commit()
    segment = signal[:].segments[0]
    listen = {"dtype": "i2", "rate": 100}
    return {
        "Time.from_ns ns": iso.Time.from_ns,
        "Time.from_ns frac": lambda n: iso.Time.from_ns(0, n),
        "Segment.__new__ start": lambda n: iso.Segment(np.zeros(3), n),
        "Segment.from_arrow start": lambda n: iso.Segment.from_arrow(segment, n),
        "Segment.subseg start": lambda n: segment.subseg(n, 3),
        "Segment.subseg end": lambda n: segment.subseg(0, n),
        "Events.add start": lambda n: signal.events.add("x", n),
        "Events.add end": lambda n: signal.events.add("x", 3, n),
        "Events.remove id": signal.events.remove,
        "Signal.view pixels": lambda n: signal.view(pixels=n),
        "Signal.append_gap samples": lambda n: signal.append_gap(samples=n),
        "Signal.mark_invalid start": lambda n: signal.mark_invalid(n, n + 1),
        "Signal.write index": lambda n: signal.write(n, [1]),
        "Signal.reserve samples": signal.reserve,
        "Signal.correct_clock run": lambda n: signal.correct_clock([(0, "2020-01-01"), (3, "2020-01-02")], run=n),
        "Signal.fill index": lambda n: signal.fill(n, [1]),
        "NativeListener.__new__ buffer": lambda n: iso.listen("udp://127.0.0.1:0", buffer=n, **listen),  # type: ignore[arg-type]
        "NativeListener.__new__ max_frame": lambda n: iso.listen("tcp://127.0.0.1:0", max_frame=n, **listen),  # type: ignore[arg-type]
        "NativePlan.send frame": lambda n: iso.scan(signal).send("udp://127.0.0.1:9", frame=n),
        "NativePlan.send seed": lambda n: iso.scan(signal).send("udp://127.0.0.1:9", seed=n),
        "NativePlan.scan segment": lambda n: iso.scan(signal, segment=n),
        "NativePlan.run memory": lambda n: iso.scan(signal).run(memory=n),
        "NativePlan.run workers": lambda n: iso.scan(signal).run(workers=n),
        "index_of": lambda n: signal.index_of(n),  # type: ignore[call-overload]
        "time_of": signal.time_of,
        "index": lambda n: signal[n],
        "rate": lambda n: store.create("y", dtype="i2", rate=n),
        "append_gap seconds": lambda n: signal.append_gap(seconds=n),
    }


def test_an_integer_that_does_not_fit_is_an_error_of_ours(store: iso.Store) -> None:
    for name, call in calls(store).items():
        for number in (HUGE, -HUGE):
            with pytest.raises(iso.IsochronyError) as caught:
                call(number)
            assert len(str(caught.value)) > 20, name
    with pytest.raises(iso.OptionError, match=r"is beyond .*give a whole number from -9223372036854775808 to 9223372"):
        store["x"].append_gap(samples=1 << 64)
    with pytest.raises(iso.OptionError, match=r"-1 is beyond .*give a whole number from 0 to 18446744073709551615"):
        store["x"].events.remove(-1)


def test_every_integer_of_a_native_class_is_tested_here(store: iso.Store) -> None:
    tested = {name.split()[0] + " " + name.split()[-1] for name in calls(store)}
    for one in ast.parse(STUBS.read_text("utf-8")).body:
        # What begins with Native is called by Python modules, which check first.
        if not isinstance(one, ast.ClassDef) or one.name.startswith(("_", "Native")) or one.name == "Ingest":
            continue
        for method in one.body:
            if not isinstance(method, ast.FunctionDef) or (method.name.startswith("_") and method.name != "__new__"):
                continue
            for argument in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs):
                if argument.annotation is not None and "int" in ast.unparse(argument.annotation).split(" "):
                    assert f"{one.name}.{method.name} {argument.arg}" in tested
