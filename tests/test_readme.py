"""The example of README.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import zarr

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs_and_says_what_it_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    signal, selection = names["sig"], names["sel"]
    # The gap: 4.000128 s at 2000 Hz, on the index to the nearest sample.
    assert [len(segment) for segment in selection.segments] == [2000, 2000]  # type: ignore[attr-defined]
    assert len(signal.gaps) == 1  # type: ignore[arg-type, attr-defined]
    assert signal.gaps[0].length == 8000  # type: ignore[attr-defined]
    assert "mean (kPa)" in capsys.readouterr().out
    stored = zarr.open("water.iso")["stn_10/pressure/data"]
    assert np.array_equal(stored[:6000], names["x"])  # type: ignore[index, arg-type]
