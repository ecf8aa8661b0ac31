"""The pages of docs/examples, run as they stand, against other libraries and what was put in."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import signal as scipy_signal

import isochrony as iso

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "examples"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the code blocks of a page define, run one after another in an empty folder."""
    path = PAGES / f"{request.param}.md"
    monkeypatch.chdir(tmp_path)
    # A module, as a script is one: what it defines can be pickled.
    module = ModuleType(f"page_{request.param}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = vars(module)
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)
    return names


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", [name], indirect=True)


def test_every_page_is_tested_and_listed() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    pages = sorted(path.stem for path in PAGES.glob("*.md"))
    assert len(pages) >= 8
    features = (DOCS / "features.md").read_text(encoding="utf-8")
    for name in pages:
        assert f'@of("{name}")' in text
        assert f"examples/{name}.md" in features


@of("day_files")
def test_day_files_are_triggered_as_obspy_does(page: dict[str, Any]) -> None:
    obspy = pytest.importorskip("obspy")
    trigger = pytest.importorskip("obspy.signal.trigger")
    (trace,) = obspy.read("*.mseed").merge(method=1)
    sos = scipy_signal.butter(4, (1, 5), "bandpass", fs=20, output="sos")
    ratio = trigger.classic_sta_lta(scipy_signal.sosfilt(sos, trace.data.astype("f8")), 20, 600)
    expected = trigger.trigger_onset(ratio, 5, 1.5)
    expected[:, 1] += 1
    np.testing.assert_array_equal(page["onsets"], expected)
    assert len(expected) == 3


@of("audio_levels")
def test_levels_of_a_sine_are_those_of_its_amplitude(page: dict[str, Any]) -> None:
    table, hz = page["table"], page["hz"]
    for second, loud, amplitude in ((0, 1000, 0.5), (3, 5000, 0.05)):
        assert hz[table[second * 10].argmax()] == loud
        assert table[second * 10].max() == pytest.approx(10 * np.log10(amplitude**2 / 2), abs=0.01)


@of("fm_radio")
def test_the_tone_comes_out_of_the_radio(page: dict[str, Any]) -> None:
    soundfile = pytest.importorskip("soundfile")
    iq = np.load("iq.npy")
    expected = np.angle(iq[1:] * np.conj(iq[:-1]))
    np.testing.assert_allclose(page["step"].collect()[1:], expected, atol=1e-6)
    audio, rate = soundfile.read("audio.wav")
    second = audio[rate // 2 :][:rate]
    spectrum = np.abs(np.fft.rfft(second)) / len(second) * 2
    assert (rate, spectrum.argmax()) == (48_000, 1000)
    assert spectrum.max() == pytest.approx(32_000 / 32_768, rel=0.01)
    assert np.sort(spectrum)[-2] < 0.01


@of("late_files")
def test_a_late_file_fills_its_gap(page: dict[str, Any]) -> None:
    signal, means = page["signal"], page["means"]
    np.testing.assert_array_equal(signal.values(), page["pressure"].round(3))
    assert len(signal.gaps) == 0
    np.testing.assert_allclose(means["mean"], page["pressure"].round(3).reshape(-1, 60).mean(axis=1))
    assert means["start"][1 + page["steps"].argmax()] == 9000


@of("tables")
def test_other_libraries_find_the_hot_minute(page: dict[str, Any]) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.read_parquet("oven.parquet").set_index("time")["temperature [degC]"]
    minutes = frame.resample("1min").mean()
    hot = minutes[minutes > 30]
    assert len(hot) == 1
    assert pd.to_datetime(page["hot"]["time"], utc=True).to_list() == [hot.index[0]]
    assert page["hot"]["mean"].to_list() == pytest.approx(hot.to_list())
    assert page["loud"]["max"].to_list() == [frame.resample("1min").max().max()]


@of("fibre")
def test_every_channel_hears_the_car_in_time(page: dict[str, Any]) -> None:
    windows = page["strain"].astype("f8").reshape(-1, 50, 2000)
    expected = np.sqrt((windows**2).mean(axis=1))
    np.testing.assert_allclose(page["rms"], expected, rtol=1e-5)
    np.testing.assert_array_equal(page["loudest"], expected.argmax(axis=0) * 50 / 500)


@of("alert")
def test_alerts_and_samples_survive_a_restart(page: dict[str, Any]) -> None:
    assert [str(time)[:19] for time in page["alerts"]] == ["2024-05-01T12:00:06", "2024-05-01T12:00:15"]
    sent = page["vibration"].astype("i2").astype("f8")
    sent[8_000:10_000] = np.nan
    with iso.open("watch.iso") as store:
        np.testing.assert_array_equal(store["vibration"].values(), sent)


@of("training")
def test_windows_of_workers_are_those_of_the_signals(page: dict[str, Any]) -> None:
    with iso.open("machines.iso") as store:
        whole = [store[name].values() for name in ("lathe", "mill")]
    batches, order, windows = page["batches"], page["order"], page["windows"]
    handed = [one for batch in batches for one in batch]
    # Of each gap-free part of 300,000 samples: (300000 - 4096) // 2048 + 1 windows.
    assert len(handed) == len(windows) == 4 * 145
    for item, (values, number) in zip(order, handed, strict=True):
        start = windows.places[item][1]
        np.testing.assert_array_equal(values, whole[number][start : start + 4096].astype("f4"))
        assert np.isfinite(values).all()
    starts = [start for number, start in windows.places if number == 0]
    assert set(np.diff(starts)) == {2048, 2048 + 300_000 + 50_000 - 145 * 2048}
    # Without samples.
    assert len(pickle.dumps(windows.signals[0])) < 1000
