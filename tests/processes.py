"""The command line in a process of its own, and waiting for what it writes."""

import subprocess
import time
from pathlib import Path

import isochrony as iso

# Started in the background, a process ignores Ctrl-C; this one must not.
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from isochrony.cli import main; sys.exit(main())"
)


def wait_for(store: Path, samples: int, signal: str = "stn") -> None:
    """Returns once a signal has so many committed samples."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if iso.open(store)[signal].sample_count >= samples:
                return
        except (iso.IsochronyError, OSError, KeyError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"{store} never had {samples} samples of {signal}")


def unshare() -> list[str] | None:
    """What gives a command mounts of its own, as root or in a user namespace; None where neither is permitted."""
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        test = [*command, "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
        try:
            if subprocess.run(test, capture_output=True, timeout=60).returncode == 0:
                return command
        except OSError:
            return None
    return None
