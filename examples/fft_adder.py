"""FFT ADDER: spectra of two signals, window by window, added and stored: three tasklets for each part of the recording.

Spectra wait for one another in scratch signals, of which no more is in use at a time than the budget says, however long the
recording is: what is added is free again. Killed or interrupted, it goes on where it was.

    python examples/fft_adder.py [store [parts]]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import isochrony as iso

WINDOW = 4096
PART = 32 * WINDOW


def record(store: iso.Store, parts: int) -> None:
    """Two noisy tones."""
    rng = np.random.default_rng(4)
    for name, period in (("left", 50.0), ("right", 71.0)):
        signal = store.create(name, dtype="f4", rate=48_000, unit="Pa")
        for part in range(parts):
            phase = np.arange(part * PART, (part + 1) * PART) / period
            signal.append(np.sin(2 * np.pi * phase).astype("f4") + rng.standard_normal(PART, "f4"))
    store.create("added", dtype="c8", rate=48_000).reserve(parts * PART)
    store.commit()


def spectra(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
    """The spectrum of each window."""
    windows = np.asarray(inputs[0]).reshape(-1, WINDOW)
    outputs[0].array = np.fft.fft(windows).astype("c8").ravel()


def add(inputs: list[iso.Selection], outputs: list[iso.Output]) -> None:
    """The sum of two stretches of spectra."""
    np.add(*inputs, out=outputs[0].array)


def fft_adder(store: iso.Store, **options: Any) -> iso.Executor:
    """The tasklets over all that was recorded."""
    left, right, added = store["left"], store["right"], store["added"]
    room = [store.scratch(dtype="c8", rate=48_000) for _ in range(2)]
    for scratch in room:
        scratch.reserve(len(added))
    executor = iso.Executor(**options)
    for start in range(0, len(added), PART):
        at = slice(start, start + PART)
        for signal, scratch in zip((left, right), room, strict=True):
            executor.add(iso.Tasklet(spectra, [signal[at]], [scratch[at]], name=f"spectra {signal.name} {start}"))
        executor.add(iso.Tasklet(add, [one[at] for one in room], [added[at]], name=f"add {start}"))
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
