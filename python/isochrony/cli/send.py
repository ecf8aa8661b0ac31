"""``isochrony send``: a stored signal, sent on as if it arrived now."""

from __future__ import annotations

import argparse
import sys

from ..errors import UsageError
from ..output.progress import duration_text
from ..plan.sources import scan
from .exits import Exit
from .scan import selection
from .target import open_store, parse_target, single_signal

__all__ = ["EXAMPLES", "HELP", "add_arguments", "run"]

HELP = "send a stored signal over the network, at any speed; can simulate losses"
EXAMPLES = """examples:
  isochrony send water.iso/stn_10/pressure udp://127.0.0.1:9000
  isochrony send water.iso/stn_10/pressure udp://127.0.0.1:9000 --speed 100 --loss 0.02 --jitter 0.01
  isochrony send sound.iso/take - --from 2024-05-01T06:00 --speed 0 | isochrony record - copy.iso take \\
      --dtype i2 --rate 48000

A frame states the index and the civil time of its first sample, so the receiver has gaps and
clock steps at the same places. The signal's unit, calibration and attributes are sent too
(attributes of up to 60,000 bytes; over udp:// only if they fit a datagram). Start the receiver
first. Datagrams that are sent faster than they are read are lost: use --speed 0 with tcp://
and "-" only.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("target", metavar="STORE/SIGNAL", help="signal to send")
    parser.add_argument("address", metavar="ADDRESS", help='udp://HOST:PORT, tcp://HOST:PORT, or "-", standard output')
    parser.add_argument(
        "--from", dest="start", metavar="T", help="time (UTC) of the first sample to send, such as 2010-03-01T12:00:00"
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="T",
        help="end time (UTC), excluded, such as 2010-03-01T12:05:00",
    )
    parser.add_argument(
        "--speed",
        metavar="X",
        type=float,
        default=1.0,
        help="speed relative to the recording, such as 10 for ten times as fast (default: 1); 0: as fast as possible",
    )
    parser.add_argument(
        "--frame",
        metavar="N",
        type=int,
        help="largest number of samples in a frame (default: as many as a network packet holds)",
    )
    faults = parser.add_argument_group("simulated faults, to test a receiver (udp:// only)")
    faults.add_argument(
        "--loss",
        metavar="P",
        type=float,
        default=0.0,
        help="probability, from 0 to 1, that a frame is dropped (default: 0)",
    )
    faults.add_argument(
        "--twice",
        metavar="P",
        type=float,
        default=0.0,
        help="probability, from 0 to 1, that a frame is sent twice (default: 0)",
    )
    faults.add_argument(
        "--jitter",
        metavar="S",
        type=float,
        default=0.0,
        help="delay each frame by a random time up to S seconds, 0 to 60, so that their order changes (default: 0)",
    )
    faults.add_argument("--seed", metavar="N", type=int, default=1, help="seed of the random faults (default: 1)")


def run(arguments: argparse.Namespace) -> int:
    """Send, with a progress line on a terminal."""
    if not 0 <= arguments.speed < float("inf"):
        raise UsageError(f"--speed {arguments.speed:g} is refused; give a number above 0, or 0 for as fast as possible")
    target = parse_target(arguments.target)
    with open_store(target.store) as store:
        signal = single_signal(store, target.signal)
        stretch = selection(signal, arguments.start, arguments.end)
        rate = float(signal.rate)
        speed = arguments.speed or None
        # A run is stopped between items: a paced one has items of a twentieth of a second.
        segment = None if speed is None else int(max(1, min(1 << 17, rate * speed / 20)))
        plan = scan(stretch, segment=segment).send(
            arguments.address,
            speed=speed,
            frame=arguments.frame,
            loss=arguments.loss,
            twice=arguments.twice,
            jitter=arguments.jitter,
            seed=arguments.seed,
        )
        done = plan.run(progress=True).report
    samples = done.operators[0].samples
    print(f"{signal.name}: {samples:,} samples sent in {duration_text(done.elapsed_s)}", file=sys.stderr)
    return Exit.OK
