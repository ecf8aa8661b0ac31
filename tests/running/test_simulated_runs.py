"""Simulated and modelled throughput, as `bench/tune_simulated.py` asks for it: plans whose times are known exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isochrony._native import _simulated_runs

MILLISECONDS = (1.0, 2.0, 1.0)
ITEMS = 400


def request(**changed: Any) -> str:
    stages: list[dict[str, Any]] = [
        {"name": f"stage {number}", "service": {"constant": {"mean_s": 1e-3 * time}}, "max_replicas": 1}
        for number, time in enumerate(MILLISECONDS)
    ]
    stages[0]["source"] = {"finite": {"items": ITEMS}}
    stages[1]["max_replicas"] = 2
    links = [{"from": at, "to": at + 1, "gain": 1.0, "item_bytes": 1000} for at in (0, 1)]
    configurations = [
        {"workers": workers, "replicas": [1, replicas, 1], "link_bytes": [1 << 20] * 2}
        for workers, replicas in ((1, 1), (3, 1), (4, 2))
    ]
    whole = {
        "plan": {"stages": stages, "links": links},
        "machine": {"cores": 4, "hand_over_s": 1e-6},
        "seed": 1,
        "configurations": configurations,
    }
    return json.dumps(whole | changed)


def test_times_and_rates_are_those_of_the_busiest_stage() -> None:
    # One worker does everything; three are limited by the second stage, which two replicas halve.
    for (seconds, rate), each_s in zip(_simulated_runs(request()), (4e-3, 2e-3, 1e-3), strict=True):
        assert rate == pytest.approx(1 / each_s)
        assert seconds == pytest.approx(ITEMS * each_s, rel=0.03)
        # Hand-overs and the first items cost something.
        assert seconds > ITEMS * each_s


def test_what_is_no_request_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="unknown field `colour`"):
        _simulated_runs(request(colour="red"))
    with pytest.raises(ValueError, match=r"replicas\[1\]=3"):
        _simulated_runs(request(configurations=[{"workers": 1, "replicas": [1, 3, 1], "link_bytes": [1, 1]}]))
