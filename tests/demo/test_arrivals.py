"""What several stations heard is found and timed, whatever their rates, units and clocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isochrony as iso
from isochrony.cli import main
from isochrony.demo.arrivals import find_events, pick_change, rises
from isochrony.demo.own import one_per_station, time_offsets


def noisy(rate: float, start_s: float, onset_s: float, seed: int, seconds: float = 60.0) -> np.ndarray:
    """Noise of deviation 10 with a decaying 7 Hz burst of 200 from `onset_s` on, on a slow wave."""
    random = np.random.default_rng(seed)
    time = start_s + np.arange(round(seconds * rate)) / rate
    since = np.maximum(time - onset_s, 0.0)
    burst = 200.0 * np.sin(2 * np.pi * 7.0 * since) * np.exp(-since / 2.0)
    return np.rint(burst + 300 * np.sin(time / 5.0) + random.normal(0, 10, len(time))).astype("i4")


@pytest.fixture
def store(tmp_path: Path) -> iso.Store:
    """Four stations of three rates and phases; the last one hears nothing."""
    with iso.open(tmp_path / "a.iso", "x") as store:
        stations = [("a", 100, 0.0, 20.0), ("b", 250, 0.0033, 20.8), ("c", 80, 0.5, 21.55), ("d", 100, 0.0, 1e9)]
        for seed, (name, rate, start_s, onset_s) in enumerate(stations):
            signal = store.create(f"{name}/z", dtype="i4", rate=rate, start=iso.Time("2020-01-01") + start_s)
            signal.append(noisy(rate, start_s, onset_s, seed))
    return iso.open(tmp_path / "a.iso")


def test_an_event_is_timed_at_every_station_by_its_own_clock(store: iso.Store) -> None:
    (event,) = find_events(store.values())
    assert [arrival.station for arrival in event.arrivals] == ["a/z", "b/z", "c/z"]
    origin = iso.Time("2020-01-01").ns
    for arrival, onset_s in zip(event.arrivals, (20.0, 20.8, 21.55), strict=True):
        assert (arrival.ns - origin) * 1e-9 == pytest.approx(onset_s, abs=0.03)
        assert 0 < arrival.error_ns < 0.2e9


def test_noise_alone_is_no_event(store: iso.Store) -> None:
    assert find_events([store["d/z"], store["d/z"]]) == []


def test_a_gap_or_too_few_samples_hide_nothing_and_invent_nothing(tmp_path: Path) -> None:
    with iso.open(tmp_path / "b.iso", "x") as writer:
        for seed, name in enumerate("ab"):
            signal = writer.create(f"{name}/z", dtype="i4", rate=100, start="2020-01-01")
            data = noisy(100, 0.0, 30.0, seed)
            signal.append(data[:1500])
            signal.append_gap(samples=200)
            signal.append(data[1700:])
        writer.create("c/z", dtype="i4", rate=100, start="2020-01-01").append(np.zeros(3, "i4"))
    (event,) = find_events(iso.open(tmp_path / "b.iso").values())
    assert [round((one.ns - iso.Time("2020-01-01").ns) * 1e-9) for one in event.arrivals] == [30, 30]


@given(onset=st.integers(60, 340), seed=st.integers(0, 2**32 - 1))
def test_a_change_of_variance_is_found_within_its_uncertainty(onset: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = random.normal(0, 1, 400) * np.where(np.arange(400) < onset, 1.0, 20.0)
    found = pick_change(np.cumsum(np.concatenate(([0.0], steps))))
    assert found is not None
    index, error = found
    assert abs(index - 1 - onset) <= max(6, 8 * error)


def test_steady_noise_and_short_stretches_have_no_change() -> None:
    assert pick_change(np.random.default_rng(1).normal(0, 1, 400)) is None
    assert pick_change(np.arange(20.0)) is None
    assert pick_change(np.zeros(400), lag=8) is None


def test_a_rise_follows_quiet() -> None:
    loud = np.ones(40)
    loud[[3, 20, 21, 25, 35]] = 9.0
    # At 3 nothing quiet was seen; 21 and 25 go on with what began at 20.
    assert rises(loud) == [20, 35]


def test_nearest_samples_of_two_clocks_are_told_apart_with_their_sign(store: iso.Store) -> None:
    ((one, index, other, nearest, seconds),) = time_offsets([store["a/z"], store["b/z"]])
    assert (one, other) == ("a/z", "b/z")
    phase = 0.0033
    expected = round((index / 100 - phase) * 250)
    assert nearest == expected
    assert seconds == pytest.approx(phase + expected / 250 - index / 100, abs=1e-9)


def test_one_signal_speaks_for_a_station(tmp_path: Path) -> None:
    with iso.open(tmp_path / "c.iso", "x") as writer:
        for name in ("n/a/HHE", "n/a/HHZ", "n/b/HHZ", "n/b/LOG", "alone"):
            writer.create(name, dtype="i2", rate=10, start="2020-01-01").append(np.zeros(5, "i2"))
        writer.create("n/c/iq", dtype="c8", rate=10, start="2020-01-01").append(np.zeros(5, "c8"))
    names = [signal.name for signal in one_per_station(iso.open(tmp_path / "c.iso").values())]
    assert sorted(names) == ["alone", "n/a/HHZ", "n/b/HHZ"]


def test_stations_that_never_recorded_together_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "raw"
    for station, second in (("a", 0), ("b", 3600)):
        (source / station).mkdir(parents=True)
        for i in range(4):
            stamp = (1_577_836_800 + second + 5 * i) * 10**6
            path = source / station / f"{station}_{stamp}.raw"
            path.write_bytes(np.arange(500, dtype="<i2").tobytes())
    line = ["demo", "--from", str(source), "--dir", str(tmp_path / "out"), "--dtype", "<i2", "--rate", "100"]
    assert main([*line, "--layout", "{station}/{station}_{epoch}.raw"]) == 0
    assert "no two stations recorded at the same time" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--dtype", "<i2"], "give --layout, --dtype and --rate, or a --preset"),
        (["--preset", "nope"], "nope"),
        ([], "samples without headers, give --layout"),
    ],
)
def test_raw_recordings_need_a_description(
    line: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.raw").write_bytes(bytes(100))
    assert main(["demo", "--from", str(tmp_path / "src"), "--dir", str(tmp_path / "out"), *line]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_description_of_recordings_needs_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rate", "100"]) == 2
    assert "--rate applies to recordings of your own; name their folder with --from DIR" in capsys.readouterr().err
