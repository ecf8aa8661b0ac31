"""``isochrony top``: what plans, byte streams and executors that run on this machine are doing."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..errors import UsageError
from ..running.status_files import running_plans, status_folder
from .exits import Exit
from .tables import print_json

__all__ = ["EXAMPLES", "HELP", "INTERRUPTED", "add_arguments", "run"]

HELP = "show which part of a running plan limits its speed, and what tuning changes"
INTERRUPTED = "the runs continue"
EXAMPLES = """examples:
  isochrony top
  isochrony top --once --json

Shows plans of this user that run with progress=True or tune=, and those of isochrony run. A plan
runs in stages, parts that run at the same time, joined by bounded queues (links). For each stage:
the share of time in which it computed (above 100 % if several copies of it, replicas, run), waited
for input, waited for room in its output link, and waited for a free thread. The bottleneck is the
stage that limits the speed. Of a plan on a cluster: how many of its slots (threads of workers) are
used. Of byte streams and executors of tasklets that run with tune=: how far they are, and how fast.
Ctrl-C ends the view, not the runs.
"""

_CLEAR = "\x1b[2J\x1b[H"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--once", action="store_true", help="print the current state once, and exit")
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds between updates, 0.1 to 3600 (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print the current state as JSON once, and exit")


def run(arguments: argparse.Namespace) -> int:
    """Show what runs until Ctrl-C, or once."""
    interval = arguments.interval
    if not 0.1 <= interval <= 3600:
        raise UsageError(f"--interval {interval:g} is refused; give seconds from 0.1 to 3600")
    if arguments.json:
        print_json({"plans": running_plans()})
        return Exit.OK
    while True:
        text = "\n\n".join(map(describe, running_plans())) or (
            f"nothing is running (status folder: {status_folder()}); run a plan with progress=True or tune=, a byte "
            "stream or an executor with tune="
        )
        if arguments.once or not sys.stdout.isatty():
            print(text)
            return Exit.OK
        print(f"{_CLEAR}{text}", flush=True)
        time.sleep(interval)


def describe(state: dict[str, Any]) -> str:
    """The state of one run as text."""
    window, kind, unit = state["window"], state["kind"], state["unit"]
    head = f"process {state['pid']}{'' if kind == 'plan' else f', {kind}'}: {state['elapsed_s']:.1f} s"
    # Of byte streams and executors the first state, which they write as they begin.
    if not window["elapsed_s"]:
        return f"{head}, no progress yet"
    done, total = state["done"], state["total"]
    part = f", {100 * done / total:.0f} % of {total:.4g}" if total else ""
    rate, cores = (window[name] / window["elapsed_s"] for name in ("delivered", "cpu_s"))
    lines = [f"{head}, {done:.4g} {unit}{part}, {rate:.3g} {unit}/s, {cores:.2f} cores busy"]
    if kind == "plan":
        lines.extend(_plan_lines(state))
    else:
        lines.append(state["configuration"]["shown"] or "its report will have the trials of tuning")
    return "\n  ".join(lines)


def _plan_lines(state: dict[str, Any]) -> Iterator[str]:
    """What only plans have: stages, links, the bottleneck and decisions."""
    window, configuration = state["window"], state["configuration"]
    elapsed_s, workers = window["elapsed_s"], configuration["workers"]
    slots, task_bytes, batch_tasks = state.get("slots"), configuration["task_bytes"], configuration.get("batch_tasks")
    threads = f"{workers} thread{'' if workers == 1 else 's'}" if slots is None else f"{workers} of {slots} slots"
    tasks = f", tasks of {task_bytes / 1024:.4g} KiB" if task_bytes else ""
    batches = f", {batch_tasks} tasks a message" if batch_tasks else ""
    yield f"{threads}{tasks}{batches}"
    if window["stages"]:
        yield f"{'stage':<36}{'replicas':>9}{'computes':>10}{'input':>8}{'room':>8}{'thread':>8}"
    for number, (name, stage) in enumerate(zip(state["names"], window["stages"], strict=False)):
        fields = ("busy_s", "input_wait_s", "output_wait_s", "core_wait_s")
        shares = [100 * stage[field] / elapsed_s for field in fields]
        replicas = configuration["replicas"][number] if number < len(configuration["replicas"]) else 1
        columns = f"{shares[0]:>9.0f}%" + "".join(f"{share:>7.0f}%" for share in shares[1:])
        yield f"{f'{number} {name}'[:35]:<36}{replicas:>9}{columns}"
    for link, capacity in zip(window["links"], configuration["link_bytes"], strict=False):
        yield (
            f"link {link['from']} to {link['to']}: {link['bytes'] / elapsed_s / 1e6:.3g} MB/s, "
            f"{100 * link['occupancy']:.0f} % of {capacity / 1024:.4g} KiB full"
        )
    if state["bottleneck"]:
        predicted = state["predicted_rate"]
        model = f"; the model predicts {predicted:.3g} samples/s" if predicted else ""
        bottleneck = re.sub(
            r"stage (\d+)", lambda found: f"{found[0]} ({state['names'][int(found[1])]})", state["bottleneck"]
        )
        yield f"bottleneck: {bottleneck}{model}"
    if state.get("model"):
        yield f"candidates chosen by {state['model']}: {state['model_reason']}"
    yield from (f"decision {decision}" for decision in state["decisions"])
