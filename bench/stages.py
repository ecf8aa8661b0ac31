"""Plans that keep state, on two workers against one, by turns: what stages gain, and what they cost where they cannot.

No more than B = min(2, T1 / Ts) can be gained: T1 is one worker's time, Ts that of the heaviest operator that must
work in order, both of the same run. Two cores of a virtual machine may be less than twice one, as where they are
threads of one physical core: what two processes gain that do the same side by side, one worker each, is measured, too.
Results are asserted to have the same bits.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers import quartiles
from peers_flow import RESULTS, compare

import numpy as np  # isort: skip

import isochrony as iso

RATE, AUDIO_RATE = 1000, 48_000
WINDOW = 4096
#: Part of B that must be reached, and of one worker's speed that must be kept where nothing can be gained.
GOAL, KEPT = 0.9, 0.97
#: Part of the throughput that must be left where times are measured, and the width of the interval that shows it.
MEASURED, NARROW = 0.99, 0.005
#: Operators that work in order whatever the number of workers; `ca_cfar` since its sums run through all samples.
IN_ORDER = ("scan", "iir", "stalta", "ca_cfar", "cfar", "triggers")
#: Of a live feed: samples a second, of a segment, and seconds within which 99 of 100 windows must be through.
FEED, SEGMENT, LATENCY = 1_000_000, 1000, 0.005


def plans(x: np.ndarray[Any, Any]) -> dict[str, list[iso.Plan]]:
    """Plans by name."""

    def generated() -> Iterator[np.ndarray[Any, Any]]:
        yield from x.reshape(-1, 1 << 17)

    def scan(k: int = 0) -> iso.Plan:
        return iso.scan(x + np.float32(k), rate=RATE)

    def greatest(plan: iso.Plan) -> iso.Plan:
        return plan.rewindow(WINDOW).map(lambda s: s.max())

    made = iso.generate(generated, dtype="f4", rate=RATE)
    return {
        "low-pass, power": [scan().lowpass(50).rewindow(WINDOW).power().map(lambda s: s.max())],
        "three filters in a row": [greatest(scan().lowpass(50).highpass(5).lowpass(40))],
        "power of generated samples": [made.rewindow(WINDOW).power().map(lambda s: s.max())],
        "four channels, a low-pass each": [greatest(scan(k).lowpass(50)) for k in range(4)],
        "STA/LTA, CFAR": [scan().stalta(0.05, 1.0).ca_cfar(pfa=1e-3, training=32, guard=4)],
    }


def live_detectors(x: np.ndarray[Any, Any], folder: str) -> list[iso.Plan]:
    """DETECTAUDIO on four channels that are followed: read as live sources, as fast as they are computed."""
    store = iso.open(f"{folder}/channels.iso", "x")
    plans = []
    for k in range(4):
        signal = store.create(f"mic_{k}", dtype="i2", rate=AUDIO_RATE)
        signal.append(np.roll(x, k * 1000).astype("i2"))
        signal.seal()
        score = iso.scan(iso.follow(signal)).rewindow(32).spectral_score(band_hz=(1500, 7500))
        plans.append(score.cfar(deviations=7, memory=1000).triggers(on=1, off=0.5, min_length=0.005, merge=0.02))
    store.commit()
    return plans


def without_gain(x: np.ndarray[Any, Any]) -> dict[str, list[iso.Plan]]:
    """Plans of which one operator does nearly all."""
    low = iso.scan(x, rate=RATE).lowpass(50)
    return {"one low-pass": [low], "one low-pass, count": [low.rewindow(WINDOW).count()]}


def bound(plans: list[iso.Plan]) -> float:
    """B, of the median of a few runs on one worker."""
    bounds = []
    for _ in range(5):
        report = iso.run(*plans, workers=1).report
        in_order = [one.useful_s for one in report.operators if one.name in IN_ORDER]
        bounds.append(min(2.0, report.elapsed_s / max(in_order)))
    return sorted(bounds)[2]


class Twin:
    """A process that runs the same plans on one worker whenever this one does.

    It is forked, so that it has the samples without a copy; before anything runs, since a fork has one thread only and
    the locks that other threads hold.

    Parameters:
        plans: of each name.
    """

    def __init__(self, plans: dict[str, list[iso.Plan]]) -> None:
        context = multiprocessing.get_context("fork")
        self._plans = plans
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs,), daemon=True)
        self._process.start()
        # With the only copy in the other process, its end is noticed here.
        theirs.close()

    def half(self, name: str) -> float:
        """Half the seconds that both take to run the plans of a name, each by itself."""
        start = time.perf_counter()
        self._ours.send(name)
        collected(self._plans[name], 1)
        self._ours.recv()
        return (time.perf_counter() - start) / 2

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()

    def _serve(self, theirs: Any) -> None:
        self._ours.close()
        while True:
            try:
                name = theirs.recv()
            except EOFError:
                return
            collected(self._plans[name], 1)
            theirs.send(None)


def measure(
    name: str,
    plans: list[iso.Plan],
    samples: int,
    goal: float,
    rounds: int,
    most: str = "",
    twin: Twin | None = None,
) -> None:
    expected = [np.asarray(one) for one in collected(plans, 1)]

    def turn(workers: int) -> float:
        start = time.perf_counter()
        found = collected(plans, workers)
        spent = time.perf_counter() - start
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
        return spent

    other, others, goals = f"one worker{most}", {}, {}
    others[other], goals[other] = lambda: turn(1), round(goal, 2)
    if twin is not None:
        both = "two processes that each do the same, half their time"
        others[both], goals[both] = lambda: twin.half(name), GOAL
    compare(f"stages/{name}/2-workers", lambda: turn(2), others, samples=samples, rounds=rounds, size=4, goals=goals)


def measure_measuring(x: np.ndarray[Any, Any], pairs: int) -> None:
    """Throughput with clocks in it against that without, with both cores busy: by turns, until the 95 % interval of the
    median is `NARROW` wide, at most `pairs` times.
    """
    plan = plans(x)["three filters in a row"]

    def spent(measured: bool) -> float:
        start = time.perf_counter()
        iso.collect(plan, workers=2, measure=measured)
        return time.perf_counter() - start

    times: list[tuple[float, float]] = []
    interval = (0.0, 1.0)
    random = np.random.default_rng(0)
    while len(times) < pairs and (len(times) < 20 or interval[1] - interval[0] > NARROW):
        if len(times) % 2:
            with_clocks, without = spent(True), spent(False)
        else:
            without, with_clocks = spent(False), spent(True)
        times.append((with_clocks, without))
        if len(times) % 20 == 0:
            ratios = np.array([without / with_clocks for with_clocks, without in times])
            medians = np.median(random.choice(ratios, (2000, len(ratios))), axis=1)
            interval = (float(np.quantile(medians, 0.025)), float(np.quantile(medians, 0.975)))
    ratios = np.array([without / with_clocks for with_clocks, without in times])
    ratio = float(np.median(ratios))
    RESULTS.append(
        {
            "name": f"stages/measuring/2-workers, {len(times)} pairs, the 95 % interval",
            "other": "measure=False",
            "bytes": 4 * len(x),
            "seconds": quartiles([one for one, _ in times]),
            "other_seconds": quartiles([one for _, one in times]),
            "ratio": (ratio, *interval),
            "goal": f">= {MEASURED}",
            "met": interval[0] >= MEASURED,
        }
    )
    print(
        f"measured at {ratio:.4f} ({interval[0]:.4f} to {interval[1]:.4f}) of the speed without, {len(times)} pairs",
        flush=True,
    )


SENDER = """
import sys
import numpy as np
import isochrony as iso

address, seconds, rate, segment = sys.argv[1], *map(int, sys.argv[2:])
piece = np.arange(segment, dtype="i2")
iso.generate(lambda: iter([piece] * (seconds * rate // segment)), dtype="i2", rate=rate).send(address, speed=1).run()
"""


def latencies(seconds: int) -> np.ndarray[Any, Any]:
    """Seconds from when a window was complete, by the feed's own clock, to when a function got its row, behind three
    stages. The clock is fitted to the earliest arrivals, so what is measured is what comes on top of those.
    """
    listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=FEED, silence=2)
    found: list[np.ndarray[Any, Any]] = []

    def note(rows: Any, _: int) -> None:
        now = np.datetime64(time.time_ns(), "ns")
        complete = np.asarray(rows["time"]) + np.timedelta64(SEGMENT * 1_000_000_000 // FEED, "ns")
        found.append((now - complete).astype("i8") / 1e9)

    filtered = iso.scan(listener, segment=SEGMENT).lowpass(100_000).highpass(100)
    plan = filtered.rewindow(SEGMENT).stats("max").each(note)
    command = [sys.executable, "-c", SENDER, listener.address, str(seconds), str(FEED), str(SEGMENT)]
    sender = subprocess.Popen(command)
    report = plan.run(workers=3).report
    assert sender.wait() == 0 and len({one.number for one in report.stages}) >= 3
    # The first second belongs to what starts.
    return np.concatenate(found)[FEED // SEGMENT :]


def measure_latency(seconds: int, rounds: int) -> None:
    of_rounds = [float(np.quantile(latencies(seconds), 0.99)) for _ in range(rounds)]
    late = quartiles(of_rounds)
    ratio = quartiles([LATENCY / one for one in of_rounds])
    RESULTS.append(
        {
            "name": "stages/latency of a live feed/3-workers",
            "other": "5 ms, which 99 of 100 windows must not exceed",
            "bytes": 2 * FEED * seconds,
            "seconds": late,
            "other_seconds": (LATENCY, LATENCY, LATENCY),
            "ratio": ratio,
            "goal": ">= 1",
            "met": ratio[0] >= 1,
        }
    )
    print(f"99 of 100 windows of a live feed are through within {1e3 * late[0]:.2f} ms", flush=True)


def collected(plans: list[iso.Plan], workers: int) -> list[Any]:
    found = iso.collect(plans, workers=workers)
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    count, rounds = (1 << 19, 1) if arguments.quick else (1 << 24, 15)
    x = np.random.default_rng(0).normal(0, 100, count).astype("f4")
    cases = plans(x)
    twin = Twin(cases)
    for name, some in cases.items():
        most = bound(some)
        measure(name, some, count * len(some), GOAL * most, rounds, f"; no more than {most:.2f} can be gained", twin)
    twin.close()
    with tempfile.TemporaryDirectory() as folder:
        some = live_detectors(x, folder)
        most = bound(some)
        what = f"; no more than {most:.2f} can be gained"
        # Its sources are of this process.
        measure("DETECTAUDIO live on four channels", some, count * 4, GOAL * most, rounds, what)
    for name, some in without_gain(x).items():
        measure(name, some, count, KEPT, rounds)
    measure_measuring(x[: 1 << 21], 20 if arguments.quick else 1500)
    measure_latency(2 if arguments.quick else 10, 1 if arguments.quick else 5)
    if arguments.out:
        arguments.out.write_text(json.dumps(RESULTS, indent=1))


if __name__ == "__main__":
    sys.exit(main())
