"""`iso.import_files`: paths, patterns and keywords, what became of each file, and how files share signals."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import soundfile

import isochrony as iso

START = "2024-05-01T12:00:00Z"


def arrays(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.arange(100, dtype="i2") + 1000 * number)


def runs(signal: iso.Signal) -> list[tuple[int, int]]:
    return [(run.start, run.end) for run in signal.runs()]


def test_a_path_makes_the_store_and_keywords_are_plain(tmp_path: Path) -> None:
    arrays(tmp_path, "a")
    store = tmp_path / "s.iso"
    summary = iso.import_files(store, str(tmp_path / "a.npy"), start=START, rate="100", unit="V", signal="x/y")
    assert summary.is_clean
    assert not type(summary)(summary | {"cancelled": True}).is_clean
    (result,) = summary["results"]
    assert result == {
        "path": str(tmp_path / "a.npy"),
        "status": "imported",
        "signals": ["x/y"],
        "samples": 100,
        "reason": None,
    }
    with iso.open(store) as opened:
        signal = opened["x/y"]
        assert (signal.unit, signal.rate.fraction) == ("V", 100)
        assert signal.time_of(0) == iso.Time(START)
        np.testing.assert_array_equal(signal.counts[:], np.arange(100))
    assert iso.import_files(store, tmp_path / "a.npy", rate=100, signal="x/y")["results"][0]["status"] == "known"


@pytest.mark.parametrize(
    "start",
    [
        START,
        "2024-05-01T14:00:00+02:00",
        datetime(2024, 5, 1, 12, tzinfo=UTC),
        np.datetime64("2024-05-01T12:00:00"),
        pd.Timestamp("2024-05-01T12:00:00Z"),
        iso.Time(START),
    ],
)
def test_a_start_is_any_time(tmp_path: Path, start: Any) -> None:
    arrays(tmp_path, "a")
    with iso.open(tmp_path / "s.iso", mode="a") as store:
        iso.import_files(store, tmp_path / "a.npy", rate=Fraction(100), start=start)
        assert store["a"].time_of(0) == iso.Time(START)


def test_patterns_lists_and_folders_name_the_same_signals(tmp_path: Path) -> None:
    arrays(tmp_path, "day1/a", "day2/a", "day2/b")
    sources: list[Any] = [
        tmp_path / "day*" / "*.npy",
        [tmp_path / "day1" / "a.npy", str(tmp_path / "day2" / "*.npy")],
        [tmp_path / "day1", tmp_path / "day2"],
        (path for path in (tmp_path / "day2", tmp_path / "day1", tmp_path / "day1" / "a.npy")),
    ]
    for number, source in enumerate(sources):
        iso.import_files(tmp_path / f"{number}.iso", source, rate=1)
        assert iso.open(tmp_path / f"{number}.iso").keys() == ["day1/a", "day2/a", "day2/b"]


def test_paths_are_shown_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays(tmp_path, "in/a")
    (tmp_path / "in" / "b.npy").write_bytes(b"")
    (tmp_path / "in" / "c.npy").write_bytes(b"nothing")
    (tmp_path / "in" / "lost.npy").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(iso.PartialImportWarning, match=r"^3 files were not imported"):
        summary = iso.import_files("s.iso", "in", rate=1)
    assert sorted(path for path, _ in summary["problems"]) == ["in/b.npy", "in/c.npy", "in/lost.npy"]
    assert {one["path"]: one["status"] for one in summary["results"]} == {
        "in/a.npy": "imported",
        "in/b.npy": "refused",
        "in/c.npy": "refused",
        "in/lost.npy": "refused",
    }
    assert "refused: in/b.npy: is empty" in repr(summary)


def test_a_bad_file_never_stops_the_others_and_is_warned_of(tmp_path: Path) -> None:
    arrays(tmp_path, "a", "z")
    (tmp_path / "m.npy").write_bytes(b"\x93NUMPY broken")
    with pytest.warns(iso.PartialImportWarning, match=r"^1 file was not imported, .*m\.npy: cannot be read as \.npy"):
        summary = iso.import_files(tmp_path / "s.iso", tmp_path / "*.npy", rate=1)
    assert [one["status"] for one in summary["results"]] == ["imported", "refused", "imported"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iso.import_files(tmp_path / "s.iso", [tmp_path / "a.npy", tmp_path / "z.npy"], rate=1)


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ("none.npy", {}, "does not exist; name a folder or a file"),
        ("x*.npy", {}, r"nothing matches .*; check the pattern"),
        ([], {}, "no path was given"),
        ("", {}, "got '' where a path is expected"),
        (5, {}, "got 5 where a path is expected"),
        ("a.npy", {"signal": ""}, "signal is empty; give a text"),
        ("a.npy", {"rate": "fast"}, "rate 'fast' is not a positive number of Hz"),
        ("a.npy", {"start": "noon"}, "'noon' is not a time; write ISO 8601"),
        ("a.npy", {"format": "mp5"}, "format 'mp5' is not one of raw, audio, csv"),
        ("a.npy", {"partial": "yes"}, "partial='yes' is refused; give True or False"),
        ("a.npy", {"full_scale": 0}, "full_scale 0 is not a number above 0"),
        ("a.npy", {"time_unit": "fortnight"}, "time_unit 'fortnight' is not one of ns, us, ms"),
        ("a.npy", {"dtype": "<i2", "rate": 1}, "also give layout=, or give preset= instead"),
        ("a*.npy", {"follow": True}, "is a pattern, but follow= watches a folder for new files"),
        ("a.npy", {"speed": 2}, "there is no option speed; give one of format"),
        ("a.npy", {"ratee": 2}, r"there is no option ratee \(did you mean rate\?\); give one of format"),
        ("a.npy", {"progress": 5}, "progress=5 is refused; give a function"),
        (b"a.npy", {}, "got b'a.npy' where a path is expected"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Any, options: dict[str, Any], words: str
) -> None:
    arrays(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(iso.IsochronyError, match=words):
        iso.import_files("s.iso", files, **options)
    assert not (tmp_path / "s.iso").exists()


def test_files_without_a_time_are_a_run_each_of_the_signal_that_is_named(tmp_path: Path) -> None:
    arrays(tmp_path, "take1", "take2", "take10")
    store = tmp_path / "s.iso"
    iso.import_files(store, tmp_path, rate=100, signal="take")
    with iso.open(store) as opened:
        signal = opened["take"]
        assert runs(signal) == [(0, 100), (100, 200), (200, 300)]
        assert [run.start_time for run in signal.runs()] == [None] * 3
        # In natural order of their names.
        assert [int(signal.counts[at]) for at in (0, 100, 200)] == [0, 1000, 2000]
        # Nothing spans two files.
        assert [len(segment) for segment in signal.select(slice(50, 150)).segments] == [50, 50]


def test_a_file_that_grows_continues_its_own_run(tmp_path: Path) -> None:
    store = tmp_path / "s.iso"
    values = np.arange(300, dtype="i2")
    for count in (100, 200):
        np.save(tmp_path / "a.npy", values[:count])
        iso.import_files(store, tmp_path / "a.npy", rate=100, signal="x")
    np.save(tmp_path / "b.npy", values[:50])
    iso.import_files(store, tmp_path / "b.npy", rate=100, signal="x")
    assert runs(iso.open(store)["x"]) == [(0, 200), (200, 250)]
    np.save(tmp_path / "a.npy", values)
    iso.import_files(store, tmp_path / "a.npy", rate=100, signal="x")
    assert runs(iso.open(store)["x"]) == [(0, 200), (200, 250), (250, 350)]


def test_a_signal_has_civil_time_in_all_its_files_or_in_none(tmp_path: Path) -> None:
    arrays(tmp_path, "a", "b")
    store = tmp_path / "s.iso"
    iso.import_files(store, tmp_path / "a.npy", rate=100, signal="x", start=START)
    with pytest.warns(UserWarning, match=r'signal "x" has civil time, and the source states none; .* start='):
        iso.import_files(store, tmp_path / "b.npy", rate=100, signal="x")
    iso.import_files(store, tmp_path / "b.npy", rate=100, signal="y")
    iso.import_files(store, tmp_path / "b.npy", rate=100, signal="y")
    with pytest.warns(UserWarning, match='signal "y" has no civil time, and the source states one'):
        iso.import_files(store, tmp_path / "a.npy", rate=100, signal="y", start=START)
    assert [iso.open(store)[name].sample_count for name in ("x", "y")] == [100, 100]


def test_files_of_one_stem_are_signals_of_their_own(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="i2")
    for suffix in ("wav", "flac"):
        soundfile.write(tmp_path / f"take.{suffix}", values, 8000)
    soundfile.write(tmp_path / "other.wav", values, 8000)
    summary = iso.import_files(tmp_path / "s.iso", tmp_path)
    assert summary.is_clean
    with iso.open(tmp_path / "s.iso") as store:
        assert store.keys() == ["other", "take.flac", "take.wav"]
        assert {signal.sample_count for signal in store.values()} == {1000}
    assert iso.import_files(tmp_path / "s.iso", tmp_path)["skipped"] == 3


def test_options_that_would_change_what_is_stored_are_told_of(tmp_path: Path) -> None:
    arrays(tmp_path, "a")
    store = tmp_path / "s.iso"
    iso.import_files(store, tmp_path / "a.npy", rate=100, unit="V")
    assert iso.import_files(store, tmp_path / "a.npy", rate=100, unit="V")["remarks"] == []
    summary = iso.import_files(store, tmp_path / "a.npy", rate=200, unit="mV", start=START)
    texts = [text for _, text in summary["remarks"]]
    assert [text.split(", and ")[1].split(" does")[0] for text in texts] == ["rate=", "unit=", "start="]
    assert "is stored already in signal 'a', with 100 Hz" in texts[0]
    # Under another name it is imported with the other options.
    again = iso.import_files(store, tmp_path / "a.npy", rate=200, unit="mV", start=START, signal="b")
    assert (again["skipped"], again["remarks"]) == (0, [])
    with iso.open(store) as opened:
        assert (opened["a"].rate, opened["b"].rate, opened["b"].unit) == (100, 200, "mV")
    assert iso.import_files(store, tmp_path / "a.npy", rate=200, unit="mV", start=START, signal="b")["skipped"] == 1


def test_options_that_do_not_apply_are_told_of(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.arange(100, dtype="i2"), 8000)
    (tmp_path / "b.csv").write_text("time,v\n" + "".join(f"2024-05-01T00:00:{k:02d}Z,{k}\n" for k in range(30)))
    summary = iso.import_files(tmp_path / "s.iso", tmp_path, rate=1, start=START, encoding="int32")
    assert sorted(summary["remarks"]) == [
        (str(tmp_path / "a.wav"), "encoding= does not apply to audio files and was not used"),
        (str(tmp_path / "a.wav"), "rate= does not apply to audio files and was not used"),
        (str(tmp_path / "b.csv"), "encoding= does not apply to csv files and was not used"),
        (str(tmp_path / "b.csv"), "has times of its own, and the stated start was not used"),
    ]


@pytest.mark.parametrize(
    ("subtype", "dtype"), [("PCM_U8", "i1"), ("PCM_16", "i2"), ("PCM_24", "i4"), ("PCM_32", "i4"), ("FLOAT", "f4")]
)
def test_sound_at_full_scale_is_what_soundfile_reads(tmp_path: Path, subtype: str, dtype: str) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.random.default_rng(1).uniform(-1, 1, (500, 2)), 8000, subtype=subtype)
    iso.import_files(tmp_path / "s.iso", path, full_scale=2.5, unit="Pa")
    expected, _ = soundfile.read(path, dtype="float64")
    with iso.open(tmp_path / "s.iso") as store:
        for channel in range(2):
            signal = store[f"a/ch{channel + 1}"]
            assert (signal.dtype, signal.unit) == (np.dtype(dtype), "Pa")
            np.testing.assert_allclose(signal[:].values(), 2.5 * expected[:, channel], rtol=1e-7)
    iso.import_files(tmp_path / "t.iso", path)
    with iso.open(tmp_path / "t.iso") as store:
        np.testing.assert_array_equal(store["a/ch1"][:].values(), store["a/ch1"].counts[:])


def test_names_of_files_are_shown_without_what_a_terminal_would_obey(tmp_path: Path) -> None:
    (tmp_path / "\x1b[31m.npy").write_bytes(b"nothing")
    with pytest.warns(UserWarning) as caught:
        summary = iso.import_files(tmp_path / "s.iso", tmp_path / "*.npy")
    assert r"\x1b[31m.npy" in str(caught[0].message)
    assert "\x1b" not in f"{caught[0].message}{summary!r}"


def test_raw_recordings_go_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    np.arange(500, dtype="<i2").tofile(tmp_path / "in" / "stn_1267401600.raw")
    options: dict[str, Any] = {"layout": "{station}_{epoch}.raw", "dtype": "<i2", "rate": 100}
    summary = iso.import_files(tmp_path / "s.iso", tmp_path / "in", **options, unit="mbar")
    assert (summary["files"], summary["results"], summary["remarks"]) == (1, [], [])
    assert iso.open(tmp_path / "s.iso")["stn"].unit == "mbar"
    with pytest.raises(iso.UsageError, match="raw recordings are imported by folder"):
        iso.import_files(tmp_path / "s.iso", tmp_path / "in" / "stn_1267401600.raw", **options)
