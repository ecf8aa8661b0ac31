"""Damages stored files, and checks that `verify`, its repair and `verify` afterwards agree.

    python tests/attack/repairs.py [COUNT [SEED]]

Each store is a closed one or what a killed writer left, with one of the damages of `damages.py`. Then

- what `verify` calls sound, a repair calls sound, and the other way round;
- what a repair calls repaired, or lost, was damaged before and is sound afterwards;
- what a repair leaves damaged, or refuses to touch, is damaged afterwards, too;
- a second repair finds nothing that a first one mended;
- another copy that is opened for writing and closed is refused, or shows damage afterwards where a repair cannot mend
  all or tells of a loss: opening mends no more than a repair, and hides no loss.

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
looks = [look(repair) for repair in (False, True, False, True)]
try:
    iso.open(sys.argv[2], "r+").close()
    opened = "opened"
except iso.IsochronyError as error:
    opened = f"refused: {error.code}"
report = None if opened != "opened" else verify(sys.argv[2])
found = [] if report is None else [one["code"] for one in report["damage"]]
print(json.dumps([looks, opened, found]))
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


def judge_opening(before: Look, repaired: Look, opened: str, found: list[str]) -> str:
    """What opening for writing hides or breaks, if anything."""
    said = f"verify {before}, repair {repaired}, opening: {opened}, verify {found}"
    if before[0] == "sound" and (opened != "opened" or found):
        return f"opening spoils a sound store: {said}"
    if opened == "opened" and (repaired[1] or repaired[0] == "lost") and not found:
        return f"opening hides damage: {said}"
    return ""


def main(count: int, seed: int) -> int:
    """Runs so many damages; the number of failures."""
    rng, outcomes, failures = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        names = ("closed.iso", "killed.iso", "work.iso", "opened.iso")
        closed, killed, work, opened = (Path(scratch, name) for name in names)
        write(closed, np.random.default_rng(seed), killed)
        for done in range(count):
            source = rng.choice([closed, killed])
            shutil.copytree(source, work)
            kind = rng.choice(sorted(DAMAGES))
            file = rng.choice(stored_files(source))
            DAMAGES[kind](work / file, rng)
            # With holes: one of the damages makes a file far longer than the disk.
            if work.exists():
                subprocess.run(["cp", "-a", "--sparse=always", work, opened], check=True)
            command = [sys.executable, "-c", LOOKER, str(work), str(opened)]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
                wrong = f"ends with {ended.returncode}: {ended.stderr.strip()[-300:]}" if ended.returncode else ""
                looks, said, found = json.loads(ended.stdout) if not wrong else ([], "", [])
            except subprocess.TimeoutExpired:
                wrong, looks, said, found = "hangs", [], "", []
            wrong = wrong or judge(*((verdict, left) for verdict, left in looks))
            wrong = wrong or judge_opening(looks[0], looks[1], said, found)
            outcomes["failed" if wrong else looks[1][0].partition(":")[0]] += 1
            if wrong:
                failures += 1
                print(f"repair {done}, {source.stem}, {kind} of {file}: {wrong}"[:600], flush=True)
            # The damage may have been that all of it is gone.
            for store in (work, opened):
                shutil.rmtree(store, ignore_errors=True)
    print(f"repairs: {count} with seed {seed}: {dict(sorted(outcomes.items()))}, {failures} failures")
    return failures


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 300, given[1] if len(given) > 1 else random.randrange(1 << 32)) > 0)
