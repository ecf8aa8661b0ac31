"""The short last window that `rewindow(tail="keep")` leaves: what takes windows of any length, and what refuses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

SAMPLES = np.random.default_rng(5).standard_normal(250)
PARTS = [SAMPLES[:100], SAMPLES[100:200], SAMPLES[200:]]
WINDOWS = iso.scan(SAMPLES, rate=100).rewindow(100, tail="keep")


def rows(plan: iso.Plan) -> list[Any]:
    return [row for block in plan.blocks() for row in block.values]


def same(found: list[Any], wanted: list[Any]) -> None:
    assert [len(one) for one in found] == [len(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (lambda: WINDOWS, lambda part: part),
        (lambda: WINDOWS.map(lambda s: 2 * s + s.max()), lambda part: 2 * part + part.max()),
        (lambda: WINDOWS.map(lambda s, t: s * t, WINDOWS), lambda part: part * part),
        (lambda: WINDOWS.map(lambda s, t: t - s, WINDOWS.map(lambda s: s.max())), lambda part: part.max() - part),
        (lambda: WINDOWS.map(lambda s: s.max()).map(lambda s, t: t - s, WINDOWS), lambda part: part - part.max()),
        (lambda: WINDOWS.map(lambda s: s.max()), lambda part: [part.max()]),
        (lambda: WINDOWS.zip(WINDOWS)[0], lambda part: part),
    ],
)
def test_a_short_window_is_handed_on(plan: Callable[[], iso.Plan], wanted: Callable[[Any], Any]) -> None:
    same(rows(plan()), [wanted(part) for part in PARTS])


def test_rows_of_short_windows() -> None:
    peaks = [part.max() for part in PARTS]
    np.testing.assert_array_equal(WINDOWS.stats("max", "count").collect()["max"], peaks)
    assert WINDOWS.stats("count").collect()["count"].tolist() == [100, 100, 50]
    np.testing.assert_array_equal(WINDOWS.rows(peak=lambda s: s.max()).collect()["peak"], peaks)
    seen: list[Any] = []
    WINDOWS.each(lambda values, _: seen.extend(values.copy())).run()
    same(seen, PARTS)


BYTES = iso.scan(np.arange(250, dtype="u1"), rate=100).rewindow(100, tail="keep")


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("collect", lambda _: WINDOWS.collect()),
        ("collect", lambda _: WINDOWS.collect(workers=2)),
        ("sink_parquet", lambda _: WINDOWS.collect(as_="table")),
        ("sink_parquet", lambda path: WINDOWS.sink_parquet(path / "x.parquet").run()),
        ("sink_ipc", lambda path: WINDOWS.sink_ipc(path / "x.arrow").run()),
        ("rows", lambda _: WINDOWS.rows(twice=lambda s: 2 * s).collect()),
        ("fft", lambda _: WINDOWS.fft().collect()),
        ("taper", lambda _: WINDOWS.taper().collect()),
        ("welch", lambda _: WINDOWS.welch(20).collect()),
        ("xcorr", lambda _: WINDOWS.xcorr(WINDOWS, 5).collect()),
        ("gcc_phat", lambda _: WINDOWS.gcc_phat(WINDOWS, 5).collect()),
        ("combine_packets", lambda _: BYTES.combine_packets(BYTES).collect()),
        ("error_correlation", lambda _: BYTES.error_correlation(BYTES).collect()),
    ],
)
def test_what_needs_equal_windows_says_so(tmp_path: Path, name: str, run: Callable[[Path], Any]) -> None:
    with pytest.raises(
        iso.RunError, match=rf'^{name} .*200 to 250.*window of 50 values where all must have 100:.*tail="drop"'
    ) as caught:
        run(tmp_path)
    assert caught.value.code == "short_window"


def test_a_lone_short_window_is_named_without_others() -> None:
    lone = iso.scan(SAMPLES[:50], rate=100).rewindow(100, tail="keep")
    with pytest.raises(iso.RunError, match="a window of 50 values where all must have 100: rewindow") as caught:
        lone.collect()
    assert "others" not in str(caught.value)


def short(rows: Any) -> Any:
    """For whole windows of 100 values, all of them; for shorter ones, fewer."""
    return 2 * rows


@pytest.mark.parametrize(
    "options", [{"on_workers": "inline"}, {"on_workers": "processes"}, {"dtype": "f8", "width": 100}]
)
def test_a_python_function_that_gives_a_short_row_is_told_of_the_short_window(options: dict[str, Any]) -> None:
    plan = WINDOWS.map(iso.py(short, **options))
    for workers in (1, 2):
        with pytest.raises(iso.RunError, match=r'window of 50 values where all must have 100:.*tail="drop"') as caught:
            plan.run(workers=workers)
        assert caught.value.code == "short_window"
    # One value a window is one of a short window, too; and what is wrong of whole windows is no matter of short ones.
    peaks = WINDOWS.map(iso.py(lambda rows: rows.max(axis=1))).collect()
    np.testing.assert_array_equal(peaks[:, 0], [part.max() for part in PARTS])
    with pytest.raises(
        iso.RunError,
        match=r"was expected; return that, or state what it returns: isochrony.py\(function, dtype=..., width=...\)",
    ):
        WINDOWS.map(iso.py(short, dtype="f8", width=99)).run()


def test_without_a_short_window_all_is_taken() -> None:
    """Of as many samples as whole windows have, `tail="keep"` is `tail="drop"`."""
    kept = iso.scan(SAMPLES[:200], rate=100).rewindow(100, tail="keep")
    np.testing.assert_array_equal(kept.collect(), SAMPLES[:200].reshape(2, 100))
