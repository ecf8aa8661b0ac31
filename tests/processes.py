"""The command line in a process of its own, and waiting for what it writes."""

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
