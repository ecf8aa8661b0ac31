"""Columns of times parsed at once equal their texts parsed one by one, errors included."""

from __future__ import annotations

import datetime as dt
import time
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isochrony.errors import BadSourceError
from isochrony.importers.columns import parse_times

UNITS = [None, 1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000]
MOMENTS = st.datetimes(min_value=dt.datetime(1650, 1, 1), max_value=dt.datetime(2300, 1, 1))


def one_by_one(
    texts: list[str], unit_ns: int | None, zone: dt.tzinfo | None
) -> tuple[list[int], int] | tuple[None, str]:
    times, finest = [], 86_400 * 10**9
    for row, text in enumerate(texts, 1):
        try:
            found, resolution = parse_times([text], row, unit_ns, zone)
        except BadSourceError as error:
            return None, str(error)
        times.append(int(found[0]))
        finest = min(finest, resolution)
    return times, finest


def at_once(texts: list[str], unit_ns: int | None, zone: dt.tzinfo | None) -> tuple[list[int], int] | tuple[None, str]:
    try:
        times, finest = parse_times(texts, 1, unit_ns, zone)
    except BadSourceError as error:
        return None, str(error)
    return times.tolist(), finest


@st.composite
def dates(draw: st.DrawFn) -> list[str]:
    forms = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y%m%d%H%M"]
    form = draw(st.sampled_from(forms))
    zone = draw(st.sampled_from(["", "Z", "+02:00", "-0330", "+05", "+15:00"]))
    digits = draw(st.sampled_from(["", "1", "123", "9999"])) if form.endswith("f") else ""
    moments = draw(st.lists(MOMENTS, min_size=16, max_size=40))
    first = moments[0]
    if draw(st.booleans()):
        moments = [min(first, dt.datetime(2250, 1, 1)) + dt.timedelta(seconds=step) for step in range(20)]
    return [f"{moment.strftime(form).zfill(len(first.strftime(form)))}{digits}{zone}" for moment in moments]


@st.composite
def numbers(draw: st.DrawFn) -> list[str]:
    first = draw(st.sampled_from([0, 9, 995, 99_999_990, 999_999_995, 1_267_401_600, 20_100_301, 10**18, 10**18 - 9]))
    decimals = draw(st.sampled_from([0, 1, 3, 9, 10]))
    step = draw(st.integers(0, 3000))
    values = [first * 10**decimals + step * row for row in range(draw(st.integers(16, 40)))]
    whole = [(value // 10**decimals, value % 10**decimals) for value in values]
    return [f"{one}.{part:0{decimals}d}" if decimals else str(one) for one, part in whole]


@given(
    st.one_of(dates(), numbers()),
    st.sampled_from(UNITS),
    st.sampled_from([None, ZoneInfo("Europe/Berlin"), dt.timezone(dt.timedelta(hours=-3))]),
    st.one_of(st.none(), st.tuples(st.integers(0, 100), st.integers(0, 30), st.sampled_from(" 0935.,-+:TZe\0\u0663x"))),
)
def test_what_is_parsed_at_once_is_what_each_text_is(
    texts: list[str], unit_ns: int | None, zone: dt.tzinfo | None, change: tuple[int, int, str] | None
) -> None:
    if change is not None:
        row, at, character = change
        row %= len(texts)
        texts[row] = texts[row][:at] + character + texts[row][at + 1 :]
    assert at_once(texts, unit_ns, zone) == one_by_one(texts, unit_ns, zone)


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:{:06.3f}Z", "2026-01-01 00:00:{:09.6f}", "{:.3f}", "17{:011.0f}"], ids=str
)
def test_is_many_times_as_fast(text: str) -> None:
    texts = [text.format(row / 1000) for row in range(10_000)]
    unit = 10**9 if text == "{:.3f}" else None

    def seconds(calls: list[list[str]]) -> float:
        begun = time.process_time()
        for call in calls:
            parse_times(call, 1, unit)
        return time.process_time() - begun

    singly = [texts[at : at + 1] for at in range(2000)]
    ratios = [seconds(singly) / 2000 / (seconds([texts]) / 10_000) for _ in range(5)]
    assert np.median(ratios) > 4, ratios
