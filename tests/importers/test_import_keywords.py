"""Values of import options: what is taken, and what an error says of what is not."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.cli.message_options import as_options
from isochrony.importers import Options, formats
from isochrony.importers.keywords import OPTIONS, checked, options_of


@pytest.fixture
def array(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", np.arange(100, dtype="i2"))
    return tmp_path / "a.npy"


@pytest.mark.parametrize("text", ["2024", "2024-03", "2024-03-05", " 2024 "])
def test_a_year_and_a_month_are_their_first_instants(array: Path, text: str) -> None:
    store = array.parent / "s.iso"
    iso.import_files(store, array, rate=100, start=text)
    assert iso.open(store)["a"].start_time == iso.Time(text.strip())
    assert main(["import", str(array), str(array.parent / "t.iso"), "--rate", "100", "--start", text]) == 0
    assert iso.open(array.parent / "t.iso")["a"].start_time == iso.Time(text.strip())


@pytest.mark.parametrize(
    "start", ["banana", "2024-13", "24", 2024, True, 1.5e9, "9999", "0000", "1677-01", datetime(3000, 1, 1, tzinfo=UTC)]
)
def test_what_is_no_time_is_refused_by_the_name_of_its_option(array: Path, start: Any) -> None:
    with pytest.raises(iso.IsochronyError, match=r"^start") as caught:
        iso.import_files(array.parent / "s.iso", array, rate=100, start=start)
    assert isinstance(start, datetime) or str(start) in str(caught.value)
    assert not (array.parent / "s.iso").exists()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        *((text, 5_000_000) for text in ("5ms", "5 ms", "0.005s", "5000us", "5e-3 s", "5000 \u00b5s", "5000000ns")),
        *((text, 120 * 10**9) for text in ("2min", "2m", "120s")),
        ("1.5h", 5400 * 10**9),
        ("30d", 30 * 86400 * 10**9),
    ],
)
@pytest.mark.parametrize("name", ["gap_slip", "max_gap"])
def test_a_time_has_a_unit_of_its_own(name: str, text: str, ns: int) -> None:
    assert checked({name: text})[name] == Fraction(ns, 10**9)


@pytest.mark.parametrize("value", [0.25, "0.25", 3, timedelta(seconds=2), np.timedelta64(5, "ms")])
def test_a_number_is_seconds(value: Any) -> None:
    assert checked({"gap_slip": value})["gap_slip"] == (float(value) if isinstance(value, str) else value)


@pytest.mark.parametrize(
    "value", ["5 samples", "5 furlongs", "ms", "-5ms", "0s", "1-2s", "", -1, 0, True, float("nan"), timedelta(0), [5]]
)
def test_what_is_no_time_above_zero_is_refused(value: Any) -> None:
    with pytest.raises(iso.OptionError, match=r"^gap_slip .* is not a duration above 0"):
        checked({"gap_slip": value})


@pytest.mark.parametrize("value", ["1e-999999999s", "1e999999999h", "9" * 200 + "ms"])
@pytest.mark.parametrize("name", ["gap_slip", "max_gap"])
def test_a_time_of_too_many_digits_is_refused_at_once(name: str, value: str) -> None:
    with pytest.raises(iso.OptionError, match=rf"^{name} .* is not a duration above 0") as caught:
        checked({name: value})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [1e30, "1e30s", "99999999d", 9.3e9, timedelta(days=200_000)])
@pytest.mark.parametrize("name", ["gap_slip", "max_gap"])
def test_a_time_beyond_all_durations_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(iso.OptionError, match=rf"^{name} .* is longer than 292 years") as caught:
        checked({name: value})
    assert repr(value) in str(caught.value)
    assert checked({name: 9e9})[name] == 9e9


@pytest.mark.parametrize("given", ["1500", " 1500-02", "1500-02-01"])
def test_a_start_is_shown_as_it_was_given(given: str) -> None:
    with pytest.raises(
        iso.UsageError, match=rf"^start: '{given}' is not a time \(it is not between .*; give one that is$"
    ):
        checked({"start": given})


@pytest.mark.parametrize("pair", [(-1, -1), (-1, 1), (1, -1), (0, 1), (0, -1), (1, 0)])
def test_a_pair_with_a_number_that_is_not_above_zero_is_no_rate(store: iso.Store, pair: tuple[int, int]) -> None:
    for refuse in (lambda: checked({"rate": pair}), lambda: store.create("x", dtype="i2", rate=pair)):
        with pytest.raises(iso.TimeError, match=r"rate \(.*\) is refused"):
            refuse()
    assert (
        checked({"rate": (3, 2)})["rate"] == store.create("x", dtype="i2", rate=(3, 2)).rate.fraction == Fraction(3, 2)
    )


def test_a_gap_is_found_by_a_slip_that_is_given_as_text(tmp_path: Path) -> None:
    moments = pd.date_range("2024-05-01", periods=200, freq="10ms")
    moments = moments[:100].append(moments[100:] + pd.Timedelta("8ms"))
    rows = "".join(f"{moment.isoformat(timespec='milliseconds')}Z,{k}\n" for k, moment in enumerate(moments))
    (tmp_path / "a.csv").write_text("time,v\n" + rows)
    for slip, runs_or_gaps in (("5ms", 1), ("50ms", 0)):
        store = tmp_path / f"{slip}.iso"
        assert main(["import", str(tmp_path / "a.csv"), str(store), "--gap-slip", slip]) == 0
        signal = iso.open(store)["a"]
        assert len(signal.gaps) + len(signal.runs()) - 1 == runs_or_gaps


@pytest.mark.parametrize("columns", [(), [], 5, "", " ", "v,", (5,), ["v", ""], 1.5, True, b"v"])
def test_columns_without_names_are_refused(tmp_path: Path, columns: Any) -> None:
    (tmp_path / "a.csv").write_text("time,v\n2024-05-01T00:00:00Z,1\n2024-05-01T00:00:01Z,2\n")
    with pytest.raises(iso.OptionError, match=r"^columns .* does not name columns"):
        iso.import_files(tmp_path / "s.iso", tmp_path / "a.csv", columns=columns)


@pytest.mark.parametrize("columns", ["p", ["p"], ("p",), {"p"}, pd.Index(["p"]), np.array(["p"])])
def test_columns_are_any_names(tmp_path: Path, columns: Any) -> None:
    (tmp_path / "a.csv").write_text("time,p,q\n2024-05-01T00:00:00Z,1,x\n2024-05-01T00:00:01Z,2,x\n")
    iso.import_files(tmp_path / "s.iso", tmp_path / "a.csv", columns=columns)
    np.testing.assert_array_equal(iso.open(tmp_path / "s.iso")["a"][:].values(), [1, 2])


def test_readers_are_told_of_declared_options_only() -> None:
    names = {one.name for one in fields(Options)}
    assert names <= set(OPTIONS)
    for one in formats():
        assert set(one.uses or ()) <= names


@pytest.mark.parametrize("name", list(OPTIONS))
def test_an_option_is_taken_by_a_reader_or_by_the_store_and_is_one_of_the_command_line(name: str) -> None:
    by_store = (*options_of(iso.Store.ingest), *options_of(iso.Store.import_raw))
    assert name == "format" or name in by_store or any(one.takes(name) for one in formats())
    assert as_options(f"leave out {name}=, or give another") == f"leave out --{name.replace('_', '-')}, or give another"


@pytest.mark.parametrize(
    ("name", "format_name", "value"),
    [("rate", "audio", 100), ("zone", "numpy", "UTC"), ("encoding", "parquet", "int32"), ("full_scale", "csv", 1)],
)
def test_an_option_that_the_stated_format_does_not_take_is_refused(
    array: Path, name: str, format_name: str, value: Any
) -> None:
    with pytest.raises(iso.UsageError, match=rf"^{name}= is for .* files, not {format_name}; leave it out, or use for"):
        iso.import_files(array.parent / "s.iso", array, format=format_name, **{name: value})
