"""``isochrony record``: what arrives now, into a store."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

from ..errors import IsochronyError, UsageError
from ..importers.destination import check_destination, open_destination
from ..importers.rational import parse_rate
from ..live.listening import Listener, listen
from ..output.progress import bytes_text, duration_text
from ..plan.sources import scan
from .exits import Exit
from .tables import print_json

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "record live samples from the network, a sound card or a SeedLink server"
INTERRUPTED = "what was committed stays"
EXAMPLES = """examples:
  isochrony record udp://127.0.0.1:9000 live.iso mic --dtype f4 --rate 48000
  isochrony record udp://0.0.0.0:9000 live.iso adc --dtype '>i2' --rate 1e6 --framing '>u4' --anyone
  isochrony record audio: live.iso take --unit Pa
  isochrony record seedlink://geofon.gfz.de/GE.WLF..BHZ live.iso GE/WLF/BHZ
  sensor | isochrony record - live.iso sensor --dtype '<i4' --rate 500 --framing raw

ADDRESS is udp://HOST:PORT or tcp://HOST:PORT of this machine (tcp waits for one connection at a
time), "-" (standard input), audio: (the default device) or audio:NAME, or
seedlink://HOST:PORT/NET.STA.LOC.CHA, a server to connect to. Frames are those of isochrony send
unless --framing says otherwise. Lost samples are counted, and become a gap.

A signal sent by isochrony send keeps its unit, calibration and attributes, and any gap before its
first or after its last sample. If the sender knows no times, none are recorded. If --unit differs
from the sender's unit, --unit is recorded, without the sender's calibration.

Samples are committed once a second. The recording ends with Ctrl-C, when the sender ends, or
after --silence; then all received samples are stored, and losses are reported. If the sender
stops before the end, for instance because it was killed, that is reported too (exit code 1). To
continue later, run the same command again: the time in between becomes a gap.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.usage = f"{parser.prog} ADDRESS STORE SIGNAL [options]"
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="address to listen on (udp, tcp), or source to connect to (audio, seedlink), such as udp://127.0.0.1:9000",
    )
    parser.add_argument("store", metavar="STORE", type=Path, help="store to write to, created if missing")
    parser.add_argument("signal", metavar="SIGNAL", help="name of the signal, such as stn_10/pressure")
    what = parser.add_argument_group("samples and framing")
    what.add_argument("--dtype", metavar="D", help="type of a sample, such as f4 or '>i2' (audio, SeedLink: optional)")
    what.add_argument(
        "--rate", metavar="HZ", help="samples per second, such as 48000 or 200/3 (audio, SeedLink: optional)"
    )
    what.add_argument("--unit", metavar="U", default="", help="unit of the values (default: the sender's)")
    what.add_argument(
        "--framing",
        choices=("isochrony", "raw", "<u2", ">u2", "<u4", ">u4", "<u8", ">u8"),
        default="isochrony",
        help="how the data is framed: frames of isochrony send (the default), raw samples, or packets that begin with "
        "a counter, such as >u4: 4 bytes, big-endian",
    )
    what.add_argument(
        "--channel", metavar="N", type=int, default=0, help="channel of an audio device, from 0 (default: 0)"
    )
    how = parser.add_argument_group("network and timing")
    how.add_argument("--silence", metavar="S", type=float, help="end after S seconds without data (default: never)")
    how.add_argument(
        "--reorder",
        metavar="S",
        type=float,
        default=0.05,
        help="seconds to wait for frames that arrive out of order (default: 0.05)",
    )
    how.add_argument(
        "--anyone", action="store_true", help="accept samples from other machines too; senders are not authenticated"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the numbers of received and lost samples as JSON, instead of text",
    )


def run(arguments: argparse.Namespace) -> int:
    """Record until the feed or the user ends it, then say what was lost."""
    check_destination(arguments.store)
    listener = listen(
        arguments.address,
        dtype=_dtype(arguments.dtype),
        rate=None if arguments.rate is None else parse_rate(arguments.rate),
        unit=arguments.unit,
        framing=arguments.framing,
        channel=arguments.channel,
        silence=arguments.silence,
        reorder=arguments.reorder,
        anyone=arguments.anyone,
    )
    begun = time.monotonic()
    with open_destination(arguments.store) as store:
        plan = scan(listener).sink(store, arguments.signal, append=True)
        print(f"listening at {listener.address}; press Ctrl-C to end", file=sys.stderr, flush=True)
        try:
            # Ctrl-C is asked for, not a failure: closing the store commits what had arrived.
            with contextlib.suppress(KeyboardInterrupt):
                plan.run(progress=True)
        except Exception:
            # What had arrived is kept, whatever went wrong behind it; that it did is what the command says.
            with contextlib.suppress(IsochronyError):
                store.commit()
            raise
    _tell(arguments, listener, time.monotonic() - begun)
    said = listener.sender_unit
    if arguments.unit and said is not None and said != arguments.unit:
        print(
            f"isochrony: the sender's unit is {said!r}, but --unit {arguments.unit!r} is recorded, "
            f"without the sender's "
            "calibration",
            file=sys.stderr,
        )
    if listener.counts["truncated_feeds"]:
        print(
            "isochrony: the sender stopped before the end of its signal; the received samples are stored; send the "
            "missing ones again",
            file=sys.stderr,
        )
        return Exit.PARTIAL
    return Exit.OK


def _dtype(text: str | None) -> str | None:
    import numpy as np

    try:
        return None if text is None else np.dtype(text).str
    except (TypeError, ValueError, SyntaxError):
        # NumPy has several ways to say that it is none.
        raise UsageError(f"--dtype {text!r} is not a dtype of samples; give one such as f4, i2 or '>i2'") from None


def _tell(arguments: argparse.Namespace, listener: Listener, seconds: float) -> None:
    counts = listener.counts
    if arguments.json:
        print_json({"signal": arguments.signal, "address": listener.address, "seconds": seconds, "counts": counts})
        return
    samples = counts.pop("samples")
    counts.pop("frames")
    worth = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items() if number)
    print(
        f"{arguments.signal}: {samples:,} samples in {duration_text(seconds)} "
        f"({bytes_text(samples / max(seconds, 1e-9), 'samples')}/s); {worth or 'nothing lost'}"
    )
    if samples:
        print(f"next: isochrony info {arguments.store}", file=sys.stderr)
