"""docs/timebases.md, run as it stands, against what was put in."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso

PAGE = Path(__file__).parents[2] / "docs/timebases.md"


def test_the_page_corrects_a_clock_in_three_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        exec(compile(block, str(PAGE), "exec"), names)
    noon = names["noon"]
    assert abs(noon - iso.Time("2010-03-01T12:00") + Fraction(864, 10_000)) < Fraction(1, 10**9)
    assert 1000 <= noon.uncertainty_ns < 1001
    assert names["skew"].fit.shape == "line"
    assert names["gps"].fit.outliers == [700]
    assert 15_000 < names["gps"].fit.residual < 25_000
    obs = names["obs"]
    assert [one.removed for one in obs.clock_corrections] == [False, False, True]
    expected = iso.Time("2010-03-01") + 720 * 59.99988
    assert abs(obs.time_of(4_320_000) - expected) < Fraction(10, 10**6)
    assert obs[names["minutes"][2:3]].ranges == [(500 + 2 * 6000, 500 + 3 * 6000)]
    names["store"].close()
