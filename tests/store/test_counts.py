"""One rule for counts and values (docs/counts.md): values in the unit, and `counts=True` for the samples as stored."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

import isochrony as iso
from isochrony.cli.main import main

COUNTS = np.arange(-50, 250, dtype="i2")
VALUES = COUNTS * 0.5 + 1


@pytest.fixture
def signal(store: iso.Store) -> iso.Signal:
    signal = store.create("stn/p", dtype="i2", rate=100, unit="kPa", scale=0.5, offset=1, start="2026-01-01")
    signal.append(COUNTS)
    store.commit()
    return signal


def same(found: Any, counts: bool) -> None:
    expected = COUNTS if counts else VALUES
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.reshape(-1), expected)


@pytest.mark.parametrize("counts", [False, True])
def test_reading(signal: iso.Signal, counts: bool) -> None:
    same(signal.values(counts=counts), counts)
    same(signal[:].values(counts=counts), counts)
    (segment,) = signal.segments
    same(segment.counts if counts else segment.values(), counts)
    same(signal[:].counts if counts else signal[:], counts)
    same(np.asarray(signal.counts if counts else signal), counts)


@pytest.mark.parametrize("counts", [False, True])
def test_plans(signal: iso.Signal, counts: bool) -> None:
    samples, windows = iso.scan(signal), iso.scan(signal).rewindow(100)
    for plan in (samples, windows, windows.filter(lambda s: s.max() > -1e9)):
        same(plan.collect(counts=counts), counts)
        same(plan.collect(counts=counts, workers=2), counts)
        same(np.concatenate([block.values.reshape(-1) for block in plan.blocks(counts=counts)]), counts)
        table = plan.collect(as_="table", counts=counts)
        same(table[table.columns[-1]], counts)
        assert table.units == ({} if counts else {table.columns[-1]: "kPa"})
    both = iso.collect(samples, windows, counts=counts)
    for one in both:
        same(one, counts)
    (segment,) = samples.collect(as_="segments", counts=counts)
    same(segment, counts)
    same(samples.collect(as_="xarray", counts=counts).to_numpy(), counts)
    seen: list[Any] = []
    windows.each(lambda values, _: seen.append(values.copy()), counts=counts).run()
    same(np.concatenate(seen), counts)


@pytest.mark.parametrize("hop", [30, 170])
def test_windows_that_overlap_or_leave_samples_out(signal: iso.Signal, hop: int) -> None:
    starts = range(0, len(COUNTS) - 99, hop)
    plan = iso.scan(signal).rewindow(100, hop=hop)
    values, counts = plan.collect(), plan.collect(counts=True)
    assert (values.dtype, counts.dtype) == (np.float64, np.int16)
    np.testing.assert_array_equal(counts, [COUNTS[start : start + 100] for start in starts])
    np.testing.assert_array_equal(values, [VALUES[start : start + 100] for start in starts])


@pytest.mark.parametrize("counts", [False, True])
def test_a_short_last_window(signal: iso.Signal, counts: bool) -> None:
    plan = iso.scan(signal).rewindow(70, tail="keep")
    blocks = [block.values for block in plan.blocks(counts=counts)]
    assert blocks[-1].shape == (1, 20)
    same(np.concatenate([block.reshape(-1) for block in blocks]), counts)
    seen: list[Any] = []
    plan.each(lambda values, _: seen.append(values.copy()), counts=counts).run()
    assert seen[-1].shape == (1, 20)
    same(np.concatenate([block.reshape(-1) for block in seen]), counts)


def test_a_scan_of_counts_computes_with_counts(signal: iso.Signal, store: iso.Store) -> None:
    plan = iso.scan(signal, counts=True)
    same(plan.collect(), True)
    assert plan.rewindow(300).map(lambda s: s.max()).collect().tolist() == [[249]]
    assert plan.rewindow(300).stats("max").collect().units == {}
    part = iso.scan(signal[10:20], counts=True)
    np.testing.assert_array_equal(part.map(lambda s: s + 1).collect(), COUNTS[10:20] + 1)
    assert iso.Plan.from_json(plan.to_json(), store=store) == plan
    same(iso.scan(COUNTS, rate=100, counts=True).collect(), True)
    plan.sink(store, "raw").run()
    assert (store["raw"].scale, store["raw"].unit, store["raw"].dtype) == (1.0, "", np.dtype("i2"))


def test_a_stored_copy_has_the_same_values(signal: iso.Signal, store: iso.Store) -> None:
    iso.scan(signal).sink(store, "copy").run()
    copy = store["copy"]
    same(copy.values(), False)
    same(copy.values(counts=True), True)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("window", [None, 100, 1])
def test_files_of_columns(signal: iso.Signal, tmp_path: Path, counts: bool, suffix: str, window: int | None) -> None:
    plan = iso.scan(signal) if window is None else iso.scan(signal).rewindow(window)
    path = tmp_path / f"p{suffix}"
    sink = plan.sink_parquet if suffix == ".parquet" else plan.sink_ipc
    through = sink(path, counts=counts)
    same(through.collect(counts=True), True)
    table = pyarrow.parquet.read_table(path) if suffix == ".parquet" else pyarrow.feather.read_table(path)
    column = table.column(table.num_columns - 1).combine_chunks()
    same((column if window in (None, 1) else column.flatten()).to_numpy(), counts)
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert metadata["isochrony.unit"] == "kPa"
    assert ("isochrony.scale" in metadata) == counts
    assert (table.schema.field(table.num_columns - 1).metadata == {b"unit": b"kPa"}) != counts


def test_a_plan_saved_before_the_switch_writes_counts(signal: iso.Signal, store: iso.Store, tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    saved = json.loads(iso.scan(signal).sink_parquet(path).to_json())
    (node,) = (node for node in saved["nodes"] if "sink_parquet" in json.dumps(node))
    text = json.dumps(saved).replace('"counts": false, ', "").replace(', "counts": false', "")
    assert '"counts"' not in text, node
    iso.Plan.from_json(text, store=store).run()
    same(pyarrow.parquet.read_table(path)["p"].to_numpy(), True)


@pytest.mark.parametrize("counts", [False, True])
def test_exports(signal: iso.Signal, store: iso.Store, tmp_path: Path, counts: bool, capsys: Any) -> None:
    target, switch = f"{store.path}/stn/p", ["--counts"] if counts else []
    for suffix in ("npy", "parquet", "csv"):
        assert main(["export", target, "--out", str(tmp_path / f"p.{suffix}"), *switch]) == 0
    same(np.load(tmp_path / "p.npy"), counts)
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    same(table["p"].to_numpy(), counts)
    assert (b"isochrony.scale" in table.schema.metadata) == counts
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0].rpartition(",")[2] == ("stn/p" if counts else "stn/p [kPa]")
    found = np.array([line.rpartition(",")[2] for line in lines[1:]])
    same(found.astype(COUNTS.dtype if counts else "f8"), counts)
    plan = tmp_path / "plan.json"
    plan.write_text(iso.scan(signal).to_json())
    assert main(["run", str(plan), "--out", str(tmp_path / "run.npy"), *switch]) == 0
    same(np.load(tmp_path / "run.npy"), counts)
    capsys.readouterr()


@pytest.mark.parametrize("switch", [[], ["--counts"]])
@pytest.mark.parametrize("suffix", ["wav", "flac", "mseed"])
def test_formats_of_counts(
    signal: iso.Signal, store: iso.Store, tmp_path: Path, suffix: str, switch: list[str]
) -> None:
    path = tmp_path / f"p.{suffix}"
    assert main(["export", f"{store.path}/{signal.name}", "--out", str(path), *switch]) == 0
    if suffix == "mseed":
        import obspy

        found = np.concatenate([trace.data for trace in obspy.read(path)])
    else:
        import soundfile

        assert soundfile.info(path).subtype == "PCM_16"
        found = soundfile.read(path, dtype="int16")[0]
    np.testing.assert_array_equal(found, COUNTS)


def test_uncalibrated_samples_keep_their_dtype(store: iso.Store) -> None:
    signal = store.create("x", dtype="i2", rate=100)
    signal.append(COUNTS)
    for found in (iso.scan(signal).collect(), np.asarray(signal), next(iter(iso.scan(signal))).values):
        same(found, True)
    assert signal.values().dtype == np.float64


@pytest.mark.parametrize("call", ["collect", "blocks", "scan", "sink"])
def test_the_switch_is_true_or_false(signal: iso.Signal, tmp_path: Path, call: str) -> None:
    plan = iso.scan(signal)
    calls = {
        "collect": lambda: plan.collect(counts="yes"),
        "blocks": lambda: plan.blocks(counts=1),
        "scan": lambda: iso.scan(signal, counts="raw"),
        "sink": lambda: plan.sink_parquet(tmp_path / "x.parquet", counts=None),
    }
    with pytest.raises(iso.OptionError, match=r"counts.*True or False"):
        calls[call]()


PAGE = (Path(__file__).parents[2] / "docs/counts.md").read_text()
OWNERS = {"plan": iso.Plan, "signal": iso.Signal, "selection": iso.Selection, "Segment": iso.Segment, "iso": iso}


def switches() -> list[tuple[str, str]]:
    """Public functions and methods that take `counts=`, by what the page calls their owners."""
    found = []
    for owner, of in OWNERS.items():
        for name, function in vars(of).items() if owner != "plan" else inspect.getmembers(of):
            if name.startswith("_") or inspect.isclass(function) or not callable(function):
                continue
            if "counts" in inspect.signature(function).parameters:
                found.append((owner, name))
    return found


@pytest.mark.parametrize(("owner", "name"), switches())
def test_the_page_names_every_switch(owner: str, name: str) -> None:
    assert re.search(rf"\b{owner}\.{name}\b", PAGE), f"docs/counts.md does not name {owner}.{name}"


def test_there_is_all_that_the_page_names() -> None:
    assert {("plan", "collect"), ("signal", "values"), ("selection", "values"), ("iso", "scan")} <= set(switches())
    named = set(re.findall(rf"\b({'|'.join(OWNERS)})\.(\w+)", PAGE))
    assert len(named) > 10
    for owner, name in named:
        assert hasattr(OWNERS[owner], name), f"docs/counts.md names {owner}.{name}"


def test_a_plan_is_no_array(signal: iso.Signal) -> None:
    with pytest.raises(iso.PlanError, match="collect"):
        np.asarray(iso.scan(signal))
