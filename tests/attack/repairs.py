"""Damages stored files, and checks that `verify`, its repair and `verify` afterwards agree.

    python tests/attack/repairs.py [COUNT [SEED]]

Each store is a closed one or what a killed writer left, with one of the damages of `damages.py`. Then

- what `verify` calls sound, a repair calls sound, and the other way round;
- what a repair calls repaired, or lost, was damaged before and is sound afterwards;
- what a repair leaves damaged, or refuses to touch, is damaged afterwards, too;
- a second repair finds nothing that a first one mended.

Prints a line for each failure, counts, and the seed, from which the same damages come again.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from damages import DAMAGES, stored_files, write

TIMEOUT_S = 60
#: What `verify`, a repair, `verify` and another repair say of a store, as JSON.
LOOKER = """
import json, sys, isochrony as iso
from isochrony._native import verify
def look(repair):
    try:
        report = verify(sys.argv[1], repair=repair)
    except iso.IsochronyError as error:
        return [f"refused: {error.code}", []]
    return [report["verdict"], [one["code"] for one in report["damage"] if not one["repaired"]]]
print(json.dumps([look(repair) for repair in (False, True, False, True)]))
"""

Look = tuple[str, list[str]]


def judge(before: Look, repaired: Look, after: Look, again: Look) -> str:
    """What does not agree, if anything."""
    said = f"verify {before}, repair {repaired}, verify {after}, repair {again}"
    sound = before[0] == "sound"
    mended = repaired[0] in ("sound", "repaired", "lost")
    if sound != (repaired[0] == "sound"):
        return f"repair and verify disagree: {said}"
    if repaired[0] == "lost" and repaired[1]:
        # Beside what was lost, something is left that nothing can mend.
        mended = False
    if mended != (after[0] == "sound"):
        return f"repair and verify afterwards disagree: {said}"
    if mended and again[0] != "sound":
        return f"the second repair disagrees with the first: {said}"
    return ""


def main(count: int, seed: int) -> int:
    """Runs so many damages; the number of failures."""
    rng, outcomes, failures = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        closed, killed, work = (Path(scratch, name) for name in ("closed.iso", "killed.iso", "work.iso"))
        write(closed, np.random.default_rng(seed), killed)
        for done in range(count):
            source = rng.choice([closed, killed])
            shutil.copytree(source, work)
            kind = rng.choice(sorted(DAMAGES))
            file = rng.choice(stored_files(source))
            DAMAGES[kind](work / file, rng)
            command = [sys.executable, "-c", LOOKER, str(work)]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
                wrong = f"ends with {ended.returncode}: {ended.stderr.strip()[-300:]}" if ended.returncode else ""
                looks = json.loads(ended.stdout) if not wrong else []
            except subprocess.TimeoutExpired:
                wrong, looks = "hangs", []
            wrong = wrong or judge(*((verdict, left) for verdict, left in looks))
            outcomes["failed" if wrong else looks[1][0].partition(":")[0]] += 1
            if wrong:
                failures += 1
                print(f"repair {done}, {source.stem}, {kind} of {file}: {wrong}"[:600], flush=True)
            # The damage may have been that all of it is gone.
            shutil.rmtree(work, ignore_errors=True)
    print(f"repairs: {count} with seed {seed}: {dict(sorted(outcomes.items()))}, {failures} failures")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 300, given[1] if len(given) > 1 else random.randrange(1 << 32)) > 0)
