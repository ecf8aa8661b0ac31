"""SILENCEFILTER: where a speaker speaks.

A speaker counts from one to five, with half a second of faint noise between the words. Windows of
20 ms that are loud are voiced; windows with less than a fifth of a second between them belong to one
word. The words are kept as events of the recording, and as a signal without the silence.

    python examples/silencefilter.py FOLDER_OF_DIGITS count.iso

FOLDER_OF_DIGITS has recordings 1_george_0.wav to 5_george_0.wav at 8 kHz, as the Free Spoken Digit
Dataset names them. The plan is saved as well, so it runs again, or over another store, without Python:

    isochrony run count.json
"""

import sys
from pathlib import Path

import numpy as np
import soundfile

import isochrony as iso

RATE = 8000


def record(store: iso.Store, folder: Path, speaker: str = "george", take: int = 0) -> list[tuple[int, int]]:
    """Store the digits one to five with silence around each; where they were placed."""
    signal = store.create("speaker", dtype="i2", rate=RATE, unit="count", start="2026-01-01")
    rng = np.random.default_rng(3)
    placed = []
    for digit in range(1, 6):
        signal.append(np.rint(rng.normal(0, 5, RATE // 2)).astype("i2"))
        samples, rate = soundfile.read(folder / f"{digit}_{speaker}_{take}.wav", dtype="int16")
        assert rate == RATE
        placed.append((signal.end_index, signal.end_index + len(samples)))
        signal.append(samples)
    signal.append(np.rint(rng.normal(0, 5, RATE // 2)).astype("i2"))
    store.commit()
    return placed


def silencefilter(store: iso.Store) -> iso.Plan:
    """The voiced spans of the speaker."""
    windows = iso.scan(store["speaker"]).rewindow(RATE // 50)
    voiced = windows.filter(lambda s: s.rms() > 100)
    spans = voiced.sink(store, "voiced", overwrite=True).ranges(join=RATE // 5)
    return spans.annotate(store["speaker"], "voiced")


def main(folder: Path, path: Path) -> None:
    """Record, find, and say what was found where."""
    with iso.open(path, "x") as store:
        placed = record(store, folder)
        plan = silencefilter(store)
        spans = plan.collect()
        for number, ((start, end), (first, last)) in enumerate(zip(spans, placed, strict=True), 1):
            print(
                f"{number}: voiced {start / RATE:.2f} to {end / RATE:.2f} s, placed {first / RATE:.2f} to {last / RATE:.2f} s"
            )
        path.with_suffix(".json").write_text(plan.to_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
