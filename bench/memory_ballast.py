"""Holds memory, so that less is left for the page cache: takes and locks BYTES, says so, and ends with its input.

It volunteers to be ended first where memory runs out.
"""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

#: The system keeps the pages where they are; Python has no name for it.
MAP_LOCKED = 0x2000


def main() -> None:
    Path("/proc/self/oom_score_adj").write_text("1000")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE | MAP_LOCKED
    with mmap.mmap(-1, int(sys.argv[1]), flags=flags):
        print("held", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
