"""How much of the machine other programs used while something was measured."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Bystanders:
    """Counts processor time from its creation on: all of the machine's less that of this process and its children."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.used = _used_by_others()

    def cores(self) -> float:
        """Cores that others used on average; children count as others until they have ended."""
        return max(_used_by_others() - self.used, 0.0) / (time.monotonic() - self.begun)


def _used_by_others() -> float:
    user, nice, system, _idle, _wait, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    everything = (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return everything - (own.user + own.system + own.children_user + own.children_system)


def sentence(cores: float, effect: str = "seconds are too long, and ratios are to be measured again") -> str:
    """What a page says of it; nothing where it does not matter."""
    if cores < 0.2:
        return ""
    used = f"{cores:.1f} of {os.cpu_count()} cores"
    return f"**Other programs used {used} meanwhile**: {effect}.\n"
