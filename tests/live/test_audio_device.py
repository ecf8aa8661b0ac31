"""Audio devices, against a stand-in for sounddevice that does what its documentation says."""

import sys
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import isochrony as iso

RATE = 8000
BLOCK = 80


class Fake(types.ModuleType):
    """Two devices, one of them for input. Its stream gives a ramp, in blocks of 10 ms, and loses what it is told to.

    By the documentation of sounddevice: the callback gets an array of shape (frames, channels), which it must not keep,
    the number of frames, times in seconds of the stream's own clock, and flags, in a thread of PortAudio's.
    """

    class PortAudioError(Exception):
        pass

    def __init__(self, blocks: int, lost: dict[int, int], *, times: bool = True) -> None:
        super().__init__("sounddevice")
        self.blocks, self.lost, self.times = blocks, lost, times
        self.opened = self.closed = 0

    def query_devices(self, device: Any = None, kind: str | None = None) -> Any:
        devices = [
            {"name": "Speakers", "max_input_channels": 0, "default_samplerate": 44100.0},
            {"name": "USB microphones", "max_input_channels": 2, "default_samplerate": float(RATE)},
        ]
        if kind is None and device is None:
            return devices
        found = [
            one for k, one in enumerate(devices) if device in (None, k) or str(device).lower() in one["name"].lower()
        ]
        found = [one for one in found if one["max_input_channels"]]
        if not found:
            raise ValueError(f"No input device matching {device!r}")
        return found[0]

    def check_input_settings(self, *, device: Any, channels: int, dtype: str, samplerate: float) -> None:
        if samplerate not in (RATE, 44100.0):
            raise self.PortAudioError("Invalid sample rate [PaErrorCode -9997]")

    def InputStream(self, **options: Any) -> Any:  # noqa: N802
        return Stream(self, **options)


class Stream:
    def __init__(
        self, fake: Fake, *, callback: Any, channels: int, dtype: str, finished_callback: Any, **options: Any
    ) -> None:
        self.fake, self.callback, self.finished = fake, callback, finished_callback
        self.block = np.zeros((BLOCK, channels), dtype)
        self.running = threading.Event()
        self.thread = threading.Thread(target=self.play, daemon=True)
        fake.opened += 1

    def start(self) -> None:
        self.running.set()
        self.thread.start()

    def play(self) -> None:
        at, begun = 0, time.monotonic()
        for k in range(self.fake.blocks):
            if not self.running.is_set():
                break
            lost = self.fake.lost.get(k, 0)
            at += lost
            # A block is there when its last sample is: as the device's clock has it, which begins anywhere.
            time.sleep(max(0.0, begun + (at + BLOCK) / RATE - time.monotonic()))
            self.block[:, :] = np.arange(at, at + BLOCK)[:, None] + 10_000 * np.arange(self.block.shape[1])
            when = types.SimpleNamespace(inputBufferAdcTime=0.0, currentTime=0.0, outputBufferDacTime=0.0)
            if self.fake.times:
                when.inputBufferAdcTime = 5000 + at / RATE
                when.currentTime = 5000 + time.monotonic() - begun
            status = types.SimpleNamespace(input_overflow=bool(lost), input_underflow=False)
            self.callback(self.block, BLOCK, when, status)
            self.block[:] = 0  # the memory is the device's again
            at += BLOCK
        else:
            self.finished()

    def stop(self) -> None:
        self.running.clear()
        self.thread.join()

    def close(self) -> None:
        self.fake.closed += 1


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def connected(blocks: int = 50, lost: dict[int, int] | None = None, **options: Any) -> Fake:
        fake = Fake(blocks, lost or {}, **options)
        monkeypatch.setitem(sys.modules, "sounddevice", fake)
        return fake

    return connected


def test_samples_of_a_channel_come_as_they_are(device: Any) -> None:
    fake = device()
    listener = iso.listen("audio:")
    assert repr(listener) == "<Listener at audio:>"
    got = iso.scan(listener).collect()
    assert got.dtype == np.float32
    assert np.array_equal(got, np.arange(50 * BLOCK))
    other = iso.listen("audio:usb", channel=1, dtype="i4")
    assert np.array_equal(iso.scan(other).collect(), np.arange(50 * BLOCK) + 10_000)
    assert np.array_equal(iso.scan(iso.listen("audio:1")).limit(100).collect(), np.arange(100))
    assert fake.opened == fake.closed == 3


def test_what_the_device_loses_is_a_gap_as_long_as_its_clock_says(device: Any, store: iso.Store) -> None:
    device(60, {20: 123, 40: 1000})
    listener = iso.listen("audio:", unit="Pa")
    iso.scan(listener).sink(store, "mic").run()
    signal = store["mic"]
    assert [(gap.start, gap.length) for gap in signal.gaps] == [(1600, 123), (3323, 1000)]
    there = signal[:].values()
    assert np.array_equal(there[np.isfinite(there)], np.flatnonzero(np.isfinite(there)))
    assert listener.counts["device_overruns"] == 2
    assert listener.counts["lost_samples"] == 1123


def test_a_device_without_times_loses_at_least_a_sample(device: Any, store: iso.Store) -> None:
    device(30, {10: 500}, times=False)
    iso.scan(iso.listen("audio:")).sink(store, "mic").run()
    assert [(gap.start, gap.length) for gap in store["mic"].gaps] == [(800, 1)]


@pytest.mark.parametrize("times", [True, False])
def test_times_are_those_of_the_samples(device: Any, times: bool) -> None:
    device(150, {}, times=times)
    before = time.time_ns()
    table = iso.scan(iso.listen("audio:")).rewindow(RATE // 4).stats("min").collect()
    at = table["time"].astype("i8")
    # The first sample was taken when the stream began; threads of a busy machine come late, never early.
    assert -1_000_000 < at[0] - before < 300_000_000
    assert np.abs(np.diff(at) - 250_000_000).max() < 5_000_000


def test_a_plan_that_is_too_slow_has_gaps_and_the_device_never_waits(device: Any, store: iso.Store) -> None:
    device(100)
    listener = iso.listen("audio:", buffer=2000)

    def slow(values: Any, start: int) -> None:
        time.sleep(0.1)

    plan = iso.scan(listener, segment=BLOCK).each(slow).sink(store, "mic")
    begun = time.monotonic()
    plan.run()
    assert time.monotonic() - begun < 10
    counts = listener.counts
    assert counts["overrun_frames"] > 0
    signal = store["mic"]
    # Blocks have room or have none: what is missing are whole ones, as many as were counted. Those at the end, behind
    # which nothing came, are missing without being a gap.
    missing = sum(gap.length for gap in signal.gaps)
    behind = 100 * BLOCK - signal.end_index
    assert missing > 0
    assert missing == counts["overrun_frames"] * BLOCK - behind == counts["lost_samples"]
    assert signal.sample_count == counts["samples"] == (100 - counts["overrun_frames"]) * BLOCK
    assert {number % BLOCK for gap in signal.gaps for number in (gap.start, gap.length)} == {0}
    there = signal[:].values()
    assert np.array_equal(there[np.isfinite(there)], np.flatnonzero(np.isfinite(there)))


def test_what_cannot_be_is_said_at_once(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device()
    for address, options, words in [
        ("audio:harpsichord", {}, "no audio device harpsichord.*USB microphones"),
        ("audio:0", {}, "no audio device 0"),
        ("audio:", {"channel": 2}, "channel=2.*from 0 to 1"),
        ("audio:", {"channel": -1}, "channel="),
        ("audio:", {"dtype": "f8"}, "float32"),
        ("audio:", {"rate": 12345}, "Invalid sample rate"),
        ("audio:", {"rate": "0.5"}, "a whole number of Hz"),
        ("audio:", {"framing": "raw"}, "no meaning"),
        ("udp://127.0.0.1:0", {}, "dtype= and rate="),
    ]:
        with pytest.raises(iso.OptionError, match=words):
            iso.listen(address, **options)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(iso.MissingExtraError, match=r"isochrony\[device\]"):
        iso.listen("audio:")


def test_a_plan_over_a_device_is_saved_and_read_again(device: Any) -> None:
    device(5)
    saved = iso.scan(iso.listen("audio:usb", dtype="i2", channel=1)).count().to_json()
    assert iso.Plan.from_json(saved).collect() == 5 * BLOCK
