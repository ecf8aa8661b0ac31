"""The examples do what they say."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

import isochrony as iso
from example_modules import EXAMPLES, example
from isochrony.cli import main
from isochrony.demo.network import PIPES, Place, distance_m
from isochrony.demo.truth import allowance_m


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_a_person_reads_it_in_a_minute(name: str) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 80
    assert name in (EXAMPLES.parent / "docs/features.md").read_text(encoding="utf-8")


def test_passchain_keeps_and_counts_its_operators() -> None:
    samples = np.arange(10 * 4096, dtype="i4")
    plan = example("passchain").passchain(samples, operators=10)
    np.testing.assert_array_equal(plan.collect()[:, 0], (samples.astype("i8") + 1).reshape(-1, 4096).sum(axis=1))
    operators = plan.run().report.operators
    passed = [one for one in operators if one.name == "passthrough"]
    assert len(passed) == 10
    assert all(one.items == 10 for one in passed)
    assert all(one.samples == len(samples) for one in operators)


def test_statfilter_finds_what_numpy_finds() -> None:
    rng = np.random.default_rng(0)
    rows = np.rint(rng.standard_normal((50, 4096)) * rng.choice([5, 20], 50)[:, None]).astype("i2")
    plan = example("statfilter").statfilter(iso.scan(rows.reshape(-1), rate=10))
    expected = rows[(rows.std(axis=1) > 10) & (rows.mean(axis=1) < 0)]
    assert 0 < len(expected) < len(rows)
    np.testing.assert_array_equal(plan.collect(), expected)
    assert "filter fusion" in plan.explain()


@pytest.mark.parametrize("speaker", ["george", "jackson", "nicolas"])
def test_silencefilter_finds_every_word_where_it_was_placed(
    recordings: Path, tmp_path: Path, speaker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    silence = example("silencefilter")
    for take in range(6):
        path = tmp_path / f"{speaker}{take}.iso"
        with iso.open(path, "x") as store:
            placed = silence.record(store, recordings / "speech", speaker, take)
            plan = silence.silencefilter(store)
            saved = tmp_path / "plan.json"
            saved.write_text(plan.to_json())
            expected = plan.collect()
            found = [(e.start, e.end) for e in store["speaker"].events.find(kind="voiced")]
        assert found == [tuple(row) for row in expected]
        assert len(found) == 5
        samples = np.asarray(iso.open(path)["speaker"].counts[:]).astype("f8")
        window = silence.RATE // 50
        for (start, end), (first, last) in zip(found, placed, strict=True):
            # In the word, but for the windows that its ends share with the silence, and almost all of its energy.
            assert first - window < start < end < last + window
            energy = np.square(samples[max(start, first) : min(end, last)]).sum()
            assert energy > 0.99 * np.square(samples[first:last]).sum()
        # From the saved plan, by the command line: the same words, which are told once.
        assert main(["run", str(saved), "--json"]) == 0
        with iso.open(path) as store:
            events = [(e.start, e.end) for e in store["speaker"].events.find(kind="voiced")]
            assert sorted(events) == sorted(found)
            voiced = store["voiced"]
            assert 0.1 < voiced.sample_count / store["speaker"].sample_count < 0.6
            assert str(voiced.time_of(0)) == str(store["speaker"].time_of(found[0][0]))
        capsys.readouterr()


def test_silencefilter_runs_as_a_script(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silence = example("silencefilter")
    silence.main(recordings / "speech", tmp_path / "count.iso")
    assert capsys.readouterr().out.count("voiced") == 5
    assert main(["run", str(tmp_path / "count.json")]) == 0
    assert "annotate" in capsys.readouterr().out


def test_detectaudio_finds_every_call_and_keeps_what_all_channels_heard(tmp_path: Path) -> None:
    detect = example("detectaudio")
    with iso.open(tmp_path / "array.iso", "x") as store:
        placed = detect.record(store)
        iso.run(*detect.detectaudio(store))
        events = list(store["mic_0"].events)
        assert len(events) == len(placed) == 18
        for event, begin in zip(events, placed, strict=True):
            # A call swells for milliseconds, and the detector answers in windows of 32 samples.
            assert begin < event.start < begin + 800
            assert begin + 1200 < event.end < begin + 2200
        for name in detect.CHANNELS:
            heard, recorded = store[f"heard/{name}"], store[name]
            spans = [(segment.start, segment.end) for segment in heard[:].segments]
            assert len(spans) == len(events)
            for (start, end), event in zip(spans, events, strict=True):
                assert end - start == event.end - event.start
                expected = recorded[event.start : event.end].values()
                np.testing.assert_allclose(heard[start:end].values(), expected, atol=0.6 if name != "mic_0" else 0)


@pytest.mark.alone
@pytest.mark.parametrize("speed", [10.0, 100.0])
def test_live_finds_while_it_arrives_what_the_archive_run_finds(
    tmp_path: Path, speed: float, capsys: pytest.CaptureFixture[str]
) -> None:
    example("live").main(tmp_path, speed)
    said = capsys.readouterr().out
    assert "the archive run finds the same" in said
    counts = {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", said.splitlines()[0])}
    sent, heard = iso.open(tmp_path / "sent.iso")["sent"], iso.open(tmp_path / "heard.iso")["heard"]
    # All that is missing is in gaps, and what is there is what was sent, at its times, in runs of the sender's clock.
    lost = sum(gap.length for gap in heard.gaps)
    values = heard[:].values()
    offset = sent.end_index - len(values)
    there = np.isfinite(values)
    assert there.sum() == len(values) - lost
    np.testing.assert_array_equal(values[there], sent[:].values()[offset:][there])
    # A busy machine drops datagrams before anybody can read them. What was read in time is kept: a hundred samples of
    # each frame. The frames that say that all was sent have none.
    given_up = ("duplicate frames", "late frames", "overrun frames", "malformed frames")
    kept = counts["frames"] - sum(counts.get(name, 0) for name in given_up)
    assert 0 <= kept - there.sum() / 100 <= 50
    # The sender drops one in two hundred; of what it does not drop one in a hundred comes twice.
    unread = 100 * max(sent.end_index // 100 - counts["frames"], 0)
    assert 0 < lost < 0.02 * sent.end_index + unread
    assert sent.end_index - heard.end_index <= 1000 + unread
    assert len(heard.runs()) == len(sent.runs()) == 2
    assert abs(heard.time_of(0).ns - sent.time_of(offset).ns) < 2000
    # A burst a second; one may lie in a gap, or be cut in two by it.
    if unread == 0:
        assert 28 <= len(heard.events) <= 34


def agree(packets: np.ndarray) -> np.ndarray:
    """Which packets agree with their check."""
    found = [zlib.crc32(packet[:-4].tobytes()) for packet in packets]
    return np.array(found, "u4") == np.ascontiguousarray(packets[:, -4:]).view("<u4")[:, 0]


def test_packets_of_three_rooms_beat_the_best_receiver_and_a_majority(tmp_path: Path) -> None:
    packets = example("packets")
    size = packets.BYTES
    with iso.open(tmp_path / "radio.iso", "x") as store:
        sent = packets.record(store, count=1500, seed=2)
        plans, clusters, rates = packets.rooms(packets.receivers(store))
        together = np.equal.outer(clusters, clusters)
        assert (together == np.equal.outer(packets.ROOMS, packets.ROOMS)).all()
        first, *others = plans
        voted = first.combine_packets(*others, clusters=clusters, error_rates=rates, search=0)
        found = first.combine_packets(*others, clusters=clusters, error_rates=rates)
        iso.run(found.sink(store, "sent"))
        segments = store["sent"][:].segments
        assert len(store["sent"].runs()) == 1
        number = {packet.tobytes(): k for k, packet in enumerate(sent)}
        begun = number[np.asarray(segments[0])[:size].tobytes()]
        for segment in segments:
            for at, packet in enumerate(np.asarray(segment).reshape(-1, size)):
                assert number[packet.tobytes()] == begun + segment.start // size + at
        best = max(plan.combine_packets().rewindow(size).count().collect() for plan in plans)
        # What each receiver heard without an error, or most of all heard, bit by bit.
        votes, intact = np.zeros((len(sent), 8 * size), "i1"), np.zeros(len(sent), bool)
        for signal in store.find("receiver_*"):
            for segment in signal[:].segments:
                copies, at = np.asarray(segment).reshape(-1, size), segment.start // size
                bits = np.unpackbits(copies, axis=1, bitorder="little").view("i1")
                votes[at : at + len(copies)] += 2 * bits - 1
                intact[at : at + len(copies)] |= agree(copies)
        majority = np.count_nonzero(intact | agree(np.packbits(votes > 0, axis=1, bitorder="little")))
        rooms = voted.rewindow(size).count().collect()
        assert best < majority < rooms < sum(map(len, segments)) // size


def test_pipeline_places_every_leak_within_what_a_front_travels_in_a_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = example("pipeline")
    pipeline.main(tmp_path)
    assert capsys.readouterr().out.count(" ± ") == 2
    with iso.open(tmp_path / "pipeline.iso") as store:
        found = pipeline.places(store)
    # The truth, which the example does not read.
    injected = json.loads((tmp_path / "truth.json").read_text())["bursts"]
    assert len(found) == len(injected) == 2
    by_ends = {pipe.ends: pipe for pipe in PIPES}
    for (time, position), burst in zip(found, injected, strict=True):
        pipe = by_ends[tuple(burst["pipe"])]
        error_m = distance_m(position.place, Place(pipe, burst["at_m"]))
        # Clocks are known to microseconds.
        assert error_m <= position.error_m
        assert error_m <= allowance_m(pipe, clock_s=2e-5)
        # The steepest fall follows the front by two or three samples at every station, which only moves the time.
        assert abs(time.ns - burst["at_ns"]) < 5e6


def test_packets_are_put_together_without_a_receiver_of_which_nothing_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = example("packets")
    rng = np.random.default_rng(7)
    spoil = {
        "silent": lambda heard: np.zeros_like(heard),
        "noise": lambda heard: rng.integers(0, 256, len(heard), "u1"),
        "inverted": lambda heard: ~heard,
        "missing": None,
    }
    with iso.open(tmp_path / "radio.iso", "x") as store:
        sent = {packet.tobytes() for packet in packets.record(store, count=400, seed=2)}
        for what, change in spoil.items():
            for gone in ({2}, {0}, set(range(8))):
                with iso.open(tmp_path / f"{what}{len(gone)}{min(gone)}.iso", "x") as spoilt:
                    for k in range(8):
                        copy = spoilt.create(f"receiver_{k}", dtype="u1", rate=packets.BYTES * 1000)
                        for segment in store[f"receiver_{k}"][:].segments:
                            if segment.start > copy.end_index:
                                copy.append_gap(samples=segment.start - copy.end_index)
                            heard = np.asarray(segment)
                            if k in gone and change is None:
                                copy.append_gap(samples=len(heard))
                            else:
                                copy.append(change(heard) if k in gone and change else heard)
                    spoilt.commit()
                    plans, clusters, rates = packets.rooms(packets.receivers(spoilt))
                    assert f"receivers {sorted(gone)}" in capsys.readouterr().out
                    assert len(plans) == len(clusters) == len(rates) == 8 - len(gone)
                    assert np.isfinite(rates).all()
                    if plans:
                        together = plans[0].combine_packets(*plans[1:], clusters=clusters, error_rates=rates)
                        rows = together.collect().reshape(-1, packets.BYTES)
                        assert len(rows) > 380
                        assert {row.tobytes() for row in rows} <= sent


def test_pipeline_goes_on_without_stations_that_are_silent_or_constant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = example("pipeline")
    names = [station.name for station in pipeline.STATIONS]
    with iso.open(tmp_path / "sound.iso", "x") as store:
        pipeline.record(store, tmp_path)
    injected = json.loads((tmp_path / "truth.json").read_text())["bursts"]
    by_ends = {pipe.ends: pipe for pipe in PIPES}
    sound = iso.open(tmp_path / "sound.iso")
    for number, gone in enumerate((names[2:3], names[:1], names[1:3], names)):
        for constant in (False, True):
            with iso.open(tmp_path / f"{number}{constant}.iso", "x") as spoilt:
                for name in names:
                    heard = sound[f"{name}/pressure"]
                    copy = spoilt.create(heard.name, dtype="i2", rate=pipeline.RATE_HZ, unit="mbar")
                    for segment in heard[:].segments if constant or name not in gone else ():
                        for start in range(segment.start, segment.end, 240_000):
                            part = heard[start : min(start + 240_000, segment.end)]
                            samples = np.asarray(part.counts)
                            samples = np.full_like(samples, 500) if name in gone else samples
                            copy.append(samples, at=heard.time_of(start), resolution=1e-6)
                spoilt.commit()
                found = pipeline.places(spoilt)
            said = capsys.readouterr().out
            assert all(f"{name}/pressure is silent or constant: left out" in said for name in gone)
            if len(gone) > 1:
                assert found == []
                assert "no place can be told" in said
                continue
            # Three stations tell of each front or of none, and what they tell is true.
            assert found
            for time, position in found:
                burst = min(injected, key=lambda one: abs(one["at_ns"] - time.ns))
                place = Place(by_ends[tuple(burst["pipe"])], burst["at_m"])
                assert distance_m(position.place, place) <= position.error_m


def test_backwards_scan_seeks_no_more_than_forward_once_it_is_reordered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backwards = example("backwards_scan")
    with iso.open(tmp_path / "wander.iso", "x") as store:
        signal = backwards.record(store, parts=40)
        rows = np.asarray(signal).reshape(40, -1)
        expected = {k * backwards.PART: (row.min(), row.max(), row.mean()) for k, row in enumerate(rows)}
        for order, seeks in (("given", 40), ("disk", 1)):
            disk = backwards.Disk(0)
            assert backwards.scan(signal, disk, order=order) == expected
            assert disk.seeks == seeks
    backwards.main(parts=4, seek_ms=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2 if k == 0 else -5] for k, line in enumerate(lines)] == ["1", "4", "1"]


@pytest.mark.parametrize("plans", [False, True])
def test_fft_adder_adds_what_numpy_adds_within_its_scratch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plans: bool
) -> None:
    adder = example("fft_adder")
    with iso.open(tmp_path / "tones.iso", "x") as store:
        adder.record(store, parts=5)
        # Both spectra of one part, of eight bytes a value.
        budget = 2 * 8 * adder.WINDOWS * adder.BINS
        report = adder.fft_adder(store, plans=plans, workers=2, scratch=budget).run()
        assert report.peak_scratch_bytes == budget
        windows = [store[name].values().reshape(-1, adder.WINDOW) for name in ("left", "right")]
        expected = np.fft.rfft(windows[0]) + np.fft.rfft(windows[1])
        np.testing.assert_allclose(store["added"].values(), expected.ravel(), atol=1e-6 * np.abs(expected).max())
    if plans:
        return
    adder.main(tmp_path / "tones.iso")
    assert "15 of 15 tasklets are kept" in capsys.readouterr().out
    adder.main(parts=2)
    assert "6 done" in capsys.readouterr().out
