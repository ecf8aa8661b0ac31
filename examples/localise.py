"""LOCALISE: what called in the meadow, and where.

Four recorders with four microphones each have heard calls (`meadow` makes the recordings). Each finds calls in its noise
and tells their bearings (`hearing`). These and `arrivals` at all arrays, each with its own clock, are fused into places with
errors (`fusion`). Kinds are told as learnt from another recording. What is silent, swapped or missing is left out, aloud.

    python examples/localise.py FOLDER
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from arrivals import matched
from fusion import Kinds, agreeing, ellipse
from hearing import hear, working
from meadow import ARRAYS, BEGIN, KINDS, Call, record

import isochrony as iso


def localise(store: iso.Store) -> list[dict[str, Any]]:
    """Calls that several arrays have heard: when, where ("state" and its covariance, as in `place`), and features."""
    mics = {array: working(store, array) for array in range(len(ARRAYS))}
    heard = {array: one for array, which in mics.items() if (one := hear(store, array, which))}
    if len(heard) < 2:
        print(f"nothing can be placed: only {len(heard)} arrays hear well")
    ears = {array: mics[array][0] for array in heard}
    found, alone = [], Counter()
    for time, calls in matched(store, heard, ears):
        located = agreeing(calls)
        found += [{**one, "time": iso.Time(time) + one["state"][2]} for one in located]
        alone.update({one["array"] for one in calls} - {array for one in located for array in one["array"]})
    for array in sorted(alone):
        print(f"array {array}: left out of {alone[array]} calls, where what it heard contradicts the others")
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
    return min(calls, key=lambda call: abs(float(time - BEGIN) - call.time))


def learn(store: iso.Store, calls: list[Call]) -> Kinds:
    """How kinds differ, from a recording of which the calls are known."""
    found = localise(store)
    kinds = [truth(calls, call["time"]).kind for call in found for _ in call["features"]]
    return Kinds(np.concatenate([call["features"] for call in found]), np.array(kinds))


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
