"""Ranges of operators' parameters: the help, what is refused when a plan is built, and the messages agree."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso
from isochrony.plan.declarations import declared, legal_values, others

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generate  # noqa: E402 - a script beside the package

DECLARED = {one["name"]: one for one in declared()}
NUMERIC = [
    pytest.param(name, param, id=f"{name}-{param['name']}")
    for name, one in DECLARED.items()
    for param in one["params"]
    if param["kind"].startswith(("integer", "number"))
]

SAMPLES = iso.scan(np.arange(4096, dtype="f8"), rate=100)
WINDOWS = SAMPLES.rewindow(64)
PACKETS = iso.scan(np.zeros(4096, "u1"), rate=100).rewindow(64)
ROWS = WINDOWS.stats("max")

#: Plans to which operators are added; samples if not named.
INPUTS = {
    **dict.fromkeys(("delay", "delayed", "gcc_phat", "haar", "quantile", "ranges", "spectral_score"), WINDOWS),
    **dict.fromkeys(("trim_peak", "welch", "xcorr"), WINDOWS),
    **dict.fromkeys(("combine_packets", "error_correlation"), PACKETS),
    **dict.fromkeys(("group_by", "join"), ROWS),
}
#: What operators need beside the parameter under test.
NEEDED: dict[str, dict[str, Any]] = {
    "between": {"start": 0, "end": 100},
    "ca_cfar": {"pfa": 1e-3},
    "delay": {"max_lag": 5},
    "gcc_phat": {"max_lag": 5},
    "group_by": {"keys": ["max"]},
    "haar": {"levels": 1},
    "iir": {"kind": "butter", "band": "lowpass", "cutoff_hz": 10},
    "notch": {"hz": 10, "q": 30},
    "resample": {"up": 2},
    "rewindow": {"window": 8},
    "running_quantile": {"window": 1, "q": 0.5},
    "stalta": {"sta": 0.1, "lta": 1},
    "stream_envelope": {"low_hz": 10},
    "triggers": {"on": 1},
    "welch": {"nfft": 8},
    "xcorr": {"max_lag": 5},
    "zero_phase": {"kind": "butter", "band": "lowpass", "cutoff_hz": 10},
}
KAISER = {"band": "lowpass", "cutoff_hz": 10, "window": "kaiser"}
EQUIRIPPLE = {"taps": 11, "edges_hz": [0, 10, 20, 50], "gains": [1, 0]}
#: The same where a parameter needs others.
NEEDED_BY: dict[tuple[str, str], dict[str, Any]] = {
    ("ca_cfar", "degrees"): {"pfa": 1e-3, "training": 64},
    ("cfar", "memory"): {"deviations": 6},
    ("cfar", "timeout"): {"deviations": 6},
    ("delay", "band_hz"): {"max_lag": 5, "method": "gcc_phat"},
    ("delay", "regularise"): {"max_lag": 5, "method": "gcc_phat"},
    ("fir", "attenuation_db"): {**KAISER, "taps": 11},
    ("fir", "cutoff_hz"): {"band": "lowpass", "taps": 11},
    ("fir", "edges_hz"): EQUIRIPPLE,
    ("fir", "gains"): EQUIRIPPLE,
    ("fir", "weights"): EQUIRIPPLE,
    ("fir", "width_hz"): {**KAISER, "attenuation_db": 60},
    ("group_by", "period"): {"keys": [], "every": 1},
    ("iir", "attenuation_db"): {"kind": "cheby2", "band": "lowpass", "cutoff_hz": 10},
    ("iir", "ripple_db"): {"kind": "cheby1", "band": "lowpass", "cutoff_hz": 10},
    ("resample", "down"): {},
    ("resample", "rate_hz"): {},
    ("zero_phase", "attenuation_db"): {"kind": "cheby2", "band": "lowpass", "cutoff_hz": 10},
    ("zero_phase", "ripple_db"): {"kind": "cheby1", "band": "lowpass", "cutoff_hz": 10},
}
#: What follows a value in a list, where one value alone means something else.
LISTS: dict[tuple[str, str], list[float]] = {
    ("combine_packets", "clusters"): [0],
    ("combine_packets", "error_rates"): [0.1],
    ("delay", "band_hz"): [40.0],
    ("fir", "edges_hz"): [10, 20, 50],
    ("fir", "gains"): [0],
    ("fir", "taps"): [1.0],
    ("fir", "weights"): [1.0],
    ("gcc_phat", "band_hz"): [40.0],
    ("spectral_score", "band_hz"): [40.0],
}
#: Typical values, where neither a default nor a value that others need is one.
TYPICAL: dict[tuple[str, str], float] = {
    ("ca_cfar", "order"): 0.75,
    ("cfar", "deviations"): 6,
    ("cfar", "pfa"): 1e-3,
    ("combine_packets", "clusters"): 0,
    ("combine_packets", "error_rates"): 0.01,
    ("delay", "band_hz"): 5,
    ("fir", "attenuation_db"): 60,
    ("fir", "cutoff_hz"): 10,
    ("fir", "edges_hz"): 0,
    ("fir", "gains"): 1,
    ("fir", "taps"): 0.5,
    ("fir", "weights"): 2,
    ("fir", "width_hz"): 5,
    ("gcc_phat", "band_hz"): 5,
    ("group_by", "every"): 1,
    ("group_by", "period"): 2,
    ("group_by", "session"): 1,
    ("iir", "attenuation_db"): 60,
    ("iir", "ripple_db"): 0.5,
    ("join", "tolerance"): 1,
    ("limit", "count"): 3,
    ("quantile", "at"): 0.5,
    ("resample", "down"): 3,
    ("resample", "rate_hz"): 50,
    ("rewindow", "hop"): 4,
    ("running_mean", "window"): 1,
    ("running_rms", "window"): 1,
    ("spectral_score", "band_hz"): 5,
    ("triggers", "off"): 0.5,
    ("welch", "hop"): 4,
    ("zero_phase", "attenuation_db"): 60,
    ("zero_phase", "ripple_db"): 0.5,
}
BAND = r"two frequencies, the lower first, from 0 to 50 Hz"
FILTER = r"below half the rate, 50 Hz|has a pole on or outside the unit circle|cutoff_hz=settling after \d+ samples"
IN_SAMPLES = r"from 0\.005 s \(half a sample\) to \d+\.\d+ s \(\d+ samples\)"
RATIO = r"a ratio from 1/1048576 to 1048576|its ratio to 100 Hz are fractions of 63-bit numbers"
WINDOW = r"the window's 64\b|for windows of 64 samples"
#: Why a value within the range may be refused: it does not fit the input or another parameter.
OTHER_REASONS: dict[tuple[str, str], str] = {
    **dict.fromkeys((("delay", "band_hz"), ("gcc_phat", "band_hz"), ("spectral_score", "band_hz")), BAND),
    **dict.fromkeys((("delay", "max_lag"), ("gcc_phat", "max_lag"), ("xcorr", "max_lag")), WINDOW),
    **dict.fromkeys((("haar", "levels"), ("welch", "nfft")), WINDOW),
    **dict.fromkeys(
        (("running_mean", "window"), ("running_quantile", "window"), ("running_rms", "window")), IN_SAMPLES
    ),
    **dict.fromkeys((("resample", "down"), ("resample", "rate_hz"), ("resample", "up")), RATIO),
    **dict.fromkeys((("group_by", name) for name in ("every", "period", "session")), "at least one sample"),
    **dict.fromkeys(((name, "cutoff_hz") for name in ("iir", "zero_phase")), FILTER),
    **dict.fromkeys(((name, "ripple_db") for name in ("iir", "zero_phase")), FILTER),
    ("ca_cfar", "guard"): "of this machine's memory",
    ("ca_cfar", "training"): "of this machine's memory",
    ("fir", "cutoff_hz"): r"below half the rate, 50 Hz|taps=NaN must be finite",
    ("fir", "edges_hz"): "ascending frequencies from 0 to half the rate, 50 Hz",
    ("fir", "weights"): "no equiripple filter of 11 taps was found",
    ("fir", "width_hz"): "below half the rate, 50 Hz|wide enough for at most 1048576 taps",
    ("notch", "hz"): FILTER,
    ("notch", "q"): rf"above 0\.2, so that the band|{FILTER}",
    ("stalta", "lta"): rf"{IN_SAMPLES}|longer than sta=",
    ("stalta", "sta"): rf"{IN_SAMPLES}|longer than sta=",
    ("stream_envelope", "low_hz"): "below a quarter of the rate, 25 Hz|wide enough for at most 1048576 taps",
    ("triggers", "off"): "at most on=1",
    ("zero_phase", "attenuation_db"): FILTER,
}


@dataclass(frozen=True)
class Bound:
    """A bound as the help states it."""

    number: float
    is_open: bool


def written(number: str) -> float:
    """A number as the help writes it: 1e-6, 2^40, 2^52 - 1."""
    power = re.fullmatch(r"2\^(\d+)( - 1)?", number)
    return float(number) if power is None else float(2 ** int(power[1]) - bool(power[2]))


def stated(text: str) -> tuple[Bound | None, Bound | None]:
    """The bounds that the help states."""
    number = r"(-?[\d.]+(?:e-?\d+)?(?:\^\d+(?: - 1)?)?)"
    low = re.search(rf"(from|above) {number}", text)
    high = re.search(rf"(to|at most|below|to below) {number}", text)
    return (
        low and Bound(written(low[2]), low[1] == "above"),
        high and Bound(written(high[2]), high[1].endswith("below")),
    )


def beside(number: float, direction: float, whole: bool) -> float:
    """The nearest other number that the engine tells apart."""
    if whole:
        return int(number) + int(direction) * max(1, int(math.ulp(number)))
    return math.nextafter(number, direction * math.inf)


def tried(param: dict[str, Any]) -> list[tuple[float, bool]]:
    """Each bound, what is beside it and far from it, and whether the help says that it is legal."""
    whole = param["kind"].startswith("integer")
    low, high = stated(legal_values(param))
    values: list[tuple[float, bool]] = []
    for bound, outwards in ((low, -1.0), (high, 1.0)):
        if bound is not None:
            number = int(bound.number) if whole else bound.number
            values.append((number, not bound.is_open))
            values.append((beside(number, -outwards, whole), True))
            values.append((beside(number, outwards, whole), False))
            values.append((number + int(outwards * max(1000, abs(number) / 1024)), False))
    if high is None:
        values.append((2**40 if whole else 1e300, True))
    if low is None:
        values.append((-(2**40) if whole else -1e300, True))
    # Those that 64 bits do not hold are no numbers at all.
    return [(value, legal) for value, legal in values if not whole or -(1 << 63) <= value < 1 << 63]


def given(name: str, param: dict[str, Any], value: float) -> dict[str, Any]:
    """Arguments with a value of a parameter."""
    own = param["name"]
    rest = LISTS.get((name, own))
    needed = NEEDED_BY.get((name, own), NEEDED.get(name, {}))
    return {**needed, own: value if rest is None else [value, *rest]}


def build(name: str, arguments: dict[str, Any]) -> iso.Plan:
    """Adds an operator as the engine checks it, without the checks of Python's methods."""
    plan = INPUTS.get(name, SAMPLES)
    count = DECLARED[name]["inputs"]["least"] - 1
    second = name == "combine_packets"
    return plan._then(name, tuple(plan for _ in range(count + second)), **arguments)


@pytest.mark.parametrize(("name", "param"), NUMERIC)
def test_what_the_help_says_is_what_the_engine_refuses(name: str, param: dict[str, Any]) -> None:
    own = param["name"]
    for value, is_legal in tried(param):
        arguments = given(name, param, value)
        try:
            build(name, arguments)
        except iso.PlanError as error:
            message = str(error)
        else:
            assert is_legal, f"{own}={value} is accepted"
            continue
        if is_legal:
            reason = OTHER_REASONS.get((name, own))
            assert reason is not None and re.search(reason, message), message
            assert not re.search(rf"must be an? [\w ]+ {re.escape(param['legal'])}[ ,;]", message) or not param["legal"]
        else:
            refused = re.fullmatch(rf"{name}: {own}=(\S+) must be (.+); change {own}", message)
            assert refused is not None, message
            assert json.loads(refused[1]) == pytest.approx(arguments[own], rel=1e-15, abs=0)
            assert re.search(rf"(?<!\S){re.escape(param['legal'])}(?![\w.^])", refused[2]), message


@pytest.mark.parametrize(("name", "param"), NUMERIC)
def test_a_typical_value_is_accepted(name: str, param: dict[str, Any]) -> None:
    own = param["name"]
    needed = NEEDED_BY.get((name, own), NEEDED.get(name, {}))
    default = param["default"] if isinstance(param["default"], int | float) else None
    value = TYPICAL.get((name, own), needed.get(own, default))
    assert value is not None, "needs a typical value"
    build(name, given(name, param, value))


METHODS = [one for one in NUMERIC if one.values[0] not in generate.BY_HAND | generate.INTERNAL]


@pytest.mark.parametrize(("name", "param"), METHODS)
def test_methods_refuse_with_the_same_range(name: str, param: dict[str, Any]) -> None:
    own, plan = param["name"], INPUTS.get(name, SAMPLES)
    for value, is_legal in tried(param):
        if is_legal:
            continue
        arguments = given(name, param, value)
        lists = [arguments.pop(one["name"]) for one in DECLARED[name]["params"] if one["kind"] == "list"]
        with pytest.raises((iso.OptionError, iso.PlanError)) as caught:
            getattr(plan, name)(*(plan for _ in others(DECLARED[name])), *lists, **arguments)
        message = str(caught.value)
        assert re.search(rf"\b{own}=", message) and param["legal"] in message, message
        shown = re.search(rf"\b{own}=(.+?) (?:is refused|must be)", message)
        assert shown is not None, message
        assert json.loads(shown[1]) in (pytest.approx(value, rel=1e-15), pytest.approx(arguments[own], rel=1e-15))


def test_methods_written_by_hand_state_the_declared_range() -> None:
    windows = {param["name"]: param["legal"] for param in DECLARED["rewindow"]["params"]}
    with pytest.raises(iso.OptionError, match=re.escape(f"of samples, {windows['window']}, or a length")):
        SAMPLES.rewindow(0)
    with pytest.raises(iso.OptionError, match=re.escape(f"of samples, {windows['hop']}, or a length")):
        SAMPLES.rewindow(4, 0)
    delay = next(param["legal"] for param in DECLARED["delayed"]["params"] if param["name"] == "by")
    with pytest.raises(iso.OptionError, match=re.escape(f"of windows or samples, {delay}")):
        SAMPLES.feedback(lambda now, before: now, initial=0.0, delay=0)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: SAMPLES.lowpass(-1), "hz=-1 Hz must be above 0"),
        (lambda: SAMPLES.lowpass([80]), "hz=80 Hz must be above 0 and below half the rate, 50 Hz; change hz"),
        (lambda: SAMPLES.lowpass(80), "hz=80 Hz must be below half the rate, 50 Hz; lower hz"),
        (lambda: SAMPLES.notch(10, 0), "q=0.0 must be a finite number above 0;"),
        (
            lambda: SAMPLES.notch(10, 0.1),
            "q=0.1 must be above 0.2, so that the band of 10 Hz / q is narrower than half",
        ),
    ]
    for refused, part in cases:
        with pytest.raises(iso.PlanError, match=re.escape(part)):
            refused()


def test_a_help_text_reads_back_as_its_bounds() -> None:
    assert stated("Hz, above 0 and at most 1e9") == (Bound(0, True), Bound(1e9, False))
    assert stated("from 0 to below 0.5") == (Bound(0, False), Bound(0.5, True))
    assert stated("samples or windows or text, from 8 to 2^52 - 1") == (Bound(8, False), Bound(2**52 - 1, False))
    assert stated("samples, from -9.2e18 to 9.2e18") == (Bound(-9.2e18, False), Bound(9.2e18, False))
    assert stated("of the numbers' unit") == (None, None)
