"""The applications of the WaveScope thesis, each as a bare loop, in plain Python, with one worker and with all cores.

Scan Summarize, Windowed FFT, Backwards Scan with and without reordering, and FFT Adder (J. E. Smith, 2010, tables 6.1
to 6.7), by turns: windows of 64 pages, 131,072 samples of 16 bits, of recordings that are in the page cache ("cached")
or not ("cold"). Bare loops are those of `src/archives.rs`, in a process of their own that times itself. Results are
asserted equal before a time counts.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import scipy.fft  # noqa: E402
from peers import quartiles  # noqa: E402
from peers_flow import Server  # noqa: E402

import isochrony as iso  # noqa: E402

WINDOW = 131_072
BINS = WINDOW // 2 + 1
CORES = len(os.sched_getaffinity(0))
RESULTS: list[dict[str, Any]] = []

#: Runs once; gives seconds and a number that the result determines.
Run = Callable[[], tuple[float, int]]


def compare(
    name: str,
    runs: dict[str, Run],
    goals: dict[tuple[str, str], float],
    size: int,
    rounds: int,
    prepare: Callable[[], None],
) -> dict[str, list[float]]:
    """Times all by turns after a round that does not count; over the rounds each follows each other as often."""
    names = list(runs)
    times: dict[str, list[float]] = {which: [] for which in names}
    expected = None
    for turn in range(rounds + 1):
        for which in (names[k] for k in order(len(names), turn)):
            prepare()
            spent, found = runs[which]()
            expected = found if expected is None else expected
            assert found == expected, f"{name}: {which} gives {found} instead of {expected}"
            if turn:
                times[which].append(spent)
    pairs = [(ours, names[0]) for ours in names[1:]] + [pair for pair in goals if pair[1] != names[0]]
    for ours, other in pairs:
        tell(f"archives/{name}/{ours}", times[ours], other, times[other], goals.get((ours, other)), size)
    return times


def order(count: int, turn: int) -> list[int]:
    """A round in which each of so many follows another than in the rounds before (Williams 1949)."""
    steps = [(k + 1) // 2 if k % 2 else count - k // 2 for k in range(count)]
    if count % 2 and turn // count % 2:
        steps.reverse()
    return [(step + turn) % count for step in steps]


def tell(name: str, ours: list[float], other: str, others: list[float], goal: float | None, size: int) -> None:
    """One line of the report."""
    ratio = quartiles([b / a for a, b in zip(ours, others, strict=True)])
    met = None if goal is None else ratio[0] >= goal
    RESULTS.append(
        {
            "name": name,
            "other": other,
            "bytes": size,
            "seconds": quartiles(ours),
            "other_seconds": quartiles(others),
            "ratio": ratio,
            "goal": None if goal is None else f">= {goal}",
            "met": met,
        }
    )
    print(
        f"{name}: {quartiles(ours)[0]:.3f} s, {other} {quartiles(others)[0]:.3f} s, "
        f"ratio {ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})"
        + ("" if met is None else f"; goal >= {goal}: {met}"),
        flush=True,
    )


def timed(run: Callable[[], int]) -> Run:
    def turn() -> tuple[float, int]:
        start = time.perf_counter()
        found = run()
        return time.perf_counter() - start, int(found)

    return turn


def ask(server: Server, request: str) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write(f"bare {request}\n")
    server.process.stdin.flush()


def answer(server: Server) -> tuple[float, int]:
    seconds, found = server._line().split()
    return float(seconds), int(found)


def opened(path: Path, make: Callable[[iso.Store], Callable[[], int]]) -> Run:
    """Over a store of its own: pages that are mapped stay in the page cache, whoever drops them."""

    def turn() -> tuple[float, int]:
        with iso.open(path) as store:
            return timed(make(store))()

    return turn


def bare(server: Server, request: str) -> Run:
    def turn() -> tuple[float, int]:
        ask(server, request)
        return answer(server)

    return turn


def side_by_side(servers: list[Server], request: str, whole: int) -> Run:
    """Independent processes, which share nothing but the machine, each with its part of the work."""

    def turn() -> tuple[float, int]:
        for server in servers:
            ask(server, request)
        return max(answer(server)[0] for server in servers), whole

    return turn


class Seeks:
    """Summaries behind a disk that takes a while for what does not follow on what was read before.

    As on a disk, what follows is what lies there, by byte of the device: a window that lies in two pieces costs a seek
    in any order. Where the file system does not tell, the index stands for the byte.
    """

    def __init__(self, seconds: float, path: Path) -> None:
        self.seconds = seconds
        self.end = 0
        data = path / "a" / "data"
        (samples,) = json.loads((data / "zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shape"]
        self.shard = samples * 2
        shards = [data / "c" / str(number) for number in range(len(list((data / "c").iterdir())))]
        # What a full one has more than samples lies before them.
        self.head = shards[0].stat().st_size - self.shard if len(shards) > 1 else 0
        self.pieces = [pieces(shard) for shard in shards]

    def places(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Bytes of the device that hold some bytes of the signal, in their order."""
        while start < end:
            number, within = divmod(start, self.shard)
            at = within + self.head
            stop = min(end, (number + 1) * self.shard)
            found = [piece for piece in self.pieces[number] if piece[0] <= at < piece[0] + piece[2]]
            if not found:
                yield start, stop
                start = stop
                continue
            ((logical, physical, length),) = found
            count = min(stop - start, logical + length - at)
            yield physical + at - logical, physical + at - logical + count
            start += count

    def reach(self, start: int, end: int) -> None:
        """Goes to samples."""
        for first, last in self.places(2 * start, 2 * end):
            if first != self.end:
                time.sleep(self.seconds)
            self.end = last


# By name, so that no tasklet's identity is that of a disk and all of its pieces.
DISK: list[Seeks] = []


def behind_seeks(inputs: list[iso.Selection], _: list[Any]) -> int:
    DISK[0].reach(*inputs[0].ranges[0])
    return summary(np.asarray(inputs[0]))


def behind(disk: Seeks) -> Callable[[list[iso.Selection], list[Any]], int]:
    DISK[:] = [disk]
    return behind_seeks


def pieces(file: Path) -> list[tuple[int, int, int]]:
    """Where a file lies: byte of the file, byte of the device, length of each piece; nothing if nobody tells."""
    request = struct.Struct("=QQIIII")
    extent = struct.Struct("=QQQQQIIII")
    asked = bytearray(request.pack(0, (1 << 64) - 1, 0, 0, 512, 0) + bytes(512 * extent.size))
    with file.open("rb") as opened:
        try:
            # FS_IOC_FIEMAP
            fcntl.ioctl(opened, 0xC020660B, asked)
        except OSError:
            return []
    count = request.unpack_from(asked)[3]
    rows = [extent.unpack_from(asked, request.size + number * extent.size) for number in range(count)]
    # Not those that have no place yet.
    return [] if any(row[5] & 0x206 for row in rows) else [row[:3] for row in rows]


def files(store: Path) -> list[Path]:
    return [path for path in store.rglob("c/*") if path.is_file()]


def forget(store: Path) -> Callable[[], None]:
    def prepare() -> None:
        for path in files(store):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    return prepare


def nothing() -> None:
    pass


def record(path: Path, names: Iterable[str], windows: int) -> None:
    rng = np.random.default_rng(4)
    block = rng.integers(-2048, 2048, 16 * WINDOW, dtype="i2")
    with iso.open(path, "x") as store:
        for name in names:
            writer = store.create(name, dtype="i2", rate=2000)
            for _ in range(windows // 16):
                block = np.roll(block, 12_347)
                writer.append(block)
        store.commit()
    for file in files(path):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


# --- what is done to a window ---------------------------------------------------


def summary(samples: np.ndarray[Any, Any]) -> int:
    return int(samples.min()) + int(samples.max()) + int(samples.sum(dtype="i8"))


def spectrum(samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return scipy.fft.rfft(samples.astype("f4"))


def strongest(spectrum: np.ndarray[Any, Any]) -> int:
    return 1 + int(np.argmax((spectrum.real**2 + spectrum.imag**2)[1:]))


def strongest_of_all(spectra: np.ndarray[Any, Any]) -> int:
    return sum(map(strongest, spectra.reshape(-1, BINS)))


def summarize(inputs: list[iso.Selection], _: list[Any]) -> int:
    return summary(np.asarray(inputs[0]))


def transform(inputs: list[iso.Selection], _: list[Any]) -> int:
    return strongest(spectrum(np.asarray(inputs[0])))


def to_scratch(inputs: list[iso.Selection], outputs: list[Any]) -> None:
    outputs[0].array = spectrum(np.asarray(inputs[0]))


def add(inputs: list[iso.Selection], outputs: list[Any]) -> None:
    np.add(np.asarray(inputs[0]), np.asarray(inputs[1]), out=outputs[0].array)


# --- applications ----------------------------------------------------------------


def starts(signal: iso.Signal) -> range:
    return range(0, signal.sample_count, WINDOW)


def plain(
    store: iso.Store, work: Callable[[list[iso.Selection], list[Any]], int], backwards: bool = False
) -> Callable[[], int]:
    signal = store["a"]
    places = reversed(starts(signal)) if backwards else starts(signal)
    places = list(places)
    return lambda: sum(work([signal[at : at + WINDOW]], []) for at in places)


def tasklets(
    store: iso.Store,
    work: Callable[[list[iso.Selection], list[Any]], int],
    workers: int,
    *,
    backwards: bool = False,
    order: Any = "disk",
) -> Callable[[], int]:
    signal = store["a"]
    places = list(reversed(starts(signal)) if backwards else starts(signal))

    def run() -> int:
        executor = iso.Executor(workers=workers, order=order)
        executor.add(*(iso.Tasklet(work, [signal[at : at + WINDOW]], name=str(at)) for at in places))
        return sum(executor.run().values.values())

    return run


def summaries(store: iso.Store, workers: int) -> Callable[[], int]:
    plan = iso.scan(store["a"]).rewindow(WINDOW).stats("min", "max", "mean")

    def run() -> int:
        table = plan.collect(workers=workers)
        # Windows have a power of two of samples: means are exact.
        return sum(int(table[name].sum()) for name in ("min", "max")) + int((table["mean"] * WINDOW).sum())

    return run


def spectra(store: iso.Store, precision: str, workers: int, whole: int) -> Callable[[], int]:
    """By a plan that gives the greatest power of each window, which is compared with SciPy's."""
    signal = store["a"]
    values = iso.scan(signal).map(lambda sample: sample.astype(precision))
    plan = values.rewindow(WINDOW).power(taper="boxcar", detrend="none", scaling="spectrum").stats("max")
    powers = (np.abs(spectrum(np.asarray(signal[at : at + WINDOW]))[1:-1]).max() for at in starts(signal))
    expected = 2 * (np.array(list(powers)) / WINDOW) ** 2

    def run() -> int:
        np.testing.assert_allclose(plan.collect(workers=workers)["max"], expected, rtol=1e-3)
        return whole

    return run


def adder_plain(path: Path, *, synced: bool = True) -> Run:
    def turn() -> tuple[float, int]:
        with iso.open(path) as store, tempfile.TemporaryFile(dir=path) as file:
            a, b = store["a"], store["b"]
            start = time.perf_counter()
            for at in starts(a):
                one, other = (spectrum(np.asarray(signal[at : at + WINDOW])) for signal in (a, b))
                (one + other).tofile(file)
            if synced:
                os.fdatasync(file.fileno())
            spent = time.perf_counter() - start
            file.seek(0)
            return spent, strongest_of_all(np.fromfile(file, "c8"))

    return turn


def writing(path: Path, windows: int, found: Callable[[], int]) -> Run:
    """What the disk takes for the sums, be they computed in no time."""
    total = np.ones(BINS, "c8")

    def turn() -> tuple[float, int]:
        with tempfile.TemporaryFile(dir=path) as file:
            start = time.perf_counter()
            for _ in range(windows):
                total.tofile(file)
            os.fdatasync(file.fileno())
            return time.perf_counter() - start, found()

    return turn


def adder(path: Path, workers: int, budget: int, *, plans: bool = False, on_workers: Any = "auto") -> Run:
    """Seconds of making tasklets and running them, until the sums are durable; not of making and removing signals."""

    def turn() -> tuple[float, int]:
        with iso.open(path, "r+") as store:
            a, b = store["a"], store["b"]
            count = len(starts(a))
            output = store.create("sum", dtype="c8", rate=2000)
            output.reserve(count * BINS)
            halves = [store.scratch(dtype="c8", rate=2000) for _ in range(2)]
            for half in halves:
                half.reserve(count * BINS)
            start = time.perf_counter()
            executor = iso.Executor(workers=workers, scratch=budget, on_workers=on_workers)
            work: dict[str, Any] = {"a": to_scratch, "b": to_scratch, "sum": add}
            if plans:
                for signal in (a, b):
                    single = iso.scan(signal).map(lambda sample: sample.astype("float32"))
                    work[signal.name] = single.rewindow(WINDOW, anchor="range").fft()
                one, other = iso.scan(halves[0]), iso.scan(halves[1], clock=halves[0])
                work["sum"] = one.map(lambda x, y: x + y, other)
            for k, at in enumerate(starts(a)):
                part = slice(k * BINS, (k + 1) * BINS)
                for signal, half in zip((a, b), halves, strict=True):
                    inputs, name = [signal[at : at + WINDOW]], f"{signal.name}{k}"
                    executor.add(iso.Tasklet(work[signal.name], inputs, [half[part]], name=name))
                executor.add(iso.Tasklet(work["sum"], [half[part] for half in halves], [output[part]], name=f"sum{k}"))
            report = executor.run()
            spent = time.perf_counter() - start
            assert report.peak_scratch_bytes <= budget
            found = strongest_of_all(output.counts[:])
            store.delete("sum")
            store.commit()
        return spent, found

    return turn


def scans(path: Path, server: Server, array: Path, size: int, rounds: int) -> None:
    """Scan Summarize and Backwards Scan (tables 6.1, 6.4 to 6.6)."""
    several = f"{CORES} workers"
    for state, prepare in (("cached", nothing), ("cold", forget(path))):
        compare(
            f"scan-summarize/{state}",
            {
                "bare loop": bare(server, f"forward {size} {array}"),
                "plain Python": opened(path, lambda store: plain(store, summarize)),
                "plan, 1 worker": opened(path, lambda store: summaries(store, 1)),
                f"plan, {several}": opened(path, lambda store: summaries(store, CORES)),
                "tasklets, 1 worker": opened(path, lambda store: tasklets(store, summarize, 1)),
                f"tasklets, {several}": opened(path, lambda store: tasklets(store, summarize, CORES)),
            },
            {("plan, 1 worker", "bare loop"): 0.95},
            size,
            rounds,
            prepare,
        )
        compare(
            f"backwards-scan/{state}",
            {
                "bare loop forward": bare(server, f"forward {size} {array}"),
                "bare loop backward": bare(server, f"backward {size} {array}"),
                "plain Python backward": opened(path, lambda store: plain(store, summarize, backwards=True)),
                "tasklets forward": opened(path, lambda store: tasklets(store, summarize, 1)),
                "tasklets as given": opened(
                    path, lambda store: tasklets(store, summarize, 1, backwards=True, order="given")
                ),
                "tasklets reordered": opened(path, lambda store: tasklets(store, summarize, 1, backwards=True)),
            },
            {("tasklets reordered", "tasklets forward"): 0.95},
            size,
            rounds,
            prepare,
        )
    compare(
        "backwards-scan/behind seeks of 1 ms",
        {
            "tasklets forward": opened(path, lambda store: tasklets(store, behind(Seeks(1e-3, path)), 1)),
            "tasklets as given": opened(
                path, lambda store: tasklets(store, behind(Seeks(1e-3, path)), 1, backwards=True, order="given")
            ),
            "tasklets reordered": opened(
                path, lambda store: tasklets(store, behind(Seeks(1e-3, path)), 1, backwards=True)
            ),
        },
        {("tasklets reordered", "tasklets forward"): 0.95},
        size,
        max(rounds - 2, 1),
        nothing,
    )


def windowed_fft(store: iso.Store, servers: list[Server], array: Path, size: int, rounds: int) -> None:
    """Tables 6.2 and 6.3, figure 6-2."""
    several = f"{CORES} workers"
    whole = bare(servers[0], f"fft {size} {array}")()[1]
    together = f"{CORES} independent bare loops"
    compare(
        "windowed-fft/cached",
        {
            "bare loop": bare(servers[0], f"fft {size} {array}"),
            together: side_by_side(servers, f"fft {size // CORES} {array}", whole),
            "plain Python": timed(plain(store, transform)),
            "plan, 1 worker": timed(spectra(store, "float32", 1, whole)),
            f"plan, {several}": timed(spectra(store, "float32", CORES, whole)),
            "tasklets, 1 worker": timed(tasklets(store, transform, 1)),
            f"tasklets, {several}": timed(tasklets(store, transform, CORES)),
        },
        {("tasklets, 1 worker", "plain Python"): 0.98, (f"plan, {several}", together): 0.97},
        size,
        rounds,
        nothing,
    )
    compare(
        "windowed-fft/double/cached",
        {
            "bare loop": bare(servers[0], f"fft64 {size} {array}"),
            together: side_by_side(servers, f"fft64 {size // CORES} {array}", whole),
            "plan, 1 worker": timed(spectra(store, "float64", 1, whole)),
            f"plan, {several}": timed(spectra(store, "float64", CORES, whole)),
        },
        {(f"plan, {several}", together): 0.97},
        size,
        rounds,
        nothing,
    )


def small(path: Path, rounds: int) -> None:
    """What a tasklet costs besides its function: one small input, then an output, too; making it included."""
    count, part = 4000, 1024

    def doubled(inputs: list[iso.Selection], outputs: list[Any]) -> None:
        np.multiply(np.asarray(inputs[0]), 2, out=outputs[0].array)

    with iso.open(path, "r+") as store:
        signal = store["a"]
        parts = [slice(at, at + part) for at in range(0, count * part, part)]

        def bare() -> float:
            start = time.perf_counter()
            for at in parts:
                summarize([signal[at]], [])
            return time.perf_counter() - start

        def one_input() -> float:
            start = time.perf_counter()
            executor = iso.Executor()
            executor.add(*(iso.Tasklet(summarize, [signal[at]], name=str(at.start)) for at in parts))
            executor.run()
            return time.perf_counter() - start

        def with_scratch() -> float:
            room = store.scratch(dtype="i2", rate=2000)
            room.reserve(count * part)
            start = time.perf_counter()
            executor = iso.Executor()
            executor.add(*(iso.Tasklet(doubled, [signal[at]], [room[at]], name=str(at.start)) for at in parts))
            executor.run()
            return time.perf_counter() - start

        def bare_doubled() -> float:
            room = np.empty(part, "i2")
            start = time.perf_counter()
            for at in parts:
                np.multiply(np.asarray(signal[at]), 2, out=room)
            return time.perf_counter() - start

        for name, ours, other in (
            ("an input", one_input, bare),
            ("an input and an output", with_scratch, bare_doubled),
        ):
            spent = [(ours() - other()) / count * 1e9 for _ in range(rounds + 1)][1:]
            middle = quartiles(spent)
            met = middle[0] <= 15_000
            what = f"besides the function, for a tasklet of {name}"
            RESULTS.append(
                {
                    "name": f"archives/tasklet/{name}",
                    "nanoseconds": middle,
                    "what": what,
                    "goal": "<= 15000",
                    "met": met,
                }
            )
            print(f"archives/tasklet/{name}: {middle[0] / 1e3:.1f} us {what}; goal <= 15: {met}", flush=True)


def fft_adder(path: Path, server: Server, arrays: list[Path], size: int, rounds: int) -> None:
    """Table 6.7, figure 6-4. The model's bound is that of the thesis's section 6.4.2: what a loop takes divided among
    the cores, but no less than the disk takes for what is written. For tasklets that are Python functions the loop is
    plain Python; for those that are plans it is that, too, and the bare one. Sums are durable on all sides, inputs
    cached.
    """
    functions, plans = f"tasklets, {CORES} workers", f"tasklets that are plans, {CORES} workers"
    budget = 64 << 20
    whole = bare(server, f"adder {size} {arrays[0]} {arrays[1]}")()[1]
    disk = "writing and syncing as much"
    times = compare(
        "fft-adder/cached",
        {
            "bare loop": bare(server, f"adder {size} {arrays[0]} {arrays[1]}"),
            disk: writing(path, size // (2 * WINDOW), lambda: whole),
            "plain Python": adder_plain(path),
            "plain Python, not synced": adder_plain(path, synced=False),
            "tasklets, 1 worker": adder(path, 1, budget),
            functions: adder(path, CORES, budget),
            f"tasklets, {CORES} processes": adder(path, CORES, budget, on_workers="processes"),
            "tasklets that are plans, 1 worker": adder(path, 1, budget, plans=True),
            plans: adder(path, CORES, budget, plans=True),
        },
        {},
        2 * size,
        rounds,
        nothing,
    )

    def bound(loop: str) -> list[float]:
        return [max(seconds / CORES, written) for seconds, written in zip(times[loop], times[disk], strict=True)]

    for ours, loop, goal in (
        (functions, "plain Python", 0.9),
        (plans, "plain Python", 0.9),
        (plans, "bare loop", None),
    ):
        name = f"archives/fft-adder/cached/{ours}"
        tell(name, times[ours], f"the model's bound by the {loop}", bound(loop), goal, 2 * size)
    # As if the disk took what it is given at once.
    ideal = [seconds / CORES for seconds in times["plain Python, not synced"]]
    name = f"archives/fft-adder/cached/{functions}"
    tell(name, times[functions], "plain Python, not synced, by cores", ideal, None, 2 * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rust", type=Path, required=True, help="the Rust benchmark, iso-bench")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 7
    windows = 32 if arguments.quick else 2048
    servers = [Server(arguments.rust, "--serve") for _ in range(CORES)]
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        path = Path(folder) / "archives.iso"
        record(path, ["a", "b"], windows)
        size = windows * WINDOW * 2
        arrays = [path / name / "data" for name in "ab"]
        scans(path, servers[0], arrays[0], size, rounds)
        with iso.open(path) as store:
            windowed_fft(store, servers, arrays[0], size, max(rounds - 2, 1))
        small(path, rounds)
        fft_adder(path, servers[0], arrays, size, max(rounds - 2, 1))
    for server in servers:
        server.close()
    if arguments.out:
        arguments.out.write_text(json.dumps({"results": RESULTS, "missing": []}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
