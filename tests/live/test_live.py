"""Feeds from end to end: a stored recording is sent over real sockets, and what a plan finds there is compared."""

import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isochrony as iso

RATE = 20_000


def recording(seconds: int = 6, seed: int = 1) -> np.ndarray:
    """Noise with bursts at known places."""
    rng = np.random.default_rng(seed)
    samples = rng.normal(0, 30, RATE * seconds)
    for at in range(RATE // 2, len(samples), RATE):
        samples[at : at + 400] += 2000 * np.sin(np.arange(400) / 3)
    return samples.astype("i2")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A recording with a gap and a clock step, at known civil times."""
    samples = recording()
    store = iso.open(tmp_path / "sent.iso", "x")
    writer = store.create("mic", dtype="i2", rate=RATE, unit="Pa", start="2026-01-01T00:00:00Z")
    writer.append(samples[: 2 * RATE])
    writer.append_gap(samples=1234)
    writer.append(samples[2 * RATE : 4 * RATE])
    writer.append(samples[4 * RATE :], at="2025-12-31T23:00:00Z")
    store.commit()
    return store


def sent(plan: iso.Plan) -> threading.Thread:
    thread = threading.Thread(target=plan.run, daemon=True)
    thread.start()
    return thread


def loud(plan: iso.Plan) -> iso.Plan:
    return plan.rewindow(100).filter(lambda s: s.std() > 300).ranges()


def starts(signal: Any) -> list[int]:
    return [gap.start for gap in signal.gaps]


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_a_feed_is_what_was_recorded(store: Any, scheme: str, tmp_path: Path) -> None:
    signal = store["mic"]
    listener = iso.listen(f"{scheme}://127.0.0.1:0", dtype="i2", rate=RATE, unit="Pa", silence=10)
    sending = sent(iso.scan(signal, segment=500).send(listener.address, speed=20))
    with iso.open(tmp_path / "got.iso", "a") as got:
        plan = iso.scan(listener, segment=5000).sink(got, "mic")
        plan.run()
        sending.join()
        mic = got["mic"]
        # Nothing is lost, the gap is a gap of as many samples, the clock step a run, and times are the sender's.
        assert listener.counts["lost_samples"] == 0
        assert listener.counts["samples"] == 6 * RATE
        assert listener.counts["clock_steps"] == 1
        assert [gap.length for gap in mic.gaps] == [gap.length for gap in signal.gaps]
        assert len(mic.runs()) == len(signal.runs()) == 2
        assert np.array_equal(mic[:].values(), signal[:].values(), equal_nan=True)
        for index in (0, 2 * RATE - 1, 3 * RATE, 5 * RATE + 1234):
            apart = mic.time_of(index).ns - signal.time_of(index).ns
            assert abs(apart) < 2_000, f"{apart} ns at {index}"
        # The live run over the feed finds what the archive run over what was stored finds.
        assert np.array_equal(loud(iso.scan(mic)).collect(), loud(iso.scan(signal)).collect())


@pytest.mark.parametrize("form", ["table", "segments"])
def test_a_feed_has_the_forms_of_a_recording(store: Any, form: Any) -> None:
    signal = store["mic"]
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=RATE, unit="Pa", silence=10)
    sending = sent(iso.scan(signal, segment=500).send(listener.address, speed=20))
    got = iso.scan(listener, segment=5000).collect(as_=form)
    sending.join()
    segments = signal[:].segments
    assert len(segments) == 3
    if form == "segments":
        assert [len(one) for one in got] == [len(one) for one in segments]
        np.testing.assert_array_equal(np.concatenate([one.values() for one in got]), np.concatenate(segments))
        for one, other in zip(got, segments, strict=True):
            assert abs(one.time.ns - other.time.ns) < 2_000
    else:
        np.testing.assert_array_equal(got[got.columns[-1]], np.concatenate(segments))
        index = np.concatenate([np.arange(one.start, one.end) for one in segments])
        assert abs((got["time"] - signal.time_of(index)).view("i8")).max() < 2_000
        assert (np.diff(got["time"].view("i8")) < 0).sum() == 1


def test_a_loop_over_a_feed_gets_every_sample_and_ends_while_the_feed_is_silent(store: Any) -> None:
    signal = store["mic"]
    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=RATE, unit="Pa", silence=600)
    sending = sent(iso.scan(signal, segment=500).send(listener.address, speed=20))
    blocks, count, left = [], 0, 0.0
    for block in iso.scan(listener, segment=500):
        blocks.append(block)
        count += len(block.values)
        if count == 6 * RATE:
            left = time.monotonic()
            break
    assert 0 < time.monotonic() - left < 5
    sending.join()
    np.testing.assert_array_equal(np.concatenate([one.values for one in blocks]), np.concatenate(signal[:].segments))
    assert [one.breaks for one in blocks if one.breaks] == [("gap",), ("clock",)]


def test_detections_over_a_lossy_network_are_those_of_the_archive_but_for_the_gaps(store: Any, tmp_path: Path) -> None:
    signal = store["mic"]
    listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=RATE, unit="Pa", silence=10, reorder=0.1)
    faulty = iso.scan(signal, segment=500).send(
        listener.address, speed=10, frame=100, loss=0.03, twice=0.02, jitter=0.02, seed=5
    )
    sending = sent(faulty)
    with iso.open(tmp_path / "got.iso", "a") as got:
        feed = iso.scan(listener, segment=5000).sink(got, "mic")
        live = loud(feed).collect()
        sending.join()
        mic, counts = got["mic"], listener.counts
        assert counts["reordered_frames"] > 0
        assert counts["duplicate_frames"] > 0
        assert counts["late_frames"] == counts["malformed_frames"] == counts["overrun_frames"] == 0
        # Every sample is there or within a gap, and what is there is what was sent.
        begin = signal[:].values()
        values = mic[:].values()
        there = np.isfinite(values)
        offset = len(begin) - len(values)  # the very first frames may be among those that were lost
        assert 0 <= offset <= 500
        assert np.array_equal(values[there], begin[offset:][there])
        assert there.sum() == counts["samples"]
        assert sum(gap.length for gap in mic.gaps) == counts["lost_samples"] + 1234
        # What was found while it arrived is what the archive run over the stored samples finds.
        assert np.array_equal(live, loud(iso.scan(mic)).collect())
        assert len(live) >= 5


def test_from_arrival_to_result_takes_less_than_five_milliseconds_at_a_megasample_a_second() -> None:
    rate = 1_000_000
    listener = iso.listen("udp://127.0.0.1:0", dtype="f4", rate=rate, silence=5)
    noise = np.random.default_rng(2).normal(size=2 * rate).astype("f4")
    sending = sent(iso.scan(noise, rate=rate, segment=1000).send(listener.address, speed=1, frame=1000))
    rows = iso.scan(listener, segment=1000).rewindow(1000).stats("min", "max", "std").collect()
    sending.join()
    assert len(rows["start"]) == 2000
    latency = listener.latency
    assert latency.items > 1000
    assert latency.median < 5e-3, latency


def test_a_run_over_a_feed_is_stopped_at_once_and_keeps_what_was_committed(tmp_path: Path) -> None:
    code = """
import isochrony as iso, sys
listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000)
with iso.open(sys.argv[1], "a") as store:
    print(listener.address, flush=True)
    try:
        iso.scan(listener).sink(store, "mic").run()
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""
    path = tmp_path / "got.iso"
    program = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    address = program.stdout.readline().strip()
    sending = sent(iso.scan(np.arange(3000, dtype="i2"), rate=1000, segment=20).send(address, speed=1))
    time.sleep(2.2)
    program.send_signal(2)
    begun = time.monotonic()
    assert program.stdout.readline() == "stopped\n"
    assert time.monotonic() - begun < 1
    program.wait()
    sending.join()
    kept = iso.open(path)["mic"][:].values()
    assert len(kept) >= 900
    assert np.array_equal(kept, np.arange(len(kept)))


def test_samples_are_read_from_standard_input() -> None:
    code = """
import isochrony as iso
feed = iso.listen("-", dtype=">i2", rate=1000, framing="raw")
print(iso.scan(feed).rewindow(100).map(lambda s: s.sum()).collect()[:, 0].tolist())
"""
    samples = np.arange(1050).astype(">i2")
    done = subprocess.run([sys.executable, "-c", code], input=samples.tobytes() + b"x", capture_output=True, check=True)
    assert json.loads(done.stdout) == [int(samples[k : k + 100].sum()) for k in range(0, 1000, 100)]


def test_arrival_times_are_this_machines_and_follow_the_samples() -> None:
    listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=5)
    before = time.time_ns()
    sending = sent(iso.scan(np.zeros(1500, "i2"), rate=1000, segment=20).send(listener.address, speed=1))
    table = iso.scan(listener).rewindow(250).stats("mean").collect()
    sending.join()
    times = np.asarray(table["time"]).astype("i8")
    assert before - 50_000_000 < times[0] < time.time_ns()
    assert np.all(np.abs(np.diff(times) - 250_000_000) < 5_000_000)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: iso.listen("udp://0.0.0.0:0", dtype="i2", rate=1), "anyone=True"),
        (lambda: iso.listen("localhost:1", dtype="i2", rate=1), "udp://HOST:PORT"),
        (lambda: iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=1, framing="<u4"), "only udp:// has"),
        (lambda: iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=1, reorder=-1), "reorder=-1"),
        (lambda: iso.scan(np.zeros(4), rate=1).send("udp://127.0.0.1:9", loss=2), "probability"),
        (lambda: iso.scan(np.zeros(4), rate=1).send("udp://127.0.0.1:9", jitter=2.0**63), "at most 60 s"),
        (lambda: iso.scan(np.zeros(4), rate=1).send("udp://127.0.0.1:9", speed=0), "speed=0"),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(iso.OptionError, match=None) as caught:
        plan = call()
        plan.run()
    assert words in str(caught.value)


def test_a_plan_over_a_feed_is_saved_and_read_again() -> None:
    listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=1000, silence=0.2)
    plan = iso.scan(listener).rewindow(100).count()
    saved = plan.to_json()
    address = listener.address
    del plan, listener
    again = iso.Plan.from_json(saved)
    assert address in saved
    sent(iso.scan(np.zeros(1000, "i2"), rate=1000).send(address)).join()
    assert again.collect() in (0, 10)  # datagrams may come before the run begins to read: the kernel keeps them
    other = iso.listen(address.replace("udp", "tcp"), dtype="i2", rate=1)
    taken = iso.Plan.from_json(saved.replace("udp://", "tcp://"))
    with pytest.raises(iso.RunError, match="in use"):
        taken.collect()
    del other
    assert taken.collect() == 0


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("udp://127.0.0.1:0", {"channel": 3}),
        ("tcp://127.0.0.1:0", {"timeout": 5}),
        ("-", {"channel": 1}),
        ("audio:", {"timeout": 5}),
        ("seedlink://127.0.0.1:1/XX.TEST..BHZ", {"channel": 2}),
    ],
)
def test_options_of_other_feeds_are_refused(address: str, options: dict[str, Any]) -> None:
    (option,) = options
    with pytest.raises(iso.OptionError, match=f"{option}=. has no meaning for {address}"):
        iso.listen(address, dtype="i2", rate=1000, **options)


def test_a_listener_without_a_descriptor_left_does_not_spin() -> None:
    program = """
    import os, resource, socket, threading, time
    import isochrony as iso

    listener = iso.listen("tcp://127.0.0.1:0", dtype="i2", rate=1000, silence=3)
    run = threading.Thread(target=lambda: iso.scan(listener).count().collect())
    run.start()
    time.sleep(0.2)
    client = socket.socket()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass
    client.connect(("127.0.0.1", int(listener.address.rpartition(":")[2])))
    before = time.process_time()
    time.sleep(1)
    print(time.process_time() - before)
    for number in held:
        os.close(number)
    run.join()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.5
