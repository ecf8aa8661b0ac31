"""LIVE: what a feed holds, found while it arrives.

One process sends a stored recording over UDP, many times faster than it was recorded, and spoils it on the way: frames
are lost, doubled and late. Another listens: it puts in order what is late, keeps what came as a signal, whose gaps are
what was lost, and marks what is loud as events. Afterwards the same plan over the signal finds the same.

    python examples/live.py FOLDER [SPEED]
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

import isochrony as iso

RATE = 20_000


def record(path: Path, seconds: int = 30) -> None:
    """A recording with a burst a second, whose clock is set back by an hour half-way."""
    rng = np.random.default_rng(4)
    sound = rng.normal(0, 30, RATE * seconds)
    for begin in range(RATE // 2, len(sound), RATE):
        sound[begin : begin + 400] += 2000 * np.sin(np.arange(400) / 3)
    with iso.open(path, "x") as store:
        signal = store.create("sent", dtype="i2", rate=RATE, unit="Pa", start="2026-01-01T12:00:00Z")
        signal.append(sound[: len(sound) // 2].astype("i2"))
        signal.append(sound[len(sound) // 2 :].astype("i2"), at="2026-01-01T11:00:00Z")
        store.commit()


def send(path: Path, address: str, speed: float) -> None:
    """Replay the recording, with faults."""
    plan = iso.scan(iso.open(path)["sent"], segment=500)
    plan.send(address, speed=speed, frame=100, loss=0.005, twice=0.01, jitter=0.01, seed=2).run()


def loud(plan: iso.Plan) -> iso.Plan:
    """The ranges that stand out."""
    return plan.rewindow(100).filter(lambda s: s.std() > 300).ranges()


def receive(store: iso.Store, listener: iso.Listener) -> np.ndarray:
    """Keep what arrives, and give the loud ranges of it, in the feed's indices."""
    found = loud(iso.scan(listener, segment=2000).sink(store, "heard")).collect()
    heard = store["heard"]
    for start, end in found:
        heard.events.add("loud", start, end)
    store.commit()
    return np.asarray(found)


def main(folder: Path, speed: float) -> None:
    """Record, replay and listen; say what was lost and what was found."""
    record(folder / "sent.iso")
    listener = iso.listen("udp://127.0.0.1:0", dtype="i2", rate=RATE, unit="Pa", silence=20, reorder=0.2)
    command = [sys.executable, __file__, "send", folder / "sent.iso", listener.address, str(speed)]
    with subprocess.Popen(command), iso.open(folder / "heard.iso", "x") as store:
        live = receive(store, listener)
        heard = store["heard"]
        print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in listener.counts.items() if count))
        print(f"{len(heard.gaps)} gaps, {len(heard.runs())} runs, {len(heard.events)} events")
        same = np.array_equal(live, loud(iso.scan(heard)).collect())
        print(f"the archive run finds {'the same' if same else 'something else'}")


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 20)
