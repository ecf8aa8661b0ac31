"""Cache misses of a chain of 1000 operators under each scheduler, by simulation.

Cachegrind needs no hardware counters, which virtual machines seldom offer. Two runs of different length tell the
schedulers' own misses from those of starting up.

python cache_misses.py [--quick] DESIGN_SPACE OUT
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

OPERATORS = 1000
SEGMENTS = (128, 384)
SCHEDULERS = ("FIFO", "FIFO, ring queues", "FIFO-Slice", "RTC", "RTC, ring queues", "DF", "Isochrony")
#: Lines of cachegrind's summary.
EVENTS = {"instructions": "I +refs", "I1": "I1 +misses", "D1": "D1 +misses", "LL": "LL misses"}
#: What most machines have; the last level is the simulating machine's.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64")


def simulate(binary: Path, scheduler: str, segments: int) -> dict[str, int]:
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", *CACHES]
    run = subprocess.run(
        [*command, binary, "chain", scheduler, str(segments)], capture_output=True, text=True, check=True
    )
    found = {}
    for event, label in EVENTS.items():
        match = re.search(rf"{label}:\s+([\d,]+)", run.stderr)
        if match is None:
            raise RuntimeError(f"no line for {label} in what cachegrind says:\n{run.stderr}")
        found[event] = int(match[1].replace(",", ""))
    return found


def main() -> None:
    *quick, binary, out = sys.argv[1:]
    results: dict[str, object] = {}
    try:
        if quick:
            raise FileNotFoundError
        version = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        for scheduler in SCHEDULERS:
            few, many = (simulate(Path(binary), scheduler, segments) for segments in SEGMENTS)
            hops = OPERATORS * (SEGMENTS[1] - SEGMENTS[0])
            results[scheduler] = {event: (many[event] - few[event]) / hops for event in EVENTS}
            print(scheduler, results[scheduler], flush=True)
        results["what"] = f"simulated by {version}'s cachegrind with 32 KiB first-level caches"
    except FileNotFoundError:
        results = {"missing": "valgrind is not installed, or little was asked for"}
    Path(out).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
