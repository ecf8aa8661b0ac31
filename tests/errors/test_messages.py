"""Messages that show what was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

RED: Any = "\x1b[31m"
ROOT = Path(__file__).parents[2]


def error_texts() -> Iterator[tuple[str, str]]:
    """Places and texts of the messages of the crates' errors."""
    for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        source = path.read_text("utf-8")
        for found in re.finditer(r'#\[error\(\s*"((?:[^"\\]|\\.)*)"', source, re.DOTALL):
            line = source.count("\n", 0, found.start()) + 1
            # A backslash at the end of a line drops it and the next line's indentation.
            yield f"{path.relative_to(ROOT)}:{line}", re.sub(r"\\\n\s*", "", found[1])


def test_messages_are_plain_sentences() -> None:
    texts = dict(error_texts())
    assert len(texts) > 300
    for place, text in texts.items():
        assert not re.search(r"\s{2}|\n", text), f"{place}: a run of spaces: {text}"
        assert not re.search(r"(?<!there )\b(is|are) no (?!longer\b)", text), f"{place}: say that it is not one: {text}"


def test_control_characters_of_arguments_are_escapes_in_messages(tmp_path: Path) -> None:
    with iso.open(tmp_path / "a.iso", "x") as store:
        signal = store.create("x", dtype="i2", rate=100, start="2026-01-01")
        signal.append(np.arange(100, dtype="i2"))
        store.commit()
        plan = iso.scan(signal)
        calls: dict[str, Callable[[], Any]] = {
            "open": lambda: iso.open(tmp_path / f"{RED}.iso"),
            "mode": lambda: iso.open(tmp_path / "a.iso", RED),
            "signal": lambda: store[RED],
            "create": lambda: store.create(RED, dtype="i2", rate=1),
            "rename": lambda: store.rename("x", RED),
            "delete": lambda: store.delete(RED),
            "rate": lambda: store.create("y", dtype="i2", rate=RED),
            "io": lambda: iso.scan(signal, io=RED).run(),
            "wav": lambda: plan.sink_wav(tmp_path / "none" / f"{RED}.wav").run(),
            "parquet": lambda: plan.sink_parquet(tmp_path / "none" / f"{RED}.parquet").run(),
            "band": lambda: plan.fir(taps=5, band=RED, cutoff_hz=1),
            "listen": lambda: iso.listen(RED, dtype="i2", rate=1),
            "time": lambda: iso.Time(RED),
            "processor": lambda: iso.nbuffer(b"a", RED),
            "source": lambda: iso.nbuffer(tmp_path / RED, "sha256"),
        }
        for name, call in calls.items():
            with pytest.raises((iso.IsochronyError, OSError)) as caught:
                call()
            assert "\x1b" not in str(caught.value), name
            assert "[31m" in str(caught.value), name
