"""FFT ADDER: spectra of two signals, window by window, added and stored: three tasklets for each part of the recording.

Spectra wait for one another in scratch signals, of which no more is in use at a time than the budget says, however long the
recording is: what is added is free again. Killed or interrupted, it goes on where it was. Tasklets are Python functions
here, or (``plans=True``) plans of the engine, which workers run side by side without the interpreter.

    python examples/fft_adder.py [store [parts]]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso

WINDOW = 4096
BINS = WINDOW // 2 + 1
WINDOWS = 32  # of a part
PART = WINDOWS * WINDOW


def record(store: iso.Store, parts: int) -> None:
    """Two noisy tones."""
    rng = np.random.default_rng(4)
    for name, period in (("left", 50.0), ("right", 71.0)):
        signal = store.create(name, dtype="f4", rate=48_000, unit="Pa")
        for part in range(parts):
            phase = np.arange(part * PART, (part + 1) * PART) / period
            signal.append(np.sin(2 * np.pi * phase).astype("f4") + rng.standard_normal(PART, "f4"))
    store.create("added", dtype="c8", rate=48_000).reserve(parts * WINDOWS * BINS)
    store.commit()


def spectra(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
    """The spectrum of each window."""
    windows = np.asarray(inputs[0]).reshape(-1, WINDOW)
    outputs[0].array = np.fft.rfft(windows).astype("c8").ravel()


def add(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
    """The sum of two stretches of spectra."""
    np.add(*inputs, out=outputs[0].array)


def fft_adder(store: iso.Store, *, plans: bool = False, **options: Any) -> iso.Executor:
    """The tasklets over all that was recorded, as functions or as plans."""
    left, right, added = store["left"], store["right"], store["added"]
    room = [store.scratch(dtype="c8", rate=48_000) for _ in range(2)]
    for scratch in room:
        scratch.reserve(len(added))
    work: list[Any] = [spectra, spectra, add]
    if plans:
        # A plan scans whole signals; each tasklet reads of them what its inputs say.
        work = [iso.scan(signal).rewindow(WINDOW, anchor="range").fft() for signal in (left, right)]
        work.append(iso.scan(room[0]).map(lambda a, b: a + b, iso.scan(room[1], clock=room[0])))
    executor = iso.Executor(**options)
    for part in range(len(added) // (WINDOWS * BINS)):
        samples = slice(part * PART, (part + 1) * PART)
        at = slice(part * WINDOWS * BINS, (part + 1) * WINDOWS * BINS)
        for signal, scratch, transform in zip((left, right), room, work[:2], strict=True):
            executor.add(iso.Tasklet(transform, [signal[samples]], [scratch[at]], name=f"spectra {signal.name} {part}"))
        executor.add(iso.Tasklet(work[2], [one[at] for one in room], [added[at]], name=f"add {part}"))
    return executor


def main(path: Path | None = None, parts: int = 60) -> None:
    """Make a recording unless it is there, and add what is not added yet."""
    with tempfile.TemporaryDirectory() as folder, iso.open(path or Path(folder) / "tones.iso", "a") as store:
        if "left" not in store:
            record(store, parts)
        executor = fft_adder(store, workers="auto", scratch="16MB")
        print(executor.explain(resume=True).splitlines()[0])
        print(executor.run(resume=True, progress=sys.stderr.isatty()))


if __name__ == "__main__":
    main(*(Path(one) for one in sys.argv[1:2]), *(int(one) for one in sys.argv[2:3]))
