from __future__ import annotations

import io
import sys
import types

import pytest

from isochrony.output.progress import ImportProgress, bytes_text, duration_text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (57_600_000, "57.6 MB"), (2e12, "2.0 TB")]
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.21, "3.2 s"), (45, "45 s"), (245, "4:05"), (7807, "2:10:07"), (59.9, "60 s")]
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_the_line_has_rate_and_remaining_time() -> None:
    line = ImportProgress("importing", io.StringIO(), enabled=True).text(50_000_000, 100_000_000, 5, 10, 2.0)
    assert line == "importing   50%  50.0 MB of 100.0 MB  25.0 MB/s  5/10 files  ETA 2.0 s"


def test_nothing_is_drawn_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with ImportProgress("importing", stream) as progress:
        progress(1, 2, 0, 1)
    assert stream.getvalue() == ""


def test_the_line_is_wiped_even_when_the_work_fails() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError), ImportProgress("importing", stream, enabled=True) as progress:
        progress(1, 2, 0, 1)
        raise RuntimeError
    assert stream.getvalue().endswith("\r")
    assert stream.getvalue().split("\r")[-2].strip() == ""


def test_a_notebook_gets_an_output_that_is_updated_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Output:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Output:
        assert raw
        assert display_id
        shown.append(data["text/plain"])
        return Output()

    kernel = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))  # type: ignore[arg-type]
    with ImportProgress("running", unit="samples") as line:
        line._started -= 2
        line(10_000_000, 40_000_000, 0, 0)
        line._drawn -= 1
        line(20_000_000, 40_000_000, 0, 0)
    assert len(shown) == 3
    assert shown[0].startswith("running   25%")
    assert "samples/s" in shown[0]
    assert "ETA" in shown[1]
    assert shown[2] == ""
    kernel.kernel = None
    assert not ImportProgress("running")._enabled or sys.stderr.isatty()
