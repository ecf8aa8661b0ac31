"""LOCALISE: what called in the meadow, and where.

Four recorders with four microphones each have heard calls; `meadow` makes the recordings. In two stages: every array
finds calls in its noise and tells their bearings (`hearing`). Then bearings and arrival times of all arrays, each with
its own clock, are fused into places with their errors (`fusion`). What called is told by wavelet energies and zero
crossings, as learnt from another recording, with labels. The results are kept as events.

    python examples/localise.py FOLDER
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from fusion import Kinds, ellipse, place
from hearing import arrivals, hear
from meadow import ARRAYS, BEGIN, KINDS, Call, record

import isochrony as iso


def localise(store: iso.Store) -> list[dict[str, Any]]:
    """Calls that all arrays have heard: when, where ("state" and its covariance, as in `place`), and features."""
    heard, found = [hear(store, array) for array in range(len(ARRAYS))], []
    # Half the width of an interval in which any time is as likely.
    clocks = np.array([store[f"array_{array}/mic_0"].time_of(0).uncertainty_ns for array in range(len(ARRAYS))])
    for time, late in zip(*arrivals(store), strict=True):
        expected = time + (late * 1e9).astype("timedelta64[ns]")
        nearest = [abs(one["time"] - at).argmin() for one, at in zip(heard, expected, strict=True)]
        call = {key: np.array([one[key][at] for one, at in zip(heard, nearest, strict=True)]) for key in heard[0]}
        if (abs(call["time"] - expected) < np.timedelta64(50, "ms")).all():
            late_errors = np.hypot(call["time_error"], 1e-9 * clocks / 3**0.5)
            state, covariance = place(ARRAYS, call["bearing"], call["bearing_error"], late, late_errors)
            found.append({**call, "time": iso.Time(time) + state[2], "state": state, "covariance": covariance})
    return found


def keep(store: iso.Store, found: list[dict[str, Any]], kinds: Kinds) -> None:
    """Events of the first microphone: the kind that it seems to be, the place, and the ellipse that holds it."""
    for call in found:
        east, north, *_ = call["state"]
        major, minor, along = ellipse(call["covariance"][:2, :2])
        fields = {"east_m": east, "north_m": north, "major_m": major, "minor_m": minor, "major_deg": along}
        store["array_0/mic_0"].events.add("located", call["time"], what=kinds.tell(call["features"]), **fields)
    store.commit()


def truth(calls: list[Call], time: iso.Time) -> Call:
    """What was called then."""
    return min(calls, key=lambda call: abs(float(time - BEGIN) - call.time))


def learn(store: iso.Store, calls: list[Call]) -> Kinds:
    """How kinds differ, from a recording of which the calls are known."""
    found = localise(store)
    kinds = [truth(calls, call["time"]).kind for call in found]
    return Kinds(np.concatenate([call["features"] for call in found]), np.repeat(kinds, len(ARRAYS)))


def main(folder: Path) -> None:
    """Learn from one recording, localise in another, and compare what is then in the store with the truth."""
    with iso.open(folder / "labelled.iso", "x") as store:
        kinds = learn(store, record(store, seed=0))
    with iso.open(folder / "meadow.iso", "x") as store:
        calls, told = record(store, seed=1), Counter()
        keep(store, localise(store), kinds)
        for event in store["array_0/mic_0"].events.find(kind="located"):
            what, east, north, major, *_ = event.fields.values()
            call = truth(calls, event.time)
            told[call.kind, what] += 1
            off = np.hypot(east - call.place[0], north - call.place[1])
            print(f"{event.time.to_datetime():%T} {what:5} at {east:.3f}, {north:.3f} ± {major:.3f} m: off {off:.3f}")
        print(f"{sum(told.values())} calls localised, {len(calls)} were made; by kind, and what was told:")
        print(*(f"{kind:5} {[told[kind, other] for other in KINDS]}" for kind in KINDS), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
