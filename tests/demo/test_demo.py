"""The demonstration from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import isochrony as iso
from isochrony.cli import main
from isochrony.demo import network_demo
from isochrony.demo.arrivals import find_events
from isochrony.demo.find import examine
from isochrony.demo.fronts import find_bursts
from isochrony.demo.synth import LAYOUT, RATE_HZ
from isochrony.demo.truth import ARRIVAL_LIMIT_S, RATE_LIMIT_PPM, Truth, read_truth

pytestmark = pytest.mark.demo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "out"
    assert main(["demo", "--dir", str(folder)]) == 0
    return folder


@pytest.fixture
def water(folder: Path) -> iso.Store:
    return iso.open(folder / "water.iso")


def test_rates_arrivals_and_places_are_within_their_limits(folder: Path, water: iso.Store) -> None:
    truth = read_truth(folder / "truth.json")
    findings = examine(water.find("*/pressure"))
    findings.bursts = find_bursts(water.find("*/pressure"))
    rates = truth.rate_errors(findings)
    assert len(rates) == 5
    assert max(abs(error.error_ppm) for error in rates) < RATE_LIMIT_PPM
    assert all(abs(error.error_ppm) <= error.claimed_ppm for error in rates)
    arrivals = truth.arrival_errors(findings)
    assert len(arrivals) == 2 * 6
    assert max(abs(error.error_s) for error in arrivals) < ARRIVAL_LIMIT_S
    places = truth.position_errors(findings)
    assert [place.verdict for place in places] == ["located", "located"]
    # A front's travel in a sample is half a metre; what is stated and found is a tenth of it.
    assert all(place.error_m < place.stated_m < 0.2 < place.allowed_m for place in places)


def test_every_sample_written_is_stored_once(folder: Path, water: iso.Store) -> None:
    for signal in water.find("*/pressure"):
        files = (folder / "recordings" / signal.name.partition("/")[0] / "pressure").iterdir()
        assert signal.sample_count == sum(file.stat().st_size // 2 for file in files)


def test_the_outage_and_the_clock_step_are_found_and_nothing_else(water: iso.Store) -> None:
    by_name = {station.name: station for station in examine(water.find("*/pressure")).stations}
    assert {name: (len(one.outages), len(one.runs)) for name, one in by_name.items()} == {
        "stn_10": (0, 1),
        "stn_11": (1, 1),
        "stn_12": (0, 2),
        "stn_13": (0, 1),
    }
    (outage,) = by_name["stn_11"].outages
    # The last file ends and acquisition starts again where the truth says, to a few samples.
    assert (outage.end_ns - outage.start_ns) * 1e-9 == pytest.approx(280.510_401, abs=2e-3)
    (step,) = by_name["stn_12"].steps
    assert step.back_by_s == pytest.approx(1.75, abs=1e-4)


def test_coarse_stamps_give_no_gap_no_step_and_an_honest_uncertainty(folder: Path) -> None:
    coarse = examine(iso.open(folder / "coarse.iso").find("*/pressure"))
    assert len(coarse.stations) == 2
    for station in coarse.stations:
        assert (len(station.runs), station.outages, station.steps) == (1, [], [])
    for error in read_truth(folder / "truth.json").rate_errors(coarse):
        assert abs(error.error_ppm) <= error.claimed_ppm
        # A second over an hour is 278 ppm; claiming more would be as useless as claiming less is false.
        assert 1 < error.claimed_ppm < 600


def test_the_figure_is_drawn(folder: Path) -> None:
    figure = (folder / "water.png").read_bytes()
    assert figure[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(figure) > 100_000


def test_a_second_demo_replaces_the_first_and_one_that_was_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(path: Path) -> Truth:
        # Findings come before the truth is read.
        said = capsys.readouterr().out
        for heading in ("Gaps and clock steps", "True sample rates", "Bursts", "named only to the second"):
            assert heading in said
        print(said)
        return read_truth(path)

    monkeypatch.setattr(network_demo, "read_truth", read)
    # The truth is written last of all that is made.
    (folder / "truth.json").unlink()
    assert main(["demo", "--dir", str(folder)]) == 0
    said = capsys.readouterr().out
    for heading in ("Gaps and clock steps", "True sample rates", "Bursts", "Against the truth", "Try next"):
        assert heading in said


def _change(told: dict[str, Any], what: str) -> None:
    name, station = next(iter(told["stations"].items()))
    if what == "rate":
        for stretch in station["stretches"]:
            stretch["rate_hz"] *= 1 + 2 * RATE_LIMIT_PPM * 1e-6
    elif what == "arrival":
        told["bursts"][0]["arrivals_ns"][name] += round(2 * ARRIVAL_LIMIT_S * 1e9)
    else:
        # Two metres: more than a front travels in a sample, in any pipe.
        told["bursts"][0]["at_m"] += 2.0


@pytest.mark.parametrize("what", ["rate", "arrival", "place"])
def test_findings_that_miss_the_truth_fail_the_demo(
    what: str, folder: Path, water: iso.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = examine(water.find("*/pressure"))
    findings.bursts = find_bursts(water.find("*/pressure"))
    coarse = examine(iso.open(folder / "coarse.iso").find("*/pressure"))
    assert network_demo._compare(read_truth(folder / "truth.json"), findings, coarse)
    assert "MISSED" not in capsys.readouterr().out
    # Another truth, by twice what is allowed.
    told = json.loads((folder / "truth.json").read_text())
    _change(told, what)
    other = folder / "other-truth.json"
    other.write_text(json.dumps(told))
    assert not network_demo._compare(read_truth(other), findings, coarse)
    assert "MISSED" in capsys.readouterr().out


def test_the_commands_it_suggests_work(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(folder / "water.iso")
    assert main(["info", store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["signals"]
    assert [one["name"] for one in found] == [f"stn_{n}/pressure" for n in (10, 11, 12, 13)]
    assert main(["gaps", f"{store}/stn_11/pressure", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["gaps"]) == 1
    out = tmp_path / "burst.png"
    stretch = ["--from", "2010-03-01T00:14", "--to", "2010-03-01T00:15"]
    assert main(["plot", f"{store}/stn_10/pressure", *stretch, "--out", str(out)]) == 0
    assert out.stat().st_size > 5_000
    assert main(["scan", f"{store}/stn_10/pressure", "--window", "60s", "--stats", "min,max,mean,std"]) == 0
    assert main(["verify", store]) == 0


def test_ones_own_raw_files_get_the_same_findings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["demo", "--from", str(folder / "recordings"), "--dir", str(tmp_path), "--unit", "mbar"]
    assert main([*line, "--layout", LAYOUT, "--dtype", "<i2", "--rate", str(RATE_HZ)]) == 0
    said = capsys.readouterr().out
    assert "280.510" in said
    assert "back by 1.74999" in said
    assert "event 1: heard by 4 of 4 stations" in said
    assert "event 2: heard by 4 of 4 stations" in said
    assert (tmp_path / "own.png").stat().st_size > 50_000
    # Onsets of anything are found less sharply than by fitting a pressure drop: to a few samples.
    signals = iso.open(tmp_path / "own.iso").values()
    injected = json.loads((folder / "truth.json").read_text())["bursts"]
    for event, truth in zip(find_events(signals), injected, strict=True):
        for arrival in event.arrivals:
            late_ns = arrival.ns - truth["arrivals_ns"][arrival.station.partition("/")[0]]
            assert abs(late_ns) < 3e6
            assert abs(late_ns) < 3 * arrival.error_ns
    # The same rates as the demo's own examination finds.
    theirs = {one.signal: one for one in examine(iso.open(folder / "water.iso").values()).stations}
    for one in examine(signals).stations:
        assert [run.rate_hz for run in one.runs] == [run.rate_hz for run in theirs[one.signal].runs]


@pytest.mark.parametrize("raw", [False, True])
def test_ones_own_files_that_are_no_recordings_leave_no_store_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raw: bool
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / "notes.txt").write_text("nothing to import\n")
    options = ["--layout", "{station}_{epoch}.raw", "--dtype", "<i2", "--rate", "100"] if raw else []
    for existing in (False, True):
        if existing:
            out.mkdir()
            (out / "mine.txt").write_text("mine")
        assert main(["demo", "--from", str(source), "--dir", str(out), *options]) == 2
        assert "could be imported" in capsys.readouterr().err
        assert [path.name for path in out.iterdir()] == ["mine.txt"] if existing else not out.exists()
