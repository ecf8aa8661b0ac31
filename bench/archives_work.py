"""The recordings, what is done to a window of them, and the applications: in plain Python, as plans, as tasklets."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before the libraries start their threads.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
import scipy.fft  # noqa: E402

import isochrony as iso  # noqa: E402

if TYPE_CHECKING:
    # Worker processes, which import this for its functions, are timed: they do without the rest.
    from archives_turns import Run

WINDOW = 131_072
BINS = WINDOW // 2 + 1
CORES = len(os.sched_getaffinity(0))


def files(store: Path) -> list[Path]:
    return [path for path in store.rglob("c/*") if path.is_file()]


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
    **options: Any,
) -> Callable[[], int]:
    signal = store["a"]
    places = list(reversed(starts(signal)) if backwards else starts(signal))

    def run() -> int:
        executor = iso.Executor(workers=workers, order=order, **options)
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


def adder_operators(path: Path, workers: int, budget: int) -> Run:
    """The same as one plan of operators; seconds until its sums, appended to a signal as they come, are durable."""

    def turn() -> tuple[float, int]:
        with iso.open(path, "r+") as store:
            a, b = store["a"], store["b"]
            output = store.create("sum", dtype="c8", rate=2000)
            start = time.perf_counter()
            one, other = (
                iso.scan(signal, clock=a).map(lambda sample: sample.astype("float32")).rewindow(WINDOW).fft()
                for signal in (a, b)
            )
            total = one.map(lambda x, y: x + y, other)
            for block in total.blocks(workers=workers, memory=budget):
                output.append(block.values.ravel())
            store.commit()
            spent = time.perf_counter() - start
            found = strongest_of_all(output.counts[:])
            store.delete("sum")
            store.commit()
        return spent, found

    return turn
